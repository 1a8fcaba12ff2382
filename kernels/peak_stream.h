/* SPDX-License-Identifier: MIT
 *
 * peak_stream.h - the loops of peak.h that write, for vectors of one width. A file of an instruction set
 * defines, and then includes this:
 *
 *     STREAM_BYTES       of a vector
 *     STREAM_REGISTER    the constraint of a register that holds one
 *     STREAM_PAST(p, v)  stores past the caches; only where there is such a store
 *
 * A file that defines none of them gets the vectors of 16 bytes that every target has. The empty asm keeps a
 * compiler from seeing that a loop is memcpy, which would bring its own choice of stores.
 */
#ifndef BN_KERNELS_PEAK_STREAM_H
#define BN_KERNELS_PEAK_STREAM_H

#include "kernels/peak.h"

#ifndef STREAM_BYTES
#define STREAM_BYTES 16
#if defined(__x86_64__)
#include <immintrin.h>
#define STREAM_REGISTER "x"
#define STREAM_PAST(p, v) _mm_stream_ps((float *)(void *)(p), (__m128)(v))
#elif defined(__aarch64__)
#define STREAM_REGISTER "w"
#else
#define STREAM_REGISTER "m"
#endif
#endif

#ifdef STREAM_PAST
#define STREAM_CAN_PAST true
#else
#define STREAM_CAN_PAST false
#endif

typedef float stream_lanes __attribute__((vector_size(STREAM_BYTES), aligned(4), may_alias));
#define STREAM_LANES (STREAM_BYTES / sizeof(float))
#define STREAM_EACH(i, store, value)                   \
    for (size_t i = 0; i < n / STREAM_LANES; i++) {    \
        stream_lanes v = (value);                      \
        __asm__ volatile("" : "+" STREAM_REGISTER(v)); \
        store;                                         \
    }

static inline void run_stream(enum bn_peak_stream stream, float *out, const float *in, const float *in2,
                              size_t n)
{
    stream_lanes *a = (stream_lanes *)(void *)out;
    const stream_lanes *b = (const stream_lanes *)(const void *)in,
                       *c = (const stream_lanes *)(const void *)in2;
    switch (stream) {
    case BN_STREAM_COPY:
        STREAM_EACH(i, a[i] = v, b[i])
        break;
    case BN_STREAM_SCALE:
        STREAM_EACH(i, a[i] = v, 3.0f * b[i])
        break;
    case BN_STREAM_ADD:
        STREAM_EACH(i, a[i] = v, b[i] + c[i])
        break;
    case BN_STREAM_TRIAD:
        STREAM_EACH(i, a[i] = v, b[i] + 3.0f * c[i])
        break;
    case BN_STREAM_COPY_PAST:
#ifdef STREAM_PAST
        STREAM_EACH(i, STREAM_PAST(&a[i], v), b[i])
        __asm__ volatile("sfence" ::: "memory");
#endif
        break;
    }
}

#endif

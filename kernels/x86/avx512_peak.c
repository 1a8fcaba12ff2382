/* SPDX-License-Identifier: MIT
 *
 * Loops of peak.h for AVX-512.
 */
#include "kernels/peak.h"
#include "kernels/x86/avx512.h"
#include "kernels/x86/peak.h"

#define STREAM_BYTES 64
#define STREAM_REGISTER "v"
#define STREAM_PAST(p, v) _mm512_stream_ps((void *)(p), (__m512)(v))
#include "kernels/peak_stream.h"

uint64_t bn_peak_int8_avx512(uint64_t turns)
{
    RUN_TURNS(turns, "vpdpbusd", __m512i, "v", _mm512_set1_epi8(2), _mm512_set1_epi8(-1));
    return turns * CHAINS * 64;
}

uint64_t bn_peak_fma_avx512(uint64_t turns)
{
    RUN_TURNS(turns, "vfmadd231ps", __m512, "v", _mm512_set1_ps(1.0f), _mm512_set1_ps(0.5f));
    return turns * CHAINS * 16;
}

uint64_t bn_peak_read_avx512(const void *data, size_t n_bytes)
{
    const char *at = data, *end = at + n_bytes;
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (; at < end; at += BN_PEAK_READ) {
        a = add32(a, load512(at));
        b = add32(b, load512(at + 64));
        c = add32(c, load512(at + 128));
        d = add32(d, load512(at + 192));
    }
    return (uint64_t)_mm512_reduce_or_epi64(add32(add32(a, b), add32(c, d)));
}

void bn_peak_stream_avx512(enum bn_peak_stream stream, float *out, const float *in, const float *in2,
                           size_t n)
{
    run_stream(stream, out, in, in2, n);
}

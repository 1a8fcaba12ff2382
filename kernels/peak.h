/* SPDX-License-Identifier: MIT
 *
 * peak.h - loops that do nothing but what a kernel is limited by: dot products of bytes, fused multiply-adds,
 * reading. A kernel's speed is stated as a share of theirs, timed on the same machine in the same minutes.
 *
 * They keep their operands in registers and have no result. Each is the best that an instruction set has, so
 * a loop exists only where there is such an instruction: plain C has none, and nothing is claimed for it.
 */
#ifndef BN_KERNELS_PEAK_H
#define BN_KERNELS_PEAK_H

#include "kernels/kernels.h"

/* What is written to an array, from one or two others; the last one past the caches. */
enum bn_peak_stream {
    BN_STREAM_COPY,  /* a = b */
    BN_STREAM_SCALE, /* a = 3 b */
    BN_STREAM_ADD,   /* a = b + c */
    BN_STREAM_TRIAD, /* a = b + 3 c */
    BN_STREAM_COPY_PAST
};

struct bn_peak {
    const char *int8; /* the instruction, "vpdpbusd zmm"; NULL when there is no loop */
    const char *fma;
    /* Runs a number of turns, and returns how many multiply-adds that was: of unsigned and signed bytes with
     * exact sums, of binary32. */
    uint64_t (*run_int8)(uint64_t turns);
    uint64_t (*run_fma)(uint64_t turns);
    /* Reads n_bytes, a multiple of BN_PEAK_READ, from an address that is one of 8, in ascending order;
     * returns something made of all of them. */
    uint64_t (*read)(const void *data, size_t n_bytes);
    /* n values, a multiple of 64, at addresses that are multiples of 64. */
    void (*stream)(enum bn_peak_stream stream, float *out, const float *in, const float *in2, size_t n);
    bool can_store_past; /* BN_STREAM_COPY_PAST writes; else it does nothing */
};
#define BN_PEAK_READ 256u /* bytes */

/* The loops of a table's instruction set, which must be supported to run them; never NULL. */
const struct bn_peak *bn_peak_of(const struct bn_kernels *kernels);

/* The loops by instruction set: for the files of this folder only. */
uint64_t bn_peak_int8_avx2(uint64_t turns);
uint64_t bn_peak_int8_avxvnni(uint64_t turns);
uint64_t bn_peak_int8_avx512(uint64_t turns);
uint64_t bn_peak_int8_amx(uint64_t turns);
uint64_t bn_peak_int8_neon(uint64_t turns);
uint64_t bn_peak_fma_avx2(uint64_t turns);
uint64_t bn_peak_fma_avx512(uint64_t turns);
uint64_t bn_peak_fma_neon(uint64_t turns);
uint64_t bn_peak_read_avx2(const void *data, size_t n_bytes);
uint64_t bn_peak_read_avx512(const void *data, size_t n_bytes);
void bn_peak_stream_avx2(enum bn_peak_stream stream, float *out, const float *in, const float *in2, size_t n);
void bn_peak_stream_avx512(enum bn_peak_stream stream, float *out, const float *in, const float *in2,
                           size_t n);

#endif

/* SPDX-License-Identifier: MIT
 *
 * peak_loops.h - the loops of peak.h, by instruction set. For the files of this folder only.
 */
#ifndef BN_KERNELS_PEAK_LOOPS_H
#define BN_KERNELS_PEAK_LOOPS_H

#include "kernels/peak.h"

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

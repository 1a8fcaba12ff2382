/* SPDX-License-Identifier: MIT
 *
 * avx2.h - what the integer files for 256-bit registers share.
 */
#ifndef BN_KERNELS_X86_AVX2_H
#define BN_KERNELS_X86_AVX2_H

#include "kernels/kernels_table.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

INLINE __m256i load256(const void *at)
{
    return _mm256_loadu_si256(at);
}

INLINE __m256i mask(__m256i codes, int byte)
{
    return _mm256_and_si256(codes, _mm256_set1_epi8((char)byte));
}

/* The four codes of each byte, the one in the high bits first. */
INLINE void unpack(__m256i out[4], __m256i codes)
{
    out[0] = mask(_mm256_srli_epi16(codes, 6), 3);
    out[1] = mask(_mm256_srli_epi16(codes, 4), 3);
    out[2] = mask(_mm256_srli_epi16(codes, 2), 3);
    out[3] = mask(codes, 3);
}

#endif

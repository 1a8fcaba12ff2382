/* SPDX-License-Identifier: MIT
 *
 * Tiles from the rows of a file for AVX2: blocks.h with vectors of 32 bytes.
 */
#include "kernels/kernels_table.h"

#include <immintrin.h>

#define LANES 2u

#define vec __m256i
#define vec_store(at, v) _mm256_storeu_si256((void *)(at), v)
#define low32 _mm256_unpacklo_epi32
#define high32 _mm256_unpackhi_epi32
#define low64 _mm256_unpacklo_epi64
#define high64 _mm256_unpackhi_epi64

static inline __m128i load128(const uint8_t *at)
{
    return _mm_loadu_si128((const void *)at);
}

static inline __m256i load_lanes(const uint8_t *at, size_t stride)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load128(at)), load128(at + stride), 1);
}

#include "kernels/x86/codes.h"

#include "kernels/blocks.h"

void bn_to_tiles_avx2(uint8_t *codes, uint16_t *scales, const struct bn_grouped *w)
{
    to_tiles(codes, scales, w);
}

/* SPDX-License-Identifier: MIT
 *
 * Tiles from the rows of a file for AVX-512: blocks.h with vectors of 64 bytes.
 */
#include "kernels/kernels_table.h"

#include <immintrin.h>

#define LANES 4u

#define vec __m512i
#define vec_store _mm512_storeu_si512
#define low32 _mm512_unpacklo_epi32
#define high32 _mm512_unpackhi_epi32
#define low64 _mm512_unpacklo_epi64
#define high64 _mm512_unpackhi_epi64

static inline __m128i load128(const uint8_t *at)
{
    return _mm_loadu_si128((const void *)at);
}

static inline __m512i load_lanes(const uint8_t *at, size_t stride)
{
    __m512i v = _mm512_castsi128_si512(load128(at));
    v = _mm512_inserti32x4(v, load128(at + stride), 1);
    v = _mm512_inserti32x4(v, load128(at + 2 * stride), 2);
    return _mm512_inserti32x4(v, load128(at + 3 * stride), 3);
}

#include "kernels/x86/codes.h"

#include "kernels/blocks.h"

void bn_to_tiles_avx512vnni(uint8_t *codes, uint16_t *scales, const struct bn_grouped *w)
{
    to_tiles(codes, scales, w);
}

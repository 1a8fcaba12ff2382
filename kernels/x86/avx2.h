/* SPDX-License-Identifier: MIT
 *
 * avx2.h - what the integer files for 256-bit registers share: masks, and the I2_S product of many tokens
 * but for its inner loop. A group of rows is unpacked to bytes and used for all tokens, tile by tile.
 */
#ifndef BN_KERNELS_X86_AVX2_H
#define BN_KERNELS_X86_AVX2_H

#include "kernels/kernels_table.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

#define TILE_ROWS 4u
#define GROUP_TILES 4u   /* of rows, which share what the first-level cache has of two or three tokens */
#define CHUNK 1280u      /* elements of a row that are unpacked at once: 20 KiB for a group */
#define BATCH_TOKENS 96u /* tokens that share an unpacked group */

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

/* len elements of rows first ... first + 3, four registers for every 32. Rows past the last repeat it. */
INLINE void i2s_unpack(__m256i *out, const struct bn_ternary *w, size_t first, size_t begin, size_t len)
{
    const uint8_t *row[TILE_ROWS];
    for (size_t r = 0; r < TILE_ROWS; r++)
        row[r] = w->codes + (first + r < w->rows ? first + r : w->rows - 1) * w->row_bytes + begin / 4;
    for (size_t i = 0; i < len; i += BN_I2S_BLOCK, out += 4 * TILE_ROWS)
        for (size_t r = 0; r < TILE_ROWS; r++) {
            __m256i four[4];
            unpack(four, load256(row[r] + i / 4));
            for (size_t g = 0; g < 4; g++)
                out[g * TILE_ROWS + r] = four[g];
        }
}

/* Lane r of the result is the total of v[r]. */
INLINE __m128i sum_rows(const __m256i v[TILE_ROWS])
{
    __m256i a = _mm256_hadd_epi32(v[0], v[1]), b = _mm256_hadd_epi32(v[2], v[3]), c = _mm256_hadd_epi32(a, b);
    return _mm_add_epi32(_mm256_castsi256_si128(c), _mm256_extracti128_si256(c, 1));
}

/* The results of up to four rows and one token; y is that of the first row. */
INLINE void i2s_store(float *y, const struct bn_ternary *w, const struct bn_act *x, size_t row, __m128i sum)
{
    __m128 t = _mm_div_ps(_mm_cvtepi32_ps(sum), _mm_set1_ps(x->scale));
    size_t left = w->rows - row;
    t = _mm_mul_ps(t, _mm_set1_ps(w->scale));
    if (left >= TILE_ROWS)
        _mm_storeu_ps(y, t);
    else
        _mm_maskstore_ps(y, _mm_cmpgt_epi32(_mm_set1_epi32((int32_t)left), _mm_setr_epi32(0, 1, 2, 3)), t);
}

struct i2s_group {
    __m256i codes[GROUP_TILES][TILE_ROWS * CHUNK / 32];
    __m128i sum[BATCH_TOKENS][GROUP_TILES];
    size_t tiles; /* that have rows */
};

/* Adds the products of n tokens and the group's codes, which are len elements from the begin'th. */
typedef void i2s_multiply(struct i2s_group *group, const struct bn_act *x, size_t n, size_t begin,
                          size_t len);

/* The rows of one group from row on for n <= BATCH_TOKENS tokens. */
INLINE void i2s_rows_of_group(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x,
                              size_t row, size_t n, i2s_multiply *multiply)
{
    struct i2s_group group;
    size_t tiles = (w->rows - row + TILE_ROWS - 1) / TILE_ROWS;
    group.tiles = tiles < GROUP_TILES ? tiles : GROUP_TILES;
    for (size_t j = 0; j < n; j++)
        for (size_t t = 0; t < group.tiles; t++)
            group.sum[j][t] = _mm_set1_epi32(-x[j].sum);
    for (size_t i = 0; i < w->k; i += CHUNK) {
        size_t len = w->k - i < CHUNK ? w->k - i : CHUNK;
        for (size_t t = 0; t < group.tiles; t++)
            i2s_unpack(group.codes[t], w, row + TILE_ROWS * t, i, len);
        multiply(&group, x, n, i, len);
    }
    for (size_t j = 0; j < n; j++)
        for (size_t t = 0; t < group.tiles; t++)
            i2s_store(y + j * ldy + row + TILE_ROWS * t, w, x + j, row + TILE_ROWS * t, group.sum[j][t]);
}

INLINE void i2s_many(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n,
                     i2s_multiply *multiply)
{
    for (size_t j = 0; j < n; j += BATCH_TOKENS)
        for (size_t row = 0; row < w->rows; row += GROUP_TILES * TILE_ROWS)
            i2s_rows_of_group(y + j * ldy, ldy, w, x + j, row, n - j < BATCH_TOKENS ? n - j : BATCH_TOKENS,
                              multiply);
}

#endif

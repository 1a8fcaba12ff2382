/* SPDX-License-Identifier: MIT
 *
 * The I2_S product of 2 to 16 tokens for AVX-512 with VNNI: sequences that advance together, or drafted tokens.
 * The weights come from memory once for all tokens. Codes are unpacked in registers and used for 2, 4, 6 or 8
 * tokens: four rows times four tokens, or two rows times eight, have 16 sums.
 */
#include "kernels/kernels_table.h"
#include "kernels/x86/avx512.h"

#include <string.h>

#define GROUP_TOKENS 8u    /* that share an unpacked register */
#define BLOCK_ROWS 16u     /* that one group of tokens uses before the next: their codes stay in the cache */
#define STREAM_AHEAD 8192u /* bytes from a row to the place to prefetch meanwhile */

/* Up to GROUP_TOKENS tokens. Arrays of 16 are of the sums of a tile: row r and token j in lane tile_rows j + r. */
struct group {
    size_t n, tile_rows;
    int32_t minus[16]; /* the sums of the activations: codes are too large by 1 */
    float scale[16];
    __m512i act[FEW_MAX_K / 64 * GROUP_TOKENS]; /* in the order in which add_codes reads them */
};

/* Joins the activations of two blocks, as their codes lie in a register; the last block may be alone. A group of
 * an odd number of tokens repeats its last one. */
static void set_group(struct group *g, const struct bn_act *x, size_t n, size_t k)
{
    __m512i *out = g->act;
    g->n = n;
    g->tile_rows = n <= 4 ? 4 : 2;
    for (size_t v = 0; v < 16; v++) {
        const struct bn_act *token = &x[v / g->tile_rows < n ? v / g->tile_rows : n - 1];
        g->minus[v] = token->sum;
        g->scale[v] = token->scale;
    }
    for (size_t i = 0; i < k; i += 256)
        for (size_t field = 0; field < 4; field++)
            for (size_t j = 0; j < (n + 1) / 2 * 2; j++) {
                const int8_t *at = x[j < n ? j : n - 1].q + i + 32 * field;
                *out++ = i + 128 < k ? join256(load256(at), load256(at + 128))
                                     : _mm512_zextsi256_si512(load256(at));
            }
}

/* sum[rows j + r] += codes[r] times token j, for n tokens; rows and n are constants. */
INLINE void add_codes(__m512i sum[16], const __m512i codes[4], const __m512i *act, const size_t rows,
                      const size_t n)
{
    for (int field = 0; field < 4; field++) {
        __m512i u[4];
        for (size_t r = 0; r < rows; r++)
            u[r] = _mm512_srli_epi16(codes[r], 6 - 2 * field) & _mm512_set1_epi8(3);
        for (size_t j = 0; j < n; j++) {
            __m512i a = act[(size_t)field * n + j];
            for (size_t r = 0; r < rows; r++)
                sum[rows * j + r] = dot4(sum[rows * j + r], u[r], a);
        }
    }
}

/* The totals of a tile, whose rows begin at codes, step bytes apart. */
INLINE __m512i sum_tile(const uint8_t *codes, size_t step, size_t k, const __m512i *act, const size_t rows,
                        const size_t n)
{
    __m512i sum[16], part[4];
    const char *ahead = (const char *)codes + STREAM_AHEAD;
    for (size_t v = 0; v < 16; v++)
        sum[v] = _mm512_setzero_si512();
    size_t i = 0;
    for (; i + 256 <= k; i += 256, codes += 64, act += 4 * n) {
        for (size_t r = 0; r < rows; r++, ahead += 64) { /* line by line, as memory likes it */
            _mm_prefetch(ahead, _MM_HINT_T0);
            part[r] = load512(codes + r * step);
        }
        add_codes(sum, part, act, rows, n);
    }
    for (size_t r = 0; r < rows && i < k; r++)
        part[r] = _mm512_zextsi256_si512(load256(codes + r * step));
    if (i < k) add_codes(sum, part, act, rows, n);
    return sum_each(sum);
}

/* Multiplies tiles of `rows` rows from row begin on, while they end before `end`; returns the row after them. A tile of
 * one row has it several times. rows, tile_rows and n are constants, so that no call is made to store results. */
INLINE size_t multiply(float *y, size_t ldy, const struct bn_ternary *w, size_t begin, size_t end,
                       const struct group *g, const size_t rows, const size_t tile_rows, const size_t n)
{
    const __m512i minus = load512(g->minus);
    const __m512 scale = _mm512_loadu_ps(g->scale);
    size_t row = begin;
    for (; row + rows <= end; row += rows) {
        float out[16];
        __m512i sum =
            sum_tile(w->codes + row * w->row_bytes, rows > 1 ? w->row_bytes : 0, w->k, g->act, tile_rows, n);
        __m512 t = _mm512_div_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(sum, minus)), scale);
        _mm512_storeu_ps(out, _mm512_mul_ps(t, _mm512_set1_ps(w->scale)));
        for (size_t j = 0; j < n; j++)
            if (j < g->n) memcpy(y + j * ldy + row, out + tile_rows * j, rows * sizeof *y);
    }
    return row;
}

/* All rows begin .. end; those that are too few for a tile one by one. */
INLINE void multiply_all(float *y, size_t ldy, const struct bn_ternary *w, size_t begin, size_t end,
                         const struct group *g, const size_t tile_rows, const size_t n)
{
    size_t row = multiply(y, ldy, w, begin, end, g, tile_rows, tile_rows, n);
    multiply(y, ldy, w, row, end, g, 1, tile_rows, n);
}

static void multiply_rows(float *y, size_t ldy, const struct bn_ternary *w, size_t begin, size_t end,
                          const struct group *g)
{
    switch ((g->n + 1) / 2) {
    case 1:
        multiply_all(y, ldy, w, begin, end, g, 4, 2);
        break;
    case 2:
        multiply_all(y, ldy, w, begin, end, g, 4, 4);
        break;
    case 3:
        multiply_all(y, ldy, w, begin, end, g, 2, 6);
        break;
    default:
        multiply_all(y, ldy, w, begin, end, g, 2, 8);
        break;
    }
}

void bn_i2s_few_avx512vnni(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n)
{
    struct group group[FEW_TOKENS / GROUP_TOKENS];
    size_t n_groups = n > GROUP_TOKENS ? 2 : 1, half = (n + n_groups - 1) / n_groups;
    for (size_t g = 0; g < n_groups; g++)
        set_group(&group[g], x + g * half, g == 0 ? half : n - half, w->k);
    for (size_t row = 0; row < w->rows; row += BLOCK_ROWS)
        for (size_t g = 0; g < n_groups; g++)
            multiply_rows(y + g * half * ldy, ldy, w, row,
                          row + BLOCK_ROWS < w->rows ? row + BLOCK_ROWS : w->rows, &group[g]);
}

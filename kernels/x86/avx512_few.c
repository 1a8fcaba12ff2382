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
#define ACT_BYTES 24576u   /* of activations that stay in a first-level cache of 32 KiB */
#define STREAM_AHEAD 8192u /* bytes from a row to the place to prefetch meanwhile */

/* Up to GROUP_TOKENS tokens. */
struct group {
    size_t n;
    int32_t minus[GROUP_TOKENS]; /* the sums of the activations: codes are too large by 1 */
    float scale[GROUP_TOKENS];
    __m512i act[FEW_MAX_K / 64 * GROUP_TOKENS]; /* in the order in which add_codes reads them */
};

/* Joins the activations of two blocks, as their codes lie in a register; the last block may be alone. A group of
 * an odd number of tokens repeats its last one. */
static void set_group(struct group *g, const struct bn_act *x, size_t n, size_t k)
{
    __m512i *out = g->act;
    g->n = n;
    for (size_t j = 0; j < n; j++) {
        g->minus[j] = x[j].sum;
        g->scale[j] = x[j].scale;
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

/* The totals over len elements of a tile, whose rows begin at codes, step bytes apart. Prefetches as many bytes of
 * weights from `ahead` on. */
INLINE __m512i sum_tile(const uint8_t *codes, size_t step, size_t len, const __m512i *act,
                        const uint8_t *ahead, const size_t rows, const size_t n)
{
    __m512i sum[16], part[4];
    for (size_t v = 0; v < 16; v++)
        sum[v] = _mm512_setzero_si512();
    size_t i = 0;
    for (; i + 256 <= len; i += 256, codes += 64, act += 4 * n) {
        for (size_t r = 0; r < rows; r++, ahead += 64) { /* line by line, as memory likes it */
            _mm_prefetch((const char *)ahead, _MM_HINT_T0);
            part[r] = load512(codes + r * step);
        }
        add_codes(sum, part, act, rows, n);
    }
    for (size_t r = 0; r < rows && i < len; r++)
        part[r] = _mm512_zextsi256_si512(load256(codes + r * step));
    if (i < len) add_codes(sum, part, act, rows, n);
    return sum_each(sum);
}

/* A block of rows, and what is summed of it: a tile of tile_rows rows is one vector, as is a tile of one row. */
struct block {
    const uint8_t *codes;
    size_t row_bytes, n_rows, k;
    size_t
        chunk; /* elements that are summed before the next ones, so that their activations stay in the cache */
    __m512i total[BLOCK_ROWS / 2];
};

/* Adds the elements i ... of all rows. tile_rows and n are constants. */
INLINE void sum_chunk(struct block *b, const struct group *g, size_t i, const size_t tile_rows,
                      const size_t n)
{
    size_t len = b->k - i < b->chunk ? b->k - i : b->chunk, row = 0, t = 0;
    const uint8_t *codes = b->codes + i / 4;
    const uint8_t *ahead = b->chunk < b->k ? b->codes + BLOCK_ROWS * b->row_bytes + BLOCK_ROWS * (i / 4)
                                           : b->codes + STREAM_AHEAD;
    for (; row + tile_rows <= b->n_rows; row += tile_rows, t++, ahead += tile_rows * len / 4)
        b->total[t] = add32(b->total[t], sum_tile(codes + row * b->row_bytes, b->row_bytes, len,
                                                  g->act + i / 64 * n, ahead, tile_rows, n));
    for (; row < b->n_rows; row++, t++) /* too few for a tile: each as a tile of equal rows */
        b->total[t] = add32(b->total[t], sum_tile(codes + row * b->row_bytes, 0, len, g->act + i / 64 * n,
                                                  ahead, tile_rows, n));
}

/* y[j * ldy + r] = row r times token j. All tiles are converted at once, so that none waits for a division. */
INLINE void multiply(float *y, size_t ldy, struct block *b, float factor, const struct group *g,
                     const size_t tile_rows, const size_t n)
{
    int32_t sum[GROUP_TOKENS][BLOCK_ROWS], lane[16];
    for (size_t t = 0; t < BLOCK_ROWS / 2; t++)
        b->total[t] = _mm512_setzero_si512();
    for (size_t i = 0; i < b->k; i += b->chunk)
        sum_chunk(b, g, i, tile_rows, n);
    size_t row = 0, t = 0;
    for (; row + tile_rows <= b->n_rows; row += tile_rows) {
        _mm512_storeu_si512(lane, b->total[t++]);
        for (size_t j = 0; j < n; j++)
            memcpy(&sum[j][row], lane + tile_rows * j, tile_rows * sizeof *lane);
    }
    for (; row < b->n_rows; row++) {
        _mm512_storeu_si512(lane, b->total[t++]);
        for (size_t j = 0; j < n; j++)
            sum[j][row] = lane[tile_rows * j];
    }
    for (size_t j = 0; j < g->n; j++) {
        __m512i minus = _mm512_set1_epi32(g->minus[j]);
        __m512 v = _mm512_cvtepi32_ps(_mm512_sub_epi32(load512(sum[j]), minus));
        v = _mm512_mul_ps(_mm512_div_ps(v, _mm512_set1_ps(g->scale[j])), _mm512_set1_ps(factor));
        _mm512_mask_storeu_ps(y + j * ldy, (__mmask16)((1u << b->n_rows) - 1u), v);
    }
}

static void multiply_block(float *y, size_t ldy, struct block *b, float factor, const struct group *g)
{
    switch ((g->n + 1) / 2) {
    case 1:
        multiply(y, ldy, b, factor, g, 4, 2);
        break;
    case 2:
        multiply(y, ldy, b, factor, g, 4, 4);
        break;
    case 3:
        multiply(y, ldy, b, factor, g, 2, 6);
        break;
    default:
        multiply(y, ldy, b, factor, g, 2, 8);
        break;
    }
}

/* A part of k elements, in whole registers, of which the activations of n tokens take at most ACT_BYTES. */
static size_t chunk_of(size_t k, size_t n)
{
    size_t n_chunks = (k * n + ACT_BYTES - 1) / ACT_BYTES;
    return ((k + n_chunks - 1) / n_chunks + 255) / 256 * 256;
}

void bn_i2s_few_avx512vnni(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n)
{
    struct group group[FEW_TOKENS / GROUP_TOKENS];
    size_t n_groups = (n + GROUP_TOKENS - 1) / GROUP_TOKENS, each = (n + n_groups - 1) / n_groups;
    for (size_t g = 0; g < n_groups; g++)
        set_group(&group[g], x + g * each, n - g * each < each ? n - g * each : each, w->k);
    struct block block = {.row_bytes = w->row_bytes, .k = w->k, .chunk = chunk_of(w->k, (each + 1) / 2 * 2)};
    for (size_t row = 0; row < w->rows; row += BLOCK_ROWS) {
        block.codes = w->codes + row * w->row_bytes;
        block.n_rows = w->rows - row < BLOCK_ROWS ? w->rows - row : BLOCK_ROWS;
        for (size_t g = 0; g < n_groups; g++)
            multiply_block(y + g * each * ldy + row, ldy, &block, w->scale, &group[g]);
    }
}

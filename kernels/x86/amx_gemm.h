/* SPDX-License-Identifier: MIT
 *
 * amx_gemm.h - products of ternary weights and many tokens by tile registers: 16 rows of 64 bytes each. The file
 * that includes this defines the tile operations (tiles.h, or the plain C of the same in tests/checkkern), AMX(slot),
 * the name of the function for a slot, and LOWER(slot), the function of a lower instruction set.
 *
 * A tile of activations has 16 tokens by 64 elements, as they are in memory. A tile of weights has 16 rows of the
 * matrix by 64 elements: dword r of its row i has the elements 4i ... 4i + 3 of the matrix row r. Their product
 * is a tile of sums, a token in each row, and so in the order of the output. Weights are unpacked to bytes for 32
 * rows and a part of k that fits the first-level cache, and then used for all tokens; the sums of 32 rows stay
 * on the stack meanwhile. The second tile of rows repeats rows that exist where there are fewer, and the last tile
 * of tokens begins early enough to be full: its first tokens are computed twice, to the same bits.
 */
#ifndef BN_KERNELS_X86_AMX_GEMM_H
#define BN_KERNELS_X86_AMX_GEMM_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/blocks.h"
#include "kernels/kernels_table.h"

#define SIDE 16u                    /* rows of a tile, and its lanes of 32 bits */
#define STEP 64u                    /* bytes of a row: the elements of one multiplication */
#define TILE_BYTES 1024u            /* SIDE * STEP */
#define ROWS 32u                    /* of the matrix, in two tiles */
#define TOKENS 256u                 /* whose sums are kept */
#define ACT_BYTES ((size_t)1 << 20) /* of a second-level cache of two megabytes */
#define FEWEST 8u                   /* tokens that are worth unpacking weights for */

#define ALWAYS static inline __attribute__((always_inline))

/* Sums of two tiles of rows with two of tokens, or with two planes of a tile of tokens. */
struct tile_sums {
    _Alignas(64) int32_t of[2][2][SIDE][SIDE];
};

/* Sixteen words of four bytes, which vector instructions take at once. */
typedef uint32_t words __attribute__((vector_size(64)));
typedef uint8_t bytes64 __attribute__((vector_size(64)));

ALWAYS size_t at_most(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- tiles ---- */

/* Tiles 0 ... 3: sums; 4, 5: activations of n_tokens; 6, 7: weights. */
static void configure(size_t n_tokens)
{
    struct tile_config config = {.palette = 1};
    for (size_t t = 0; t < 8; t++) {
        config.row_bytes[t] = STEP;
        config.rows[t] = (uint8_t)(t < 6 ? n_tokens : SIDE);
    }
    TILES_CONFIGURE(&config);
}

ALWAYS void zero_sums(const bool two)
{
    TILE_ZERO(0);
    TILE_ZERO(1);
    if (!two) return;
    TILE_ZERO(2);
    TILE_ZERO(3);
}

ALWAYS void store_sums(struct tile_sums *sums, const bool two)
{
    TILE_STORE(0, sums->of[0][0], (size_t)STEP);
    TILE_STORE(1, sums->of[0][1], (size_t)STEP);
    if (!two) return;
    TILE_STORE(2, sums->of[1][0], (size_t)STEP);
    TILE_STORE(3, sums->of[1][1], (size_t)STEP);
}

/* Rows of activations that are stride bytes apart. */
struct rows_of_acts {
    const int8_t *first;
    size_t stride;
};

/* Adds the products of len elements: of x[0] and, when there are two, x[1] with the two tiles of rows at weights,
 * [len / STEP][2][TILE_BYTES]. */
ALWAYS void multiply(const struct rows_of_acts x[2], const uint8_t *weights, size_t len, const bool two)
{
    for (size_t i = 0; i < len; i += STEP, weights += 2 * TILE_BYTES) {
        TILE_LOAD(6, weights, (size_t)STEP);
        TILE_LOAD(4, x[0].first + i, x[0].stride);
        TILE_DOT(0, 4, 6);
        TILE_LOAD(7, weights + TILE_BYTES, (size_t)STEP);
        TILE_DOT(1, 4, 7);
        if (two) {
            TILE_LOAD(5, x[1].first + i, x[1].stride);
            TILE_DOT(2, 5, 6);
            TILE_DOT(3, 5, 7);
        }
    }
}

/* ---- weights and results ---- */

/* The field of two bits at `shift` of every byte, minus less. */
ALWAYS void put_fields(uint8_t *out, const words *codes, unsigned shift, const uint8_t less)
{
    bytes64 fields = (bytes64)((*codes >> shift) & 0x03030303u) - less;
    memcpy(out, &fields, sizeof fields);
}

/* The results of a token for the rows of a tile, of which n_rows or all exist. */
ALWAYS void put_results(float *y, const float v[SIDE], size_t n_rows)
{
    if (n_rows >= SIDE)
        memcpy(y, v, SIDE * sizeof *v);
    else
        memcpy(y, v, n_rows * sizeof *v);
}

/* ---- tokens ---- */

/* The results of 32 rows lie pages apart for n tokens; they are written much later. */
ALWAYS void prefetch_results(float *y, size_t ldy, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        __builtin_prefetch(y + j * ldy, 1, 2);
        __builtin_prefetch(y + j * ldy + SIDE, 1, 2);
    }
}

/* How many of n tokens with act_bytes each share an unpacked piece: whole pairs of tiles, the last batch about as
 * long as the others. */
static size_t batch_of(size_t n, size_t act_bytes)
{
    size_t pair = 2 * SIDE, most = at_most(ACT_BYTES / act_bytes / pair * pair, TOKENS);
    if (most == 0) most = pair;
    size_t n_batches = (n + most - 1) / most;
    return ((n + n_batches - 1) / n_batches + pair - 1) / pair * pair;
}

/* Whether the rows of activations of n tokens are the same distance apart, as tile loads need them. The pointers to
 * them are `each` bytes apart, from `first` on. */
static bool are_even(size_t *stride, const int8_t *const *first, size_t each, size_t n)
{
    uintptr_t at[2] = {0};
    for (size_t j = 0; j < n; j++) {
        uintptr_t row;
        memcpy(&row, (const uint8_t *)first + j * each, sizeof row);
        if (j < 2) at[j] = row;
        if (j > 1 && row != at[0] + j * (at[1] - at[0])) return false;
    }
    *stride = at[1] - at[0];
    return true;
}

/* ---- the product ---- */

#define CHUNK 512u /* elements of a row that are unpacked at once: whole groups */
_Static_assert(CHUNK % 256 == 0 && BN_TILE_ROWS == SIDE, "whole groups, and a tile of weights in a register");

struct chunk {
    _Alignas(64) uint8_t weights[ROWS * CHUNK];
    float scales[2][CHUNK / BN_MIN_GROUP][SIDE];
};

/* Where the codes at bits 2p of the sixteen weights from the i'th on belong: the row of a tile whose four values
 * four_at has. */
ALWAYS size_t weights_at(size_t i, unsigned p, const enum product product)
{
    size_t at = four_at(i, p, product);
    return at / STEP * 2 * TILE_BYTES + at % STEP * SIDE;
}

/* len elements of two tiles of weights, as -1 ... 2. Sixteen words of four bytes, one of each row of the matrix, are
 * a row of a tile. The same elements of the next two are prefetched. */
ALWAYS void unpack(struct chunk *chunk, const struct bn_ternary *w, size_t tile, size_t begin, size_t len,
                   const enum product product)
{
    size_t last = (w->rows - 1) / SIDE;
    for (size_t h = 0; h < 2; h++) {
        size_t from = at_most(tile + h, last);
        const uint8_t *codes = w->codes + from * 4 * w->k + 4 * begin;
        for (size_t i = 0; i < len; i += SIDE) {
            words v;
            memcpy(&v, codes + 4 * i, sizeof v);
            __builtin_prefetch(codes + 4 * i + 2 * 4 * w->k, 0, 2);
            for (unsigned p = 0; p < 4; p++)
                put_fields(chunk->weights + h * TILE_BYTES + weights_at(i, p, product), &v, 2 * p, 1);
        }
        if (product == WHOLE) continue;
        LOWER(f16_to_f32)
        (chunk->scales[h][0], w->scales + (from * w->k + begin) / w->group * SIDE, len / w->group * SIDE);
    }
}

/* Results of a tile of tokens and 32 rows: I2_S has integers up to the end. */
union results {
    float f[2][SIDE][SIDE];
    int32_t i[2][SIDE][SIDE];
};

/* Adds the sums of a group: those of the low plane, and of the high one with 16 bits. */
ALWAYS void add_group(union results *acc, int32_t low[2][SIDE][SIDE], int32_t high[2][SIDE][SIDE],
                      const struct chunk *chunk, size_t g, const struct bn_act *x, size_t n_tokens,
                      size_t of_row, const enum product product)
{
    for (size_t j = 0; j < n_tokens; j++) {
        float step = product == WIDE ? x[j].step[of_row] : 1.0f;
        for (size_t h = 0; h < 2; h++)
            for (size_t r = 0; r < SIDE; r++) {
                int32_t t = low[h][j][r] + (product == WIDE ? 256 * high[h][j][r] : 0);
                if (product == WHOLE)
                    acc->i[h][j][r] += t;
                else
                    acc->f[h][j][r] = fmaf(chunk->scales[h][g][r], (float)t * step, acc->f[h][j][r]);
            }
    }
}

/* Tokens that are multiplied together; the planes of each are low_stride and, with 16 bits, high_stride bytes apart. */
struct batch {
    const struct bn_act *x;
    size_t n, in_tile, low_stride, high_stride;
};

/* Where tile p of tokens begins. */
ALWAYS size_t tile_at(const struct batch *batch, size_t p)
{
    return at_most(p * SIDE, batch->n - batch->in_tile);
}

/* A chunk of len elements from the begin'th on, for the tokens of tile p, and of the next one when there are two. With
 * 16 bits two planes of one tile take the place of two tiles. */
ALWAYS void add_chunk(union results *acc, const struct chunk *chunk, const struct bn_ternary *w, size_t begin,
                      size_t len, const struct batch *batch, size_t p, const enum product product,
                      const bool two)
{
    const struct bn_act *x[2] = {batch->x + tile_at(batch, p), batch->x + tile_at(batch, two ? p + 1 : p)};
    const size_t group = product == WHOLE ? len : w->group;
    struct tile_sums sums;
    for (size_t i = 0, g = 0, of_row = begin / group; i < len; i += group, g++, of_row++) {
        const struct rows_of_acts planes[2] = {
            {plane_of(x[0], product) + begin + i, batch->low_stride},
            product == WIDE ? (struct rows_of_acts){x[0]->high + begin + i, batch->high_stride}
                            : (struct rows_of_acts){plane_of(x[1], product) + begin + i, batch->low_stride},
        };
        zero_sums(two || product == WIDE);
        multiply(planes, chunk->weights + i / STEP * 2 * TILE_BYTES, group, two || product == WIDE);
        store_sums(&sums, two || product == WIDE);
        for (size_t t = 0; t < (two ? 2 : 1); t++)
            add_group(&acc[p + t], sums.of[t], sums.of[1], chunk, g, x[t], batch->in_tile, of_row, product);
    }
}

/* The results of a token with 8 bits are divided by its scale. Not inline: gcc 12 would load 64 bytes from each scale
 * on, beyond the last token. */
static __attribute__((noinline)) void divide(float results[SIDE], float scale)
{
    for (size_t r = 0; r < SIDE; r++)
        results[r] /= scale;
}

/* The same of I2_S. */
static __attribute__((noinline)) void finish(float results[SIDE], const int32_t sums[SIDE], float scale,
                                             float factor)
{
    for (size_t r = 0; r < SIDE; r++)
        results[r] = (float)sums[r] / scale * factor;
}

/* Two tiles of weights from `tile` on. */
ALWAYS void rows_for_tokens(float *y, size_t ldy, const struct bn_ternary *w, size_t tile,
                            const struct batch *batch, const enum product product)
{
    struct chunk chunk;
    union results acc[TOKENS / SIDE];
    size_t n_tiles = (batch->n + SIDE - 1) / SIDE;
    memset(acc, 0, n_tiles * sizeof acc[0]);
    prefetch_results(y + tile * SIDE, ldy, batch->n);
    for (size_t i = 0; i < w->k; i += CHUNK) {
        size_t len = at_most(CHUNK, w->k - i), p = 0;
        unpack(&chunk, w, tile, i, len, product);
        for (; product != WIDE && p + 2 <= n_tiles; p += 2)
            add_chunk(acc, &chunk, w, i, len, batch, p, product, true);
        for (; p < n_tiles; p++)
            add_chunk(acc, &chunk, w, i, len, batch, p, product, false);
    }
    for (size_t h = 0; h < 2 && (tile + h) * SIDE < w->rows; h++)
        for (size_t p = 0; p < n_tiles; p++)
            for (size_t j = 0; j < batch->in_tile; j++) {
                size_t token = tile_at(batch, p) + j;
                float *results = acc[p].f[h][j], whole[SIDE];
                if (product == NARROW) divide(results, batch->x[token].scale);
                if (product == WHOLE) finish(whole, acc[p].i[h][j], batch->x[token].scale, w->scale);
                put_results(y + token * ldy + (tile + h) * SIDE, product == WHOLE ? whole : results,
                            w->rows - (tile + h) * SIDE);
            }
}

ALWAYS void tokens(float *y, size_t ldy, const struct bn_ternary *w, struct batch *batch,
                   const struct bn_act *x, size_t n, const enum product product)
{
    size_t most = batch_of(n, (product == WIDE ? 2 : 1) * w->k);
    for (size_t j = 0; j < n; j += most) {
        batch->x = x + j;
        batch->n = at_most(n - j, most);
        batch->in_tile = at_most(n - j, SIDE);
        configure(batch->in_tile);
        for (size_t tile = 0; tile * SIDE < w->rows; tile += 2)
            rows_for_tokens(y + j * ldy, ldy, w, tile, batch, product);
    }
    TILES_RELEASE();
}

void AMX(ternary_gemm)(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n)
{
    struct batch batch = {0};
    enum product product = product_of(w, x);
    if (n < FEWEST || !are_even(&batch.low_stride, product == WHOLE ? &x[0].q : &x[0].low, sizeof *x, n) ||
        (product == WIDE && !are_even(&batch.high_stride, &x[0].high, sizeof *x, n)))
        LOWER(ternary_gemm)(y, ldy, w, x, n);
    else
        BY_PRODUCT(w, x, tokens, y, ldy, w, &batch, x, n);
}

#endif

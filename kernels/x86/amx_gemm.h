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

#include "kernels/kernels_table.h"
#include "kernels/x86/tile_config.h"

#define SIDE 16u                    /* rows of a tile, and its lanes of 32 bits */
#define STEP 64u                    /* bytes of a row: the elements of one multiplication */
#define TILE_BYTES 1024u            /* SIDE * STEP */
#define ROWS 32u                    /* of the matrix, in two tiles */
#define PIECE 640u                  /* elements of a row that are unpacked at once */
#define TOKENS 256u                 /* whose sums are kept */
#define ACT_BYTES ((size_t)1 << 20) /* of a second-level cache of two megabytes */
#define FEWEST 8u                   /* tokens that are worth unpacking weights for */

#define ALWAYS static inline __attribute__((always_inline))

/* Sums of two tiles of tokens and two of rows, or of two planes of a tile of tokens. */
struct tile_sums {
    _Alignas(64) int32_t of[2][2][SIDE][SIDE];
};

/* Sixteen words of four bytes, which vector instructions take at once. */
typedef uint32_t words __attribute__((vector_size(64)));
typedef uint32_t words8 __attribute__((vector_size(32)));
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

ALWAYS void load_sums(const struct tile_sums *sums, const bool two)
{
    TILE_LOAD(0, sums->of[0][0], (size_t)STEP);
    TILE_LOAD(1, sums->of[0][1], (size_t)STEP);
    if (!two) return;
    TILE_LOAD(2, sums->of[1][0], (size_t)STEP);
    TILE_LOAD(3, sums->of[1][1], (size_t)STEP);
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

/* ---- I2_S ---- */

#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

/* out[d] has the d'th four of the 32 bytes at each row. Register i begins as rows i and i + 8. */
ALWAYS void transpose(words out[8], const uint8_t *const row[SIDE], size_t at)
{
    words a[8], b[8];
    for (size_t i = 0; i < 8; i++) {
        words8 low, high;
        memcpy(&low, row[i] + at, sizeof low);
        memcpy(&high, row[i + 8] + at, sizeof high);
        a[i] = SHUFFLE(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    }
    for (size_t i = 0; i < 8; i += 2) {
        b[i] = SHUFFLE(a[i], a[i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
        b[i + 1] = SHUFFLE(a[i], a[i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    }
    for (size_t i = 0; i < 8; i += 4)
        for (size_t h = 0; h < 2; h++) {
            words low = b[i + h], high = b[i + h + 2];
            a[i + 2 * h] = SHUFFLE(low, high, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
            a[i + 2 * h + 1] = SHUFFLE(low, high, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
        }
    for (size_t d = 0; d < 4; d++) {
        out[d] = SHUFFLE(a[d], a[d + 4], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
        out[d + 4] = SHUFFLE(a[d], a[d + 4], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
    }
}

/* Sixteen rows become every other tile at out: len elements from the begin'th on, as codes 0 ... 3. The four bytes
 * at 4d of a block have the elements 32g + 4d ... 32g + 4d + 3, g = 0 ... 3 from their high bits to the low ones. */
static void i2s_unpack(uint8_t *out, const uint8_t *const row[SIDE], size_t begin, size_t len)
{
    words codes[8];
    for (size_t i = begin; i < begin + len; i += BN_I2S_BLOCK, out += 4 * TILE_BYTES) {
        transpose(codes, row, i / 4);
        for (size_t g = 0; g < 4; g++)
            for (size_t d = 0; d < 8; d++)
                put_fields(out + g / 2 * 2 * TILE_BYTES + (g % 2 * 8 + d) * STEP, &codes[d],
                           6 - 2 * (unsigned)g, 0);
    }
}

/* Elements of 32 rows from `first` on. Rows past the last repeat it. The same elements of the next 32 rows are
 * prefetched: they arrive while these are multiplied. */
static void i2s_unpack_rows(uint8_t *out, const struct bn_ternary *w, size_t first, size_t begin, size_t len)
{
    const uint8_t *row[ROWS];
    for (size_t r = 0; r < ROWS; r++) {
        row[r] = w->codes + at_most(first + r, w->rows - 1) * w->row_bytes;
        for (size_t i = begin / 4; i < (begin + len) / 4; i += 64)
            __builtin_prefetch(row[r] + ROWS * w->row_bytes + i, 0, 2);
    }
    i2s_unpack(out, row, begin, len);
    i2s_unpack(out + TILE_BYTES, row + SIDE, begin, len);
}

/* The results of a tile of tokens: sums of 32 rows from `row` on, of which those that exist are stored. */
ALWAYS void i2s_store(float *y, size_t ldy, const struct bn_ternary *w, size_t row,
                      int32_t sums[2][SIDE][SIDE], const struct bn_act *x, size_t n_tokens)
{
    for (size_t h = 0; h < 2 && row + h * SIDE < w->rows; h++)
        for (size_t j = 0; j < n_tokens; j++) {
            float v[SIDE];
            for (size_t r = 0; r < SIDE; r++)
                v[r] = (float)(sums[h][j][r] - x[j].sum) / x[j].scale * w->scale;
            put_results(y + j * ldy + row + h * SIDE, v, w->rows - row - h * SIDE);
        }
}

/* Adds a piece to the sums of two tiles of tokens, or one. */
ALWAYS void i2s_add(struct tile_sums *sums, const struct rows_of_acts x[2], const uint8_t *weights,
                    size_t len, bool first, const bool two)
{
    if (first)
        zero_sums(two);
    else
        load_sums(sums, two);
    multiply(x, weights, len, two);
    store_sums(sums, two);
}

/* Tokens that are multiplied together: n of them, in_tile in each tile, their activations stride bytes apart. */
struct i2s_batch {
    const struct bn_act *x;
    size_t n, in_tile, stride;
};

/* Where the two tiles of pair p begin; the same place twice when there is one. */
ALWAYS void pair_at(size_t at[2], const struct i2s_batch *batch, size_t p)
{
    at[0] = at_most(2 * SIDE * p, batch->n - batch->in_tile);
    at[1] = at_most(at[0] + SIDE, batch->n - batch->in_tile);
}

/* 32 rows from `row` on. The results of a pair are made while the next one is multiplied: divisions are slow. */
static void i2s_rows(float *y, size_t ldy, const struct bn_ternary *w, size_t row,
                     const struct i2s_batch *batch)
{
    _Alignas(64) uint8_t weights[ROWS * PIECE];
    struct tile_sums sums[TOKENS / (2 * SIDE)];
    size_t n_pairs = (batch->n + 2 * SIDE - 1) / (2 * SIDE), at[2];
    prefetch_results(y + row, ldy, batch->n);
    for (size_t i = 0; i < w->k; i += PIECE) {
        size_t len = at_most(PIECE, w->k - i);
        i2s_unpack_rows(weights, w, row, i, len);
        for (size_t p = 0; p < n_pairs; p++) {
            pair_at(at, batch, p);
            const struct rows_of_acts acts[2] = {{batch->x[at[0]].q + i, batch->stride},
                                                 {batch->x[at[1]].q + i, batch->stride}};
            if (at[1] > at[0])
                i2s_add(&sums[p], acts, weights, len, i == 0, true);
            else
                i2s_add(&sums[p], acts, weights, len, i == 0, false);
            for (size_t t = 0; i + len == w->k && t < 2 && (t == 0 || at[1] > at[0]); t++)
                i2s_store(y + at[t] * ldy, ldy, w, row, sums[p].of[t], batch->x + at[t], batch->in_tile);
        }
    }
}

void AMX(i2s_gemm)(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n)
{
    struct i2s_batch batch;
    if (n < FEWEST || !are_even(&batch.stride, &x[0].q, sizeof *x, n)) {
        LOWER(i2s_gemm)(y, ldy, w, x, n);
        return;
    }
    size_t most = batch_of(n, w->k);
    for (size_t j = 0; j < n; j += most) {
        batch.x = x + j;
        batch.n = at_most(n - j, most);
        batch.in_tile = at_most(n - j, SIDE);
        configure(batch.in_tile);
        for (size_t row = 0; row < w->rows; row += ROWS)
            i2s_rows(y + j * ldy, ldy, w, row, &batch);
    }
    TILES_RELEASE();
}

/* ---- a scale for each group ---- */

#define CHUNK 512u /* elements of a row that are unpacked at once: whole groups */
_Static_assert(CHUNK % 256 == 0 && BN_TILE_ROWS == SIDE, "whole groups, and a tile of weights in a register");

struct chunk {
    _Alignas(64) uint8_t weights[ROWS * CHUNK];
    float scales[2][CHUNK / BN_MIN_GROUP][SIDE];
};

/* len elements of two tiles of weights, as -1 ... 2. Sixteen words of four bytes, one of each row of the matrix, are
 * a row of a tile. The same elements of the next two are prefetched. */
static void grouped_unpack(struct chunk *chunk, const struct bn_grouped *w, size_t tile, size_t begin,
                           size_t len)
{
    size_t n_groups = w->k / w->group, last = (w->rows - 1) / SIDE;
    for (size_t h = 0; h < 2; h++) {
        size_t from = at_most(tile + h, last);
        const uint8_t *codes = w->codes + from * 4 * w->k + 4 * begin;
        for (size_t i = 0; i < len; i += SIDE) {
            uint8_t *out = chunk->weights + i / STEP * 2 * TILE_BYTES + h * TILE_BYTES + i % STEP * SIDE;
            words v;
            memcpy(&v, codes + 4 * i, sizeof v);
            __builtin_prefetch(codes + 4 * i + 2 * 4 * w->k, 0, 2);
            for (unsigned p = 0; p < 4; p++)
                put_fields(out + p * STEP, &v, 2 * p, 1);
        }
        LOWER(f16_to_f32)
        (chunk->scales[h][0], w->scales + (from * n_groups + begin / w->group) * SIDE, len / w->group * SIDE);
    }
}

/* Adds a group to the results of a tile of tokens: sums has those of the low and the high plane. */
ALWAYS void add_group(float acc[2][SIDE][SIDE], const struct tile_sums *sums, const struct chunk *chunk,
                      size_t g, const struct bn_act16 *x, size_t n_tokens, size_t of_row, const bool wide)
{
    for (size_t j = 0; j < n_tokens; j++) {
        float step = wide ? x[j].step[of_row] : 1.0f;
        for (size_t h = 0; h < 2; h++)
            for (size_t r = 0; r < SIDE; r++) {
                int32_t t = sums->of[0][h][j][r] + (wide ? 256 * sums->of[1][h][j][r] : 0);
                acc[h][j][r] = fmaf(chunk->scales[h][g][r], (float)t * step, acc[h][j][r]);
            }
    }
}

/* Tokens that are multiplied together; the planes of each are low_stride and, with 16 bits, high_stride bytes apart. */
struct grouped_batch {
    bool wide;
    const struct bn_act16 *x;
    size_t n, in_tile, low_stride, high_stride;
};

/* A chunk of len elements from the begin'th on, for the tokens from the at'th on. */
ALWAYS void grouped_add(float acc[2][SIDE][SIDE], const struct chunk *chunk, const struct bn_grouped *w,
                        size_t begin, size_t len, const struct grouped_batch *batch, size_t at,
                        const bool wide)
{
    const struct bn_act16 *x = batch->x + at;
    struct tile_sums sums;
    for (size_t i = 0, g = 0, of_row = begin / w->group; i < len; i += w->group, g++, of_row++) {
        const struct rows_of_acts planes[2] = {
            {x->low + begin + i, batch->low_stride},
            {wide ? x->high + begin + i : NULL, batch->high_stride},
        };
        zero_sums(wide);
        multiply(planes, chunk->weights + i / STEP * 2 * TILE_BYTES, w->group, wide);
        store_sums(&sums, wide);
        add_group(acc, &sums, chunk, g, x, batch->in_tile, of_row, wide);
    }
}

/* The results of a token with 8 bits are divided by its scale. Not inline: gcc 12 would load 64 bytes from each scale
 * on, beyond the last token. */
static __attribute__((noinline)) void divide(float results[SIDE], float scale)
{
    for (size_t r = 0; r < SIDE; r++)
        results[r] /= scale;
}

/* Two tiles of weights from `tile` on. */
static void grouped_rows(float *y, size_t ldy, const struct bn_grouped *w, size_t tile,
                         const struct grouped_batch *batch)
{
    struct chunk chunk;
    float acc[TOKENS / SIDE][2][SIDE][SIDE];
    size_t n_tiles = (batch->n + SIDE - 1) / SIDE, last = batch->n - batch->in_tile;
    memset(acc, 0, n_tiles * sizeof acc[0]);
    prefetch_results(y + tile * SIDE, ldy, batch->n);
    for (size_t i = 0; i < w->k; i += CHUNK) {
        size_t len = at_most(CHUNK, w->k - i);
        grouped_unpack(&chunk, w, tile, i, len);
        for (size_t p = 0; p < n_tiles; p++)
            if (batch->wide)
                grouped_add(acc[p], &chunk, w, i, len, batch, at_most(p * SIDE, last), true);
            else
                grouped_add(acc[p], &chunk, w, i, len, batch, at_most(p * SIDE, last), false);
    }
    for (size_t h = 0; h < 2 && (tile + h) * SIDE < w->rows; h++)
        for (size_t p = 0; p < n_tiles; p++)
            for (size_t j = 0; j < batch->in_tile; j++) {
                size_t token = at_most(p * SIDE, last) + j;
                if (!batch->wide) divide(acc[p][h][j], batch->x[token].scale);
                put_results(y + token * ldy + (tile + h) * SIDE, acc[p][h][j], w->rows - (tile + h) * SIDE);
            }
}

void AMX(grouped_gemm)(float *y, size_t ldy, const struct bn_grouped *w, const struct bn_act16 *x, size_t n)
{
    struct grouped_batch batch = {.wide = n > 0 && x[0].high != NULL};
    if (n < FEWEST || !are_even(&batch.low_stride, &x[0].low, sizeof *x, n) ||
        (batch.wide && !are_even(&batch.high_stride, &x[0].high, sizeof *x, n))) {
        LOWER(grouped_gemm)(y, ldy, w, x, n);
        return;
    }
    size_t most = batch_of(n, 2 * w->k);
    for (size_t j = 0; j < n; j += most) {
        batch.x = x + j;
        batch.n = at_most(n - j, most);
        batch.in_tile = at_most(n - j, SIDE);
        configure(batch.in_tile);
        for (size_t tile = 0; tile * SIDE < w->rows; tile += 2)
            grouped_rows(y + j * ldy, ldy, w, tile, &batch);
    }
    TILES_RELEASE();
}

#endif

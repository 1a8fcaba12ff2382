/* SPDX-License-Identifier: MIT
 *
 * columns.h - products of ternary weights by columns, for files of this folder that define vectors of LANES times 16 bytes
 * and what is done with them. Nothing elsewhere.
 *
 * Four columns are taken at a time. Their bytes are interleaved, so that each lane of 32 bits has four rows of each of the
 * four, and a dot product of four bytes adds one row of all four to a sum. The codes at bits 2 and 6 count four times
 * in their sums. Columns lie far apart, so those to come are prefetched.
 */
#ifndef BN_KERNELS_COLUMNS_H
#define BN_KERNELS_COLUMNS_H

#include <string.h>

#include "kernels/kernels.h"

#ifdef LANES

#define COLUMNS_AHEAD 32u  /* columns from those in use to those to prefetch */
#define COLUMNS_ROWS 4096u /* whose sums lie on the stack, 16 KiB */

struct four_columns {
    const uint8_t *at[4], *ahead[4];
    int8_t q[4];
};

/* The i'th four of n columns. The last one is repeated, times 0. */
INLINE struct four_columns four_columns(const struct bn_columns *w, const uint8_t *codes,
                                        const struct bn_act *x, const uint32_t *used, size_t i, size_t n)
{
    struct four_columns four;
    for (size_t c = 0; c < 4; c++) {
        size_t own = i + c < n ? i + c : n - 1, next = own + COLUMNS_AHEAD < n ? own + COLUMNS_AHEAD : n - 1;
        four.at[c] = codes + used[own] * w->column_bytes;
        four.ahead[c] = codes + used[next] * w->column_bytes;
        four.q[c] = i + c < n ? x->q[used[own]] : 0;
    }
    return four;
}

/* Sixteen rows of each of 4 LANES bytes, whose columns are interleaved. */
INLINE void add_rows(int32_t *sums, vec codes, vec act, const bool vnni)
{
    vec high = vec_right4(codes);
    vec_add_dot(sums, vec_mask(codes, 3), act, vnni);
    vec_add_dot(sums + 16, vec_mask(codes, 12), act, vnni);
    vec_add_dot(sums + 32, vec_mask(high, 3), act, vnni);
    vec_add_dot(sums + 48, vec_mask(high, 12), act, vnni);
}

INLINE void add_columns(int32_t *sums, const struct four_columns *four, size_t bytes, const bool vnni)
{
    vec act = repeat4(four->q);
    for (size_t i = 0; i < bytes; i += 64, sums += BN_COLUMN_ROWS) {
        for (size_t c = 0; c < 4; c++)
            __builtin_prefetch(four->ahead[c] + i);
        for (size_t v = 0; v < 64; v += 16 * LANES) {
            vec a = vec_load(four->at[0] + i + v), b = vec_load(four->at[1] + i + v);
            vec c = vec_load(four->at[2] + i + v), d = vec_load(four->at[3] + i + v);
            vec ab = low8(a, b), cd = low8(c, d), ab2 = high8(a, b), cd2 = high8(c, d);
            int32_t *at = sums + v / 4;
            add_rows(at, low16(ab, cd), act, vnni);
            add_rows(at + 64, high16(ab, cd), act, vnni);
            add_rows(at + 128, low16(ab2, cd2), act, vnni);
            add_rows(at + 192, high16(ab2, cd2), act, vnni);
        }
    }
}

INLINE void columns_gemv(float *y, const struct bn_columns *w, const struct bn_act *x, const uint32_t *used,
                         size_t n, const bool vnni)
{
    _Alignas(64) int32_t sums[COLUMNS_ROWS];
    for (size_t first = 0; first < w->rows; first += COLUMNS_ROWS) {
        size_t rows = w->rows - first < COLUMNS_ROWS ? w->rows - first : COLUMNS_ROWS;
        size_t bytes = (rows + BN_COLUMN_ROWS - 1) / BN_COLUMN_ROWS * 64;
        const uint8_t *codes = w->codes + first / 4;
        memset(sums, 0, bytes * 4 * sizeof *sums);
        for (size_t i = 0; i < n && i < COLUMNS_AHEAD; i++)
            for (size_t b = 0; b < bytes; b += 64)
                __builtin_prefetch(codes + used[i] * w->column_bytes + b);
        for (size_t i = 0; i < n; i += 4) {
            struct four_columns four = four_columns(w, codes, x, used, i, n);
            add_columns(sums, &four, bytes, vnni);
        }
        for (size_t r = 0; r < rows; r++)
            y[first + r] = (float)((sums[r] >> (r / 16 % 2 * 2)) - x->total) / x->scale * w->scale;
    }
}

#endif
#endif

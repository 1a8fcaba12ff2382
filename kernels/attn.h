/* SPDX-License-Identifier: MIT
 *
 * attn.h - attn_scores and attn_values for vectors of any width; see kernels.h for what they compute. A file of
 * one instruction set includes this after it has defined
 *
 *     KERNEL(slot)     the name of its function
 *     VEC              values in a vector, a divisor of 16
 *     SCORE_TILES      tiles of keys that are used at once. In registers are twice SCORE_QUERIES x SCORE_TILES x
 *     SCORE_QUERIES    16 / VEC vectors of sums
 *     WIDE_QUERIES     queries from which on it is faster to widen keys once and to store them
 *     VALUE_SUMS       vectors of sums of values in registers, for up to
 *     VALUE_QUERIES    queries (4 or 8)
 *
 * and the type vec with vec_load, vec_store (unaligned), vec_set1, vec_add, vec_sub, vec_mul, vec_fma(a, b, c) =
 * a * b + c, and vec_widen, which loads VEC binary16 values.
 *
 * A vector of scores has a position in each lane. So the 16 sums of a dot product are 16 vectors, and additions alone
 * fold them.
 */
#ifndef BN_KERNELS_ATTN_H
#define BN_KERNELS_ATTN_H

#include "kernels/kernels.h"

#include <string.h>

#ifdef VEC

#define TILE_VECS (BN_KEY_TILE / VEC)
#define BLOCK_VECS (SCORE_TILES * TILE_VECS)
#define WIDE_VALUES 8192u /* of keys: a block of heads of up to 256 elements */
#define LINE 32u          /* binary16 values in a cache line */
#define FEW_QUERIES 4u    /* whose keys and values most likely come from memory */
#define FEW_ROWS 32u      /* of values that are used at once for a few queries, */
#define ROWS 256u         /* and for more, which stay in the second-level cache while all queries use them */
#define ROWS_AHEAD 16u    /* from there to the first-level cache */

/* The first n < VEC values; the others are zero, or are not stored. */
#ifndef MASKED /* the set has its own */
INLINE vec load_some(const float *at, size_t n)
{
    float some[VEC] = {0};
    memcpy(some, at, n * sizeof *at);
    return vec_load(some);
}

INLINE void store_some(float *at, vec v, size_t n)
{
    float some[VEC];
    vec_store(some, v);
    memcpy(at, some, n * sizeof *at);
}
#endif

INLINE vec widen_some(const uint16_t *at, size_t n)
{
    uint16_t some[VEC] = {0};
    memcpy(some, at, n * sizeof *at);
    return vec_widen(some);
}

/* ---- scores ---- */

/* A block of keys: element i of the vector v of its positions is at half + v / TILE_VECS * tile + (i * TILE_VECS +
 * v % TILE_VECS) * VEC. With many queries it is widened to wide + (i * n_vecs + v) * VEC before, which only pays then. */
struct keys {
    const uint16_t *half;
    const float *wide; /* NULL: not widened */
    size_t tile, dim;
    const uint16_t *ahead; /* what to prefetch next, in the order of addresses */
    size_t step;           /* of it for each tile and element of a query; 0: nothing is prefetched */
};

/* Adds the products of element i of n_q queries and n_vecs vectors of positions to acc[j * n_vecs + v]. */
INLINE void add_element(vec *acc, const struct keys *k, const size_t n_vecs, const bool is_wide,
                        const float *q, size_t ldq, const size_t n_q, size_t i)
{
    vec key[BLOCK_VECS];
    for (size_t v = 0; v < n_vecs; v++) {
        const uint16_t *half = k->half + v / TILE_VECS * k->tile + (i * TILE_VECS + v % TILE_VECS) * VEC;
        key[v] = is_wide ? vec_load(k->wide + (i * n_vecs + v) * VEC) : vec_widen(half);
    }
    for (size_t j = 0; j < n_q; j++) {
        vec x = vec_set1(q[j * ldq + i]);
        for (size_t v = 0; v < n_vecs; v++)
            acc[j * n_vecs + v] = vec_fma(key[v], x, acc[j * n_vecs + v]);
    }
}

/* sum = lanes `lane` and lane + 8 of those dot products, folded. */
INLINE void two_lanes(vec *sum, struct keys *k, const size_t n_vecs, const bool is_wide, const float *q,
                      size_t ldq, const size_t n_q, size_t lane)
{
    vec other[SCORE_QUERIES * BLOCK_VECS];
    size_t i = lane;
    for (size_t a = 0; a < n_q * n_vecs; a++)
        sum[a] = other[a] = vec_set1(0.0f);
    for (; i + 8 < k->dim; i += 16) {
        for (size_t v = 0; !is_wide && k->step > 0 && v < n_vecs; v += TILE_VECS, k->ahead += k->step)
            __builtin_prefetch(k->ahead);
        add_element(sum, k, n_vecs, is_wide, q, ldq, n_q, i);
        add_element(other, k, n_vecs, is_wide, q, ldq, n_q, i + 8);
    }
    if (i < k->dim) add_element(sum, k, n_vecs, is_wide, q, ldq, n_q, i);
    for (size_t a = 0; a < n_q * n_vecs; a++)
        sum[a] = vec_add(sum[a], other[a]);
}

/* Scores of n_q queries and the positions of n_vecs vectors (constants), of which the first n_pos count. */
INLINE void some_scores(float *s, size_t lds, const float *q, size_t ldq, const size_t n_q, struct keys *k,
                        const size_t n_vecs, const bool is_wide, size_t n_pos, float factor)
{
    /* In this order two sums that are folded first are neighbours, then two pairs, then the rest. */
    static const uint8_t LANE[8] = {0, 4, 2, 6, 1, 5, 3, 7};
    vec sum[4][SCORE_QUERIES * BLOCK_VECS];
    size_t n = 0;
    _Pragma("GCC unroll 8") for (size_t i = 0; i < 8; i++)
    {
        two_lanes(sum[n++], k, n_vecs, is_wide, q, ldq, n_q, LANE[i]);
        for (size_t pairs = i; pairs % 2 == 1; pairs /= 2, n--)
            for (size_t a = 0; a < n_q * n_vecs; a++)
                sum[n - 2][a] = vec_add(sum[n - 2][a], sum[n - 1][a]);
    }
    for (size_t j = 0; j < n_q; j++)
        for (size_t v = 0; v < n_vecs && v * VEC < n_pos; v++) {
            float *to = s + j * lds + v * VEC;
            vec score = vec_mul(sum[0][j * n_vecs + v], vec_set1(factor));
            if (n_pos - v * VEC >= VEC)
                vec_store(to, score);
            else
                store_some(to, score, n_pos - v * VEC);
        }
}

/* Of the next block of keys, while SCORE_QUERIES queries from j on of n use this one. */
INLINE void prefetch_share(const struct keys *k, size_t j, size_t n)
{
    const size_t block = SCORE_TILES * k->tile;
    const uint16_t *end = k->half + block + block / n * (j + SCORE_QUERIES);
    for (const uint16_t *line = k->half + block + block / n * j; line < end; line += LINE)
        __builtin_prefetch(line, 0, 2);
}

/* Of all n queries. */
INLINE void block_scores(float *s, size_t lds, const float *q, size_t ldq, size_t n, struct keys *k,
                         const size_t n_vecs, const bool is_wide, size_t n_pos, float factor)
{
    size_t j = 0;
    for (; j + SCORE_QUERIES <= n; j += SCORE_QUERIES) {
        if (is_wide) prefetch_share(k, j, n);
        some_scores(s + j * lds, lds, q + j * ldq, ldq, SCORE_QUERIES, k, n_vecs, is_wide, n_pos, factor);
    }
    for (; SCORE_QUERIES > 2 && j + 2 <= n; j += 2)
        some_scores(s + j * lds, lds, q + j * ldq, ldq, 2, k, n_vecs, is_wide, n_pos, factor);
    for (; j < n; j++)
        some_scores(s + j * lds, lds, q + j * ldq, ldq, 1, k, n_vecs, is_wide, n_pos, factor);
}

void KERNEL(attn_scores)(float *s, size_t lds, const float *q, size_t ldq, size_t n,
                         const struct bn_keys *keys, float factor)
{
    const size_t block = SCORE_TILES * BN_KEY_TILE;
    float wide[WIDE_VALUES] __attribute__((aligned(64)));
    const size_t tile = BN_KEY_TILE * keys->head_dim;
    struct keys k = {keys->tiles, wide, tile, keys->head_dim, keys->tiles + SCORE_TILES * tile, 0};
    const bool is_wide = n >= WIDE_QUERIES && block * k.dim <= WIDE_VALUES;
    size_t p = 0;
    if (n <= FEW_QUERIES) k.step = LINE / ((n + SCORE_QUERIES - 1) / SCORE_QUERIES);
    for (; keys->n_pos - p > block - BN_KEY_TILE && p < keys->n_pos;
         p += block, k.half += SCORE_TILES * k.tile)
        if (is_wide) {
            for (size_t i = 0; i < k.dim * TILE_VECS; i++)
                for (size_t t = 0; t < SCORE_TILES; t++)
                    vec_store(wide + ((i / TILE_VECS * SCORE_TILES + t) * TILE_VECS + i % TILE_VECS) * VEC,
                              vec_widen(k.half + t * k.tile + i * VEC));
            block_scores(s + p, lds, q, ldq, n, &k, BLOCK_VECS, true, keys->n_pos - p, factor);
        } else {
            block_scores(s + p, lds, q, ldq, n, &k, BLOCK_VECS, false, keys->n_pos - p, factor);
        }
    for (; p < keys->n_pos; p += BN_KEY_TILE, k.half += k.tile)
        block_scores(s + p, lds, q, ldq, n, &k, TILE_VECS, false, keys->n_pos - p, factor);
}

/* ---- values ---- */

/* Adds n_rows rows of values to n_q rows of y, of which n_vecs vectors are here (constants); of a single vector
 * only the first n_here values. For a few queries as much from `ahead` on is prefetched, in the order of addresses. */
INLINE void some_values(float *y, size_t ldy, const float *s, size_t lds, const size_t n_q,
                        const uint16_t *row, size_t ld, size_t n_rows, const uint16_t *ahead, const bool few,
                        const size_t n_vecs, size_t n_here)
{
    const bool whole = n_vecs > 1 || n_here >= VEC;
    vec acc[32];
    for (size_t j = 0; j < n_q; j++)
        for (size_t v = 0; v < n_vecs; v++)
            acc[j * n_vecs + v] = whole ? vec_load(y + j * ldy + v * VEC) : load_some(y + j * ldy, n_here);
    for (size_t p = 0; p < n_rows; p++, row += ld) {
        vec value[16];
        for (size_t v = 0; whole && v < n_vecs; v += LINE / VEC, ahead += LINE)
            __builtin_prefetch(few ? ahead : row + ROWS_AHEAD * ld + v * VEC);
        for (size_t v = 0; v < n_vecs; v++)
            value[v] = whole ? vec_widen(row + v * VEC) : widen_some(row, n_here);
        for (size_t j = 0; j < n_q; j++) {
            vec weight = vec_set1(s[j * lds + p]);
            for (size_t v = 0; v < n_vecs; v++)
                acc[j * n_vecs + v] = vec_fma(weight, value[v], acc[j * n_vecs + v]);
        }
    }
    for (size_t j = 0; j < n_q; j++)
        for (size_t v = 0; v < n_vecs; v++) {
            if (whole)
                vec_store(y + j * ldy + v * VEC, acc[j * n_vecs + v]);
            else
                store_some(y + j * ldy, acc[j], n_here);
        }
}

/* n_q queries (a constant) and n_rows rows. Few queries prefetch the next rows, a share with each part of the rows. */
INLINE void row_values(float *y, size_t ldy, const float *s, size_t lds, const size_t n_q,
                       const uint16_t *row, const struct bn_kv *v, size_t n_rows, const bool few)
{
    const size_t n_vecs = VALUE_SUMS / n_q < 8 ? VALUE_SUMS / n_q : 8;
    size_t d = 0;
    for (; d + n_vecs * VEC <= v->head_dim; d += n_vecs * VEC)
        some_values(y + d, ldy, s, lds, n_q, row + d, v->ld, n_rows, row + n_rows * (v->ld + d), few, n_vecs,
                    VEC);
    for (; d < v->head_dim; d += VEC)
        some_values(y + d, ldy, s, lds, n_q, row + d, v->ld, n_rows, row, false, 1, v->head_dim - d);
}

/* Of all n queries. */
INLINE void block_values(float *y, size_t ldy, const float *s, size_t lds, size_t n, const uint16_t *row,
                         const struct bn_kv *v, size_t n_rows, const bool few)
{
    size_t j = 0;
    for (; VALUE_QUERIES >= 8 && !few && j + 8 <= n; j += 8)
        row_values(y + j * ldy, ldy, s + j * lds, lds, 8, row, v, n_rows, few);
    for (; j + 4 <= n; j += 4)
        row_values(y + j * ldy, ldy, s + j * lds, lds, 4, row, v, n_rows, few);
    for (; j + 2 <= n; j += 2)
        row_values(y + j * ldy, ldy, s + j * lds, lds, 2, row, v, n_rows, few);
    if (j < n) row_values(y + j * ldy, ldy, s + j * lds, lds, 1, row, v, n_rows, few);
}

void KERNEL(attn_values)(float *y, size_t ldy, const float *s, size_t lds, size_t n, const struct bn_kv *v)
{
    const size_t rows = n <= FEW_QUERIES ? FEW_ROWS : ROWS;
    for (size_t p = 0; p < v->n_pos; p += rows) {
        size_t n_rows = v->n_pos - p < rows ? v->n_pos - p : rows;
        if (n <= FEW_QUERIES)
            block_values(y, ldy, s + p, lds, n, v->rows + p * v->ld, v, n_rows, true);
        else
            block_values(y, ldy, s + p, lds, n, v->rows + p * v->ld, v, n_rows, false);
    }
}

#endif
#endif

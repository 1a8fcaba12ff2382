/* SPDX-License-Identifier: MIT
 *
 * Products of ternary weights in tiles, and activations of 16 or 8 bits, for AVX-512 with VNNI. A lane of a register belongs to one row, so no sum goes across lanes. vpdpbusd multiplies four codes
 * 0..3 of each row with the same four bytes of a plane; the sum of the activations is subtracted once for each
 * group. All sums of a group are exact, so their order is free.
 *
 * Products of one token leave the codes where they are: the codes at bits 2p of a byte
 * count 4^p times in sums of their own. Bound: 4 * 192 * 128 for 16 weights, 1.6e6 for a group of 256, and 256
 * times that, 4.1e8, when the planes are joined.
 *
 * Products of a few tokens unpack the codes of two tiles in registers and multiply them with all tokens. Products
 * of many tokens unpack a chunk of four tiles to bytes in memory first and use it for all tokens.
 *
 * Tiles are made of the rows of a file by blocks.h: all of them, or for the product of one token a group at a time.
 *
 * `product` (blocks.h) is a constant wherever it is passed on.
 */
#include "kernels/kernels_table.h"
#include "kernels/ref.h"
#include "kernels/x86/avx512.h"
#include "kernels/x86/codes.h"

/* Rows of a file: blocks.h with vectors of 64 bytes. */
#define LANES 4u

#define vec __m512i
#define vec_store _mm512_storeu_si512
#define low32 _mm512_unpacklo_epi32
#define high32 _mm512_unpackhi_epi32
#define low64 _mm512_unpacklo_epi64
#define high64 _mm512_unpackhi_epi64

INLINE __m512i load_lanes(const uint8_t *const at[LANES], size_t i)
{
    __m512i v = _mm512_castsi128_si512(load128(at[0] + i));
    v = _mm512_inserti32x4(v, load128(at[1] + i), 1);
    v = _mm512_inserti32x4(v, load128(at[2] + i), 2);
    return _mm512_inserti32x4(v, load128(at[3] + i), 3);
}

#include "kernels/blocks.h"

#define ROWS BN_TILE_ROWS
#define STREAM_AHEAD 8192u /* bytes from codes in use to those to prefetch */

INLINE __m512 widened(const uint16_t *scales)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)scales));
}

/* acc + the scales times (float)t * step of group g; the steps of 8 bits are 1. I2_S: acc holds integers. */
INLINE __m512 add_scaled(__m512 acc, __m512 scales, __m512i t, const struct bn_act *x, size_t g,
                         const enum product product)
{
    if (product == WHOLE) return _mm512_castsi512_ps(add32(_mm512_castps_si512(acc), t));
    __m512 v = _mm512_cvtepi32_ps(t);
    if (product == WIDE) v = _mm512_mul_ps(v, _mm512_set1_ps(x->step[g]));
    return _mm512_fmadd_ps(scales, v, acc);
}

/* Where the sums of a group begin: the codes are too large by 1. */
INLINE __m512i minus_sum(const struct bn_act *x, size_t g, const enum product product)
{
    return product == WHOLE ? _mm512_setzero_si512() : _mm512_set1_epi32(-x->sum[g]);
}

/* The rows of a tile that exist. */
INLINE void store_tile(float *y, const struct bn_ternary *w, size_t tile, __m512 v, const struct bn_act *x,
                       const enum product product)
{
    size_t left = w->rows - tile * ROWS;
    __m512i t = _mm512_sub_epi32(_mm512_castps_si512(v), _mm512_set1_epi32(x->total));
    if (product == WHOLE) v = _mm512_cvtepi32_ps(t);
    v = _mm512_div_ps(v, _mm512_set1_ps(x->scale));
    if (product == WHOLE) v = _mm512_mul_ps(v, _mm512_set1_ps(w->scale));
    _mm512_mask_storeu_ps(y + tile * ROWS, (__mmask16)(left < ROWS ? (1u << left) - 1u : 0xFFFFu), v);
}

struct four_bytes {
    int8_t byte[4];
};

/* acc + four unsigned bytes of u times the four signed bytes at s; see dot4. */
INLINE __m512i dot4_at(__m512i acc, __m512i u, const int8_t *s)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(u), "m"(*(const struct four_bytes *)s));
    return acc;
}

INLINE __m512i repeat4(const int8_t *at)
{
    int32_t word;
    __builtin_memcpy(&word, at, sizeof word);
    return _mm512_set1_epi32(word);
}

/* The codes of 64 bytes, those in the low bits first. The empty instruction keeps gcc 12 from loading the bytes
 * again for each. */
INLINE void unpack(__m512i out[4], const uint8_t *codes)
{
    const __m512i three = _mm512_set1_epi8(3);
    __m512i v = load512(codes);
    __asm__("" : "+v"(v));
    out[0] = v & three;
    out[1] = _mm512_srli_epi16(v, 2) & three;
    out[2] = _mm512_srli_epi16(v, 4) & three;
    out[3] = _mm512_srli_epi16(v, 6) & three;
}

/* ---- one token ---- */

/* The exact sums of group g of a tile, whose codes are there. Those `ahead` bytes further are prefetched, unless this
 * is 0. */
INLINE __m512i group_of_tile(const uint8_t *codes, size_t ahead, const struct bn_act *x, size_t g,
                             size_t group, const enum product product)
{
    __m512i highs[4], lows[4]; /* times 1, 4, 16, 64 */
    const int8_t *high = product == WIDE ? x->high + g * group : NULL,
                 *low = plane_of(x, product) + g * group;
    for (size_t p = 0; p < 4; p++)
        highs[p] = lows[p] = _mm512_setzero_si512();
    for (size_t i = 0; i < group; i += 16) {
        __m512i v = load512(codes + 4 * i);
        if (ahead > 0) _mm_prefetch((const char *)codes + 4 * i + ahead, _MM_HINT_T0);
        for (size_t p = 0; p < 4; p++) {
            __m512i u = v & _mm512_set1_epi8((char)(3 << 2 * p));
            if (product == WIDE) highs[p] = dot4_at(highs[p], u, high + i + 4 * p);
            lows[p] = dot4_at(lows[p], u, low + four_at(i, p, product));
        }
    }
    for (size_t p = 0; product == WIDE && p < 4; p++)
        lows[p] = add32(lows[p], _mm512_slli_epi32(highs[p], 8));
    __m512i t = add32(add32(lows[0], _mm512_srai_epi32(lows[1], 2)),
                      add32(_mm512_srai_epi32(lows[2], 4), _mm512_srai_epi32(lows[3], 6)));
    return add32(t, minus_sum(x, g, product));
}

INLINE __m512 scales_at(const uint16_t *scales, size_t g, const enum product product)
{
    return product == WHOLE ? _mm512_setzero_ps() : widened(scales + g * ROWS);
}

/* The scales of a tile. */
INLINE const uint16_t *scales_of(const struct bn_ternary *w, size_t tile, const enum product product)
{
    return product == WHOLE ? NULL : w->scales + tile * (w->k / w->group) * ROWS;
}

/* The tiles lie one after the other, so the whole matrix is read in the order of its addresses. */
INLINE void gemv(float *y, const struct bn_ternary *w, const struct bn_act *x, const enum product product)
{
    const size_t group = group_of(w, product), n_groups = w->k / group;
    for (size_t tile = 0; tile * ROWS < w->rows; tile++) {
        const uint8_t *codes = w->codes + tile * 4 * w->k;
        const uint16_t *scales = scales_of(w, tile, product);
        __m512 acc = _mm512_setzero_ps();
        for (size_t g = 0; g < n_groups; g++, codes += 4 * group) {
            __m512i t = group_of_tile(codes, STREAM_AHEAD, x, g, group, product);
            acc = add_scaled(acc, scales_at(scales, g, product), t, x, g, product);
        }
        store_tile(y, w, tile, acc, x, product);
    }
}

/* The same from the rows of a file. The next group is brought into a tile while this one is multiplied. */
INLINE void gemv_stored(float *y, const struct bn_ternary *w, const struct bn_act *x,
                        const enum product product)
{
    __m512i room[2][4 * BN_MAX_GROUP / sizeof(__m512i)];
    uint16_t scales[2][ROWS];
    const size_t group = group_of(w, product), n_groups = w->k / group;
    for (size_t tile = 0; tile * ROWS < w->rows; tile++) {
        struct stored_tile from = stored_tile(w, tile);
        __m512 acc = _mm512_setzero_ps();
        next_group((uint8_t *)room[0], scales[0], w, &from);
        for (size_t g = 0; g < n_groups; g++) {
            size_t this = g % 2, next = 1 - this;
            if (g + 1 < n_groups) next_group((uint8_t *)room[next], scales[next], w, &from);
            __m512i t = group_of_tile((const uint8_t *)room[this], 0, x, g, group, product);
            acc = add_scaled(acc, scales_at(scales[this], 0, product), t, x, g, product);
        }
        store_tile(y, w, tile, acc, x, product);
    }
}

INLINE void any_gemv(float *y, const struct bn_ternary *w, const struct bn_act *x, const enum product product)
{
    if (w->codes != NULL)
        gemv(y, w, x, product);
    else
        gemv_stored(y, w, x, product);
}

void bn_ternary_gemv_avx512vnni(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    BY_PRODUCT(w, x, any_gemv, y, w, x);
}

/* ---- a few tokens ---- */

#define FEW 8u /* tokens at once; half as many of 16 bits, which have two sums */
#define PAIR 2u

/* The exact sums of group g of two tiles for n tokens (a constant). */
INLINE void group_of_pair(__m512i lows[FEW][PAIR], const uint8_t *const codes[PAIR], const struct bn_act *x,
                          size_t g, size_t group, const size_t n, const enum product product)
{
    __m512i highs[FEW][PAIR];
    const int8_t *high[FEW], *low[FEW];
    for (size_t j = 0; j < n; j++) {
        high[j] = x[j].high;
        low[j] = plane_of(&x[j], product);
        lows[j][0] = lows[j][1] = minus_sum(&x[j], g, product);
        highs[j][0] = highs[j][1] = _mm512_setzero_si512();
    }
    for (size_t i = g * group; i < (g + 1) * group; i += 16) {
        __m512i four[PAIR][4];
        for (size_t t = 0; t < PAIR; t++) {
            unpack(four[t], codes[t] + 4 * i);
            _mm_prefetch((const char *)codes[t] + 4 * i + STREAM_AHEAD / 2, _MM_HINT_T0);
        }
        for (size_t p = 0; p < 4; p++)
            for (size_t j = 0; j < n; j++) {
                __m512i act = repeat4(low[j] + four_at(i, p, product));
                for (size_t t = 0; t < PAIR; t++)
                    lows[j][t] = dot4(lows[j][t], four[t][p], act);
                if (product == WIDE) act = repeat4(high[j] + i + 4 * p);
                for (size_t t = 0; product == WIDE && t < PAIR; t++)
                    highs[j][t] = dot4(highs[j][t], four[t][p], act);
            }
    }
    for (size_t j = 0; product == WIDE && j < n; j++)
        for (size_t t = 0; t < PAIR; t++)
            lows[j][t] = add32(lows[j][t], _mm512_slli_epi32(highs[j][t], 8));
}

/* Two tiles for n tokens (a constant). Where there is one tile, it is both. */
INLINE void pair_for_tokens(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x,
                            size_t tile, const size_t n, const enum product product)
{
    const size_t group = group_of(w, product), n_groups = w->k / group;
    size_t next = (tile + 1) * ROWS < w->rows ? tile + 1 : tile;
    const uint8_t *codes[PAIR] = {w->codes + tile * 4 * w->k, w->codes + next * 4 * w->k};
    const uint16_t *scales[PAIR] = {scales_of(w, tile, product), scales_of(w, next, product)};
    __m512 acc[FEW][PAIR];
    for (size_t j = 0; j < n; j++)
        acc[j][0] = acc[j][1] = _mm512_setzero_ps();
    for (size_t g = 0; g < n_groups; g++) {
        __m512i sums[FEW][PAIR];
        group_of_pair(sums, codes, x, g, group, n, product);
        __asm__ volatile("" ::: "memory"); /* acc stays in memory, as the sums need the registers */
        for (size_t t = 0; t < PAIR; t++) {
            __m512 scale = scales_at(scales[t], g, product);
            for (size_t j = 0; j < n; j++)
                acc[j][t] = add_scaled(acc[j][t], scale, sums[j][t], &x[j], g, product);
        }
    }
    for (size_t j = 0; j < n; j++)
        for (size_t t = 0; t < PAIR && tile + t <= next; t++)
            store_tile(y + j * ldy, w, tile + t, acc[j][t], &x[j], product);
}

#define CASE(n)                                                                                       \
    case n:                                                                                           \
        pair_for_tokens(y, ldy, w, x, tile, n, product == WIDE && (n) >= FEW / 2 ? NARROW : product); \
        break;

/* Two tiles for n <= FEW tokens. */
INLINE void pair_of_tiles(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n,
                          size_t tile, const enum product product)
{
    for (; product == WIDE && n >= FEW / 2; n -= FEW / 2, x += FEW / 2, y += FEW / 2 * ldy)
        pair_for_tokens(y, ldy, w, x, tile, FEW / 2, WIDE);
    switch (n) {
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
        CASE(6)
        CASE(7)
        CASE(8)
    default:
        break;
    }
}

/* ---- many tokens ---- */

#define TILES 4u
#define TOKENS 4u
#define CHUNK 256u             /* elements of a row that are unpacked at once: 16 KiB for four tiles */
#define BATCH_TOKENS 96u       /* tokens that share a chunk */
#define ACT_BYTES (640u << 10) /* of a second-level cache of a megabyte or more, which such cores have */

struct chunk {
    __m512i codes[CHUNK / 4][TILES];  /* four of each row in a register */
    __m512 scales[CHUNK / 64][TILES]; /* of each group */
};

/* len elements of the tiles from the begin'th. The same elements of the next tiles are prefetched when they come
 * from memory: they arrive while these are multiplied. */
static void unpack_chunk(struct chunk *chunk, const struct bn_ternary *w, const size_t tile[TILES],
                         size_t begin, size_t len)
{
    for (size_t t = 0; t < TILES; t++) {
        const uint8_t *codes = w->codes + tile[t] * 4 * w->k + 4 * begin;
        __m512i *out = &chunk->codes[0][t];
        for (size_t i = 0; w->streamed && i < len; i += 16)
            _mm_prefetch((const char *)codes + 4 * i + TILES * 4 * w->k, _MM_HINT_T1);
        for (size_t i = 0; i < len; i += 16, out += 4 * TILES) {
            __m512i four[4];
            unpack(four, codes + 4 * i);
            for (size_t p = 0; p < 4; p++)
                out[p * TILES] = four[p];
        }
        if (w->scales == NULL) continue;
        const uint16_t *scales = w->scales + (tile[t] * w->k + begin) / w->group * ROWS;
        for (size_t g = 0; g < len / w->group; g++)
            chunk->scales[g][t] = widened(scales + g * ROWS);
    }
}

/* Adds len weights of each row of the tiles times n tokens (a constant) to their sums: from element `first` of the
 * planes on. */
INLINE void add_plane(__m512i sums[TOKENS][TILES], const __m512i (*codes)[TILES], const int8_t *const plane[],
                      size_t first, size_t len, const size_t n, const enum product product)
{
    for (size_t i = first; i < first + len; i += 16)
        for (size_t p = 0; p < 4; p++, codes++)
            for (size_t j = 0; j < n; j++) {
                __m512i act = repeat4(plane[j] + four_at(i, p, product));
                for (size_t t = 0; t < TILES; t++)
                    sums[j][t] = dot4(sums[j][t], (*codes)[t], act);
            }
}

/* Adds the products of the tiles and n tokens (a constant) over a chunk of n_groups from the first'th on. The
 * high planes come first: their sums, times 256, are what the products of the low planes are added to. */
INLINE void multiply(__m512 acc[][TILES], const struct chunk *chunk, const struct bn_act *x, size_t first,
                     size_t n_groups, size_t group, const size_t n, const enum product product)
{
    const int8_t *high[TOKENS], *low[TOKENS];
    for (size_t j = 0; j < n; j++) {
        high[j] = x[j].high;
        low[j] = plane_of(&x[j], product);
    }
    for (size_t g = 0; g < n_groups; g++) {
        const __m512i(*codes)[TILES] = chunk->codes + g * (group / 4);
        size_t begin = (first + g) * group;
        __m512i sums[TOKENS][TILES];
        for (size_t j = 0; j < n; j++)
            for (size_t t = 0; t < TILES; t++)
                sums[j][t] = _mm512_setzero_si512();
        if (product == WIDE) add_plane(sums, codes, high, begin, group, n, WIDE);
        for (size_t j = 0; product != WHOLE && j < n; j++)
            for (size_t t = 0; t < TILES; t++)
                sums[j][t] = add32(product == WIDE ? _mm512_slli_epi32(sums[j][t], 8) : sums[j][t],
                                   minus_sum(&x[j], first + g, product));
        add_plane(sums, codes, low, begin, group, n, product);
        __asm__ volatile("" ::: "memory"); /* acc stays in memory, as the sums need the registers */
        for (size_t j = 0; j < n; j++)
            for (size_t t = 0; t < TILES; t++)
                acc[j][t] = add_scaled(acc[j][t], chunk->scales[g][t], sums[j][t], &x[j], first + g, product);
    }
}

INLINE void multiply_all(__m512 acc[][TILES], const struct chunk *chunk, const struct bn_act *x, size_t n,
                         size_t first, size_t n_groups, size_t group, const enum product product)
{
    size_t j = 0;
    for (; j + TOKENS <= n; j += TOKENS)
        multiply(acc + j, chunk, x + j, first, n_groups, group, TOKENS, product);
    if (n - j == 3)
        multiply(acc + j, chunk, x + j, first, n_groups, group, 3, product);
    else if (n - j == 2)
        multiply(acc + j, chunk, x + j, first, n_groups, group, 2, product);
    else if (n - j == 1)
        multiply(acc + j, chunk, x + j, first, n_groups, group, 1, product);
}

/* Four tiles for n <= BATCH_TOKENS tokens. Where there are fewer, the last one is repeated. */
INLINE void four_tiles(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n,
                       size_t first, const enum product product)
{
    struct chunk chunk;
    __m512 acc[BATCH_TOKENS][TILES];
    size_t tile[TILES], n_tiles = (w->rows + ROWS - 1) / ROWS - first;
    if (n_tiles > TILES) n_tiles = TILES;
    for (size_t t = 0; t < TILES; t++)
        tile[t] = first + (t < n_tiles ? t : n_tiles - 1);
    for (size_t j = 0; j < n; j++)
        for (size_t t = 0; t < TILES; t++)
            acc[j][t] = _mm512_setzero_ps();
    for (size_t i = 0; i < w->k; i += CHUNK) {
        size_t len = w->k - i < CHUNK ? w->k - i : CHUNK;
        size_t group = product == WHOLE ? len : w->group;
        unpack_chunk(&chunk, w, tile, i, len);
        multiply_all(acc, &chunk, x, n, i / group, len / group, group, product);
    }
    for (size_t j = 0; j < n; j++)
        for (size_t t = 0; t < n_tiles; t++)
            store_tile(y + j * ldy, w, tile[t], acc[j][t], &x[j], product);
}

INLINE void gemm(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n,
                 const enum product product)
{
    size_t batch = ACT_BYTES / ((product == WIDE ? 2 : 1) * w->k) / TOKENS * TOKENS;
    if (batch < TOKENS) batch = TOKENS;
    if (batch > BATCH_TOKENS) batch = BATCH_TOKENS;
    for (size_t tile = 0; n <= FEW && tile * ROWS < w->rows; tile += PAIR)
        pair_of_tiles(y, ldy, w, x, n, tile, product);
    for (size_t j = 0; n > FEW && j < n; j += batch)
        for (size_t tile = 0; tile * ROWS < w->rows; tile += TILES)
            four_tiles(y + j * ldy, ldy, w, x + j, n - j < batch ? n - j : batch, tile, product);
}

void bn_ternary_gemm_avx512vnni(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x,
                                size_t n)
{
    if (n == 1) {
        bn_ternary_gemv_avx512vnni(y, w, x);
        return;
    }
    BY_PRODUCT(w, x, gemm, y, ldy, w, x, n);
}

/* ---- columns ---- */

#define low8 _mm512_unpacklo_epi8
#define high8 _mm512_unpackhi_epi8
#define low16 _mm512_unpacklo_epi16
#define high16 _mm512_unpackhi_epi16
#define vec_load load512
#define vec_right4(v) _mm512_srli_epi16(v, 4)
#define vec_mask(v, byte) ((v)&_mm512_set1_epi8(byte))

INLINE void vec_add_dot(int32_t *sums, __m512i u, __m512i s, const bool vnni)
{
    (void)vnni; /* always */
    _mm512_store_si512(sums, dot4(_mm512_load_si512(sums), u, s));
}

#include "kernels/columns.h"

void bn_columns_gemv_avx512vnni(float *y, const struct bn_columns *w, const struct bn_act *x,
                                const uint32_t *used, size_t n)
{
    columns_gemv(y, w, x, used, n, true);
}

/* ---- activations ---- */

INLINE __m512 magnitude(const float *x)
{
    return _mm512_abs_ps(_mm512_loadu_ps(x));
}

/* The low bytes of 16 lanes in the order of a plane. */
INLINE void store_plane(int8_t *plane, __m512i v)
{
    const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm_storeu_si128((void *)plane, _mm_shuffle_epi8(_mm512_cvtepi32_epi8(v), order));
}

void bn_quantize16_avx512vnni(int8_t *high, int8_t *low, float *step, int32_t *sum, const float *x, size_t n,
                              size_t group)
{
    for (size_t first = 0; first < n; first += group) {
        __m512 maxima = _mm512_set1_ps(0x1p-100f);
        __m512i total = _mm512_setzero_si512();
        for (size_t i = first; i < first + group; i += 16)
            maxima = _mm512_max_ps(magnitude(x + i), maxima); /* a NaN is not taken */
        float power = bn_float_of_bits(bn_float_bits(_mm512_reduce_max_ps(maxima)) & 0x7F800000u);
        __m512 per_step = _mm512_set1_ps(8192.0f / power);
        for (size_t i = first; i < first + group; i += 16) {
            __m512 product = _mm512_mul_ps(_mm512_loadu_ps(x + i), per_step);
            /* A NaN becomes 16384, the upper limit. */
            __m512i q = _mm512_cvtps_epi32(_mm512_min_ps(product, _mm512_set1_ps(16384.0f)));
            total = add32(total, q);
            store_plane(low + i, q);
            store_plane(high + i, _mm512_srai_epi32(add32(q, _mm512_set1_epi32(128)), 8));
        }
        *step++ = power / 8192.0f;
        *sum++ = _mm512_reduce_add_epi32(total);
    }
}

void bn_to_tiles_avx512vnni(uint8_t *codes, uint16_t *scales, const struct bn_ternary *w)
{
    to_tiles(codes, scales, w);
}

/* SPDX-License-Identifier: MIT
 *
 * Products of ternary weights that have a scale for each group, and their 16-bit activations, for AVX-512 with
 * VNNI. A lane of a register belongs to one row, so no sum goes across lanes. vpdpbusd multiplies four codes
 * 0..3 of each row with the same four bytes of a plane; the sum of the activations is subtracted once for each
 * group. All sums of a group are exact, so their order is free.
 *
 * Products of one token leave the codes where they are, as in avx512_ternary.c: the codes at bits 2p of a byte
 * count 4^p times in sums of their own. Bound: 4 * 192 * 128 for 16 weights, 1.6e6 for a group of 256, and 256
 * times that, 4.1e8, when the planes are joined.
 *
 * Products of many tokens unpack a chunk of four tiles to bytes first and use it for all tokens.
 */
#include "kernels/kernels_table.h"
#include "kernels/ref.h"
#include "kernels/x86/avx512.h"

#define ROWS BN_TILE_ROWS

INLINE __m512 scaled(__m512i t, float step)
{
    return _mm512_mul_ps(_mm512_cvtepi32_ps(t), _mm512_set1_ps(step));
}

INLINE __m512 widened(const uint16_t *scales)
{
    return _mm512_cvtph_ps(load256(scales));
}

/* The rows of a tile that exist. */
INLINE void store_tile(float *y, const struct bn_grouped *w, size_t tile, __m512 v)
{
    size_t left = w->rows - tile * ROWS;
    _mm512_mask_storeu_ps(y + tile * ROWS, (__mmask16)(left < ROWS ? (1u << left) - 1u : 0xFFFFu), v);
}

/* ---- one token ---- */

#define STREAM_AHEAD 8192u /* bytes; see avx512_ternary.c */

struct four_bytes {
    int8_t byte[4];
};

/* acc + four unsigned bytes of u times the four signed bytes at s; see dot4. */
INLINE __m512i dot4_at(__m512i acc, __m512i u, const int8_t *s)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(u), "m"(*(const struct four_bytes *)s));
    return acc;
}

/* One group of a tile: (float)t * step in each row. */
INLINE __m512 group_of_tile(const uint8_t *codes, size_t group, const int8_t *high, const int8_t *low,
                            int32_t sum, float step)
{
    __m512i highs[4], lows[4]; /* times 1, 4, 16, 64 */
    for (size_t p = 0; p < 4; p++)
        highs[p] = lows[p] = _mm512_setzero_si512();
    for (size_t i = 0; i < group; i += 16) {
        __m512i v = load512(codes + 4 * i);
        _mm_prefetch((const char *)codes + 4 * i + STREAM_AHEAD, _MM_HINT_T0);
        for (size_t p = 0; p < 4; p++) {
            __m512i u = v & _mm512_set1_epi8((char)(3 << 2 * p));
            highs[p] = dot4_at(highs[p], u, high + i + 4 * p);
            lows[p] = dot4_at(lows[p], u, low + i + 4 * p);
        }
    }
    for (size_t p = 0; p < 4; p++)
        lows[p] = add32(lows[p], _mm512_slli_epi32(highs[p], 8));
    __m512i t = add32(add32(lows[0], _mm512_srai_epi32(lows[1], 2)),
                      add32(_mm512_srai_epi32(lows[2], 4), _mm512_srai_epi32(lows[3], 6)));
    return scaled(_mm512_sub_epi32(t, _mm512_set1_epi32(sum)), step);
}

INLINE void one_tile(float *y, const struct bn_grouped *w, const struct bn_act16 *x, size_t tile)
{
    const uint8_t *codes = w->codes + tile * 4 * w->k;
    const uint16_t *scales = w->scales + tile * (w->k / w->group) * ROWS;
    __m512 acc = _mm512_setzero_ps();
    for (size_t i = 0, g = 0; i < w->k; i += w->group, g++) {
        __m512 t = group_of_tile(codes + 4 * i, w->group, x->high + i, x->low + i, x->sum[g], x->step[g]);
        acc = _mm512_fmadd_ps(widened(scales + g * ROWS), t, acc);
    }
    store_tile(y, w, tile, acc);
}

/* The tiles lie one after the other, so the whole matrix is read in the order of its addresses. */
void bn_grouped_gemv_avx512vnni(float *y, const struct bn_grouped *w, const struct bn_act16 *x)
{
    for (size_t tile = 0; tile * ROWS < w->rows; tile++)
        one_tile(y, w, x, tile);
}

/* ---- many tokens ---- */

#define TILES 4u
#define TOKENS 4u
#define CHUNK 256u             /* elements of a row that are unpacked at once: 16 KiB for four tiles */
#define BATCH_TOKENS 128u      /* tokens that share a chunk */
#define ACT_BYTES (640u << 10) /* of a second-level cache of a megabyte or more; see avx512_ternary.c */

struct chunk {
    __m512i codes[CHUNK / 4][TILES];  /* four of each row in a register */
    __m512 scales[CHUNK / 64][TILES]; /* of each group */
};

/* len elements of the tiles from the begin'th. The same elements of the next tiles are prefetched: they
 * arrive while these are multiplied. */
static void unpack(struct chunk *chunk, const struct bn_grouped *w, const size_t tile[TILES], size_t begin,
                   size_t len)
{
    const __m512i three = _mm512_set1_epi8(3);
    size_t n_groups = w->k / w->group;
    for (size_t t = 0; t < TILES; t++) {
        const uint8_t *codes = w->codes + tile[t] * 4 * w->k + 4 * begin;
        const uint16_t *scales = w->scales + (tile[t] * n_groups + begin / w->group) * ROWS;
        for (size_t i = 0; i < len; i += 16) {
            __m512i v = load512(codes + 4 * i);
            _mm_prefetch((const char *)codes + 4 * i + TILES * 4 * w->k, _MM_HINT_T1);
            chunk->codes[i / 4][t] = v & three;
            chunk->codes[i / 4 + 1][t] = _mm512_srli_epi16(v, 2) & three;
            chunk->codes[i / 4 + 2][t] = _mm512_srli_epi16(v, 4) & three;
            chunk->codes[i / 4 + 3][t] = _mm512_srli_epi16(v, 6) & three;
        }
        for (size_t g = 0; g < len / w->group; g++)
            chunk->scales[g][t] = widened(scales + g * ROWS);
    }
}

INLINE __m512i repeat4(const int8_t *at)
{
    int32_t word;
    __builtin_memcpy(&word, at, sizeof word);
    return _mm512_set1_epi32(word);
}

/* Adds sixteen weights of each row of the tiles times n tokens (a constant) to their sums: from element i of the
 * planes on. */
INLINE void add_sixteen(__m512i sums[TOKENS][TILES], const __m512i codes[4][TILES],
                        const int8_t *const plane[], size_t i, const size_t n)
{
    for (size_t p = 0; p < 4; p++)
        for (size_t j = 0; j < n; j++) {
            __m512i act = repeat4(plane[j] + i + 4 * p);
            for (size_t t = 0; t < TILES; t++)
                sums[j][t] = dot4(sums[j][t], codes[p][t], act);
        }
}

/* Adds the products of the tiles and n tokens (a constant) over a chunk of n_groups from the first'th on. The
 * high planes come first: their sums, times 256, are what the products of the low planes are added to. */
INLINE void multiply(__m512 acc[][TILES], const struct chunk *chunk, const struct bn_act16 *x, size_t first,
                     size_t n_groups, size_t group, const size_t n)
{
    const int8_t *high[TOKENS], *low[TOKENS];
    for (size_t j = 0; j < n; j++) {
        high[j] = x[j].high + first * group;
        low[j] = x[j].low + first * group;
    }
    for (size_t g = 0; g < n_groups; g++) {
        __m512i sums[TOKENS][TILES];
        for (size_t j = 0; j < n; j++)
            for (size_t t = 0; t < TILES; t++)
                sums[j][t] = _mm512_setzero_si512();
        for (size_t i = g * group; i < (g + 1) * group; i += 16)
            add_sixteen(sums, &chunk->codes[i / 4], high, i, n);
        for (size_t j = 0; j < n; j++)
            for (size_t t = 0; t < TILES; t++)
                sums[j][t] = _mm512_sub_epi32(_mm512_slli_epi32(sums[j][t], 8),
                                              _mm512_set1_epi32(x[j].sum[first + g]));
        for (size_t i = g * group; i < (g + 1) * group; i += 16)
            add_sixteen(sums, &chunk->codes[i / 4], low, i, n);
        __asm__ volatile("" ::: "memory"); /* acc stays in memory, as the sums need the registers */
        for (size_t j = 0; j < n; j++)
            for (size_t t = 0; t < TILES; t++)
                acc[j][t] =
                    _mm512_fmadd_ps(chunk->scales[g][t], scaled(sums[j][t], x[j].step[first + g]), acc[j][t]);
    }
}

static void multiply_all(__m512 acc[][TILES], const struct chunk *chunk, const struct bn_act16 *x, size_t n,
                         size_t first, size_t n_groups, size_t group)
{
    size_t j = 0;
    for (; j + TOKENS <= n; j += TOKENS)
        multiply(acc + j, chunk, x + j, first, n_groups, group, TOKENS);
    if (n - j == 3)
        multiply(acc + j, chunk, x + j, first, n_groups, group, 3);
    else if (n - j == 2)
        multiply(acc + j, chunk, x + j, first, n_groups, group, 2);
    else if (n - j == 1)
        multiply(acc + j, chunk, x + j, first, n_groups, group, 1);
}

/* Four tiles for n <= BATCH_TOKENS tokens. Where there are fewer, the last one is repeated. */
static void four_tiles(float *y, size_t ldy, const struct bn_grouped *w, const struct bn_act16 *x, size_t n,
                       size_t first)
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
        unpack(&chunk, w, tile, i, len);
        multiply_all(acc, &chunk, x, n, i / w->group, len / w->group, w->group);
    }
    for (size_t j = 0; j < n; j++)
        for (size_t t = 0; t < n_tiles; t++)
            store_tile(y + j * ldy, w, tile[t], acc[j][t]);
}

void bn_grouped_gemm_avx512vnni(float *y, size_t ldy, const struct bn_grouped *w, const struct bn_act16 *x,
                                size_t n)
{
    size_t batch = ACT_BYTES / (2 * w->k) / TOKENS * TOKENS;
    if (batch < TOKENS) batch = TOKENS;
    if (batch > BATCH_TOKENS) batch = BATCH_TOKENS;
    for (size_t tile = 0; n < TOKENS && tile * ROWS < w->rows; tile++) /* too few to unpack for */
        for (size_t j = 0; j < n; j++)
            one_tile(y + j * ldy, w, x + j, tile);
    for (size_t j = 0; n >= TOKENS && j < n; j += batch)
        for (size_t tile = 0; tile * ROWS < w->rows; tile += TILES)
            four_tiles(y + j * ldy, ldy, w, x + j, n - j < batch ? n - j : batch, tile);
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
            maxima = _mm512_max_ps(maxima, magnitude(x + i));
        float power = bn_float_of_bits(bn_float_bits(_mm512_reduce_max_ps(maxima)) & 0x7F800000u);
        __m512 per_step = _mm512_set1_ps(8192.0f / power);
        for (size_t i = first; i < first + group; i += 16) {
            __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i), per_step));
            total = add32(total, q);
            store_plane(low + i, q);
            store_plane(high + i, _mm512_srai_epi32(add32(q, _mm512_set1_epi32(128)), 8));
        }
        *step++ = power / 8192.0f;
        *sum++ = _mm512_reduce_add_epi32(total);
    }
}

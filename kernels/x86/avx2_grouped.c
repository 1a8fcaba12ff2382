/* SPDX-License-Identifier: MIT
 *
 * Products of ternary weights in tiles, and activations of 16 or 8 bits, for AVX2, and for AVX2 with VNNI. Two registers, the halves, hold four weights of each row of a tile. The method is that
 * of avx512_grouped.c, but that one token is computed like a few.
 *
 * vpmaddubsw of AVX2 multiplies codes 0..3 with the bytes of a plane and adds pairs: at most 2 * 3 * 128 = 768,
 * so 32 of them, those of 128 weights of a row, stay within 24576 in a lane of int16. vpdpbusd of VNNI adds
 * four products to an int32.
 *
 * Tiles are made of the rows of a file by blocks.h: all of them, or for the product of one token a group at a time.
 *
 * `product` (blocks.h) and `vnni` are constants wherever they are passed on.
 */
#include "kernels/ref.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/codes.h"

/* Rows of a file: blocks.h with vectors of 32 bytes. */
#define LANES 2u

#define vec __m256i
#define vec_store(at, v) _mm256_storeu_si256((void *)(at), v)
#define low32 _mm256_unpacklo_epi32
#define high32 _mm256_unpackhi_epi32
#define low64 _mm256_unpacklo_epi64
#define high64 _mm256_unpackhi_epi64

INLINE __m256i load_lanes(const uint8_t *const at[LANES], size_t i)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load128(at[0] + i)), load128(at[1] + i), 1);
}

#include "kernels/blocks.h"

#define ROWS BN_TILE_ROWS
#define AHEAD 8192u    /* bytes from codes in use to those to prefetch */
#define UNPACKED 512u  /* elements of a row that are unpacked at once: 8 KiB for a tile */
#define MAX_TOKENS 96u /* that share an unpacked tile */
#define MOST_TOKENS 6u /* of tokens_at_once */
#define FEW 8u         /* tokens for which unpacking to memory does not pay */

/* ---- the two instruction sets ---- */

/* acc + the products of unsigned bytes and signed ones, in lanes that widen understands. Instructions, as gcc 12
 * copies sums to other registers and to the stack around the intrinsics. */
INLINE __m256i dot(__m256i acc, __m256i u, __m256i s, const bool vnni)
{
    if (vnni)
        __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(u), "x"(s));
    else
        __asm__("vpaddw %1, %0, %0" : "+x"(acc) : "x"(_mm256_maddubs_epi16(u, s)));
    return acc;
}

/* The sums of eight rows in int32. */
INLINE __m256i widen(__m256i acc, const bool vnni)
{
    return vnni ? acc : _mm256_madd_epi16(acc, _mm256_set1_epi16(1));
}

/* Weights of a row whose products one register of sums can take. */
INLINE size_t span_of(size_t group, const bool vnni)
{
    return vnni || group < 128 ? group : 128;
}

/* Tokens that a tile is multiplied with at once: sums for them, two halves of each, fit the registers, and
 * vpdpbusd needs ten to begin two in each cycle. */
INLINE size_t tokens_at_once(const bool vnni)
{
    return vnni ? 6 : 4;
}

/* ---- registers of eight rows ---- */

INLINE __m256i repeat4(const int8_t *at)
{
    int32_t word;
    __builtin_memcpy(&word, at, sizeof word);
    return _mm256_set1_epi32(word);
}

/* acc + the scales times (float)t * step of group g; the steps of 8 bits are 1. I2_S: acc holds integers. */
INLINE __m256 add_scaled(__m256 acc, __m256 scales, __m256i t, const struct bn_act *x, size_t g,
                         const enum product product)
{
    if (product == WHOLE) return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(acc), t));
    __m256 v = _mm256_cvtepi32_ps(t);
    if (product == WIDE) v = _mm256_mul_ps(v, _mm256_set1_ps(x->step[g]));
    return _mm256_fmadd_ps(scales, v, acc);
}

/* Where the sums of a group begin: the codes are too large by 1. */
INLINE __m256i minus_sum(const struct bn_act *x, size_t g, const enum product product)
{
    return product == WHOLE ? _mm256_setzero_si256() : _mm256_set1_epi32(-x->sum[g]);
}

INLINE __m256 widened(const uint16_t *scales)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)scales));
}

/* The rows of a tile that exist. */
INLINE void store_tile(float *y, const struct bn_ternary *w, size_t tile, const __m256 v[2],
                       const struct bn_act *x, const enum product product)
{
    size_t left = w->rows - tile * ROWS;
    const __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    y += tile * ROWS;
    for (size_t h = 0; h < 2; h++) {
        __m256i t = _mm256_sub_epi32(_mm256_castps_si256(v[h]), _mm256_set1_epi32(x->total));
        __m256 sum = product == WHOLE ? _mm256_cvtepi32_ps(t) : v[h];
        __m256 quotient = _mm256_div_ps(sum, _mm256_set1_ps(x->scale));
        if (product == WHOLE) quotient = _mm256_mul_ps(quotient, _mm256_set1_ps(w->scale));
        if (left >= 8 * (h + 1))
            _mm256_storeu_ps(y + 8 * h, quotient);
        else if (left > 8 * h)
            _mm256_maskstore_ps(
                y + 8 * h, _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)(left - 8 * h)), number), quotient);
    }
}

/* ---- a few tokens ---- */

/* Products of one plane that have sums of their own while n tokens are multiplied: those of one token are divided,
 * so that additions need not wait for each other. */
INLINE size_t ways_of(size_t n, const bool vnni, const enum product product)
{
    return n > 1 ? 1 : vnni && product != WIDE ? 4 : 2;
}

/* t += the products of a tile and one token of 8 bits, 128 weights of each row or fewer from the first'th on, without
 * VNNI. Codes at bits 2 and 6 stay four times too high, in sums of their own: at most 8 * 4 * 768 in a lane. */
INLINE void span_for_one(__m256i t[2], const uint8_t *codes, const int8_t *plane, size_t first, size_t len,
                         const enum product product)
{
    __m256i ones[2], fours[2][2];
    for (size_t h = 0; h < 2; h++)
        ones[h] = fours[h][0] = fours[h][1] = _mm256_setzero_si256();
    for (size_t i = first; i < first + len; i += 16, codes += 64) {
        __m256i act[4];
        for (size_t p = 0; p < 4; p++)
            act[p] = repeat4(plane + four_at(i, p, product));
        _mm_prefetch((const char *)codes + AHEAD, _MM_HINT_T0);
        for (size_t h = 0; h < 2; h++) {
            __m256i low = load256(codes + 32 * h), high = _mm256_srli_epi16(low, 4);
            ones[h] = dot(ones[h], mask(low, 3), act[0], false);
            fours[h][0] = dot(fours[h][0], mask(low, 12), act[1], false);
            ones[h] = dot(ones[h], mask(high, 3), act[2], false);
            fours[h][1] = dot(fours[h][1], mask(high, 12), act[3], false);
        }
    }
    for (size_t h = 0; h < 2; h++) {
        __m256i both = _mm256_add_epi16(_mm256_srai_epi16(fours[h][0], 2), _mm256_srai_epi16(fours[h][1], 2));
        t[h] = _mm256_add_epi32(t[h], widen(_mm256_add_epi16(ones[h], both), false));
    }
}

/* t[j] += the products of a tile and n tokens (a constant), len weights of each row from the first'th on, whose codes
 * are there, as many as span_of. The codes are unpacked in registers, once for all tokens. */
INLINE void span_of_tile(__m256i t[MOST_TOKENS][2], const uint8_t *codes, const struct bn_act *x,
                         size_t first, size_t len, const size_t n, const bool vnni,
                         const enum product product)
{
    if (n == 1 && product != WIDE && !vnni) {
        span_for_one(t[0], codes, plane_of(x, product), first, len, product);
        return;
    }
    const size_t ways = ways_of(n, vnni, product);
    __m256i highs[MOST_TOKENS][2][4], lows[MOST_TOKENS][2][4];
    const int8_t *high[MOST_TOKENS], *low[MOST_TOKENS];
    for (size_t j = 0; j < n; j++) {
        high[j] = x[j].high;
        low[j] = plane_of(&x[j], product);
        for (size_t h = 0; h < 2; h++)
            for (size_t way = 0; way < ways; way++)
                highs[j][h][way] = lows[j][h][way] = _mm256_setzero_si256();
    }
    for (size_t i = first; i < first + len; i += 16, codes += 64) {
        __m256i v[2] = {load256(codes), load256(codes + 32)};
        __asm__("" : "+x"(v[0]), "+x"(v[1])); /* loaded once */
        _mm_prefetch((const char *)codes + AHEAD, _MM_HINT_T0);
        for (size_t p = 0; p < 4; p++) {
            __m256i u[2] = {mask(v[0], 3), mask(v[1], 3)};
            for (size_t j = 0; j < n; j++) {
                __m256i act = repeat4(low[j] + four_at(i, p, product));
                for (size_t h = 0; h < 2; h++)
                    lows[j][h][p % ways] = dot(lows[j][h][p % ways], u[h], act, vnni);
                if (product == WIDE) act = repeat4(high[j] + i + 4 * p);
                for (size_t h = 0; product == WIDE && h < 2; h++)
                    highs[j][h][p % ways] = dot(highs[j][h][p % ways], u[h], act, vnni);
            }
            for (size_t h = 0; h < 2; h++)
                v[h] = _mm256_srli_epi16(v[h], 2);
        }
    }
    for (size_t j = 0; j < n; j++)
        for (size_t h = 0; h < 2; h++)
            for (size_t way = 0; way < ways; way++) {
                t[j][h] = _mm256_add_epi32(t[j][h], widen(lows[j][h][way], vnni));
                if (product != WIDE) continue;
                __m256i upper = _mm256_slli_epi32(widen(highs[j][h][way], vnni), 8);
                t[j][h] = _mm256_add_epi32(t[j][h], upper);
            }
}

/* A tile for n tokens (a constant); `stored` (a constant): from the rows of a file. */
INLINE void tile_for(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t tile,
                     const bool stored, const size_t n, const bool vnni, const enum product product)
{
    const size_t group = group_of(w, product), n_groups = w->k / group;
    const size_t span = span_of(group, vnni);
    const uint8_t *codes = stored ? NULL : w->codes + tile * 4 * w->k;
    const uint16_t *scales = stored || product == WHOLE ? NULL : w->scales + tile * n_groups * ROWS;
    __m256i room[4 * BN_MAX_GROUP / sizeof(__m256i)];
    uint16_t room_of_scales[ROWS];
    struct stored_tile from;
    if (stored) from = stored_tile(w, tile);
    __m256 acc[MOST_TOKENS][2];
    for (size_t j = 0; j < n; j++)
        acc[j][0] = acc[j][1] = _mm256_setzero_ps();
    for (size_t g = 0; g < n_groups; g++, codes += 4 * group) {
        if (stored) {
            codes = (const uint8_t *)room;
            scales = room_of_scales;
            next_group((uint8_t *)room, room_of_scales, w, &from);
        }
        __m256i t[MOST_TOKENS][2];
        for (size_t j = 0; j < n; j++)
            t[j][0] = t[j][1] = minus_sum(&x[j], g, product);
        for (size_t i = 0; i < group; i += span)
            span_of_tile(t, codes + 4 * i, x, g * group + i, span, n, vnni, product);
        for (size_t h = 0; h < 2; h++) {
            __m256 scale = product == WHOLE ? _mm256_setzero_ps() : widened(scales + 8 * h);
            for (size_t j = 0; j < n; j++)
                acc[j][h] = add_scaled(acc[j][h], scale, t[j][h], &x[j], g, product);
        }
        if (product != WHOLE) scales += ROWS;
    }
    for (size_t j = 0; j < n; j++)
        store_tile(y + j * ldy, w, tile, acc[j], &x[j], product);
}

INLINE void ternary_gemv(float *y, const struct bn_ternary *w, const struct bn_act *x, const bool vnni,
                         const enum product product)
{
    for (size_t tile = 0; tile * ROWS < w->rows; tile++)
        if (w->codes != NULL)
            tile_for(y, 0, w, x, tile, false, 1, vnni, product);
        else
            tile_for(y, 0, w, x, tile, true, 1, vnni, product);
}

/* A tile for n tokens, four at a time, or two of 16 bits: as many as have their sums in registers. */
INLINE void tile_for_few(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n,
                         size_t tile, const bool vnni, const enum product product)
{
    const size_t most = product == WIDE ? 2 : 4;
    for (; n >= most; n -= most, x += most, y += most * ldy)
        tile_for(y, ldy, w, x, tile, false, most, vnni, product);
    const enum product bytes = product == WIDE ? NARROW : product;
    if (n == 3) tile_for(y, ldy, w, x, tile, false, 3, vnni, bytes);
    if (n == 2) tile_for(y, ldy, w, x, tile, false, 2, vnni, bytes);
    if (n == 1) tile_for(y, ldy, w, x, tile, false, 1, vnni, product);
}

/* ---- many tokens ---- */

struct unpacked {
    __m256i codes[UNPACKED / 4][2];  /* four of each row */
    __m256 scales[UNPACKED / 64][2]; /* of each group */
};

/* len elements of a tile from the begin'th; the same ones of the next tile are prefetched. */
INLINE void unpack_tile(struct unpacked *out, const struct bn_ternary *w, size_t tile, size_t begin,
                        size_t len)
{
    const uint8_t *codes = w->codes + tile * 4 * w->k + 4 * begin;
    for (size_t i = 0; i < len; i += 16) {
        _mm_prefetch((const char *)codes + 4 * i + 4 * w->k, _MM_HINT_T1);
        for (size_t h = 0; h < 2; h++) {
            __m256i four[4];
            unpack(four, load256(codes + 4 * i + 32 * h));
            for (size_t p = 0; p < 4; p++)
                out->codes[i / 4 + p][h] = four[3 - p]; /* low bits first */
        }
    }
    if (w->scales == NULL) return;
    const uint16_t *scales = w->scales + (tile * w->k + begin) / w->group * ROWS;
    for (size_t g = 0; g < len / w->group; g++)
        for (size_t h = 0; h < 2; h++)
            out->scales[g][h] = widened(scales + g * ROWS + 8 * h);
}

/* sums += the products of n tokens (a constant) and len weights of each row, as many as span_of. */
INLINE void add_span(__m256i sums[MOST_TOKENS][2], const __m256i (*codes)[2], const int8_t *const plane[],
                     size_t first, size_t len, const size_t n, const bool vnni, const enum product product)
{
    __m256i part[MOST_TOKENS][2];
    for (size_t j = 0; j < n; j++)
        part[j][0] = part[j][1] = _mm256_setzero_si256();
    for (size_t i = first; i < first + len; i += 16)
        for (size_t p = 0; p < 4; p++, codes++)
            for (size_t j = 0; j < n; j++) {
                __m256i act = repeat4(plane[j] + four_at(i, p, product));
                for (size_t h = 0; h < 2; h++)
                    part[j][h] = dot(part[j][h], (*codes)[h], act, vnni);
            }
    for (size_t j = 0; j < n; j++)
        for (size_t h = 0; h < 2; h++)
            sums[j][h] = _mm256_add_epi32(sums[j][h], widen(part[j][h], vnni));
}

/* Adds the products of the tile and n tokens (a constant) over len weights from the begin'th on. I2_S: all are one
 * group. */
INLINE void multiply(__m256 acc[][2], const struct unpacked *tile, const struct bn_act *x, size_t begin,
                     size_t len, size_t group, const size_t n, const bool vnni, const enum product product)
{
    const int8_t *high[MOST_TOKENS], *low[MOST_TOKENS];
    const size_t span = product == WHOLE ? BN_I2S_BLOCK : span_of(group, vnni);
    const size_t first = begin / group, n_groups = len / group;
    for (size_t j = 0; j < n; j++) {
        high[j] = product == WIDE ? x[j].high + begin : NULL;
        low[j] = plane_of(&x[j], product) + begin;
    }
    for (size_t g = 0; g < n_groups; g++) {
        __m256i sums[MOST_TOKENS][2];
        for (size_t j = 0; j < n; j++)
            sums[j][0] = sums[j][1] = _mm256_setzero_si256();
        for (size_t i = g * group; product == WIDE && i < (g + 1) * group; i += span)
            add_span(sums, tile->codes + i / 4, high, i, span, n, vnni, product);
        for (size_t j = 0; j < n; j++)
            for (size_t h = 0; h < 2; h++)
                sums[j][h] = _mm256_add_epi32(product == WIDE ? _mm256_slli_epi32(sums[j][h], 8) : sums[j][h],
                                              minus_sum(&x[j], first + g, product));
        for (size_t i = g * group; i < (g + 1) * group; i += span)
            add_span(sums, tile->codes + i / 4, low, i, span, n, vnni, product);
        for (size_t j = 0; j < n; j++)
            for (size_t h = 0; h < 2; h++)
                acc[j][h] = add_scaled(acc[j][h], tile->scales[g][h], sums[j][h], &x[j], first + g, product);
    }
}

/* A tile for n <= MAX_TOKENS tokens. */
INLINE void tile_for_tokens(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x,
                            size_t n, size_t tile, const bool vnni, const enum product product)
{
    struct unpacked unpacked;
    __m256 acc[MAX_TOKENS][2];
    for (size_t j = 0; j < n; j++)
        acc[j][0] = acc[j][1] = _mm256_setzero_ps();
    for (size_t i = 0; i < w->k; i += UNPACKED) {
        size_t len = w->k - i < UNPACKED ? w->k - i : UNPACKED, j = 0;
        const size_t at_once = tokens_at_once(vnni);
        size_t group = product == WHOLE ? len : w->group;
        unpack_tile(&unpacked, w, tile, i, len);
        for (; j + at_once <= n; j += at_once)
            multiply(acc + j, &unpacked, x + j, i, len, group, at_once, vnni, product);
        for (; j + 2 <= n; j += 2)
            multiply(acc + j, &unpacked, x + j, i, len, group, 2, vnni, product);
        if (j < n) multiply(acc + j, &unpacked, x + j, i, len, group, 1, vnni, product);
    }
    for (size_t j = 0; j < n; j++)
        store_tile(y + j * ldy, w, tile, acc[j], &x[j], product);
}

INLINE void ternary_gemm(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n,
                         const bool vnni, const enum product product)
{
    for (size_t tile = 0; n <= FEW && tile * ROWS < w->rows; tile++)
        tile_for_few(y, ldy, w, x, n, tile, vnni, product);
    for (size_t j = 0; n > FEW && j < n; j += MAX_TOKENS)
        for (size_t tile = 0; tile * ROWS < w->rows; tile++)
            tile_for_tokens(y + j * ldy, ldy, w, x + j, n - j < MAX_TOKENS ? n - j : MAX_TOKENS, tile, vnni,
                            product);
}

/* ---- columns ---- */

#define low8 _mm256_unpacklo_epi8
#define high8 _mm256_unpackhi_epi8
#define low16 _mm256_unpacklo_epi16
#define high16 _mm256_unpackhi_epi16
#define vec_load load256
#define vec_right4(v) _mm256_srli_epi16(v, 4)
#define vec_mask mask

INLINE void vec_add_dot(int32_t *sums, __m256i u, __m256i s, const bool vnni)
{
    __m256i sum = load256(sums);
    sum = vnni ? dot(sum, u, s, true) : _mm256_add_epi32(sum, widen(_mm256_maddubs_epi16(u, s), false));
    _mm256_store_si256((void *)sums, sum);
}

#include "kernels/columns.h"

/* ---- the slots ---- */

#define DEFINE(isa, vnni)                                                                                \
    void bn_ternary_gemv_##isa(float *y, const struct bn_ternary *w, const struct bn_act *x)             \
    {                                                                                                    \
        BY_PRODUCT(w, x, ternary_gemv, y, w, x, vnni);                                                   \
    }                                                                                                    \
    void bn_ternary_gemm_##isa(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, \
                               size_t n)                                                                 \
    {                                                                                                    \
        BY_PRODUCT(w, x, ternary_gemm, y, ldy, w, x, n, vnni);                                           \
    }                                                                                                    \
    void bn_columns_gemv_##isa(float *y, const struct bn_columns *w, const struct bn_act *x,             \
                               const uint32_t *used, size_t n)                                           \
    {                                                                                                    \
        columns_gemv(y, w, x, used, n, vnni);                                                            \
    }

DEFINE(avx2, false)
DEFINE(avxvnni, true)

/* ---- activations ---- */

/* Four values of each of two groups of sixteen: the m'th four. */
INLINE __m256 load_fours(const float *x, size_t m)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(x + 4 * m)), _mm_loadu_ps(x + 16 + 4 * m),
                                1);
}

/* The low bytes of 32 values in the order of a plane: byte m of lane p belongs to the m'th four. */
INLINE void store_plane(int8_t *plane, const __m256i v[4])
{
    const __m256i byte = _mm256_set1_epi32(255);
    __m256i low =
        _mm256_or_si256(_mm256_and_si256(v[0], byte), _mm256_slli_epi32(_mm256_and_si256(v[1], byte), 8));
    __m256i high =
        _mm256_or_si256(_mm256_slli_epi32(_mm256_and_si256(v[2], byte), 16), _mm256_slli_epi32(v[3], 24));
    _mm256_storeu_si256((void *)plane, _mm256_or_si256(low, high));
}

INLINE float max_of_group(const float *x, size_t group)
{
    const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
    __m256 maxima = _mm256_set1_ps(0x1p-100f);
    for (size_t i = 0; i < group; i += 8)
        maxima = _mm256_max_ps(_mm256_and_ps(_mm256_loadu_ps(x + i), magnitude), maxima); /* no NaN */
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(maxima), _mm256_extractf128_ps(maxima, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

INLINE int32_t total_of(__m256i v)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
}

void bn_quantize16_avx2(int8_t *high, int8_t *low, float *step, int32_t *sum, const float *x, size_t n,
                        size_t group)
{
    for (size_t first = 0; first < n; first += group) {
        float power = bn_float_of_bits(bn_float_bits(max_of_group(x + first, group)) & 0x7F800000u);
        __m256 per_step = _mm256_set1_ps(8192.0f / power);
        __m256i total = _mm256_setzero_si256();
        for (size_t i = first; i < first + group; i += 32) {
            __m256i q[4], upper[4];
            for (size_t m = 0; m < 4; m++) {
                __m256 product = _mm256_mul_ps(load_fours(x + i, m), per_step);
                /* To nearest even; a NaN becomes 16384, the upper limit. */
                q[m] = _mm256_cvtps_epi32(_mm256_min_ps(product, _mm256_set1_ps(16384.0f)));
                upper[m] = _mm256_srai_epi32(_mm256_add_epi32(q[m], _mm256_set1_epi32(128)), 8);
                total = _mm256_add_epi32(total, q[m]);
            }
            store_plane(low + i, q);
            store_plane(high + i, upper);
        }
        *step++ = power / 8192.0f;
        *sum++ = total_of(total);
    }
}

void bn_to_plane_avx2(int8_t *plane, int32_t *sum, const int8_t *q, size_t n, size_t group)
{
    const __m256i order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const __m256i ones = _mm256_set1_epi8(1);
    for (size_t first = 0; first < n; first += group) {
        __m256i total = _mm256_setzero_si256();
        for (size_t i = first; i < first + group; i += 32) {
            __m256i v = load256(q + i);
            _mm256_storeu_si256((void *)(plane + i), _mm256_shuffle_epi8(v, order));
            total = _mm256_add_epi16(total, _mm256_maddubs_epi16(ones, v)); /* at most 8 * 2 * 128 */
        }
        *sum++ = total_of(widen(total, false));
    }
}

void bn_to_tiles_avx2(uint8_t *codes, uint16_t *scales, const struct bn_ternary *w)
{
    to_tiles(codes, scales, w);
}

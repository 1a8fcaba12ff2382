/* SPDX-License-Identifier: MIT
 *
 * I2_S and 8-bit products for processors with VNNI on 256-bit registers and no AVX-512. The method is that of
 * avx512_ternary.c, which has the bounds: codes masked where they are for one token, unpacked once for
 * many tokens; vpdpbusd adds to int32 without saturation.
 */
#include "kernels/x86/avx2.h"

/* acc + four unsigned bytes of u times four signed bytes of s; an instruction for the reason given there. */
INLINE __m256i dot4(__m256i acc, __m256i u, __m256i s)
{
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(u), "x"(s));
    return acc;
}

/* The same with s in memory at any alignment: gcc makes two instructions of a load and the one above. */
INLINE __m256i dot4_at(__m256i acc, __m256i u, const int8_t *s)
{
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(u), "m"(*(const __m256i_u *)s));
    return acc;
}

INLINE int32_t total(__m256i v)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
}

#define STREAM_AHEAD 8192u /* bytes from a row that comes from memory to the place to prefetch meanwhile */

INLINE void i2s_add(__m256i part[4], __m256i codes, const int8_t *q)
{
    for (size_t g = 0; g < 4; g++)
        part[g] = dot4_at(part[g], mask(codes, 0xC0 >> 2 * g), q + 32 * g);
}

INLINE int32_t i2s_total(const __m256i part[4])
{
    __m256i high = _mm256_add_epi32(_mm256_srai_epi32(part[0], 6), _mm256_srai_epi32(part[1], 4));
    __m256i low = _mm256_add_epi32(_mm256_srai_epi32(part[2], 2), part[3]);
    return total(_mm256_add_epi32(high, low));
}

/* One row after the other, in the order of addresses, which suits memory. The blocks add to two sets of sums
 * in turn, as an addition takes four cycles and two begin in each. */
void bn_i2s_gemv_avxvnni(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    for (size_t r = 0; r < w->rows; r++) {
        const uint8_t *codes = w->codes + r * w->row_bytes;
        __m256i even[4], odd[4];
        for (size_t g = 0; g < 4; g++)
            even[g] = odd[g] = _mm256_setzero_si256();
        size_t i = 0;
        for (; i + 256 <= w->k; i += 256) {
            _mm_prefetch((const char *)codes + i / 4 + STREAM_AHEAD, _MM_HINT_T0);
            i2s_add(even, load256(codes + i / 4), x->q + i);
            i2s_add(odd, load256(codes + i / 4 + 32), x->q + i + 128);
        }
        if (i < w->k) i2s_add(even, load256(codes + i / 4), x->q + i);
        for (size_t g = 0; g < 4; g++)
            even[g] = _mm256_add_epi32(even[g], odd[g]);
        y[r] = (float)(i2s_total(even) - x->sum) / x->scale * w->scale;
    }
}

#define TILE_TOKENS 3u

/* sum[j * GROUP_TILES] += four rows times token j, for n tokens (a constant), over len elements from the
 * begin'th. */
INLINE void i2s_tile(__m128i *sum, const __m256i *codes, const struct bn_act *x, size_t begin, size_t len,
                     const size_t n)
{
    __m256i part[TILE_TOKENS][TILE_ROWS];
    for (size_t j = 0; j < n; j++)
        for (size_t r = 0; r < TILE_ROWS; r++)
            part[j][r] = _mm256_setzero_si256();
    for (size_t i = 0; i < len; i += 32, codes += TILE_ROWS) {
        __m256i act[TILE_TOKENS];
        for (size_t j = 0; j < n; j++)
            act[j] = load256(x[j].q + begin + i);
        for (size_t r = 0; r < TILE_ROWS; r++)
            for (size_t j = 0; j < n; j++)
                part[j][r] = dot4(part[j][r], codes[r], act[j]);
    }
    for (size_t j = 0; j < n; j++)
        sum[j * GROUP_TILES] = _mm_add_epi32(sum[j * GROUP_TILES], sum_rows(part[j]));
}

static void i2s_chunk(struct i2s_group *group, const struct bn_act *x, size_t n, size_t begin, size_t len)
{
    size_t j = 0;
    for (; n - j >= 3 && n - j != 4; j += 3) /* two and two are faster than three and one */
        for (size_t t = 0; t < group->tiles; t++)
            i2s_tile(&group->sum[j][t], group->codes[t], x + j, begin, len, 3);
    for (; n - j >= 2; j += 2)
        for (size_t t = 0; t < group->tiles; t++)
            i2s_tile(&group->sum[j][t], group->codes[t], x + j, begin, len, 2);
    for (size_t t = 0; j < n && t < group->tiles; t++)
        i2s_tile(&group->sum[j][t], group->codes[t], x + j, begin, len, 1);
}

void bn_i2s_gemm_avxvnni(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n)
{
    if (n == 1)
        bn_i2s_gemv_avxvnni(y, w, x);
    else
        i2s_many(y, ldy, w, x, n, i2s_chunk);
}

/* ---- 8-bit weights ---- */

/* 32 weights of a row, taken 128 too high, times both planes. */
INLINE void i8_add(__m256i part[2], const int8_t *w, const int8_t *high, const int8_t *low)
{
    __m256i u = _mm256_xor_si256(load256(w), _mm256_set1_epi8((char)0x80));
    part[0] = dot4_at(part[0], u, high);
    part[1] = dot4_at(part[1], u, low);
}

/* By the method, and with the bound, of avx512_ternary.c. Four chains of additions, as each addition
 * takes four cycles. */
static void i8_rows(float *y, const int8_t *w, size_t rows, size_t k, const int8_t *high, const int8_t *low)
{
    int64_t sum = 0; /* of what goes through the vectors */
    for (size_t i = 0; i < k / 32 * 32; i++)
        sum += 256 * high[i] + low[i];
    for (size_t r = 0; r < rows; r++, w += k) {
        __m256i even[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()}, odd[2] = {even[0], even[0]};
        size_t i = 0;
        for (; i + 64 <= k; i += 64) {
            _mm_prefetch((const char *)w + i + STREAM_AHEAD, _MM_HINT_T0);
            i8_add(even, w + i, high + i, low + i);
            i8_add(odd, w + i + 32, high + i + 32, low + i + 32);
        }
        if (i + 32 <= k) {
            i8_add(even, w + i, high + i, low + i);
            i += 32;
        }
        int64_t highs = total(_mm256_add_epi32(even[0], odd[0]));
        int64_t lows = total(_mm256_add_epi32(even[1], odd[1]));
        int64_t dot = 256 * highs + lows - 128 * sum;
        for (; i < k; i++)
            dot += w[i] * (256 * high[i] + low[i]);
        y[r] = (float)dot;
    }
}

/* Rows that stay in the cache while one vector after the other uses them. */
#define I8_ROWS 32u

void bn_i8_gemm_avxvnni(float *y, size_t ldy, const int8_t *w, size_t rows, size_t k,
                        const struct bn_planes *x, size_t n)
{
    size_t block = n == 1 ? rows : I8_ROWS;
    for (size_t r = 0; r < rows; r += block)
        for (size_t j = 0; j < n; j++)
            i8_rows(y + j * ldy + r, w + r * k, rows - r < block ? rows - r : block, k, x[j].high, x[j].low);
}

/* SPDX-License-Identifier: MIT
 *
 * Ternary kernels for AVX2. maddubs multiplies unsigned bytes (the codes 0..3, not yet minus 1) with signed
 * ones (the activations) and adds pairs in int16; the activations' own sum is taken away once per row.
 *
 * Bound: a pair is at most 2 * 3 * 127 = 762, so neither maddubs saturates nor do 43 of them wrap. Codes that
 * stay four times too high give 3048, and ten of those do not wrap.
 */
#include "kernels/ref.h"
#include "kernels/x86/avx2.h"

/* sum + the pairs of u * s. The empty instruction keeps gcc 12 from moving the sums to the stack and back. */
INLINE __m256i add_pairs(__m256i sum, __m256i u, __m256i s)
{
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(u, s));
    __asm__("" : "+x"(sum));
    return sum;
}

INLINE __m256i widen(__m256i sum)
{
    return _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
}

/* Lane i of the result is the total of v[i]. */
INLINE __m256i sum_each(const __m256i v[8])
{
    __m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
    __m256i b = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

/* ---- I2_S, few tokens ---- */

#define AHEAD 8192u /* bytes from weights to the place to prefetch meanwhile */
#define SPAN (5 * BN_I2S_BLOCK)
#define FEW_TOKENS 4u
#define FEW_ROWS 16u /* that all tokens use before the next rows: their codes stay in the cache */

/* A block's codes give four fields by one shift, two as they are and two four times too high; in five blocks
 * there are ten additions to either sum. Joined they are at most 10 * 762 * 2. */
INLINE void i2s_add(__m256i *ones, __m256i *fours, const __m256i fields[4], const int8_t *q)
{
    *ones = add_pairs(*ones, fields[0], load256(q + 96));
    *fours = add_pairs(*fours, fields[1], load256(q + 64));
    *ones = add_pairs(*ones, fields[2], load256(q + 32));
    *fours = add_pairs(*fours, fields[3], load256(q));
}

/* rows times n tokens (constants whose product is at most 4). */
INLINE void i2s_rows(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t row,
                     const size_t rows, const size_t n)
{
    const uint8_t *codes = w->codes + row * w->row_bytes;
    __m256i sum[8];
    for (size_t v = 0; v < 8; v++)
        sum[v] = _mm256_setzero_si256();
    for (size_t begin = 0; begin < w->k; begin += SPAN) {
        size_t end = w->k - begin < SPAN ? w->k : begin + SPAN;
        __m256i ones[4], fours[4];
        for (size_t v = 0; v < rows * n; v++)
            ones[v] = fours[v] = _mm256_setzero_si256();
        for (size_t r = 0; r < rows; r++)
            for (size_t i = 0; i < SPAN / 4; i += 64)
                _mm_prefetch((const char *)codes + r * w->row_bytes + begin / 4 + i + AHEAD, _MM_HINT_T0);
        for (size_t i = begin; i < end; i += BN_I2S_BLOCK)
            for (size_t r = 0; r < rows; r++) {
                __m256i low = load256(codes + r * w->row_bytes + i / 4), high = _mm256_srli_epi16(low, 4);
                __m256i fields[4] = {mask(low, 3), mask(low, 12), mask(high, 3), mask(high, 12)};
                for (size_t j = 0; j < n; j++)
                    i2s_add(&ones[rows * j + r], &fours[rows * j + r], fields, x[j].q + i);
            }
        for (size_t v = 0; v < rows * n; v++) {
            __m256i both = _mm256_add_epi16(ones[v], _mm256_srai_epi16(fours[v], 2));
            sum[v] = _mm256_add_epi32(sum[v], widen(both));
        }
    }
    int32_t t[8];
    _mm256_storeu_si256((void *)t, sum_each(sum));
    for (size_t j = 0; j < n; j++)
        for (size_t r = 0; r < rows; r++)
            y[j * ldy + row + r] = (float)(t[rows * j + r] - x[j].sum) / x[j].scale * w->scale;
}

/* Rows begin .. end for four, two or one token. */
INLINE void i2s_some(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t begin,
                     size_t end, const size_t n)
{
    size_t row = begin;
    for (; row + 4 / n <= end; row += 4 / n)
        i2s_rows(y, ldy, w, x, row, 4 / n, n);
    for (; row < end; row++)
        i2s_rows(y, ldy, w, x, row, 1, n);
}

void bn_i2s_gemv_avx2(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    i2s_some(y, 0, w, x, 0, w->rows, 1);
}

static void i2s_few(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n)
{
    for (size_t row = 0; row < w->rows; row += FEW_ROWS) {
        size_t end = w->rows - row < FEW_ROWS ? w->rows : row + FEW_ROWS, j = 0;
        for (; n - j >= 4; j += 4)
            i2s_some(y + j * ldy, ldy, w, x + j, row, end, 4);
        for (; n - j >= 2; j += 2)
            i2s_some(y + j * ldy, ldy, w, x + j, row, end, 2);
        if (j < n) i2s_some(y + j * ldy, ldy, w, x + j, row, end, 1);
    }
}

/* ---- I2_S, many tokens ---- */

#define TILE_TOKENS 2u
_Static_assert(CHUNK / 32 <= 43, "a lane of int16 takes 43 pairs");

/* sum[j * GROUP_TILES] += four rows times token j, for n tokens (a constant), over the len elements of a
 * chunk: at most 40 additions to an int16. */
INLINE void i2s_tile(__m128i *sum, const __m256i *codes, const struct bn_act *x, size_t begin, size_t len,
                     const size_t n)
{
    __m256i part[TILE_TOKENS][TILE_ROWS];
    for (size_t j = 0; j < n; j++)
        for (size_t r = 0; r < TILE_ROWS; r++)
            part[j][r] = _mm256_setzero_si256();
    for (size_t i = 0; i < len; i += BN_I2S_BLOCK)
        for (size_t g = 0; g < 4; g++, codes += TILE_ROWS) { /* taken apart, as the loop's end costs */
            __m256i act[TILE_TOKENS];
            for (size_t j = 0; j < n; j++)
                act[j] = load256(x[j].q + begin + i + 32 * g);
            for (size_t r = 0; r < TILE_ROWS; r++)
                for (size_t j = 0; j < n; j++)
                    part[j][r] = add_pairs(part[j][r], codes[r], act[j]);
        }
    for (size_t j = 0; j < n; j++) {
        for (size_t r = 0; r < TILE_ROWS; r++)
            part[j][r] = widen(part[j][r]);
        sum[j * GROUP_TILES] = _mm_add_epi32(sum[j * GROUP_TILES], sum_rows(part[j]));
    }
}

static void i2s_chunk(struct i2s_group *group, const struct bn_act *x, size_t n, size_t begin, size_t len)
{
    size_t j = 0;
    for (; j + 2 <= n; j += 2)
        for (size_t t = 0; t < group->tiles; t++)
            i2s_tile(&group->sum[j][t], group->codes[t], x + j, begin, len, 2);
    for (size_t t = 0; j < n && t < group->tiles; t++)
        i2s_tile(&group->sum[j][t], group->codes[t], x + j, begin, len, 1);
}

void bn_i2s_gemm_avx2(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n)
{
    if (n == 1)
        bn_i2s_gemv_avx2(y, w, x);
    else if (n <= FEW_TOKENS)
        i2s_few(y, ldy, w, x, n);
    else
        i2s_many(y, ldy, w, x, n, i2s_chunk);
}

/* ---- 8-bit weights ---- */

#define I8_MAX 16384u /* longest vector that is joined on the stack, 32 KiB */
/* Bounds: a pair of products is at most 2 * 2^7 * 2^15 = 2^23, so 255 of them fit a lane of int32, and 255
 * weights a lane of int16; here are 252 of both. */
#define I8_SPAN (252u * 16u)

/* 256 * high + low is in -32896..32639; 128 more is a 16-bit number. */
INLINE void i8_join(int16_t *v, const int8_t *high, const int8_t *low, size_t k)
{
    for (size_t i = 0; i < k; i++)
        v[i] = (int16_t)(256 * high[i] + low[i] + 128);
}

struct i8_sums {
    __m256i products[2], weights; /* two, so that additions need not wait for each other */
};

INLINE void i8_add(struct i8_sums *sums, size_t a, const int8_t *w, const int16_t *v)
{
    __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)w));
    sums->products[a] = _mm256_add_epi32(sums->products[a], _mm256_madd_epi16(wide, load256(v)));
    sums->weights = _mm256_add_epi16(sums->weights, wide);
}

/* Of the products minus 128 times the weights. */
INLINE int64_t i8_total(const struct i8_sums *sums)
{
    int64_t lane[4];
    __m256i v = _mm256_add_epi32(sums->products[0], sums->products[1]);
    __m256i wide = _mm256_add_epi64(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(v)),
                                    _mm256_cvtepi32_epi64(_mm256_extracti128_si256(v, 1)));
    __m256i own = _mm256_slli_epi32(widen(sums->weights), 7);
    wide = _mm256_sub_epi64(wide, _mm256_cvtepi32_epi64(_mm256_castsi256_si128(own)));
    wide = _mm256_sub_epi64(wide, _mm256_cvtepi32_epi64(_mm256_extracti128_si256(own, 1)));
    _mm256_storeu_si256((void *)lane, wide);
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

INLINE int64_t i8_dot(const int8_t *w, const int16_t *v, const int8_t *high, const int8_t *low, size_t k)
{
    int64_t dot = 0;
    size_t i = 0;
    while (i + 16 <= k) {
        size_t end = k - i < I8_SPAN ? k : i + I8_SPAN;
        struct i8_sums sums = {{_mm256_setzero_si256(), _mm256_setzero_si256()}, _mm256_setzero_si256()};
        for (; i + 64 <= end; i += 64) {
            _mm_prefetch((const char *)w + i + AHEAD, _MM_HINT_T0);
            for (size_t a = 0; a < 4; a++)
                i8_add(&sums, a % 2, w + i + 16 * a, v + i + 16 * a);
        }
        for (; i + 16 <= end; i += 16)
            i8_add(&sums, 0, w + i, v + i);
        dot += i8_total(&sums);
    }
    for (; i < k; i++)
        dot += w[i] * (256 * high[i] + low[i]);
    return dot;
}

static void i8_rows(float *y, const int8_t *w, size_t rows, size_t k, const int8_t *high, const int8_t *low)
{
    int16_t v[I8_MAX];
    if (k > I8_MAX) {
        bn_i8_gemm_ref(y, rows, w, rows, k, &(struct bn_planes){high, low}, 1);
        return;
    }
    i8_join(v, high, low, k);
    for (size_t r = 0; r < rows; r++)
        y[r] = (float)i8_dot(w + r * k, v, high, low, k);
}

/* Rows that stay in the cache while one vector after the other uses them. */
#define I8_ROWS 32u

void bn_i8_gemm_avx2(float *y, size_t ldy, const int8_t *w, size_t rows, size_t k, const struct bn_planes *x,
                     size_t n)
{
    size_t block = n == 1 ? rows : I8_ROWS;
    for (size_t r = 0; r < rows; r += block)
        for (size_t j = 0; j < n; j++)
            i8_rows(y + j * ldy + r, w + r * k, rows - r < block ? rows - r : block, k, x[j].high, x[j].low);
}

/* ---- activations ---- */

INLINE float max_of(__m256 v)
{
    float lane[8], max = 0.0f;
    _mm256_storeu_ps(lane, v);
    for (size_t i = 0; i < 8; i++)
        max = lane[i] > max ? lane[i] : max;
    return max;
}

void bn_quantize_avx2(int8_t *q, float *scale, int32_t *sum, const float *x, size_t n)
{
    const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
    __m256 maxima = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        maxima = _mm256_max_ps(_mm256_and_ps(_mm256_loadu_ps(x + i), magnitude), maxima); /* no NaN */
    float max = max_of(maxima);
    for (; i < n; i++)
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    float s = (float)(127.0 / ((double)max > 1e-5 ? (double)max : 1e-5));
    __m256i sums = _mm256_setzero_si256();
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (i = 0; i + 32 <= n; i += 32) {
        __m256i v[4]; /* to nearest even; |x| <= max, and 127 takes the place of a NaN */
        for (size_t j = 0; j < 4; j++) {
            __m256 product = _mm256_mul_ps(_mm256_loadu_ps(x + i + 8 * j), _mm256_set1_ps(s));
            v[j] = _mm256_cvtps_epi32(_mm256_min_ps(product, _mm256_set1_ps(127.0f)));
            sums = _mm256_add_epi32(sums, v[j]);
        }
        __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
        _mm256_storeu_si256((void *)(q + i), _mm256_permutevar8x32_epi32(bytes, order));
    }
    int32_t lane[8], total = 0;
    _mm256_storeu_si256((void *)lane, sums);
    for (size_t j = 0; j < 8; j++)
        total += lane[j];
    for (; i < n; i++) {
        float v = rintf(x[i] * s);
        q[i] = (int8_t)(v < 127.0f ? v : 127.0f);
        total += q[i];
    }
    *scale = s;
    *sum = total;
}

bool bn_has_code3_avx2(const uint8_t *codes, size_t n)
{
    __m256i found = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i v = load256(codes + i);
        found = _mm256_or_si256(found, _mm256_and_si256(v, _mm256_srli_epi16(v, 1)));
    }
    return !_mm256_testz_si256(found, _mm256_set1_epi8(0x55)) || bn_has_code3_ref(codes + i, n - i);
}

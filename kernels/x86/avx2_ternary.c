/* SPDX-License-Identifier: MIT
 *
 * 8-bit weights, and activations of 8 bits, for AVX2.
 */
#include "kernels/ref.h"
#include "kernels/x86/avx2.h"

INLINE __m256i widen(__m256i sum)
{
    return _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
}

#define AHEAD 8192u /* bytes from weights to the place to prefetch meanwhile */

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

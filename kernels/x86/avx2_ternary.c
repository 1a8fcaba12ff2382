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

#define I8_MAX 16384u  /* values that are joined on the stack, 32 KiB */
#define I8_TOGETHER 4u /* vectors that share the loads of weights, when they have room there */
#define I8_ROWS 32u    /* that stay in the cache while one group of vectors after the other uses them */
/* Bounds: a pair of products is at most 2 * 2^7 * 2^15 = 2^23, so 255 of them fit a lane of int32, and 255
 * weights a lane of int16; here are 252 of both. */
#define I8_SPAN (252u * 16u)

/* 256 * high + low is in -32896..32639; 128 more is a 16-bit number. */
INLINE void i8_join(int16_t *v, const struct bn_planes *x, size_t k)
{
    for (size_t i = 0; i < k; i++)
        v[i] = (int16_t)(256 * x->high[i] + x->low[i] + 128);
}

/* The sum of the products minus 128 times the weights. */
INLINE int64_t i8_total(__m256i products, __m256i weights)
{
    int64_t lane[4];
    __m256i wide = _mm256_add_epi64(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(products)),
                                    _mm256_cvtepi32_epi64(_mm256_extracti128_si256(products, 1)));
    __m256i own = _mm256_slli_epi32(widen(weights), 7);
    wide = _mm256_sub_epi64(wide, _mm256_cvtepi32_epi64(_mm256_castsi256_si128(own)));
    wide = _mm256_sub_epi64(wide, _mm256_cvtepi32_epi64(_mm256_extracti128_si256(own, 1)));
    _mm256_storeu_si256((void *)lane, wide);
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/* A row times n vectors (a constant), joined in v one after the other. */
INLINE void i8_dots(int64_t dots[I8_TOGETHER], const int8_t *w, const int16_t *v, const struct bn_planes *x,
                    size_t k, const size_t n)
{
    size_t i = 0;
    for (size_t j = 0; j < n; j++)
        dots[j] = 0;
    while (i + 16 <= k) {
        size_t end = k - i < I8_SPAN ? k / 16 * 16 : i + I8_SPAN;
        __m256i products[I8_TOGETHER], weights = _mm256_setzero_si256();
        for (size_t j = 0; j < n; j++)
            products[j] = _mm256_setzero_si256();
        for (; i < end; i += 16) {
            if (i % 64 == 0) _mm_prefetch((const char *)w + i + AHEAD, _MM_HINT_T0);
            __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(w + i)));
            weights = _mm256_add_epi16(weights, wide);
            for (size_t j = 0; j < n; j++)
                products[j] = _mm256_add_epi32(products[j], _mm256_madd_epi16(wide, load256(v + j * k + i)));
        }
        for (size_t j = 0; j < n; j++)
            dots[j] += i8_total(products[j], weights);
    }
    for (; i < k; i++)
        for (size_t j = 0; j < n; j++)
            dots[j] += w[i] * (256 * x[j].high[i] + x[j].low[i]);
}

/* n vectors, a constant. */
INLINE void i8_rows(float *y, size_t ldy, const int8_t *w, size_t rows, size_t k, const struct bn_planes *x,
                    const size_t n)
{
    int16_t v[I8_MAX];
    for (size_t j = 0; j < n; j++)
        i8_join(v + j * k, &x[j], k);
    for (size_t r = 0; r < rows; r++) {
        int64_t dots[I8_TOGETHER];
        i8_dots(dots, w + r * k, v, x, k, n);
        for (size_t j = 0; j < n; j++)
            y[j * ldy + r] = (float)dots[j];
    }
}

void bn_i8_gemm_avx2(float *y, size_t ldy, const int8_t *w, size_t rows, size_t k, const struct bn_planes *x,
                     size_t n)
{
    size_t block = n == 1 ? rows : I8_ROWS;
    if (k > I8_MAX) {
        bn_i8_gemm_ref(y, ldy, w, rows, k, x, n);
        return;
    }
    for (size_t r = 0; r < rows; r += block) {
        size_t count = rows - r < block ? rows - r : block, j = 0;
        for (; j + I8_TOGETHER <= n && k <= I8_MAX / I8_TOGETHER; j += I8_TOGETHER)
            i8_rows(y + j * ldy + r, ldy, w + r * k, count, k, x + j, I8_TOGETHER);
        for (; j + 2 <= n && k <= I8_MAX / 2; j += 2)
            i8_rows(y + j * ldy + r, ldy, w + r * k, count, k, x + j, 2);
        for (; j < n; j++)
            i8_rows(y + j * ldy + r, ldy, w + r * k, count, k, x + j, 1);
    }
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

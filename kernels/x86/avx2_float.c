/* SPDX-License-Identifier: MIT
 *
 * Float kernels for AVX2 with FMA and F16C: attn.h, delta.h and elements.h with vectors of 8 values. The 16 lanes of a dot
 * product are two registers; the eight binary64 lanes of a sum are two as well.
 */
#include "kernels/kernels_table.h"
#include "kernels/ref.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

#define KERNEL(slot) bn_##slot##_avx2
#define VEC 8u
#define SCORE_TILES 1u
#define SCORE_QUERIES 2u
#define WIDE_QUERIES SIZE_MAX
#define VALUE_SUMS 8u
#define VALUE_QUERIES 4u

#define vec __m256
#define vec_load _mm256_loadu_ps
#define vec_store _mm256_storeu_ps
#define vec_set1 _mm256_set1_ps
#define vec_add _mm256_add_ps
#define vec_sub _mm256_sub_ps
#define vec_mul _mm256_mul_ps
#define vec_fma _mm256_fmadd_ps
#define vec_widen(at) _mm256_cvtph_ps(_mm_loadu_si128((const void *)(at)))
#define vec_div _mm256_div_ps
#define vec_fnma _mm256_fnmadd_ps
#define vec_neg(x) _mm256_xor_ps(x, _mm256_set1_ps(-0.0f))
#define vec_positive(x) _mm256_max_ps(x, _mm256_setzero_ps()) /* its second operand for -0 and NaN */

#include "kernels/attn.h"
#include "kernels/delta.h"

/* ---- dot products ---- */

/* 16 lanes: 0..7 and 8..15. */
struct lanes {
    __m256 low, high;
};

/* The dot of each v[i] in lane i. The steps are those of the header: j += j + 8, 4, 2, 1. */
INLINE __m128 fold_four(const struct lanes v[4])
{
    __m256 eight[4];
    for (size_t i = 0; i < 4; i++)
        eight[i] = _mm256_add_ps(v[i].low, v[i].high);
    __m256 a = _mm256_add_ps(_mm256_permute2f128_ps(eight[0], eight[2], 0x20),
                             _mm256_permute2f128_ps(eight[0], eight[2], 0x31));
    __m256 b = _mm256_add_ps(_mm256_permute2f128_ps(eight[1], eight[3], 0x20),
                             _mm256_permute2f128_ps(eight[1], eight[3], 0x31));
    __m256 c = _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xEE));
    __m256 d = _mm256_add_ps(_mm256_shuffle_ps(c, c, 0x88), _mm256_shuffle_ps(c, c, 0xDD));
    return _mm_movelh_ps(_mm256_castps256_ps128(d), _mm256_extractf128_ps(d, 1));
}

INLINE struct lanes load_weights(const uint8_t *at, const bool half)
{
    if (half)
        return (struct lanes){_mm256_cvtph_ps(_mm_loadu_si128((const void *)at)),
                              _mm256_cvtph_ps(_mm_loadu_si128((const void *)(at + 16)))};
    return (struct lanes){_mm256_loadu_ps((const void *)at), _mm256_loadu_ps((const void *)(at + 32))};
}

INLINE struct lanes fma_lanes(struct lanes acc, struct lanes w, struct lanes x)
{
    return (struct lanes){_mm256_fmadd_ps(w.low, x.low, acc.low), _mm256_fmadd_ps(w.high, x.high, acc.high)};
}

/* The last n < 16 terms; lanes without one stay as they are. */
static struct lanes fma_last(struct lanes acc, const uint8_t *w, const float *x, size_t n, const bool half)
{
    float lane[16];
    _mm256_storeu_ps(lane, acc.low);
    _mm256_storeu_ps(lane + 8, acc.high);
    for (size_t i = 0; i < n; i++)
        lane[i] =
            fmaf(half ? bn_ref_widen_f16(bn_load_u16(w + 2 * i)) : bn_load_f32(w + 4 * i), x[i], lane[i]);
    return (struct lanes){_mm256_loadu_ps(lane), _mm256_loadu_ps(lane + 8)};
}

/* Dots of n_rows rows and n_tokens vectors, constants whose product is 4: lane j * n_rows + r. ahead: bytes
 * from a row to the one to prefetch meanwhile, 0 for none. */
INLINE __m128 dot_four(const uint8_t *const row[], const size_t n_rows, const float *const x[],
                       const size_t n_tokens, size_t k, size_t ahead, const bool half)
{
    const size_t size = half ? 2 : 4;
    struct lanes acc[4];
    size_t i = 0;
    for (size_t a = 0; a < 4; a++)
        acc[a] = (struct lanes){_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (; i + 16 <= k; i += 16)
        for (size_t r = 0; r < n_rows; r++) {
            struct lanes weights = load_weights(row[r] + size * i, half);
            if (ahead > 0 && (!half || i % 32 == 0))
                _mm_prefetch((const char *)row[r] + size * i + ahead, _MM_HINT_T0);
            for (size_t j = 0; j < n_tokens; j++) {
                struct lanes v = {_mm256_loadu_ps(x[j] + i), _mm256_loadu_ps(x[j] + i + 8)};
                acc[j * n_rows + r] = fma_lanes(acc[j * n_rows + r], weights, v);
            }
        }
    for (size_t a = 0; i < k && a < 4; a++)
        acc[a] = fma_last(acc[a], row[a % n_rows] + size * i, x[a / n_rows] + i, k - i, half);
    return fold_four(acc);
}

/* Up to four rows, stride bytes apart, times one vector. */
INLINE __m128 dot_rows(const uint8_t *w, size_t stride, size_t n_rows, const float *x, size_t k, size_t ahead,
                       const bool half)
{
    const uint8_t *row[4];
    for (size_t r = 0; r < 4; r++)
        row[r] = w + (r < n_rows ? r : n_rows - 1) * stride;
    return dot_four(row, 4, &x, 1, k, ahead, half);
}

INLINE void store_rows(float *y, __m128 v, size_t n)
{
    float lane[4];
    _mm_storeu_ps(lane, v);
    for (size_t i = 0; i < 4 && i < n; i++)
        y[i] = lane[i];
}

INLINE void gemm_rows(float *y, size_t ldy, const uint8_t *w, size_t rows, size_t k, const float *x,
                      size_t ldx, size_t n, const bool half)
{
    size_t j = 0, stride = k * (half ? 2 : 4);
    for (; j + 2 <= n; j += 2)
        for (size_t r = 0; r < rows; r += 2) {
            bool both = r + 1 < rows;
            const uint8_t *row[2] = {w + r * stride, w + (both ? r + 1 : r) * stride};
            const float *token[2] = {x + j * ldx, x + (j + 1) * ldx};
            float dot[4];
            _mm_storeu_ps(dot, dot_four(row, 2, token, 2, k, 0, half));
            for (size_t a = 0; a < 4; a++)
                if (a % 2 == 0 || both) y[(j + a / 2) * ldy + r + a % 2] = dot[a];
        }
    for (size_t r = 0; r < rows && j < n; r += 4)
        store_rows(y + j * ldy + r,
                   dot_rows(w + r * stride, stride, rows - r, x + j * ldx, k, 4 * stride, half), rows - r);
}

#define BLOCK_ROWS 16u /* that all vectors use before the next rows: they stay in the cache */

INLINE void gemm(float *y, size_t ldy, const uint8_t *w, size_t rows, size_t k, const float *x, size_t ldx,
                 size_t n, const bool half)
{
    size_t block = n == 1 ? rows : BLOCK_ROWS, row_bytes = k * (half ? 2 : 4);
    for (size_t r = 0; r < rows; r += block)
        gemm_rows(y + r, ldy, w + r * row_bytes, rows - r < block ? rows - r : block, k, x, ldx, n, half);
}

void bn_f16_gemm_avx2(float *y, size_t ldy, const uint16_t *w, size_t rows, size_t k, const float *x,
                      size_t ldx, size_t n)
{
    gemm(y, ldy, (const void *)w, rows, k, x, ldx, n, true);
}

void bn_f32_gemm_avx2(float *y, size_t ldy, const float *w, size_t rows, size_t k, const float *x, size_t ldx,
                      size_t n)
{
    gemm(y, ldy, (const void *)w, rows, k, x, ldx, n, false);
}

/* ---- elements and lane sums ---- */

INLINE __m256 exp8(__m256 x)
{
    /* min returns its second operand for a NaN, which then reaches the result. */
    __m256 v = _mm256_min_ps(_mm256_set1_ps(BN_EXP_MAX), x);
    __m256 j = _mm256_round_ps(_mm256_mul_ps(v, _mm256_set1_ps(BN_EXP_LOG2E)), 8);
    __m256 r = _mm256_fnmadd_ps(j, _mm256_set1_ps(BN_EXP_LN2_HIGH), v);
    r = _mm256_fnmadd_ps(j, _mm256_set1_ps(BN_EXP_LN2_LOW), r);
    __m256 p = _mm256_set1_ps(BN_EXP_C6);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(BN_EXP_C5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(BN_EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(BN_EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(BN_EXP_C2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(j), _mm256_set1_epi32(127)), 23);
    __m256 small = _mm256_cmp_ps(x, _mm256_set1_ps(BN_EXP_MIN), _CMP_LT_OQ);
    return _mm256_andnot_ps(small, _mm256_mul_ps(p, _mm256_castsi256_ps(power)));
}

/* Eight lanes in binary64: 0..3 and 4..7. */
struct sums {
    __m256d low, high;
};

INLINE struct sums no_terms(void)
{
    return (struct sums){_mm256_setzero_pd(), _mm256_setzero_pd()};
}

INLINE void add_terms(struct sums *sum, const __m256 *v)
{
    sum->low = _mm256_add_pd(sum->low, _mm256_cvtps_pd(_mm256_castps256_ps128(*v)));
    sum->high = _mm256_add_pd(sum->high, _mm256_cvtps_pd(_mm256_extractf128_ps(*v, 1)));
}

/* Lanes j += lanes j + 4, 2, 1. */
INLINE double fold_sums(struct sums sum)
{
    double lane[4];
    _mm256_storeu_pd(lane, _mm256_add_pd(sum.low, sum.high));
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

INLINE float largest(const float *x, size_t n)
{
    float max = x[0], lane[8];
    size_t i = 0;
    if (n >= 8) {
        __m256 maxima = _mm256_loadu_ps(x);
        for (i = 8; i + 8 <= n; i += 8)
            maxima = _mm256_max_ps(maxima, _mm256_loadu_ps(x + i));
        _mm256_storeu_ps(lane, maxima);
        for (size_t j = 0; j < 8; j++)
            max = lane[j] > max ? lane[j] : max;
    }
    for (; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

INLINE void load_bytes(__m256 *v, const int8_t *at)
{
    *v = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)at)));
}

#define STEP 8u
#define vec_exp exp8
#define LARGEST largest
#include "kernels/elements.h"

/* Four values, each twice in a row. */
INLINE __m256 load_twice(const float *at)
{
    __m256 v = _mm256_castps128_ps256(_mm_loadu_ps(at));
    return _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
}

void bn_rope_norm_avx2(float *x, const float *cos, const float *sin, size_t n_rot)
{
    size_t i = 0;
    for (; i + 4 <= n_rot / 2; i += 4) {
        __m256 v = _mm256_loadu_ps(x + 2 * i), swapped = _mm256_permute_ps(v, 0xB1);
        /* even lanes a*cos - b*sin, odd ones b*cos + a*sin */
        _mm256_storeu_ps(x + 2 * i, _mm256_addsub_ps(_mm256_mul_ps(v, load_twice(cos + i)),
                                                     _mm256_mul_ps(swapped, load_twice(sin + i))));
    }
    for (; i < n_rot / 2; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cos[i] - b * sin[i];
        x[2 * i + 1] = a * sin[i] + b * cos[i];
    }
}

/* ---- rotation ---- */

/* Eight values after the halves 1, 2 and 4: to each the one at the other place of its pair is added, minus itself where
 * it is the second. */
INLINE __m256 rotate_eight(__m256 x)
{
    const __m256 second1 = _mm256_setr_ps(0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f),
                 second2 = _mm256_setr_ps(0.0f, 0.0f, -0.0f, -0.0f, 0.0f, 0.0f, -0.0f, -0.0f),
                 second4 = _mm256_setr_ps(0.0f, 0.0f, 0.0f, 0.0f, -0.0f, -0.0f, -0.0f, -0.0f);
    x = _mm256_add_ps(_mm256_permute_ps(x, 0xB1), _mm256_xor_ps(x, second1));
    x = _mm256_add_ps(_mm256_permute_ps(x, 0x4E), _mm256_xor_ps(x, second2));
    return _mm256_add_ps(_mm256_permute2f128_ps(x, x, 1), _mm256_xor_ps(x, second4));
}

/* x times signs, eight values at a time. */
INLINE void apply_signs(float *x, const float *signs, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(signs + i)));
}

void bn_rotate_avx2(float *x, const float *signs, size_t n, size_t block, bool back)
{
    if (block < 8) {
        bn_rotate_ref(x, signs, n, block, back);
        return;
    }
    const __m256 factor = _mm256_set1_ps((float)(1.0 / sqrt((double)block)));
    if (!back && signs != NULL) apply_signs(x, signs, n);
    for (size_t i = 0; i < n; i += 8)
        _mm256_storeu_ps(x + i, rotate_eight(_mm256_loadu_ps(x + i)));
    for (size_t first = 0; first < n; first += block)
        for (size_t half = 8; half < block; half *= 2)
            for (size_t i = first; i < first + block; i += 2 * half)
                for (size_t k = i; k < i + half; k += 8) {
                    __m256 a = _mm256_loadu_ps(x + k), b = _mm256_loadu_ps(x + k + half);
                    _mm256_storeu_ps(x + k, _mm256_add_ps(a, b));
                    _mm256_storeu_ps(x + k + half, _mm256_sub_ps(a, b));
                }
    for (size_t i = 0; i < n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), factor));
    if (back && signs != NULL) apply_signs(x, signs, n);
}

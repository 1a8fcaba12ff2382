/* SPDX-License-Identifier: MIT
 *
 * Float kernels for AVX-512: attn.h, delta.h and elements.h with vectors of 16 values. A dot product is one register of 16
 * lanes, which is what the order of kernels.h asks for; since each is one chain of fma, several rows are done at once to
 * hide its latency. Ends of rows use masks, so that lanes without a term stay as they are.
 */
#include "kernels/kernels_table.h"
#include "kernels/ref.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

#define KERNEL(slot) bn_##slot##_avx512vnni
#define VEC 16u
#define SCORE_TILES 2u
#define SCORE_QUERIES 4u
#define WIDE_QUERIES 12u
#define VALUE_SUMS 16u
#define VALUE_QUERIES 8u

#define vec __m512
#define vec_load _mm512_loadu_ps
#define vec_store _mm512_storeu_ps
#define vec_set1 _mm512_set1_ps
#define vec_add _mm512_add_ps
#define vec_sub _mm512_sub_ps
#define vec_mul _mm512_mul_ps
#define vec_fma _mm512_fmadd_ps
#define vec_widen(at) _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(at)))
#define vec_div _mm512_div_ps
#define vec_fnma _mm512_fnmadd_ps
#define vec_neg(x) _mm512_xor_ps(x, _mm512_set1_ps(-0.0f))
#define vec_positive(x) _mm512_max_ps(x, _mm512_setzero_ps()) /* its second operand for -0 and NaN */

/* The first n of 16 lanes, all when n >= 16. */
INLINE __mmask16 first16(size_t n)
{
    return (__mmask16)(n < 16 ? (1u << n) - 1u : 0xFFFFu);
}

#define MASKED
INLINE __m512 load_some(const float *at, size_t n)
{
    return _mm512_maskz_loadu_ps(first16(n), at);
}

INLINE void store_some(float *at, __m512 v, size_t n)
{
    _mm512_mask_storeu_ps(at, first16(n), v);
}

#include "kernels/attn.h"
#include "kernels/delta.h"

/* ---- dot products ---- */

/* The step of all folds: lane j of the lower halves takes lane j of the upper ones, for two at once. */
INLINE __m512 fold_256(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
}

INLINE __m512 fold_128(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
}

INLINE __m512 fold_64(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xEE));
}

INLINE __m512 fold_32(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xDD));
}

/* Lanes of four dots; 128-bit lane i of the result belongs to dot i. */
INLINE __m512 fold_four(__m512 a, __m512 b, __m512 c, __m512 d)
{
    return fold_128(fold_256(a, b), fold_256(c, d));
}

/* Lane i of the result is dot i. Each 128-bit lane of the last steps ends with dots 4i .. 4i + 3. */
INLINE __m512 fold16(const __m512 v[16])
{
    __m512 a = fold_64(fold_four(v[0], v[4], v[8], v[12]), fold_four(v[1], v[5], v[9], v[13]));
    __m512 b = fold_64(fold_four(v[2], v[6], v[10], v[14]), fold_four(v[3], v[7], v[11], v[15]));
    return fold_32(a, b);
}

/* A matrix of binary16 or binary32 whose rows start stride bytes apart. */
struct rows {
    const uint8_t *at;
    size_t stride;
};

INLINE __m512 load_weights(const uint8_t *row, size_t i, const bool half)
{
    return half ? _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(row + 2 * i)))
                : _mm512_loadu_ps((const void *)(row + 4 * i));
}

INLINE __m512 load_last_weights(const uint8_t *row, size_t i, __mmask16 here, const bool half)
{
    return half ? _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(here, row + 2 * i))
                : _mm512_maskz_loadu_ps(here, row + 4 * i);
}

/* acc[j * n_rows + r] = the lanes of row r times token j; n_rows and n_tokens are constants. row[] and x[]
 * may name one row twice. ahead: bytes from a row to the one to prefetch meanwhile. */
INLINE void dot_lanes(__m512 *acc, const uint8_t *const row[], const size_t n_rows, const float *const x[],
                      const size_t n_tokens, size_t k, size_t ahead, const bool half)
{
    size_t i = 0;
    for (size_t a = 0; a < n_rows * n_tokens; a++)
        acc[a] = _mm512_setzero_ps();
    for (; i + 16 <= k; i += 16) {
        __m512 v[4];
        for (size_t j = 0; j < n_tokens; j++)
            v[j] = _mm512_loadu_ps(x[j] + i);
        for (size_t r = 0; r < n_rows; r++) {
            __m512 weights = load_weights(row[r], i, half);
            if (ahead > 0 && (!half || i % 32 == 0))
                _mm_prefetch((const char *)row[r] + (half ? 2 : 4) * i + ahead, _MM_HINT_T0);
            for (size_t j = 0; j < n_tokens; j++)
                acc[j * n_rows + r] = _mm512_fmadd_ps(weights, v[j], acc[j * n_rows + r]);
        }
    }
    if (i == k) return;
    __mmask16 here = first16(k - i);
    for (size_t j = 0; j < n_tokens; j++) {
        __m512 v = _mm512_maskz_loadu_ps(here, x[j] + i);
        for (size_t r = 0; r < n_rows; r++)
            acc[j * n_rows + r] =
                _mm512_mask3_fmadd_ps(load_last_weights(row[r], i, here, half), v, acc[j * n_rows + r], here);
    }
}

/* Up to eight rows times one vector, for matrices that come from memory. Lanes 4i and 4i + 1 of the folded
 * register hold rows i and i + 4. */
INLINE __m256 dot_eight(struct rows w, size_t n_rows, const float *x, size_t k, const bool half)
{
    const uint8_t *row[8];
    __m512 acc[8];
    for (size_t r = 0; r < 8; r++)
        row[r] = w.at + (r < n_rows ? r : n_rows - 1) * w.stride;
    dot_lanes(acc, row, 8, &x, 1, k, 8 * w.stride, half);
    __m512 s = fold_64(fold_four(acc[0], acc[1], acc[2], acc[3]), fold_four(acc[4], acc[5], acc[6], acc[7]));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
    return _mm512_castps512_ps256(_mm512_permutexvar_ps(order, fold_32(s, s)));
}

/* A binary16 matrix of this many bytes or more comes from memory: it is read row after row, in the order of
 * its addresses, which keeps one core at the memory's rate where eight rows at a time reach two thirds of it.
 */
#define STREAM_BYTES (4u << 20)
#define STREAM_AHEAD 8192u

static void f16_stream(float *y, const uint16_t *w, size_t rows, size_t k, const float *x)
{
    for (size_t r = 0; r < rows; r++) {
        const uint8_t *row = (const void *)(w + r * k);
        __m512 acc = _mm512_setzero_ps();
        size_t i = 0;
        for (; i + 32 <= k; i += 32) { /* one cache line */
            _mm_prefetch((const char *)row + 2 * i + STREAM_AHEAD, _MM_HINT_T0);
            acc = _mm512_fmadd_ps(load_weights(row, i, true), _mm512_loadu_ps(x + i), acc);
            acc = _mm512_fmadd_ps(load_weights(row, i + 16, true), _mm512_loadu_ps(x + i + 16), acc);
        }
        for (; i < k; i += 16) {
            __mmask16 here = first16(k - i);
            __m512 v = _mm512_maskz_loadu_ps(here, x + i);
            acc = _mm512_mask3_fmadd_ps(load_last_weights(row, i, here, true), v, acc, here);
        }
        __m512 s = fold_four(acc, acc, acc, acc);
        s = fold_64(s, s);
        y[r] = _mm512_cvtss_f32(fold_32(s, s));
    }
}

/* Up to four rows times up to four vectors: 128-bit lane j of the result holds the rows of token j. */
INLINE __m512 dot_four_by_four(struct rows w, size_t n_rows, const float *x, size_t ldx, size_t n, size_t k,
                               size_t ahead, const bool half)
{
    const uint8_t *row[4];
    const float *token[4];
    __m512 acc[16];
    for (size_t i = 0; i < 4; i++) {
        row[i] = w.at + (i < n_rows ? i : n_rows - 1) * w.stride;
        token[i] = x + (i < n ? i : n - 1) * ldx;
    }
    dot_lanes(acc, row, 4, token, 4, k, ahead, half);
    return fold16(acc);
}

#define BLOCK_ROWS 16u /* of a matrix, which all vectors use before the next rows: they stay in the cache */

/* Rows of a block, a multiple of four but for the last block, times two to four vectors, of which there are n_groups
 * such groups. Each group prefetches its share of the next block, so that memory is busy all the time. */
INLINE void gemm_block(float *y, size_t ldy, struct rows w, size_t rows, size_t k, const float *x, size_t ldx,
                       size_t tokens, size_t group, size_t n_groups, const bool half)
{
    for (size_t r = 0; r < rows; r += 4) {
        struct rows from = {w.at + r * w.stride, w.stride};
        size_t count = rows - r < 4 ? rows - r : 4;
        size_t ahead = r / 4 % n_groups == group ? BLOCK_ROWS * w.stride : 0;
        __m512 dots = dot_four_by_four(from, count, x, ldx, tokens, k, ahead, half);
        float lane[16];
        _mm512_storeu_ps(lane, dots);
        for (size_t t = 0; t < tokens; t++)
            memcpy(y + t * ldy + r, lane + 4 * t, count == 4 ? 4 * sizeof *y : count * sizeof *y);
    }
}

INLINE void gemm(float *y, size_t ldy, struct rows w, size_t rows, size_t k, const float *x, size_t ldx,
                 size_t n, const bool half)
{
    size_t n_groups = n / 4 + (n % 4 > 1);
    for (size_t row = 0; row < rows; row += BLOCK_ROWS) {
        size_t end = rows - row < BLOCK_ROWS ? rows : row + BLOCK_ROWS, j = 0;
        struct rows block = {w.at + row * w.stride, w.stride};
        for (; n - j >= 2; j += n - j < 4 ? n - j : 4)
            gemm_block(y + j * ldy + row, ldy, block, end - row, k, x + j * ldx, ldx, n - j < 4 ? n - j : 4,
                       j / 4, n_groups, half);
        for (size_t r = row; r < end && j < n; r += 8) {
            struct rows from = {w.at + r * w.stride, w.stride};
            size_t count = end - r < 8 ? end - r : 8;
            _mm256_mask_storeu_ps(y + j * ldy + r, (__mmask8)first16(count),
                                  dot_eight(from, count, x + j * ldx, k, half));
        }
    }
}

void bn_f16_gemm_avx512vnni(float *y, size_t ldy, const uint16_t *w, size_t rows, size_t k, const float *x,
                            size_t ldx, size_t n)
{
    if (n == 1 && rows * k * sizeof *w >= STREAM_BYTES)
        f16_stream(y, w, rows, k, x);
    else
        gemm(y, ldy, (struct rows){(const void *)w, 2 * k}, rows, k, x, ldx, n, true);
}

void bn_f32_gemm_avx512vnni(float *y, size_t ldy, const float *w, size_t rows, size_t k, const float *x,
                            size_t ldx, size_t n)
{
    gemm(y, ldy, (struct rows){(const void *)w, 4 * k}, rows, k, x, ldx, n, false);
}

/* ---- elements and lane sums ---- */

/* x[i] = exp(x[i]) for up to four vectors; n is a constant. Each step is done for all of them, since one chain of
 * dependent instructions takes several times as long as its work. */
INLINE void exp_each(__m512 *x, const size_t n)
{
    static const float C[] = {BN_EXP_C5, BN_EXP_C4, BN_EXP_C3, BN_EXP_C2, 1.0f, 1.0f};
    __m512 j[4], r[4], p[4];
    for (size_t i = 0; i < n; i++) {
        /* min returns its second operand for a NaN, which then reaches the result. */
        r[i] = _mm512_min_ps(_mm512_set1_ps(BN_EXP_MAX), x[i]);
        j[i] = _mm512_roundscale_ps(_mm512_mul_ps(r[i], _mm512_set1_ps(BN_EXP_LOG2E)), 0);
        p[i] = _mm512_set1_ps(BN_EXP_C6);
    }
    for (size_t i = 0; i < n; i++)
        r[i] = _mm512_fnmadd_ps(j[i], _mm512_set1_ps(BN_EXP_LN2_HIGH), r[i]);
    for (size_t i = 0; i < n; i++)
        r[i] = _mm512_fnmadd_ps(j[i], _mm512_set1_ps(BN_EXP_LN2_LOW), r[i]);
    for (size_t c = 0; c < sizeof C / sizeof *C; c++)
        for (size_t i = 0; i < n; i++)
            p[i] = _mm512_fmadd_ps(p[i], r[i], _mm512_set1_ps(C[c]));
    for (size_t i = 0; i < n; i++) {
        __mmask16 counts = _mm512_cmp_ps_mask(x[i], _mm512_set1_ps(BN_EXP_MIN), _CMP_NLT_UQ); /* NaN too */
        x[i] = _mm512_maskz_scalef_ps(counts, p[i], j[i]);
    }
}

INLINE __m512 exp16(__m512 x)
{
    exp_each(&x, 1);
    return x;
}

struct sums {
    __m512d lanes;
};

INLINE struct sums no_terms(void)
{
    return (struct sums){_mm512_setzero_pd()};
}

/* Lanes j += lanes j + 4, 2, 1. */
INLINE double fold_sums(struct sums sum)
{
    __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(sum.lanes), _mm512_extractf64x4_pd(sum.lanes, 1));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

/* 16 terms: eight, then eight more. */
INLINE void add_terms(struct sums *sum, const __m512 *v)
{
    sum->lanes = _mm512_add_pd(sum->lanes, _mm512_cvtps_pd(_mm512_castps512_ps256(*v)));
    sum->lanes = _mm512_add_pd(sum->lanes, _mm512_cvtps_pd(_mm512_extractf32x8_ps(*v, 1)));
}

INLINE void load_bytes(__m512 *v, const int8_t *at)
{
    *v = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)at)));
}

#define STEP 16u
#define vec_exp exp16
#include "kernels/elements.h"

/* The largest of n >= 1 values; several chains hide the latency of max. */
static float largest(const float *x, size_t n)
{
    __m512 max[4];
    size_t i = 0;
    for (size_t c = 0; c < 4; c++)
        max[c] = _mm512_set1_ps(x[0]);
    for (; i + 64 <= n; i += 64)
        for (size_t c = 0; c < 4; c++)
            max[c] = _mm512_max_ps(max[c], _mm512_loadu_ps(x + i + 16 * c));
    for (; i < n; i += 16)
        max[0] =
            _mm512_mask_max_ps(max[0], first16(n - i), max[0], _mm512_maskz_loadu_ps(first16(n - i), x + i));
    return _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(max[0], max[1]), _mm512_max_ps(max[2], max[3])));
}

void bn_softmax_avx512vnni(float *x, size_t n)
{
    __m512 max = _mm512_set1_ps(largest(x, n));
    struct sums sum = no_terms();
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512 e[4];
        for (size_t v = 0; v < 4; v++)
            e[v] = _mm512_sub_ps(_mm512_loadu_ps(x + i + 16 * v), max);
        exp_each(e, 4);
        for (size_t v = 0; v < 4; v++) {
            _mm512_storeu_ps(x + i + 16 * v, e[v]);
            add_terms(&sum, &e[v]);
        }
    }
    for (; i < n; i += 16) {
        __mmask16 here = first16(n - i);
        __m512 e = exp16(_mm512_sub_ps(_mm512_maskz_loadu_ps(here, x + i), max));
        e = _mm512_maskz_mov_ps(here, e);
        _mm512_mask_storeu_ps(x + i, here, e);
        add_terms(&sum, &e);
    }
    each(x, x, x, _mm512_set1_ps((float)(1.0 / fold_sums(sum))), n, scaled);
}

/* ---- conversions ---- */

void bn_f32_to_f16_avx512vnni(uint16_t *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 here = first16(n - i);
        __m256i v = _mm512_cvtps_ph(_mm512_maskz_loadu_ps(here, x + i), _MM_FROUND_TO_NEAREST_INT);
        _mm256_mask_storeu_epi16(y + i, here, v);
    }
}

void bn_f16_to_f32_avx512vnni(float *y, const void *x, size_t n)
{
    const uint8_t *from = x;
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 here = first16(n - i);
        _mm512_mask_storeu_ps(y + i, here, load_last_weights(from, i, here, true));
    }
}

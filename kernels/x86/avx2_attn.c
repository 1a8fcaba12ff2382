/* SPDX-License-Identifier: MIT
 *
 * Attention for AVX2 with FMA and F16C: attn.h with vectors of 8 values.
 */
#include "kernels/kernels_table.h"

#include <immintrin.h>

#define VEC 8u
#define SCORE_TILES 1u
#define SCORE_QUERIES 2u
#define WIDE_QUERIES SIZE_MAX
#define VALUE_SUMS 8u
#define VALUE_QUERIES 4u

typedef __m256 vec;

static inline vec vec_load(const float *at)
{
    return _mm256_loadu_ps(at);
}

static inline void vec_store(float *at, vec v)
{
    _mm256_storeu_ps(at, v);
}

static inline vec vec_set1(float x)
{
    return _mm256_set1_ps(x);
}

static inline vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline vec vec_widen(const uint16_t *at)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)at));
}

#include "kernels/attn.h"

void bn_attn_scores_avx2(float *s, size_t lds, const float *q, size_t ldq, size_t n, const struct bn_keys *k,
                         float factor)
{
    attn_scores(s, lds, q, ldq, n, k, factor);
}

void bn_attn_values_avx2(float *y, size_t ldy, const float *s, size_t lds, size_t n, const struct bn_kv *v)
{
    attn_values(y, ldy, s, lds, n, v);
}

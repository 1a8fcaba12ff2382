/* SPDX-License-Identifier: MIT
 *
 * Attention for AVX-512: attn.h with vectors of 16 values.
 */
#include "kernels/kernels_table.h"

#include <immintrin.h>

#define VEC 16u
#define SCORE_TILES 2u
#define SCORE_QUERIES 4u
#define WIDE_QUERIES 12u
#define VALUE_SUMS 16u
#define VALUE_QUERIES 8u

typedef __m512 vec;

static inline vec vec_load(const float *at)
{
    return _mm512_loadu_ps(at);
}

static inline void vec_store(float *at, vec v)
{
    _mm512_storeu_ps(at, v);
}

static inline vec vec_set1(float x)
{
    return _mm512_set1_ps(x);
}

static inline vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline vec vec_widen(const uint16_t *at)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)at));
}

#include "kernels/attn.h"

void bn_attn_scores_avx512vnni(float *s, size_t lds, const float *q, size_t ldq, size_t n,
                               const struct bn_keys *k, float factor)
{
    attn_scores(s, lds, q, ldq, n, k, factor);
}

void bn_attn_values_avx512vnni(float *y, size_t ldy, const float *s, size_t lds, size_t n,
                               const struct bn_kv *v)
{
    attn_values(y, ldy, s, lds, n, v);
}

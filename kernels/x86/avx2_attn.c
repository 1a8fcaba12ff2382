/* SPDX-License-Identifier: MIT
 *
 * Attention and the delta rule for AVX2 with FMA and F16C: attn.h and delta.h with vectors of 8 values.
 */
#include "kernels/kernels_table.h"

#include <immintrin.h>

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

#include "kernels/attn.h"
#include "kernels/delta.h"

void bn_attn_scores_avx2(float *s, size_t lds, const float *q, size_t ldq, size_t n, const struct bn_keys *k,
                         float factor)
{
    attn_scores(s, lds, q, ldq, n, k, factor);
}

void bn_attn_values_avx2(float *y, size_t ldy, const float *s, size_t lds, size_t n, const struct bn_kv *v)
{
    attn_values(y, ldy, s, lds, n, v);
}

void bn_delta_avx2(const struct bn_delta *at, size_t n)
{
    delta(at, n);
}

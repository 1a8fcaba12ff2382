/* SPDX-License-Identifier: MIT
 *
 * Attention and the delta rule for AVX-512: attn.h and delta.h with vectors of 16 values.
 */
#include "kernels/kernels_table.h"

#include <immintrin.h>

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

#include "kernels/attn.h"
#include "kernels/delta.h"

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

void bn_delta_avx512vnni(const struct bn_delta *at, size_t n)
{
    delta(at, n);
}

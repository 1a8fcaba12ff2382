/* SPDX-License-Identifier: MIT
 *
 * Attention and the delta rule for AArch64: attn.h and delta.h with vectors of 4 values.
 */
#include "kernels/kernels_table.h"

#include <arm_neon.h>

#define VEC 4u
#define SCORE_TILES 1u
#define SCORE_QUERIES 2u
#define WIDE_QUERIES SIZE_MAX
#define VALUE_SUMS 16u
#define VALUE_QUERIES 4u

#define vec float32x4_t
#define vec_load vld1q_f32
#define vec_store vst1q_f32
#define vec_set1 vdupq_n_f32
#define vec_add vaddq_f32
#define vec_sub vsubq_f32
#define vec_mul vmulq_f32
#define vec_fma(a, b, c) vfmaq_f32(c, a, b)
#define vec_widen(at) vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8((const void *)(at))))

#include "kernels/attn.h"
#include "kernels/delta.h"

void bn_attn_scores_neon(float *s, size_t lds, const float *q, size_t ldq, size_t n, const struct bn_keys *k,
                         float factor)
{
    attn_scores(s, lds, q, ldq, n, k, factor);
}

void bn_attn_values_neon(float *y, size_t ldy, const float *s, size_t lds, size_t n, const struct bn_kv *v)
{
    attn_values(y, ldy, s, lds, n, v);
}

void bn_delta_neon(const struct bn_delta *at, size_t n)
{
    delta(at, n);
}

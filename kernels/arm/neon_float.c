/* SPDX-License-Identifier: MIT
 *
 * Float kernels for AArch64: attn.h, delta.h and elements.h with vectors of 4 values. The 16 lanes of a dot product are four registers, the eight binary64 lanes of a
 * sum four as well. Ends of rows go value by value, through the functions of ref.h.
 */
#include "kernels/kernels_table.h"
#include "kernels/ref.h"

#include <arm_neon.h>

#define INLINE static inline __attribute__((always_inline))

#define KERNEL(slot) bn_##slot##_neon
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
#define vec_div vdivq_f32
#define vec_fnma(a, b, c) vfmsq_f32(c, a, b)
#define vec_neg vnegq_f32

#include "kernels/attn.h"
#include "kernels/delta.h"

/* Four binary16 values, any alignment, widened. */
INLINE float32x4_t load_half(const uint8_t *at)
{
    return vec_widen(at);
}

INLINE float32x4_t load_single(const uint8_t *at)
{
    return vreinterpretq_f32_u8(vld1q_u8(at));
}

/* ---- dot products ---- */

/* Lanes 4i .. 4i + 3 in v[i]. */
struct lanes {
    float32x4_t v[4];
};

/* Lane j takes lane j + 8, 4, 2, 1. */
INLINE float fold(struct lanes acc)
{
    float32x4_t low = vaddq_f32(acc.v[0], acc.v[2]), high = vaddq_f32(acc.v[1], acc.v[3]);
    float32x4_t four = vaddq_f32(low, high);
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

/* The last n < 16 terms; lanes without one stay as they are. */
INLINE struct lanes fma_last(struct lanes acc, const uint8_t *w, const float *x, size_t n, const bool half)
{
    float lane[16];
    for (size_t i = 0; i < 4; i++)
        vst1q_f32(lane + 4 * i, acc.v[i]);
    for (size_t i = 0; i < n; i++)
        lane[i] =
            fmaf(half ? bn_ref_widen_f16(bn_load_u16(w + 2 * i)) : bn_load_f32(w + 4 * i), x[i], lane[i]);
    for (size_t i = 0; i < 4; i++)
        acc.v[i] = vld1q_f32(lane + 4 * i);
    return acc;
}

/* dot[r] of n rows (a constant, at most 4) that start stride bytes apart. */
INLINE void dot_rows(float *dot, const uint8_t *w, size_t stride, const size_t n, const float *x, size_t k,
                     const bool half)
{
    const size_t size = half ? 2 : 4;
    struct lanes acc[4];
    size_t i = 0;
    for (size_t r = 0; r < n; r++)
        for (size_t j = 0; j < 4; j++)
            acc[r].v[j] = vdupq_n_f32(0.0f);
    for (; i + 16 <= k; i += 16)
        for (size_t j = 0; j < 4; j++) {
            float32x4_t v = vld1q_f32(x + i + 4 * j);
            for (size_t r = 0; r < n; r++) {
                const uint8_t *at = w + r * stride + size * (i + 4 * j);
                acc[r].v[j] = vfmaq_f32(acc[r].v[j], half ? load_half(at) : load_single(at), v);
            }
        }
    for (size_t r = 0; r < n; r++) {
        if (i < k) acc[r] = fma_last(acc[r], w + r * stride + size * i, x + i, k - i, half);
        dot[r] = fold(acc[r]);
    }
}

INLINE void dot_all(float *dot, const uint8_t *w, size_t stride, size_t rows, const float *x, size_t k,
                    const bool half)
{
    size_t r = 0;
    for (; r + 4 <= rows; r += 4)
        dot_rows(dot + r, w + r * stride, stride, 4, x, k, half);
    for (; r < rows; r++)
        dot_rows(dot + r, w + r * stride, stride, 1, x, k, half);
}

#define BLOCK_ROWS 16u /* that all vectors use before the next rows: they stay in the cache */

INLINE void gemm(float *y, size_t ldy, const uint8_t *w, size_t stride, size_t rows, size_t k, const float *x,
                 size_t ldx, size_t n, const bool half)
{
    for (size_t r = 0; r < rows; r += BLOCK_ROWS)
        for (size_t j = 0; j < n; j++)
            dot_all(y + j * ldy + r, w + r * stride, stride, rows - r < BLOCK_ROWS ? rows - r : BLOCK_ROWS,
                    x + j * ldx, k, half);
}

void bn_f16_gemm_neon(float *y, size_t ldy, const uint16_t *w, size_t rows, size_t k, const float *x,
                      size_t ldx, size_t n)
{
    gemm(y, ldy, (const void *)w, 2 * k, rows, k, x, ldx, n, true);
}

void bn_f32_gemm_neon(float *y, size_t ldy, const float *w, size_t rows, size_t k, const float *x, size_t ldx,
                      size_t n)
{
    gemm(y, ldy, (const void *)w, 4 * k, rows, k, x, ldx, n, false);
}

/* ---- elements and lane sums ---- */

INLINE float32x4_t exp4(float32x4_t x)
{
    /* A NaN is kept by vminq and reaches the result. */
    float32x4_t v = vminq_f32(x, vdupq_n_f32(BN_EXP_MAX));
    float32x4_t j = vrndnq_f32(vmulq_n_f32(v, BN_EXP_LOG2E));
    float32x4_t r = vfmsq_f32(v, j, vdupq_n_f32(BN_EXP_LN2_HIGH));
    r = vfmsq_f32(r, j, vdupq_n_f32(BN_EXP_LN2_LOW));
    float32x4_t p = vdupq_n_f32(BN_EXP_C6);
    p = vfmaq_f32(vdupq_n_f32(BN_EXP_C5), p, r);
    p = vfmaq_f32(vdupq_n_f32(BN_EXP_C4), p, r);
    p = vfmaq_f32(vdupq_n_f32(BN_EXP_C3), p, r);
    p = vfmaq_f32(vdupq_n_f32(BN_EXP_C2), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    int32x4_t power = vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(j), vdupq_n_s32(127)), 23);
    float32x4_t e = vmulq_f32(p, vreinterpretq_f32_s32(power));
    uint32x4_t small = vcltq_f32(x, vdupq_n_f32(BN_EXP_MIN));
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(e), small));
}

/* Eight lanes in binary64: 2i and 2i + 1 in v[i]. */
struct sums {
    float64x2_t v[4];
};

INLINE struct sums no_terms(void)
{
    float64x2_t zero = vdupq_n_f64(0.0);
    return (struct sums){{zero, zero, zero, zero}};
}

INLINE void add_terms(struct sums *sum, const float32x4_t v[2])
{
    sum->v[0] = vaddq_f64(sum->v[0], vcvt_f64_f32(vget_low_f32(v[0])));
    sum->v[1] = vaddq_f64(sum->v[1], vcvt_high_f64_f32(v[0]));
    sum->v[2] = vaddq_f64(sum->v[2], vcvt_f64_f32(vget_low_f32(v[1])));
    sum->v[3] = vaddq_f64(sum->v[3], vcvt_high_f64_f32(v[1]));
}

/* Lanes j += lanes j + 4, 2, 1. */
INLINE double fold_sums(struct sums sum)
{
    float64x2_t low = vaddq_f64(sum.v[0], sum.v[2]), high = vaddq_f64(sum.v[1], sum.v[3]);
    return vaddvq_f64(vaddq_f64(low, high));
}

INLINE float largest(const float *x, size_t n)
{
    float max = x[0];
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float four = vmaxvq_f32(vld1q_f32(x + i));
        max = four > max ? four : max;
    }
    for (; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

INLINE void load_bytes(float32x4_t v[2], const int8_t *at)
{
    int16x8_t whole = vmovl_s8(vld1_s8(at));
    v[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(whole)));
    v[1] = vcvtq_f32_s32(vmovl_s16(vget_high_s16(whole)));
}

/* By comparison, so that -0 and NaN become +0. */
INLINE float32x4_t positive4(float32x4_t v)
{
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v), vcgtq_f32(v, vdupq_n_f32(0.0f))));
}

#define STEP 8u
#define vec_exp exp4
#define vec_positive positive4
#define LARGEST largest
#include "kernels/elements.h"

void bn_rope_norm_neon(float *x, const float *cos, const float *sin, size_t n_rot)
{
    size_t i = 0;
    for (; i + 4 <= n_rot / 2; i += 4) {
        float32x4x2_t v = vld2q_f32(x + 2 * i), y;
        float32x4_t c = vld1q_f32(cos + i), s = vld1q_f32(sin + i);
        y.val[0] = vsubq_f32(vmulq_f32(v.val[0], c), vmulq_f32(v.val[1], s));
        y.val[1] = vaddq_f32(vmulq_f32(v.val[0], s), vmulq_f32(v.val[1], c));
        vst2q_f32(x + 2 * i, y);
    }
    for (; i < n_rot / 2; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cos[i] - b * sin[i];
        x[2 * i + 1] = a * sin[i] + b * cos[i];
    }
}

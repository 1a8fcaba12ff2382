/* SPDX-License-Identifier: MIT
 *
 * Float kernels for AArch64. The 16 lanes of a dot product are four registers, the eight binary64 lanes of a
 * sum four as well. Ends of rows go value by value, through the functions of ref.h.
 */
#include "kernels/kernels_table.h"
#include "kernels/ref.h"

#include <arm_neon.h>

#define INLINE static inline __attribute__((always_inline))

/* Four binary16 values, any alignment, widened. */
INLINE float32x4_t load_half(const uint8_t *at)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(at)));
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

/* ---- exp and what needs it ---- */

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

void bn_exp_neon(float *y, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(y + i, exp4(vld1q_f32(x + i)));
    for (; i < n; i++)
        y[i] = bn_ref_exp(x[i]);
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

INLINE void add_terms(struct sums *sum, float32x4_t low, float32x4_t high)
{
    sum->v[0] = vaddq_f64(sum->v[0], vcvt_f64_f32(vget_low_f32(low)));
    sum->v[1] = vaddq_f64(sum->v[1], vcvt_high_f64_f32(low));
    sum->v[2] = vaddq_f64(sum->v[2], vcvt_f64_f32(vget_low_f32(high)));
    sum->v[3] = vaddq_f64(sum->v[3], vcvt_high_f64_f32(high));
}

/* Lanes j += lanes j + 4, 2, 1, after the last n < 8 terms. */
INLINE double fold_sums(const struct sums *sum, const float *last, size_t n)
{
    double lane[8];
    for (size_t i = 0; i < 4; i++)
        vst1q_f64(lane + 2 * i, sum->v[i]);
    for (size_t i = 0; i < n; i++)
        lane[i] += (double)last[i];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

void bn_softmax_neon(float *x, size_t n)
{
    float max = x[0];
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float four = vmaxvq_f32(vld1q_f32(x + i));
        max = four > max ? four : max;
    }
    for (; i < n; i++)
        max = x[i] > max ? x[i] : max;
    struct sums sum = no_terms();
    for (i = 0; i + 8 <= n; i += 8) {
        float32x4_t low = exp4(vsubq_f32(vld1q_f32(x + i), vdupq_n_f32(max)));
        float32x4_t high = exp4(vsubq_f32(vld1q_f32(x + i + 4), vdupq_n_f32(max)));
        vst1q_f32(x + i, low);
        vst1q_f32(x + i + 4, high);
        add_terms(&sum, low, high);
    }
    for (size_t j = i; j < n; j++)
        x[j] = bn_ref_exp(x[j] - max);
    float factor = (float)(1.0 / fold_sums(&sum, x + i, n - i));
    for (i = 0; i + 4 <= n; i += 4)
        vst1q_f32(x + i, vmulq_n_f32(vld1q_f32(x + i), factor));
    for (; i < n; i++)
        x[i] *= factor;
}

void bn_silu_mul_neon(float *y, const float *gate, const float *up, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t g = vld1q_f32(gate + i);
        float32x4_t silu = vdivq_f32(g, vaddq_f32(vdupq_n_f32(1.0f), exp4(vnegq_f32(g))));
        vst1q_f32(y + i, vmulq_f32(silu, vld1q_f32(up + i)));
    }
    for (; i < n; i++)
        y[i] = gate[i] / (1.0f + bn_ref_exp(-gate[i])) * up[i];
}

void bn_sigmoid_mul_neon(float *y, const float *x, const float *gate, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t divisor = vaddq_f32(vdupq_n_f32(1.0f), exp4(vnegq_f32(vld1q_f32(gate + i))));
        vst1q_f32(y + i, vdivq_f32(vld1q_f32(x + i), divisor));
    }
    bn_sigmoid_mul_ref(y + i, x + i, gate + i, n - i);
}

void bn_conv_silu_neon(float *y, const float *w, size_t ldw, const float *const *x, size_t taps, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t c = vdupq_n_f32(0.0f);
        for (size_t t = 0; t < taps; t++)
            c = vaddq_f32(c, vmulq_f32(vld1q_f32(w + t * ldw + i), vld1q_f32(x[t] + i)));
        vst1q_f32(y + i, vdivq_f32(c, vaddq_f32(vdupq_n_f32(1.0f), exp4(vnegq_f32(c)))));
    }
    for (; i < n; i++) {
        float c = 0.0f;
        for (size_t t = 0; t < taps; t++)
            c = c + w[t * ldw + i] * x[t][i];
        y[i] = c / (1.0f + bn_ref_exp(-c));
    }
}

void bn_gelu_mul_neon(float *y, const float *gate, const float *up, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t g = vld1q_f32(gate + i);
        float32x4_t slope = vfmaq_f32(vdupq_n_f32(BN_GELU_C1), vmulq_f32(g, g), vdupq_n_f32(BN_GELU_C3));
        float32x4_t e = exp4(vnegq_f32(vmulq_f32(g, slope)));
        float32x4_t gelu = vdivq_f32(g, vaddq_f32(vdupq_n_f32(1.0f), e));
        vst1q_f32(y + i, vmulq_f32(gelu, vld1q_f32(up + i)));
    }
    for (; i < n; i++)
        y[i] = bn_ref_gelu(gate[i]) * up[i];
}

/* ---- norm, positions, element by element ---- */

void bn_residual_neon(double *size, double *rest, const float *x, const int8_t *q, float step, size_t n)
{
    struct sums sizes = no_terms(), rests = no_terms();
    float last[2][8];
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        int16x8_t whole = vmovl_s8(vld1_s8(q + i));
        float32x4_t low = vld1q_f32(x + i), high = vld1q_f32(x + i + 4);
        float32x4_t d_low = vfmsq_n_f32(low, vcvtq_f32_s32(vmovl_s16(vget_low_s16(whole))), step);
        float32x4_t d_high = vfmsq_n_f32(high, vcvtq_f32_s32(vmovl_s16(vget_high_s16(whole))), step);
        add_terms(&sizes, vmulq_f32(low, low), vmulq_f32(high, high));
        add_terms(&rests, vmulq_f32(d_low, d_low), vmulq_f32(d_high, d_high));
    }
    for (size_t j = i; j < n; j++) {
        float d = fmaf(-(float)q[j], step, x[j]);
        last[0][j - i] = x[j] * x[j];
        last[1][j - i] = d * d;
    }
    *size = fold_sums(&sizes, last[0], n - i);
    *rest = fold_sums(&rests, last[1], n - i);
}

void bn_rmsnorm_neon(float *y, const float *x, const float *w, size_t n, float eps)
{
    struct sums sum = no_terms();
    float last[8];
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        float32x4_t low = vld1q_f32(x + i), high = vld1q_f32(x + i + 4);
        add_terms(&sum, vmulq_f32(low, low), vmulq_f32(high, high));
    }
    for (size_t j = i; j < n; j++)
        last[j - i] = x[j] * x[j];
    float r = 1.0f / sqrtf((float)(fold_sums(&sum, last, n - i) / (double)n) + eps);
    for (i = 0; i + 4 <= n; i += 4)
        vst1q_f32(y + i, vmulq_f32(vmulq_n_f32(vld1q_f32(x + i), r), vld1q_f32(w + i)));
    for (; i < n; i++)
        y[i] = x[i] * r * w[i];
}

void bn_rope_neox_neon(float *x, const float *cos, const float *sin, size_t n_rot)
{
    float *other = x + n_rot / 2;
    size_t i = 0;
    for (; i + 4 <= n_rot / 2; i += 4) {
        float32x4_t a = vld1q_f32(x + i), b = vld1q_f32(other + i);
        float32x4_t c = vld1q_f32(cos + i), s = vld1q_f32(sin + i);
        vst1q_f32(x + i, vsubq_f32(vmulq_f32(a, c), vmulq_f32(b, s)));
        vst1q_f32(other + i, vaddq_f32(vmulq_f32(a, s), vmulq_f32(b, c)));
    }
    for (; i < n_rot / 2; i++) {
        float a = x[i], b = other[i];
        x[i] = a * cos[i] - b * sin[i];
        other[i] = a * sin[i] + b * cos[i];
    }
}

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

void bn_relu2_mul_neon(float *y, const float *gate, const float *up, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t v = vld1q_f32(gate + i);
        /* By comparison, so that -0 and NaN become +0. */
        uint32x4_t positive = vcgtq_f32(v, vdupq_n_f32(0.0f));
        float32x4_t g = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v), positive));
        vst1q_f32(y + i, vmulq_f32(vmulq_f32(g, g), vld1q_f32(up + i)));
    }
    for (; i < n; i++) {
        float g = gate[i] > 0.0f ? gate[i] : 0.0f;
        y[i] = g * g * up[i];
    }
}

void bn_add_neon(float *y, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(y + i, vaddq_f32(vld1q_f32(y + i), vld1q_f32(x + i)));
    for (; i < n; i++)
        y[i] += x[i];
}

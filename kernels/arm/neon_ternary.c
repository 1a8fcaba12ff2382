/* SPDX-License-Identifier: MIT
 *
 * 8-bit weights, and activations of 8 bits, for AArch64 with the dot product instructions. sdot multiplies signed bytes
 * and adds four products to an int32. All sums are exact, so their order is free.
 */
#include "kernels/kernels_table.h"
#include "kernels/ref.h"

#include <arm_neon.h>

#define INLINE static inline __attribute__((always_inline))

/* ---- 8-bit weights ---- */

/* Bound: all lanes together have 2^14 * 2^16 at the most. Two chains of additions for each plane. */
static void i8_rows(float *y, const int8_t *w, size_t rows, size_t k, const int8_t *high, const int8_t *low)
{
    for (size_t r = 0; r < rows; r++, w += k) {
        int32x4_t highs[2] = {vdupq_n_s32(0), vdupq_n_s32(0)}, lows[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
        size_t i = 0;
        for (; i + 32 <= k; i += 32)
            for (size_t a = 0; a < 2; a++) {
                int8x16_t weights = vld1q_s8(w + i + 16 * a);
                highs[a] = vdotq_s32(highs[a], weights, vld1q_s8(high + i + 16 * a));
                lows[a] = vdotq_s32(lows[a], weights, vld1q_s8(low + i + 16 * a));
            }
        int64_t dot = 256 * (int64_t)vaddvq_s32(vaddq_s32(highs[0], highs[1])) +
                      vaddvq_s32(vaddq_s32(lows[0], lows[1]));
        for (; i < k; i++)
            dot += w[i] * (256 * high[i] + low[i]);
        y[r] = (float)dot;
    }
}

/* Rows that stay in the cache while one vector after the other uses them. */
#define I8_ROWS 32u

void bn_i8_gemm_neon(float *y, size_t ldy, const int8_t *w, size_t rows, size_t k, const struct bn_planes *x,
                     size_t n)
{
    size_t block = n == 1 ? rows : I8_ROWS;
    for (size_t r = 0; r < rows; r += block)
        for (size_t j = 0; j < n; j++)
            i8_rows(y + j * ldy + r, w + r * k, rows - r < block ? rows - r : block, k, x[j].high, x[j].low);
}

/* ---- activations ---- */

void bn_quantize_neon(int8_t *q, float *scale, int32_t *sum, const float *x, size_t n)
{
    float32x4_t maxima = vdupq_n_f32(0.0f);
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        maxima = vmaxnmq_f32(maxima, vabsq_f32(vld1q_f32(x + i)));
    float max = vmaxnmvq_f32(maxima);
    for (; i < n; i++)
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    float s = (float)(127.0 / ((double)max > 1e-5 ? (double)max : 1e-5));
    int32x4_t sums = vdupq_n_s32(0);
    for (i = 0; i + 16 <= n; i += 16) {
        int32x4_t v[4]; /* to nearest even; |x| <= max, and 127 takes the place of a NaN */
        for (size_t j = 0; j < 4; j++) {
            float32x4_t product = vmulq_n_f32(vld1q_f32(x + i + 4 * j), s);
            v[j] = vcvtnq_s32_f32(vminnmq_f32(product, vdupq_n_f32(127.0f)));
            sums = vaddq_s32(sums, v[j]);
        }
        int16x8_t low = vcombine_s16(vmovn_s32(v[0]), vmovn_s32(v[1]));
        int16x8_t high = vcombine_s16(vmovn_s32(v[2]), vmovn_s32(v[3]));
        vst1q_s8(q + i, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
    }
    int32_t total = vaddvq_s32(sums);
    for (; i < n; i++) {
        float v = rintf(x[i] * s);
        q[i] = (int8_t)(v < 127.0f ? v : 127.0f);
        total += q[i];
    }
    *scale = s;
    *sum = total;
}

bool bn_has_code3_neon(const uint8_t *codes, size_t n)
{
    uint8x16_t found = vdupq_n_u8(0);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        uint8x16_t v = vld1q_u8(codes + i);
        found = vorrq_u8(found, vandq_u8(v, vshrq_n_u8(v, 1)));
    }
    return vmaxvq_u8(vandq_u8(found, vdupq_n_u8(0x55))) != 0 || bn_has_code3_ref(codes + i, n - i);
}

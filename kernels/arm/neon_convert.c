/* SPDX-License-Identifier: MIT
 *
 * Conversions for AArch64. The formats of blocks are in ref_convert.c. Ends of rows go value by value,
 * through the functions of ref.h; blocks have none.
 */
#include "kernels/kernels_table.h"
#include "kernels/ref.h"

#include <arm_neon.h>

#define INLINE static inline __attribute__((always_inline))

void bn_f32_to_f16_neon(uint16_t *y, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1_u16(y + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x + i))));
    for (; i < n; i++)
        y[i] = bn_ref_narrow_f16(x[i]);
}

void bn_f16_to_f32_neon(float *y, const void *x, size_t n)
{
    const uint8_t *from = x;
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(y + i, vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(from + 2 * i))));
    for (; i < n; i++)
        y[i] = bn_ref_widen_f16(bn_load_u16(from + 2 * i));
}

void bn_bf16_to_f32_neon(float *y, const void *x, size_t n)
{
    const uint8_t *from = x;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        uint16x4_t v = vreinterpret_u16_u8(vld1_u8(from + 2 * i));
        vst1q_f32(y + i, vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(v), 16)));
    }
    bn_bf16_to_f32_ref(y + i, from + 2 * i, n - i);
}

/* ---- blocks ---- */

/* 16 bytes with a sign times a scale. */
INLINE void put16(float *y, int8x16_t q, float scale)
{
    int16x8_t half[2] = {vmovl_s8(vget_low_s8(q)), vmovl_s8(vget_high_s8(q))};
    for (size_t i = 0; i < 2; i++) {
        float32x4_t low = vcvtq_f32_s32(vmovl_s16(vget_low_s16(half[i])));
        float32x4_t high = vcvtq_f32_s32(vmovl_s16(vget_high_s16(half[i])));
        vst1q_f32(y + 8 * i, vmulq_n_f32(low, scale));
        vst1q_f32(y + 8 * i + 4, vmulq_n_f32(high, scale));
    }
}

/* The same of bytes that are shift too high. */
INLINE void put_above(float *y, uint8x16_t q, int8_t shift, float scale)
{
    put16(y, vsubq_s8(vreinterpretq_s8_u8(q), vdupq_n_s8(shift)), scale);
}

void bn_q8_0_to_f32_neon(float *y, const void *x, size_t n)
{
    const uint8_t *block = x;
    for (size_t i = 0; i < n; i += 32, block += 34) {
        float d = bn_ref_widen_f16(bn_load_u16(block));
        put16(y + i, vreinterpretq_s8_u8(vld1q_u8(block + 2)), d);
        put16(y + i + 16, vreinterpretq_s8_u8(vld1q_u8(block + 18)), d);
    }
}

void bn_q4_0_to_f32_neon(float *y, const void *x, size_t n)
{
    const uint8_t *block = x;
    for (size_t i = 0; i < n; i += 32, block += 18) {
        float d = bn_ref_widen_f16(bn_load_u16(block));
        uint8x16_t q = vld1q_u8(block + 2);
        put_above(y + i, vandq_u8(q, vdupq_n_u8(15)), 8, d);
        put_above(y + i + 16, vshrq_n_u8(q, 4), 8, d);
    }
}

/* Elements 16 part + 0 ... 15 of each quarter of a half: their low bits are in two registers, their high ones
 * in one. */
INLINE void q6_k_put(float *y, const uint8_t *low, const uint8_t *high, const uint8_t *scales, float d)
{
    const uint8x16_t fifteen = vdupq_n_u8(15), upper = vdupq_n_u8(0x30);
    uint8x16_t even = vld1q_u8(low), odd = vld1q_u8(low + 32), h = vld1q_u8(high);
    uint8x16_t q[4] = {vorrq_u8(vandq_u8(even, fifteen), vandq_u8(vshlq_n_u8(h, 4), upper)),
                       vorrq_u8(vandq_u8(odd, fifteen), vandq_u8(vshlq_n_u8(h, 2), upper)),
                       vorrq_u8(vshrq_n_u8(even, 4), vandq_u8(h, upper)),
                       vorrq_u8(vshrq_n_u8(odd, 4), vandq_u8(vshrq_n_u8(h, 2), upper))};
    for (size_t g = 0; g < 4; g++)
        put_above(y + 32 * g, q[g], 32, d * (float)(int8_t)scales[2 * g]);
}

void bn_q6_k_to_f32_neon(float *y, const void *x, size_t n)
{
    const uint8_t *block = x;
    for (size_t i = 0; i < n; i += 256, block += 210) {
        float d = bn_ref_widen_f16(bn_load_u16(block + 208));
        for (size_t half = 0; half < 2; half++)
            for (size_t part = 0; part < 2; part++)
                q6_k_put(y + i + 128 * half + 16 * part, block + 64 * half + 16 * part,
                         block + 128 + 32 * half + 16 * part, block + 192 + 8 * half + part, d);
    }
}

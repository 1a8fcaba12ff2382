/* SPDX-License-Identifier: MIT
 *
 * ref.h - single values: what the reference kernels are made of, and the ends of rows in the others. The
 * vector code does the same steps on many values at once.
 */
#ifndef BN_KERNELS_REF_H
#define BN_KERNELS_REF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* exp: see the slot in kernels.h. The constants are here once for all instruction sets. */
#define BN_EXP_MIN -87.0f
#define BN_EXP_MAX 88.0f
#define BN_EXP_LOG2E 1.44269504f
#define BN_EXP_LN2_HIGH 0.693145752f
#define BN_EXP_LN2_LOW 1.42860677e-6f
#define BN_EXP_C6 (1.0f / 720.0f)
#define BN_EXP_C5 (1.0f / 120.0f)
#define BN_EXP_C4 (1.0f / 24.0f)
#define BN_EXP_C3 (1.0f / 6.0f)
#define BN_EXP_C2 0.5f

/* GELU: see the slot gelu_mul. 2 sqrt(2 / pi), and 0.044715 times that. */
#define BN_GELU_C1 1.59576912f
#define BN_GELU_C3 0.0713548163f

static inline uint32_t bn_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float bn_float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float bn_ref_exp(float x)
{
    if (x < BN_EXP_MIN) return 0.0f;
    if (x > BN_EXP_MAX) x = BN_EXP_MAX;
    if (isnan(x)) return x;
    float j = rintf(x * BN_EXP_LOG2E);
    float r = fmaf(-j, BN_EXP_LN2_HIGH, x);
    r = fmaf(-j, BN_EXP_LN2_LOW, r);
    float p = BN_EXP_C6;
    p = fmaf(p, r, BN_EXP_C5);
    p = fmaf(p, r, BN_EXP_C4);
    p = fmaf(p, r, BN_EXP_C3);
    p = fmaf(p, r, BN_EXP_C2);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    /* j is in -126..127, so 2^j is a normal number. */
    return p * bn_float_of_bits((uint32_t)((int32_t)j + 127) << 23);
}

/* One value of gelu_mul without the other factor. */
static inline float bn_ref_gelu(float g)
{
    float u = g * fmaf(g * g, BN_GELU_C3, BN_GELU_C1);
    return g / (1.0f + bn_ref_exp(-u));
}

/* Little endian, any alignment. */
static inline uint16_t bn_load_u16(const void *at)
{
    const uint8_t *byte = at;
    return (uint16_t)(byte[0] | byte[1] << 8);
}

static inline float bn_load_f32(const void *at)
{
    float x;
    memcpy(&x, at, sizeof x);
    return x;
}

/* Exact; a signalling NaN becomes quiet, as the processors do it. */
static inline float bn_ref_widen_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, fraction = h & 0x3FFu;
    if (exponent == 0) /* zero and subnormals: a multiple of 2^-24 */
        return bn_float_of_bits(sign | bn_float_bits((float)fraction * 0x1p-24f));
    if (exponent == 31)
        return bn_float_of_bits(sign | 0x7F800000u | fraction << 13 | (fraction != 0 ? 0x400000u : 0));
    return bn_float_of_bits(sign | (exponent + 112u) << 23 | fraction << 13);
}

/* To nearest even; a NaN becomes quiet and keeps the upper bits of its payload, as the processors do it. */
static inline uint16_t bn_ref_narrow_f16(float x)
{
    uint32_t bits = bn_float_bits(x), sign = bits >> 16 & 0x8000u, size = bits & 0x7FFFFFFFu;
    if (size > 0x7F800000u) return (uint16_t)(sign | 0x7E00u | (size >> 13 & 0x3FFu));
    if (size >= bn_float_bits(65520.0f)) return (uint16_t)(sign | 0x7C00u);
    /* Below 2^-14: next to 0.5 the last place of binary32 is worth 2^-24, so the addition rounds. */
    if (size < bn_float_bits(0x1p-14f))
        return (uint16_t)(sign | (bn_float_bits(bn_float_of_bits(size) + 0.5f) - bn_float_bits(0.5f)));
    size += 0xFFFu + (size >> 13 & 1u);
    return (uint16_t)(sign | (size - (112u << 23)) >> 13);
}

#endif

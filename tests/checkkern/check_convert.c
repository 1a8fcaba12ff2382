/* SPDX-License-Identifier: MIT
 *
 * Conversions. Binary16 to binary32 over all 65536 values; the way back at and beside every value where the
 * rounding turns; the block types against a decoder that goes by elements, not by bytes.
 */
#include "checkkern.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void put16(uint8_t *at, unsigned value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- 16-bit floats ---- */

static bool setup_widen(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    call->n = index + 1;
    if (class == CK_EXTREMES) {
        if (index > 0) return false;
        call->n = 65536;
    } else if (index >= 67) {
        return false;
    }
    size_t offset = class == CK_LAYOUT ? index % 3 : 0;
    ck->guard_before = class == CK_LAYOUT && offset == 0;
    uint8_t *x = ck_buffer(ck, CK_IN, CK_BYTES, offset + 2 * call->n);
    x += offset;
    for (size_t i = 0; i < call->n && class == CK_EXTREMES; i++)
        put16(x + 2 * i, (unsigned)i);
    call->weights = x;
    call->out = ck_buffer(ck, CK_OUT, CK_BYTES, call->n * sizeof(float));
    snprintf(call->text, sizeof call->text, "n=%zu offset=%zu", call->n, offset);
    return true;
}

CK_INVOKE(f16_to_f32, call->out, call->weights, call->n)

CK_INVOKE(bf16_to_f32, call->out, call->weights, call->n)

static bool exactly(struct ck *ck, size_t i, float got, double want)
{
    if (isnan(want)) return isnan(got) || ck_wrong(ck, "value %zu is no NaN", i);
    double g = (double)got;
    bool same = !(g < want) && !(g > want) && !isnan(g) && (signbit(g) != 0) == (signbit(want) != 0);
    return same || ck_wrong(ck, "value %zu is %a, expected %a", i, g, want);
}

static bool truth_f16_to_f32(struct ck *ck, const struct ck_call *call)
{
    const float *y = call->out;
    for (size_t i = 0; i < call->n; i++)
        if (!exactly(ck, i, y[i], ck_half(call->weights + 2 * i))) return false;
    return true;
}

static bool truth_bf16_to_f32(struct ck *ck, const struct ck_call *call)
{
    const float *y = call->out;
    for (size_t i = 0; i < call->n; i++) {
        unsigned b = call->weights[2 * i] | (unsigned)call->weights[2 * i + 1] << 8;
        int exponent = (int)(b >> 7 & 255), fraction = (int)(b & 127);
        double size = exponent == 255 ? (fraction != 0 ? (double)NAN : (double)INFINITY)
                      : exponent == 0 ? ldexp(fraction, -133)
                                      : ldexp(128 + fraction, exponent - 134);
        if (!exactly(ck, i, y[i], b >> 15 != 0 ? -size : size)) return false;
    }
    return true;
}

/* Every finite binary16, the point half way to the next, and the neighbours of both; infinities and NaNs. */
static size_t turning_points(float *x)
{
    size_t n = 0;
    for (unsigned h = 0; h <= 0x7BFF; h++) {
        uint8_t here[2], next[2];
        put16(here, h);
        put16(next, h + 1);
        double a = ck_half(here), b = h == 0x7BFF ? 65536.0 : ck_half(next);
        float point[2] = {(float)a, (float)((a + b) / 2)};
        for (size_t i = 0; i < 2; i++) {
            x[n++] = point[i];
            x[n++] = -nextafterf(point[i], 0.0f);
            x[n++] = nextafterf(point[i], 1e9f);
        }
    }
    static const uint32_t SPECIAL[] = {0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001,
                                       0x7F800001, 0x7FBFFFFF, 0xFF812345, 0x7FFFFFFF,
                                       0x00000001, 0x80000000, 0x807FFFFF, 0x7F7FFFFF};
    for (size_t i = 0; i < sizeof SPECIAL / sizeof *SPECIAL; i++)
        x[n++] = of_bits(SPECIAL[i]);
    return n;
}

#define N_TURNING (0x7C00 * 6 + 12)

static bool setup_f32_to_f16(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    call->n = index + 1;
    if (class == CK_EXTREMES) {
        if (index > 2 + CK_N_VALUES) return false;
        call->n = index == 0 ? N_TURNING : 3001;
    } else if (index >= 67) {
        return false;
    }
    ck->guard_before = class == CK_LAYOUT;
    float *x = ck_buffer(ck, CK_IN, CK_FLOATS, call->n * sizeof *x);
    if (class == CK_EXTREMES && index == 0)
        turning_points(x);
    else if (class == CK_EXTREMES && index > 2) /* cases 1 and 2: random bits, NaNs among them */
        ck_fill_f32(ck, x, call->n, index - 3);
    else if (class != CK_EXTREMES)
        ck_fill_f32(ck, x, call->n, CK_ORDINARY);
    call->a = x;
    call->out = ck_buffer(ck, CK_OUT, CK_BYTES, call->n * 2);
    snprintf(call->text, sizeof call->text, "n=%zu case %u", call->n, index);
    return true;
}

CK_INVOKE(f32_to_f16, call->out, call->a, call->n)

/* To nearest even by arithmetic: x in units of the last place, rounded by nearbyint. */
static double rounded_to_half(double x)
{
    int exponent;
    frexp(x, &exponent);
    int unit = exponent - 11 < -24 ? -24 : exponent - 11;
    double r = ldexp(nearbyint(ldexp(x, -unit)), unit);
    return fabs(r) > 65504 ? copysign((double)INFINITY, x) : r;
}

static bool truth_f32_to_f16(struct ck *ck, const struct ck_call *call)
{
    const float *x = call->a;
    for (size_t i = 0; i < call->n; i++) {
        double got = ck_half((const uint8_t *)call->out + 2 * i);
        double want = isnan(x[i]) ? (double)NAN : isinf(x[i]) ? (double)x[i] : rounded_to_half((double)x[i]);
        if (!exactly(ck, i, (float)got, want)) return false;
    }
    return true;
}

/* ---- blocks ---- */

enum { Q8_0, Q4_0, Q6_K };

static bool setup_blocks(struct ck *ck, struct ck_call *call, enum ck_class class, unsigned index)
{
    static const size_t BLOCK[] = {32, 32, 256}, BYTES[] = {34, 18, 210}, SCALE_AT[] = {0, 0, 208};
    size_t block = BLOCK[call->variant], block_bytes = BYTES[call->variant];
    size_t blocks = 1 + index % 9;
    enum ck_values values = CK_ORDINARY;
    if (class == CK_EXTREMES) {
        if (index >= CK_N_VALUES * 3) return false;
        values = index % CK_N_VALUES;
    } else if (index >= 27) {
        return false;
    }
    size_t offset = class == CK_LAYOUT ? index % 4 : 0;
    ck->guard_before = class == CK_LAYOUT && offset == 0;
    uint8_t *x = ck_buffer(ck, CK_IN, CK_BYTES, offset + blocks * block_bytes);
    x += offset;
    if (class == CK_EXTREMES && index >= CK_N_VALUES)
        memset(x, index < 2 * CK_N_VALUES ? 0xFF : 0x80, blocks * block_bytes);
    for (size_t b = 0; b < blocks; b++)
        ck_fill_f16(ck, x + b * block_bytes + SCALE_AT[call->variant], 1, values);
    call->weights = x;
    call->n = blocks * block;
    call->out = ck_buffer(ck, CK_OUT, CK_FLOATS, call->n * sizeof(float));
    snprintf(call->text, sizeof call->text, "n=%zu offset=%zu %s", call->n, offset, ck_values_name(values));
    return true;
}

CK_INVOKE(q8_0_to_f32, call->out, call->weights, call->n)
CK_INVOKE(q4_0_to_f32, call->out, call->weights, call->n)
CK_INVOKE(q6_k_to_f32, call->out, call->weights, call->n)

static bool truth_q8_0(struct ck *ck, const struct ck_call *call)
{
    const float *y = call->out;
    for (size_t i = 0; i < call->n; i++) {
        const uint8_t *block = call->weights + i / 32 * 34;
        int q = block[2 + i % 32] < 128 ? block[2 + i % 32] : block[2 + i % 32] - 256;
        /* 11 by 8 bits: exact */
        if (!exactly(ck, i, y[i], ck_half(block) * q)) return false;
    }
    return true;
}

static bool truth_q4_0(struct ck *ck, const struct ck_call *call)
{
    const float *y = call->out;
    for (size_t i = 0; i < call->n; i++) {
        const uint8_t *block = call->weights + i / 32 * 18;
        int q = (block[2 + i % 16] >> (i % 32 < 16 ? 0 : 4) & 15) - 8;
        if (!exactly(ck, i, y[i], ck_half(block) * q)) return false;
    }
    return true;
}

static bool truth_q6_k(struct ck *ck, const struct ck_call *call)
{
    const float *y = call->out;
    for (size_t i = 0; i < call->n; i++) {
        const uint8_t *block = call->weights + i / 256 * 210;
        size_t e = i % 256, low_byte = e / 128 * 64 + e % 64, low_shift = e % 128 / 64 * 4;
        size_t high_byte = 128 + e / 128 * 32 + e % 32, high_shift = e % 128 / 32 * 2;
        int q = (block[low_byte] >> low_shift & 15) + 16 * (block[high_byte] >> high_shift & 3) - 32;
        int scale = block[192 + e / 16] < 128 ? block[192 + e / 16] : block[192 + e / 16] - 256;
        double want = ck_half(block + 208) * scale * q; /* d * scale fits 18 bits: one rounding at the most */
        if (!ck_near(ck, "value", i, y[i], want, fabs(want) * 0x1p-24)) return false;
    }
    return true;
}

const struct ck_slot CK_CONVERT[] = {
    {BN_KERNEL_F32_TO_F16, setup_f32_to_f16, invoke_f32_to_f16, truth_f32_to_f16, 0},
    {BN_KERNEL_F16_TO_F32, setup_widen, invoke_f16_to_f32, truth_f16_to_f32, 0},
    {BN_KERNEL_BF16_TO_F32, setup_widen, invoke_bf16_to_f32, truth_bf16_to_f32, 0},
    {BN_KERNEL_Q8_0_TO_F32, setup_blocks, invoke_q8_0_to_f32, truth_q8_0, Q8_0},
    {BN_KERNEL_Q6_K_TO_F32, setup_blocks, invoke_q6_k_to_f32, truth_q6_k, Q6_K},
    {BN_KERNEL_Q4_0_TO_F32, setup_blocks, invoke_q4_0_to_f32, truth_q4_0, Q4_0},
    {BN_KERNEL_COUNT, NULL, NULL, NULL, 0},
};

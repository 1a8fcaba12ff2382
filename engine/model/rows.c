/* SPDX-License-Identifier: MIT
 *
 * Widens rows of the embedding and of the head to binary32, from any type they are stored in.
 */
#include "model/weights.h"

#include <string.h>

static void copy_f32(float *y, const void *x, size_t n)
{
    memcpy(y, x, n * sizeof *y);
}

/* Ternary blocks: value times scale, exact. */
static void widen_ternary(const struct bn_type_info *info, float *y, const uint8_t *block, size_t n)
{
    int8_t values[BN_TYPE_MAX_BLOCK];
    for (size_t i = 0; i < n; i += info->block, block += info->block_bytes) {
        uint16_t half = info->unpack(values, block, info->block);
        float scale;
        bn_kernels_ref.f16_to_f32(&scale, &half, 1);
        for (size_t k = 0; k < info->block; k++)
            y[i + k] = (float)values[k] * scale;
    }
}

static float half_at(const uint8_t *at)
{
    float x;
    bn_kernels_ref.f16_to_f32(&x, at, 1);
    return x;
}

/* Q4_K and Q5_K: blocks of 256 in eight groups of 32. A block has a scale and an offset in binary16, then for each
 * group six bits of both, then (Q5_K) the fifth bits, then the four low ones: 32 bytes hold two groups. */
static void kq_row(float *y, const uint8_t *block, size_t n, bool five)
{
    for (size_t i = 0; i < n; i += 256, block += five ? 176 : 144) {
        const uint8_t *six = block + 4, *fifth = block + 16, *low = fifth + (five ? 32 : 0);
        float d = half_at(block), offset = half_at(block + 2);
        for (unsigned g = 0; g < 8; g++) {
            unsigned scale = g < 4 ? six[g] & 63u : (six[g + 4] & 15u) | (six[g - 4] & 0xC0u) >> 2;
            unsigned least = g < 4 ? six[g + 4] & 63u : (unsigned)six[g + 4] >> 4 | (six[g] & 0xC0u) >> 2;
            float step = d * (float)scale, base = offset * (float)least;
            for (size_t k = 0; k < 32; k++) {
                unsigned q = low[g / 2 * 32 + k] >> (g % 2 * 4) & 15u;
                if (five) q |= (fifth[k] >> g & 1u) << 4;
                y[i + 32 * g + k] = step * (float)q - base;
            }
        }
    }
}

static void q4_k_row(float *y, const void *x, size_t n)
{
    kq_row(y, x, n, false);
}

static void q5_k_row(float *y, const void *x, size_t n)
{
    kq_row(y, x, n, true);
}

struct widening {
    enum bn_kernel slot;
    void (*widen)(float *y, const void *x, size_t n);
};

static struct widening widening_of(const struct bn_kernels *kernels, uint32_t type)
{
    switch (type) {
    case BN_TYPE_F16:
        return (struct widening){BN_KERNEL_F16_TO_F32, kernels->f16_to_f32};
    case BN_TYPE_BF16:
        return (struct widening){BN_KERNEL_BF16_TO_F32, kernels->bf16_to_f32};
    case BN_TYPE_Q8_0:
        return (struct widening){BN_KERNEL_Q8_0_TO_F32, kernels->q8_0_to_f32};
    case BN_TYPE_Q6_K:
        return (struct widening){BN_KERNEL_Q6_K_TO_F32, kernels->q6_k_to_f32};
    case BN_TYPE_Q4_0:
        return (struct widening){BN_KERNEL_Q4_0_TO_F32, kernels->q4_0_to_f32};
    case BN_TYPE_Q4_K:
        return (struct widening){BN_KERNEL_COUNT, q4_k_row};
    case BN_TYPE_Q5_K:
        return (struct widening){BN_KERNEL_COUNT, q5_k_row};
    default:
        return (struct widening){BN_KERNEL_COUNT, copy_f32};
    }
}

enum bn_kernel bn_matrix_slot(const struct bn_matrix *matrix)
{
    return widening_of(&bn_kernels_ref, matrix->type).slot;
}

void bn_widen(const struct bn_kernels *kernels, uint32_t type, float *out, const void *data, size_t n)
{
    const struct bn_type_info *info = bn_type_info(type);
    if (info->unpack != NULL)
        widen_ternary(info, out, data, n);
    else
        widening_of(kernels, type).widen(out, data, n);
}

void bn_matrix_row(const struct bn_kernels *kernels, const struct bn_matrix *matrix, size_t r, float *out)
{
    bn_widen(kernels, matrix->type, out, matrix->data + r * matrix->row_bytes, matrix->k);
}

/* Zero times infinity or NaN is NaN, and a sum keeps it. In vectors, since gcc makes none of it at -O2 and
 * this is done for each row of activations. */
bool bn_all_finite(const float *x, size_t n)
{
    typedef float lanes __attribute__((vector_size(16)));
    lanes a = {0}, b = {0}, c = {0}, d = {0}, v; /* four chains hide the latency of additions */
    float sum = 0.0f;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        memcpy(&v, x + i, sizeof v);
        a += v * 0.0f;
        memcpy(&v, x + i + 4, sizeof v);
        b += v * 0.0f;
        memcpy(&v, x + i + 8, sizeof v);
        c += v * 0.0f;
        memcpy(&v, x + i + 12, sizeof v);
        d += v * 0.0f;
    }
    a += b;
    c += d;
    a += c;
    for (; i < n; i++)
        sum += x[i] * 0.0f;
    for (unsigned k = 0; k < 4; k++)
        sum += a[k];
    return sum == 0.0f;
}

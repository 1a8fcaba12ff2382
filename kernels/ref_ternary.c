/* SPDX-License-Identifier: MIT
 *
 * The reference of the ternary kernels: I2_S and TQ2 matrices times int8 activations, and the making of those
 * activations. Plain C, written to be read; sums of integers are exact, so the others may add in any order.
 */
#include "kernels_table.h"
#include "ref.h"

/* Sum of (code - 1) * q over one 128-element block of I2_S. */
static int32_t i2s_block(const uint8_t *codes, const int8_t *q)
{
    int32_t sum = 0;
    for (size_t p = 0; p < 32; p++) {
        sum += ((codes[p] >> 6) - 1) * q[p];
        sum += ((codes[p] >> 4 & 3) - 1) * q[32 + p];
        sum += ((codes[p] >> 2 & 3) - 1) * q[64 + p];
        sum += ((codes[p] & 3) - 1) * q[96 + p];
    }
    return sum;
}

void bn_i2s_gemv_ref(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    for (size_t r = 0; r < w->rows; r++) {
        const uint8_t *codes = w->codes + r * w->row_bytes;
        int32_t sum = 0;
        for (size_t i = 0; i < w->k; i += BN_I2S_BLOCK)
            sum += i2s_block(codes + i / 4, x->q + i);
        y[r] = (float)sum / x->scale * w->scale;
    }
}

void bn_i2s_gemm_ref(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n)
{
    for (size_t j = 0; j < n; j++)
        bn_i2s_gemv_ref(y + j * ldy, w, &x[j]);
}

/* Sum of (code - 1) * q over one 256-element block of TQ2. */
static int32_t tq2_block(const uint8_t *codes, const int8_t *q)
{
    int32_t sum = 0;
    for (size_t half = 0; half < 2; half++)
        for (size_t m = 0; m < 32; m++)
            for (size_t n = 0; n < 4; n++)
                sum += ((codes[32 * half + m] >> (2 * n) & 3) - 1) * q[128 * half + 32 * n + m];
    return sum;
}

void bn_tq2_gemv_ref(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    for (size_t r = 0; r < w->rows; r++) {
        const uint8_t *block = w->codes + r * w->row_bytes;
        float acc = 0.0f;
        for (size_t i = 0; i < w->k; i += BN_TQ2_BLOCK, block += BN_TQ2_BLOCK_BYTES) {
            float d = bn_ref_widen_f16(bn_load_u16(block + 64));
            acc = fmaf((float)tq2_block(block, x->q + i), d, acc);
        }
        y[r] = acc / x->scale;
    }
}

void bn_tq2_gemm_ref(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n)
{
    for (size_t j = 0; j < n; j++)
        bn_tq2_gemv_ref(y + j * ldy, w, &x[j]);
}

void bn_quantize_ref(int8_t *q, float *scale, int32_t *sum, const float *x, size_t n)
{
    float max = 0.0f;
    for (size_t i = 0; i < n; i++)
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    double amax = (double)max > 1e-5 ? (double)max : 1e-5;
    float s = (float)(127.0 / amax);
    int32_t total = 0;
    for (size_t i = 0; i < n; i++) {
        float v = rintf(x[i] * s);
        v = v < 127.0f ? v : 127.0f;
        v = v > -127.0f ? v : -127.0f;
        q[i] = (int8_t)v;
        total += q[i];
    }
    *scale = s;
    *sum = total;
}

bool bn_has_code3_ref(const uint8_t *codes, size_t n)
{
    unsigned found = 0;
    for (size_t i = 0; i < n; i++)
        found |= codes[i] & codes[i] >> 1;
    return (found & 0x55u) != 0;
}

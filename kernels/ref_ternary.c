/* SPDX-License-Identifier: MIT
 *
 * The reference of the integer kernels: T5 matrices times int8 activations, the making of those
 * activations, and 8-bit matrices times 16-bit vectors. Plain C, written to be read; sums of integers are
 * exact, so the others may add in any order.
 */
#include "kernels/kernels_table.h"
#include "kernels/ref.h"

void bn_t5_gemv_ref(float *y, const struct bn_t5 *w, const struct bn_act *x)
{
    size_t n = w->picked != NULL ? w->n_picked : w->rows;
    for (size_t nth = 0; nth < n; nth++) {
        size_t r = w->picked != NULL ? w->picked[nth] : nth;
        const uint8_t *byte = w->codes + r * w->row_bytes;
        int32_t sum = 0;
        for (size_t i = 0; i < w->k; i += BN_T5_BLOCK)
            for (size_t p = 0; p < 64; p++, byte++) {
                const int8_t *q = x->q + i + p;
                int32_t v = *byte, four = v % 84;
                sum += four % 3 * q[0] + four / 3 % 3 * q[64] + four / 9 % 3 * q[128] + four / 27 * q[192] +
                       v / 84 * q[256];
            }
        y[r] = (float)(sum - x->total) / x->scale * w->scale;
    }
}

void bn_t5_pack_ref(uint8_t *out, const uint8_t *codes, size_t k)
{
    static const uint8_t WEIGHT[5] = {1, 3, 9, 27, 84};
    memset(out, 0, (k + BN_T5_BLOCK - 1) / BN_T5_BLOCK * BN_T5_BLOCK_BYTES);
    for (size_t i = 0; i < k; i += 8) { /* eight bytes at a time: no sum of a byte is above 248 */
        uint64_t eight, sum;
        uint8_t *byte = out + i / BN_T5_BLOCK * BN_T5_BLOCK_BYTES + i % 64;
        unsigned weight = WEIGHT[i % BN_T5_BLOCK / 64], shift = 6 - 2 * (unsigned)(i % BN_I2S_BLOCK / 32);
        memcpy(&eight, codes + i / BN_I2S_BLOCK * 32 + i % 32, sizeof eight);
        memcpy(&sum, byte, sizeof sum);
        sum += (eight >> shift & 0x0303030303030303u) * weight;
        memcpy(byte, &sum, sizeof sum);
    }
}

void bn_columns_gemv_ref(float *y, const struct bn_columns *w, const struct bn_act *x, const uint32_t *used,
                         size_t n)
{
    for (size_t r = 0; r < w->rows; r++) {
        size_t in_line = r % BN_COLUMN_ROWS;
        const uint8_t *byte =
            w->codes + r / BN_COLUMN_ROWS * 64 + in_line % 16 / 4 * 16 + in_line / 64 * 4 + r % 4;
        int32_t sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += ((byte[used[i] * w->column_bytes] >> (2 * (in_line / 16 % 4)) & 3) - 1) * x->q[used[i]];
        y[r] = (float)sum / x->scale * w->scale;
    }
}

void bn_i8_gemm_ref(float *y, size_t ldy, const int8_t *w, size_t rows, size_t k, const struct bn_planes *x,
                    size_t n)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++) {
            int64_t sum = 0;
            for (size_t i = 0; i < k; i++)
                sum += w[r * k + i] * (256 * x[j].high[i] + x[j].low[i]);
            y[j * ldy + r] = (float)sum;
        }
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

/* SPDX-License-Identifier: MIT
 *
 * The reference of the kernels for ternary weights in tiles, or in the rows of a file: products with activations of 16
 * or 8 bits, and the making of those. Plain C, written to be read.
 */
#include "kernels/blocks.h"
#include "kernels/kernels_table.h"
#include "kernels/ref.h"

/* Value i of a row of activations. */
static int32_t value_of(const struct bn_ternary *w, const struct bn_act *x, size_t i)
{
    size_t at = bn_in_plane(i);
    if (w->blocks == BN_BLOCKS_I2S) return x->q[i];
    return x->high != NULL ? 256 * x->high[at] + x->low[at] : x->low[at];
}

/* Sum of (code - 1) * q over the group of row r that starts at element `first`. */
static int32_t group_sum(const struct bn_ternary *w, size_t r, size_t first, const struct bn_act *x)
{
    int32_t sum = 0;
    for (size_t i = first; i < first + w->group; i++) {
        unsigned code = w->codes != NULL ? bn_ternary_code(w, r, i) : bn_stored_code(w, r, i);
        sum += ((int32_t)code - 1) * value_of(w, x, i);
    }
    return sum;
}

static int32_t row_sum(const struct bn_ternary *w, size_t r, const struct bn_act *x)
{
    int32_t sum = 0;
    for (size_t i = 0; i < w->k; i += w->group)
        sum += group_sum(w, r, i, x);
    return sum;
}

static uint16_t scale_of(const struct bn_ternary *w, size_t r, size_t g)
{
    if (w->codes == NULL) return bn_block_scale(w, w->stored + r * w->row_bytes + g * bn_block_bytes(w));
    return w->scales[(r / BN_TILE_ROWS * (w->k / w->group) + g) * BN_TILE_ROWS + r % BN_TILE_ROWS];
}

void bn_ternary_gemv_ref(float *y, const struct bn_ternary *w, const struct bn_act *x)
{
    size_t n_groups = w->k / w->group;
    for (size_t r = 0; r < w->rows; r++) {
        float acc = 0.0f;
        if (w->blocks == BN_BLOCKS_I2S) {
            y[r] = (float)row_sum(w, r, x) / x->scale * w->scale;
            continue;
        }
        for (size_t g = 0; g < n_groups; g++) {
            float t = (float)group_sum(w, r, g * w->group, x);
            if (x->high != NULL) t *= x->step[g];
            acc = fmaf(bn_ref_widen_f16(scale_of(w, r, g)), t, acc);
        }
        y[r] = acc / x->scale;
    }
}

void bn_ternary_gemm_ref(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x, size_t n)
{
    for (size_t j = 0; j < n; j++)
        bn_ternary_gemv_ref(y + j * ldy, w, &x[j]);
}

void bn_quantize16_ref(int8_t *high, int8_t *low, float *step, int32_t *sum, const float *x, size_t n,
                       size_t group)
{
    for (size_t g = 0; g < n / group; g++) {
        float amax = 0x1p-100f;
        for (size_t i = g * group; i < (g + 1) * group; i++)
            amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
        float power = bn_float_of_bits(bn_float_bits(amax) & 0x7F800000u);
        float per_step = 8192.0f / power; /* exact: powers of two */
        int32_t total = 0;
        for (size_t i = g * group; i < (g + 1) * group; i++) {
            float v = rintf(x[i] * per_step);
            int32_t q = (int32_t)(v < 16384.0f ? v : 16384.0f); /* it is more only when it is a NaN */
            high[bn_in_plane(i)] = (int8_t)((q + 128) >> 8);
            low[bn_in_plane(i)] = (int8_t)(((q + 128) & 255) - 128);
            total += q;
        }
        step[g] = power / 8192.0f;
        sum[g] = total;
    }
}

void bn_to_plane_ref(int8_t *plane, int32_t *sum, const int8_t *q, size_t n, size_t group)
{
    for (size_t g = 0; g < n / group; g++) {
        sum[g] = 0;
        for (size_t i = g * group; i < (g + 1) * group; i++) {
            plane[bn_in_plane(i)] = q[i];
            sum[g] += q[i];
        }
    }
}

/* SPDX-License-Identifier: MIT
 *
 * The reference of the kernels for ternary weights in tiles, or in the rows of a file: products with activations of 16
 * or 8 bits, the making of those, of tiles, and a code in a block. Plain C, written to be read.
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

/* ---- tiles, and codes in blocks ---- */

/* Digit d of a byte that holds five digits to base 3 as ceil(number * 256 / 243), the first one most significant. */
static unsigned digit(unsigned byte, size_t d)
{
    for (; d > 0; d--)
        byte = byte * 3 % 256;
    return byte * 3 / 256;
}

/* Weight i where three runs of n bytes have five digits, five digits and four digits: the d'th n weights of a run are
 * its digits d. */
static unsigned base3_code(const uint8_t *block, size_t i, size_t n)
{
    const size_t bytes[3] = {n, n / 2, n / 8};
    size_t run = i < 5 * bytes[0] ? 0 : i < 5 * (bytes[0] + bytes[1]) ? 1 : 2;
    for (size_t before = 0; before < run; before++) {
        i -= 5 * bytes[before];
        block += bytes[before];
    }
    return digit(block[i % bytes[run]], i / bytes[run]);
}

static unsigned code_of(enum bn_blocks blocks, const uint8_t *block, size_t i)
{
    switch (blocks) {
    case BN_BLOCKS_Q2:
        return block[2 + i / 4] >> (2 * (i % 4)) & 3u;
    case BN_BLOCKS_TQ2:
        return block[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3u;
    case BN_BLOCKS_TQ1:
        return base3_code(block, i, 32);
    case BN_BLOCKS_I2S:
        return block[i % 32] >> (6 - i / 32 * 2) & 3u;
    case BN_BLOCKS_PTQ1:
    default:
        return base3_code(block, i, 16);
    }
}

unsigned bn_stored_code(const struct bn_ternary *w, size_t r, size_t i)
{
    const uint8_t *row = w->stored + r * w->row_bytes;
    return code_of(w->blocks, row + i / w->group * bn_block_bytes(w), i % w->group);
}

/* The byte of row r whose codes lie at `at` in its part of a tile. */
static uint8_t tile_byte(const struct bn_ternary *w, size_t r, size_t at)
{
    unsigned packed = 0;
    if (w->blocks == BN_BLOCKS_I2S) return w->stored[r * w->row_bytes + at];
    for (size_t p = 0; p < 4; p++)
        packed |= bn_stored_code(w, r, 4 * at + p) << (2 * p);
    return (uint8_t)packed;
}

void bn_to_tiles_ref(uint8_t *codes, uint16_t *scales, const struct bn_ternary *w)
{
    size_t n_groups = w->k / w->group, n_tiles = (w->rows + BN_TILE_ROWS - 1) / BN_TILE_ROWS;
    size_t block_bytes = bn_block_bytes(w);
    for (size_t r = 0; r < n_tiles * BN_TILE_ROWS; r++) {
        size_t tile = r / BN_TILE_ROWS, row = r % BN_TILE_ROWS;
        uint8_t *out = codes + tile * 4 * w->k + 4 * row;
        for (size_t at = 0; at < w->k / 4; at++)
            out[at / 4 * 64 + at % 4] = r < w->rows ? tile_byte(w, r, at) : 0;
        for (size_t g = 0; w->blocks != BN_BLOCKS_I2S && g < n_groups; g++)
            scales[(tile * n_groups + g) * BN_TILE_ROWS + row] =
                r < w->rows ? bn_block_scale(w, w->stored + r * w->row_bytes + g * block_bytes) : 0;
    }
}

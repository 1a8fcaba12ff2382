/* SPDX-License-Identifier: MIT
 *
 * The formats of bn-bench quant, each as functions that encode and decode one row of a matrix.
 */
#include "tools/bench/quant/quant.h"

#include <math.h>
#include <string.h>

#include "gguf/types.h"
#include "kernels/ref.h"

#define MAX_ROW_CODES 4096u /* bytes of I2_S codes of a row, on the stack: 16384 weights */
#define Q4_1_BYTES 20u
#define Q8_0_BYTES 34u /* the scale in binary16, then 32 signed bytes */

/* ---- scalars ---- */

double bn_quant_row_sum(const float *w, size_t k)
{
    double sum = 0;
    for (size_t i = 0; i < k; i++)
        sum += (double)fabsf(w[i]);
    return sum;
}

float bn_quant_tensor_scale(const double *row_sums, size_t rows, size_t k)
{
    double sum = 0;
    for (size_t r = 0; r < rows; r++)
        sum += row_sums[r];
    return (float)(sum / ((double)rows * (double)k));
}

static void to_codes(int8_t *codes, const float *w, size_t n, float scale)
{
    float inverse = scale > 0 ? 1.0f / scale : 0.0f;
    for (size_t i = 0; i < n; i++) {
        float q = rintf(w[i] * inverse);
        codes[i] = (int8_t)(q > 0.0f ? 1 : q < 0.0f ? -1 : 0);
    }
}

static void from_codes(float *out, const int8_t *codes, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++)
        out[i] = scale * (float)codes[i];
}

static uint8_t *packed_row(const struct bn_quant_job *j, size_t row)
{
    return j->packed + row * bn_quant_row_bytes(j->format, j->k);
}

/* ---- blocks of ternary weights: the scale of each, in binary16, or that of the tensor ---- */

static void pack_row(uint8_t *out, const struct bn_quant_job *j, uint32_t type, size_t row)
{
    int8_t codes[BN_TYPE_MAX_BLOCK];
    const struct bn_type_info *t = bn_type_info(type);
    const float *w = j->w + row * j->k;
    for (size_t i = 0; i < j->k; i += t->block, out += t->block_bytes) {
        uint16_t half = bn_ref_narrow_f16((float)(bn_quant_row_sum(w + i, t->block) / t->block));
        to_codes(codes, w + i, t->block, j->format->tensor_scale ? j->scale : bn_ref_widen_f16(half));
        t->pack(out, codes, t->block, half);
    }
}

static void encode_blocks(const struct bn_quant_job *j, size_t row)
{
    pack_row(packed_row(j, row), j, j->format->type, row);
}

static void decode_blocks(const struct bn_quant_job *j, size_t row)
{
    int8_t codes[BN_TYPE_MAX_BLOCK];
    const struct bn_type_info *t = bn_type_info(j->format->type);
    const uint8_t *in = packed_row(j, row);
    for (size_t i = 0; i < j->k; i += t->block, in += t->block_bytes) {
        float scale = bn_ref_widen_f16(t->unpack(codes, in, t->block));
        from_codes(j->back + row * j->k + i, codes, t->block, j->format->tensor_scale ? j->scale : scale);
    }
}

/* ---- T5: made from a row of I2_S codes, as the engine does at load ---- */

static void encode_t5(const struct bn_quant_job *j, size_t row)
{
    uint8_t codes[MAX_ROW_CODES];
    pack_row(codes, j, BN_TYPE_I2_S, row);
    j->kernels->t5_pack(packed_row(j, row), codes, j->k);
}

static void decode_t5(const struct bn_quant_job *j, size_t row)
{
    int8_t codes[BN_T5_BLOCK];
    const uint8_t *in = packed_row(j, row);
    for (size_t i = 0; i < j->k; i += BN_T5_BLOCK, in += BN_T5_BLOCK_BYTES) {
        bn_unpack_t5(codes, in);
        from_codes(j->back + row * j->k + i, codes, bn_min_size(BN_T5_BLOCK, j->k - i), j->scale);
    }
}

/* ---- more bits, for comparison ---- */

/* Byte j of 16 holds elements j (low) and 16 + j. */
static void encode_q4_1(const struct bn_quant_job *j, size_t row)
{
    const float *w = j->w + row * j->k;
    uint8_t *out = packed_row(j, row);
    for (size_t i = 0; i < j->k; i += 32, w += 32, out += Q4_1_BYTES) {
        float low = w[0], high = w[0];
        for (size_t e = 1; e < 32; e++) {
            low = fminf(low, w[e]);
            high = fmaxf(high, w[e]);
        }
        uint16_t head[2] = {bn_ref_narrow_f16((high - low) / 15.0f), bn_ref_narrow_f16(low)};
        float d = bn_ref_widen_f16(head[0]), m = bn_ref_widen_f16(head[1]), inverse = d > 0 ? 1.0f / d : 0.0f;
        memcpy(out, head, sizeof head);
        for (size_t e = 0; e < 16; e++) {
            unsigned pair = 0;
            for (size_t half = 0; half < 2; half++)
                pair |= (unsigned)fminf(fmaxf(rintf((w[e + 16 * half] - m) * inverse), 0.0f), 15.0f)
                        << (4 * half);
            out[4 + e] = (uint8_t)pair;
        }
    }
}

static void decode_q4_1(const struct bn_quant_job *j, size_t row)
{
    const uint8_t *in = packed_row(j, row);
    float *out = j->back + row * j->k;
    for (size_t i = 0; i < j->k; i += 32, in += Q4_1_BYTES, out += 32) {
        uint16_t head[2];
        memcpy(head, in, sizeof head);
        float d = bn_ref_widen_f16(head[0]), m = bn_ref_widen_f16(head[1]);
        for (size_t e = 0; e < 16; e++) {
            out[e] = d * (float)(in[4 + e] & 15) + m;
            out[16 + e] = d * (float)(in[4 + e] >> 4) + m;
        }
    }
}

static void encode_q8_0(const struct bn_quant_job *j, size_t row)
{
    const float *w = j->w + row * j->k;
    uint8_t *out = packed_row(j, row);
    for (size_t i = 0; i < j->k; i += 32, w += 32, out += Q8_0_BYTES) {
        float most = 0;
        for (size_t e = 0; e < 32; e++)
            most = fmaxf(most, fabsf(w[e]));
        uint16_t half = bn_ref_narrow_f16(most / 127.0f);
        float d = bn_ref_widen_f16(half), inverse = d > 0 ? 1.0f / d : 0.0f;
        memcpy(out, &half, sizeof half);
        for (size_t e = 0; e < 32; e++)
            out[2 + e] = (uint8_t)(int8_t)fminf(fmaxf(rintf(w[e] * inverse), -127.0f), 127.0f);
    }
}

static void decode_q8_0(const struct bn_quant_job *j, size_t row)
{
    j->kernels->q8_0_to_f32(j->back + row * j->k, packed_row(j, row), j->k);
}

static void encode_f16(const struct bn_quant_job *j, size_t row)
{
    j->kernels->f32_to_f16((uint16_t *)(void *)packed_row(j, row), j->w + row * j->k, j->k);
}

static void decode_f16(const struct bn_quant_job *j, size_t row)
{
    j->kernels->f16_to_f32(j->back + row * j->k, packed_row(j, row), j->k);
}

/* ---- the list ---- */

#define PLAIN BN_KERNEL_COUNT
#define BLOCKS(type, scales, block, bytes, tail, tensor)                                       \
    {                                                                                          \
#type, scales, tensor, block, bytes, tail, encode_blocks, decode_blocks, PLAIN, PLAIN, \
            BN_TYPE_##type                                                                     \
    }

const struct bn_quant_format bn_quant_formats[BN_QUANT_FORMATS] = {
    BLOCKS(I2_S, "tensor", BN_I2S_BLOCK, BN_I2S_BLOCK / 4, BN_I2S_TAIL_BYTES, true),
    {"T5", "tensor", true, BN_T5_BLOCK, BN_T5_BLOCK_BYTES, 4, encode_t5, decode_t5, BN_KERNEL_T5_PACK, PLAIN,
     0},
    BLOCKS(TQ2_0, "256", BN_TQ2_BLOCK, BN_TQ2_BLOCK_BYTES, 0, false),
    BLOCKS(TQ1_0, "256", BN_TQ2_BLOCK, BN_TQ1_BLOCK_BYTES, 0, false),
    BLOCKS(Q2_0, "64", 64, 18, 0, false),
    BLOCKS(PQ2_0, "128", 128, 34, 0, false),
    BLOCKS(PTQ1_0, "128", BN_PTQ1_BLOCK, BN_PTQ1_BLOCK_BYTES, 0, false),
    {"Q4_1", "32", false, 32, Q4_1_BYTES, 0, encode_q4_1, decode_q4_1, PLAIN, PLAIN, 0},
    {"Q8_0", "32", false, 32, Q8_0_BYTES, 0, encode_q8_0, decode_q8_0, PLAIN, BN_KERNEL_Q8_0_TO_F32, 0},
    {"F16", "none", false, 1, 2, 0, encode_f16, decode_f16, BN_KERNEL_F32_TO_F16, BN_KERNEL_F16_TO_F32, 0},
};

size_t bn_quant_row_bytes(const struct bn_quant_format *format, size_t k)
{
    return (k + format->block - 1) / format->block * format->block_bytes;
}

uint64_t bn_quant_bytes(const struct bn_quant_format *format, size_t rows, size_t k)
{
    return (uint64_t)rows * bn_quant_row_bytes(format, k) + format->tail_bytes;
}

double bn_quant_bits(const struct bn_quant_format *format, size_t rows, size_t k)
{
    return 8.0 * (double)bn_quant_bytes(format, rows, k) / ((double)rows * (double)k);
}

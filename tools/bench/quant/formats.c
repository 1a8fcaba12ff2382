/* SPDX-License-Identifier: MIT
 *
 * The formats of bn-bench quant, each as functions that encode and decode one row of a matrix.
 */
#include "tools/bench/quant/quant.h"

#include <math.h>
#include <string.h>

#include "gguf/types.h"

#define MAX_ROW_CODES 4096u /* bytes of I2_S codes of a row, on the stack: 16384 weights */
#define Q4_1_BYTES 20u
#define Q8_0_BYTES 34u /* the scale in binary16, then 32 signed bytes */
#define Q2_BLOCK 64u
#define PQ2_BLOCK 128u

/* ---- scalars ---- */

uint16_t bn_quant_narrow(float x)
{
    uint16_t half;
    bn_kernels_ref.f32_to_f16(&half, &x, 1);
    return half;
}

float bn_quant_widen(uint16_t half)
{
    float x;
    bn_kernels_ref.f16_to_f32(&x, &half, 1);
    return x;
}

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

static float mean_abs(const float *w, size_t n)
{
    return (float)(bn_quant_row_sum(w, n) / (double)n);
}

static uint8_t *packed_row(const struct bn_quant_job *j, size_t row)
{
    return j->packed + row * bn_quant_row_bytes(j->format, j->k);
}

/* ---- I2_S: one scale for the tensor ---- */

static void to_i2s(uint8_t *out, const float *w, size_t k, float scale)
{
    int8_t codes[BN_I2S_BLOCK];
    for (size_t i = 0; i < k; i += BN_I2S_BLOCK) {
        to_codes(codes, w + i, BN_I2S_BLOCK, scale);
        bn_pack_i2s(out + i / 4, codes);
    }
}

static void encode_i2s(const struct bn_quant_job *j, size_t row)
{
    to_i2s(packed_row(j, row), j->w + row * j->k, j->k, j->scale);
}

static void decode_i2s(const struct bn_quant_job *j, size_t row)
{
    int8_t codes[BN_I2S_BLOCK];
    const uint8_t *in = packed_row(j, row);
    for (size_t i = 0; i < j->k; i += BN_I2S_BLOCK) {
        bn_unpack_i2s(codes, in + i / 4);
        from_codes(j->back + row * j->k + i, codes, BN_I2S_BLOCK, j->scale);
    }
}

/* ---- blocks with a binary16 scale each ---- */

static void encode_blocks(const struct bn_quant_job *j, size_t row)
{
    int8_t codes[BN_TQ2_BLOCK]; /* the largest */
    size_t n = j->format->block;
    const float *w = j->w + row * j->k;
    uint8_t *out = packed_row(j, row);
    for (size_t i = 0; i < j->k; i += n, out += j->format->block_bytes) {
        uint16_t half = bn_quant_narrow(mean_abs(w + i, n));
        to_codes(codes, w + i, n, bn_quant_widen(half));
        bn_type_info(j->format->type)->pack(out, codes, half);
    }
}

static void decode_blocks(const struct bn_quant_job *j, size_t row)
{
    int8_t codes[BN_TQ2_BLOCK];
    size_t n = j->format->block;
    const uint8_t *in = packed_row(j, row);
    for (size_t i = 0; i < j->k; i += n, in += j->format->block_bytes) {
        uint16_t half = j->format->unpack(codes, in);
        from_codes(j->back + row * j->k + i, codes, n, bn_quant_widen(half));
    }
}

static uint16_t unpack_q2(int8_t *values, const uint8_t *block)
{
    return bn_unpack_q2(values, block, Q2_BLOCK);
}

static uint16_t unpack_pq2(int8_t *values, const uint8_t *block)
{
    return bn_unpack_q2(values, block, PQ2_BLOCK);
}

/* ---- T5: made from a row of I2_S codes, as the engine does at load ---- */

static void encode_t5(const struct bn_quant_job *j, size_t row)
{
    uint8_t codes[MAX_ROW_CODES];
    to_i2s(codes, j->w + row * j->k, j->k, j->scale);
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
            low = w[e] < low ? w[e] : low;
            high = w[e] > high ? w[e] : high;
        }
        uint16_t head[2] = {bn_quant_narrow((high - low) / 15.0f), bn_quant_narrow(low)};
        float d = bn_quant_widen(head[0]), m = bn_quant_widen(head[1]), inverse = d > 0 ? 1.0f / d : 0.0f;
        memcpy(out, head, sizeof head);
        for (size_t e = 0; e < 16; e++) {
            unsigned pair = 0;
            for (size_t half = 0; half < 2; half++) {
                float q = rintf((w[e + 16 * half] - m) * inverse);
                q = q < 0.0f ? 0.0f : q > 15.0f ? 15.0f : q;
                pair |= (unsigned)q << (4 * half);
            }
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
        float d = bn_quant_widen(head[0]), m = bn_quant_widen(head[1]);
        for (size_t e = 0; e < 16; e++) {
            out[e] = d * (float)(in[4 + e] & 15) + m;
            out[16 + e] = d * (float)(in[4 + e] >> 4) + m;
        }
    }
}

static void to_q8_0(uint8_t *block, const float *w)
{
    float most = 0;
    for (size_t e = 0; e < 32; e++)
        most = fabsf(w[e]) > most ? fabsf(w[e]) : most;
    uint16_t half = bn_quant_narrow(most / 127.0f);
    float d = bn_quant_widen(half), inverse = d > 0 ? 1.0f / d : 0.0f;
    memcpy(block, &half, sizeof half);
    for (size_t e = 0; e < 32; e++) {
        float q = rintf(w[e] * inverse);
        q = q < -127.0f ? -127.0f : q > 127.0f ? 127.0f : q;
        block[2 + e] = (uint8_t)(int8_t)q;
    }
}

static void encode_q8_0(const struct bn_quant_job *j, size_t row)
{
    const float *w = j->w + row * j->k;
    uint8_t *out = packed_row(j, row);
    for (size_t i = 0; i < j->k; i += 32, w += 32, out += Q8_0_BYTES)
        to_q8_0(out, w);
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

void bn_quant_activations(const struct bn_quant_job *j, size_t row)
{
    int8_t *out = j->act + row * (j->k + 8);
    float scale;
    int32_t sum;
    j->kernels->quantize(out, &scale, &sum, j->w + row * j->k, j->k);
    memcpy(out + j->k, &scale, sizeof scale);
    memcpy(out + j->k + 4, &sum, sizeof sum);
}

/* ---- the list ---- */

#define PLAIN BN_KERNEL_COUNT
#define BLOCKS(name, scales, block, bytes, type, unpack)                                                     \
    {                                                                                                        \
        name, scales, true, false, block, bytes, 0, encode_blocks, decode_blocks, PLAIN, PLAIN, type, unpack \
    }

static const struct bn_quant_format FORMATS[] = {
    {"I2_S", "tensor", true, true, BN_I2S_BLOCK, BN_I2S_BLOCK / 4, BN_I2S_TAIL_BYTES, encode_i2s, decode_i2s,
     PLAIN, PLAIN, 0, NULL},
    {"T5", "tensor", true, true, BN_T5_BLOCK, BN_T5_BLOCK_BYTES, 4, encode_t5, decode_t5, BN_KERNEL_T5_PACK,
     PLAIN, 0, NULL},
    BLOCKS("TQ2_0", "256", BN_TQ2_BLOCK, BN_TQ2_BLOCK_BYTES, BN_TYPE_TQ2_0, bn_unpack_tq2),
    BLOCKS("TQ1_0", "256", BN_TQ2_BLOCK, BN_TQ1_BLOCK_BYTES, BN_TYPE_TQ1_0, bn_unpack_tq1),
    BLOCKS("Q2_0", "64", Q2_BLOCK, 2 + Q2_BLOCK / 4, BN_TYPE_Q2_0, unpack_q2),
    BLOCKS("PQ2_0", "128", PQ2_BLOCK, 2 + PQ2_BLOCK / 4, BN_TYPE_PQ2_0, unpack_pq2),
    BLOCKS("PTQ1_0", "128", BN_PTQ1_BLOCK, BN_PTQ1_BLOCK_BYTES, BN_TYPE_PTQ1_0, bn_unpack_ptq1),
    {"Q4_1", "32", false, false, 32, Q4_1_BYTES, 0, encode_q4_1, decode_q4_1, PLAIN, PLAIN, 0, NULL},
    {"Q8_0", "32", false, false, 32, Q8_0_BYTES, 0, encode_q8_0, decode_q8_0, PLAIN, BN_KERNEL_Q8_0_TO_F32, 0,
     NULL},
    {"F16", "none", false, false, 1, 2, 0, encode_f16, decode_f16, BN_KERNEL_F32_TO_F16, BN_KERNEL_F16_TO_F32,
     0, NULL},
};
_Static_assert(BN_ARRAY_LEN(FORMATS) == BN_QUANT_FORMATS, "one for each");

const struct bn_quant_format *bn_quant_format(size_t i)
{
    return i < BN_QUANT_FORMATS ? &FORMATS[i] : NULL;
}

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

/* SPDX-License-Identifier: MIT
 *
 * The reference of the conversions: stored types to binary32 and binary32 to binary16. The block formats are
 * those of GGUF; quantised types that no matrix kernel knows are only read, row by row, for embeddings.
 */
#include "kernels/kernels_table.h"
#include "kernels/ref.h"

void bn_f32_to_f16_ref(uint16_t *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = bn_ref_narrow_f16(x[i]);
}

void bn_f16_to_f32_ref(float *y, const void *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = bn_ref_widen_f16(bn_load_u16((const uint8_t *)x + 2 * i));
}

/* The upper half of a binary32, NaNs included. */
void bn_bf16_to_f32_ref(float *y, const void *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = bn_float_of_bits((uint32_t)bn_load_u16((const uint8_t *)x + 2 * i) << 16);
}

/* 32 elements in 34 bytes: binary16 d, 32 int8. */
void bn_q8_0_to_f32_ref(float *y, const void *x, size_t n)
{
    const uint8_t *block = x;
    for (size_t i = 0; i < n; i += 32, block += 34) {
        float d = bn_ref_widen_f16(bn_load_u16(block));
        for (size_t j = 0; j < 32; j++)
            y[i + j] = d * (float)(int8_t)block[2 + j];
    }
}

/* 32 elements in 18 bytes: binary16 d, then byte j holds elements j (low nibble) and 16 + j. */
void bn_q4_0_to_f32_ref(float *y, const void *x, size_t n)
{
    const uint8_t *block = x;
    for (size_t i = 0; i < n; i += 32, block += 18) {
        float d = bn_ref_widen_f16(bn_load_u16(block));
        for (size_t j = 0; j < 16; j++) {
            y[i + j] = d * (float)((block[2 + j] & 15) - 8);
            y[i + 16 + j] = d * (float)((block[2 + j] >> 4) - 8);
        }
    }
}

/* 256 elements in 210 bytes: 128 bytes of low nibbles, 64 bytes of upper bit pairs, 16 int8 scales (one per
 * 16 elements), binary16 d. In each half of 128 elements, element 32 g + m has its nibble in byte 32 (g mod
 * 2) + m of the half's 64 (low nibble for g < 2) and its upper bits in byte m of the half's 32, at bit 2 g.
 */
void bn_q6_k_to_f32_ref(float *y, const void *x, size_t n)
{
    const uint8_t *block = x;
    for (size_t i = 0; i < n; i += 256, block += 210) {
        float d = bn_ref_widen_f16(bn_load_u16(block + 208));
        for (size_t e = 0; e < 256; e++) {
            size_t half = e / 128, g = e % 128 / 32, m = e % 32;
            unsigned low = (unsigned)block[64 * half + 32 * (g % 2) + m] >> (g < 2 ? 0 : 4) & 15u;
            unsigned high = (unsigned)block[128 + 32 * half + m] >> (2 * g) & 3u;
            float scale = d * (float)(int8_t)block[192 + e / 16];
            y[i + e] = scale * (float)((int)(low | high << 4) - 32);
        }
    }
}

/* SPDX-License-Identifier: MIT
 *
 * Packs ternary values into the block formats of files and unpacks them, in plain C.
 */
#include "model/pack.h"

#include <string.h>

void bn_pack_i2s(uint8_t out[32], const int8_t values[BN_I2S_BLOCK])
{
    for (unsigned p = 0; p < 32; p++) {
        unsigned packed = 0;
        for (unsigned n = 0; n < 4; n++)
            packed = packed << 2 | (unsigned)(values[32 * n + p] + 1);
        out[p] = (uint8_t)packed;
    }
}

void bn_unpack_i2s(int8_t values[BN_I2S_BLOCK], const uint8_t codes[32])
{
    for (unsigned j = 0; j < BN_I2S_BLOCK; j++)
        values[j] = (int8_t)((codes[j % 32] >> (6 - 2 * (j / 32)) & 3) - 1);
}

static void put_scale(uint8_t *out, uint16_t scale)
{
    out[0] = (uint8_t)(scale & 0xFF);
    out[1] = (uint8_t)(scale >> 8);
}

static uint16_t get_scale(const uint8_t *in)
{
    return (uint16_t)(in[0] | in[1] << 8);
}

void bn_pack_tq2(uint8_t out[BN_TQ2_BLOCK_BYTES], const int8_t values[BN_TQ2_BLOCK], uint16_t scale)
{
    for (unsigned byte = 0; byte < 64; byte++) {
        unsigned packed = 0;
        for (unsigned n = 0; n < 4; n++)
            packed |= (unsigned)(values[128 * (byte / 32) + 32 * n + byte % 32] + 1) << (2 * n);
        out[byte] = (uint8_t)packed;
    }
    put_scale(out + 64, scale);
}

uint16_t bn_unpack_tq2(int8_t values[BN_TQ2_BLOCK], const uint8_t block[BN_TQ2_BLOCK_BYTES])
{
    for (unsigned j = 0; j < BN_TQ2_BLOCK; j++)
        values[j] = (int8_t)((block[j / 128 * 32 + j % 32] >> (2 * (j % 128 / 32)) & 3) - 1);
    return get_scale(block + 64);
}

/* Five digits to base 3, the first one most significant, as ceil(number * 256 / 243); missing digits are 0.
 */
static uint8_t pack_five(const int8_t *values, unsigned stride, unsigned n)
{
    unsigned number = 0;
    for (unsigned i = 0; i < 5; i++)
        number = number * 3 + (i < n ? (unsigned)(values[i * stride] + 1) : 0);
    return (uint8_t)((number * 256 + 242) / 243);
}

/* Digit n of such a byte, minus one. */
static int8_t digit(unsigned byte, unsigned n)
{
    static const uint8_t POW3[5] = {1, 3, 9, 27, 81};
    return (int8_t)((int)((byte * POW3[n]) % 256u * 3u / 256u) - 1);
}

void bn_pack_tq1(uint8_t out[BN_TQ1_BLOCK_BYTES], const int8_t values[BN_TQ2_BLOCK], uint16_t scale)
{
    for (unsigned m = 0; m < 32; m++)
        out[m] = pack_five(values + m, 32, 5);
    for (unsigned m = 0; m < 16; m++)
        out[32 + m] = pack_five(values + 160 + m, 16, 5);
    for (unsigned m = 0; m < 4; m++)
        out[48 + m] = pack_five(values + 240 + m, 4, 4);
    put_scale(out + 52, scale);
}

uint16_t bn_unpack_tq1(int8_t values[BN_TQ2_BLOCK], const uint8_t block[BN_TQ1_BLOCK_BYTES])
{
    for (unsigned n = 0; n < 5; n++)
        for (unsigned m = 0; m < 32; m++)
            values[32 * n + m] = digit(block[m], n);
    for (unsigned n = 0; n < 5; n++)
        for (unsigned m = 0; m < 16; m++)
            values[160 + 16 * n + m] = digit(block[32 + m], n);
    for (unsigned n = 0; n < 4; n++)
        for (unsigned m = 0; m < 4; m++)
            values[240 + 4 * n + m] = digit(block[48 + m], n);
    return get_scale(block + 52);
}

void bn_unpack_t5(int8_t values[BN_T5_BLOCK], const uint8_t block[BN_T5_BLOCK_BYTES])
{
    static const uint8_t POW3[4] = {1, 3, 9, 27};
    for (unsigned p = 0; p < BN_T5_BLOCK_BYTES; p++) {
        unsigned four = block[p] % 84u;
        for (unsigned d = 0; d < 4; d++)
            values[64 * d + p] = (int8_t)((int)(four / POW3[d] % 3u) - 1);
        values[256 + p] = (int8_t)((int)(block[p] / 84u) - 1);
    }
}

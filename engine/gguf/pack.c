/* SPDX-License-Identifier: MIT
 *
 * Packs ternary values into the block formats of files and unpacks them, in plain C.
 */
#include "gguf/types.h"

void bn_pack_i2s(uint8_t *out, const int8_t *values, size_t n_values, uint16_t scale)
{
    (void)n_values, (void)scale;
    for (unsigned p = 0; p < 32; p++) {
        unsigned packed = 0;
        for (unsigned n = 0; n < 4; n++)
            packed = packed << 2 | (unsigned)(values[32 * n + p] + 1);
        out[p] = (uint8_t)packed;
    }
}

uint16_t bn_unpack_i2s(int8_t *values, const uint8_t *block, size_t n)
{
    for (unsigned j = 0; j < n; j++)
        values[j] = (int8_t)((block[j % 32] >> (6 - 2 * (j / 32)) & 3) - 1);
    return 0;
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

void bn_pack_tq2(uint8_t *out, const int8_t *values, size_t n_values, uint16_t scale)
{
    for (unsigned byte = 0; byte < n_values / 4; byte++) {
        unsigned packed = 0;
        for (unsigned n = 0; n < 4; n++)
            packed |= (unsigned)(values[128 * (byte / 32) + 32 * n + byte % 32] + 1) << (2 * n);
        out[byte] = (uint8_t)packed;
    }
    put_scale(out + 64, scale);
}

uint16_t bn_unpack_tq2(int8_t *values, const uint8_t *block, size_t n)
{
    for (unsigned j = 0; j < n; j++)
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

/* A block of n weights has three stages of n / SHARE bytes each: a stage of m bytes that begins at weight `first` holds
 * weight first + m d + i as digit d of byte i; five digits a byte, four in the last stage. */
static const unsigned SHARE[3] = {8, 16, 64}, DIGITS[3] = {5, 5, 4};

void bn_pack_base3(uint8_t *out, const int8_t *values, size_t n, uint16_t scale)
{
    for (unsigned stage = 0; stage < 3; stage++) {
        unsigned bytes = (unsigned)n / SHARE[stage];
        for (unsigned i = 0; i < bytes; i++)
            *out++ = pack_five(values + i, bytes, DIGITS[stage]);
        values += bytes * DIGITS[stage];
    }
    put_scale(out, scale);
}

uint16_t bn_unpack_base3(int8_t *values, const uint8_t *block, size_t n)
{
    for (unsigned stage = 0; stage < 3; block += n / SHARE[stage], stage++)
        for (unsigned d = 0; d < DIGITS[stage]; d++)
            for (unsigned i = 0; i < n / SHARE[stage]; i++)
                *values++ = digit(block[i], d);
    return get_scale(block);
}

void bn_pack_q2(uint8_t *out, const int8_t *values, size_t n, uint16_t scale)
{
    put_scale(out, scale);
    for (size_t i = 0; i < n / 4; i++) {
        unsigned packed = 0;
        for (unsigned p = 0; p < 4; p++)
            packed |= (unsigned)(values[4 * i + p] + 1) << (2 * p);
        out[2 + i] = (uint8_t)packed;
    }
}

uint16_t bn_unpack_q2(int8_t *values, const uint8_t *block, size_t n)
{
    for (size_t j = 0; j < n; j++)
        values[j] = (int8_t)((block[2 + j / 4] >> (2 * (j % 4)) & 3) - 1);
    return get_scale(block);
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

/* SPDX-License-Identifier: MIT
 *
 * Ternary values -1, 0, +1 into the block formats and back, in plain C, one block at a time. The layouts of
 * I2_S and T5 are described in kernels.h. Making and checking files needs these; decoding reads the packed
 * forms as they are. Programs find these functions in the table of types.h.
 */
#ifndef BN_GGUF_PACK_H
#define BN_GGUF_PACK_H

#include "kernels/kernels.h"

/* TQ2_0: blocks of 256 in 64 bytes and a binary16 scale, element 128h + 32n + m in byte 32h + m at bits 2n. TQ1_0:
 * the same in 48 + 4 bytes of five and four trits each, and the scale. */
#define BN_TQ2_BLOCK 256u
#define BN_TQ2_BLOCK_BYTES 66u
#define BN_TQ1_BLOCK_BYTES 54u
#define BN_PTQ1_BLOCK 128u
#define BN_PTQ1_BLOCK_BYTES 28u

void bn_pack_i2s(uint8_t out[32], const int8_t values[BN_I2S_BLOCK]);
void bn_unpack_i2s(int8_t values[BN_I2S_BLOCK], const uint8_t codes[32]);
/* scale: binary16, stored after the codes. */
void bn_pack_tq2(uint8_t out[BN_TQ2_BLOCK_BYTES], const int8_t values[BN_TQ2_BLOCK], uint16_t scale);
uint16_t bn_unpack_tq2(int8_t values[BN_TQ2_BLOCK], const uint8_t block[BN_TQ2_BLOCK_BYTES]);
void bn_pack_tq1(uint8_t out[BN_TQ1_BLOCK_BYTES], const int8_t values[BN_TQ2_BLOCK], uint16_t scale);
uint16_t bn_unpack_tq1(int8_t values[BN_TQ2_BLOCK], const uint8_t block[BN_TQ1_BLOCK_BYTES]);
/* Q2_0 (n = 64) and PQ2_0 (n = 128): the scale, then weight j in byte j / 4 at bits 2 (j mod 4). */
void bn_pack_q2(uint8_t *out, const int8_t *values, size_t n, uint16_t scale);
uint16_t bn_unpack_q2(int8_t *values, const uint8_t *block, size_t n);
/* PTQ1_0: 128 weights to base 3 in 24 + 2 bytes, then the scale. */
void bn_pack_ptq1(uint8_t out[BN_PTQ1_BLOCK_BYTES], const int8_t values[BN_PTQ1_BLOCK], uint16_t scale);
uint16_t bn_unpack_ptq1(int8_t values[BN_PTQ1_BLOCK], const uint8_t block[BN_PTQ1_BLOCK_BYTES]);
/* What the t5_pack slot packs. */
void bn_unpack_t5(int8_t values[BN_T5_BLOCK], const uint8_t block[BN_T5_BLOCK_BYTES]);

#endif

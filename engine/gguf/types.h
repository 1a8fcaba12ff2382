/* SPDX-License-Identifier: MIT
 *
 * The tensor types of GGUF files that this engine reads: names, block sizes, bytes.
 */
#ifndef BN_MODEL_TYPES_H
#define BN_MODEL_TYPES_H

#include "base/mem.h"
#include "kernels/kernels.h"

/* The numbers are those of the files. Some have more than one meaning: 36 is I2_S only in BitNet files, and 42
 * is Q2_0 with blocks of 64 weights or, from an older program, of 128, which is the layout of PQ2_0; see
 * bn_gguf_open. */
enum bn_type {
    BN_TYPE_F32 = 0,
    BN_TYPE_F16 = 1,
    BN_TYPE_Q4_0 = 2,
    BN_TYPE_Q8_0 = 8,
    BN_TYPE_Q4_K = 12,
    BN_TYPE_Q5_K = 13,
    BN_TYPE_Q6_K = 14,
    BN_TYPE_BF16 = 30,
    BN_TYPE_TQ1_0 = 34,
    BN_TYPE_TQ2_0 = 35,
    BN_TYPE_I2_S = 36,
    BN_TYPE_TL1 = 38, /* known by name only, to be refused with advice */
    BN_TYPE_TL2 = 39,
    BN_TYPE_Q2_0 = 42,    /* 64 weights: binary16 scale, 16 bytes of 2-bit codes */
    BN_TYPE_PQ2_0 = 142,  /* 128 weights: the same with 32 bytes of codes */
    BN_TYPE_PTQ1_0 = 143, /* 128 weights: 26 bytes of base 3, binary16 scale */
};

#define BN_I2S_TAIL_BYTES 32u /* after the codes of a whole tensor: binary32 scale, 28 unspecified bytes */

struct bn_type_info {
    const char *name;
    uint32_t block;       /* elements */
    uint32_t block_bytes; /* I2_S: 32 per 128, plus one tail per tensor */
    bool readable;        /* this engine can use it */
    bool is_float;
    /* Of types that programs write: how options name it, and general.file_type of such files, as llama.cpp and its
     * forks number it. */
    const char *label;
    uint32_t file_type;
    /* Of ternary types: a block from its n values -1, 0, +1 and a binary16 scale, and back. I2_S has no scale here. */
    void (*pack)(uint8_t *out, const int8_t *values, size_t n, uint16_t scale);
    uint16_t (*unpack)(int8_t *values, const uint8_t *block, size_t n);
    bool holds_two; /* a block can have the weight +2, code 3 */
};
#define BN_TYPE_MAX_BLOCK 256u /* of a ternary type, elements */

/* NULL for a number that is not in the table. */
const struct bn_type_info *bn_type_info(uint32_t type);
/* The type with this label; UINT32_MAX when there is none. */
uint32_t bn_type_find(const char *label);
/* Bytes of a tensor of ne[0] x ne[1] x ne[2] x ne[3] elements (rows of ne[0]); false when that wraps or ne[0]
 * is not a multiple of the block. */
bool bn_type_bytes(uint32_t type, const uint64_t ne[4], uint64_t *bytes);

/* ---- blocks ---- */

/* Ternary values -1, 0, +1 into the block formats and back, in plain C, one block at a time. The layouts of
 * I2_S and T5 are described in kernels.h. Making and checking files needs these; decoding reads the packed
 * forms as they are. Programs find these functions in the table of types.h. */

/* TQ2_0: blocks of 256 in 64 bytes and a binary16 scale, element 128h + 32n + m in byte 32h + m at bits 2n. TQ1_0:
 * the same in 48 + 4 bytes of five and four trits each, and the scale. */
#define BN_TQ2_BLOCK 256u
#define BN_TQ2_BLOCK_BYTES 66u
#define BN_TQ1_BLOCK_BYTES 54u
#define BN_PTQ1_BLOCK 128u
#define BN_PTQ1_BLOCK_BYTES 28u

/* I2_S: n = 128; the scale is of a whole tensor, so it is ignored, and comes back as 0. */
void bn_pack_i2s(uint8_t *out, const int8_t *values, size_t n, uint16_t scale);
uint16_t bn_unpack_i2s(int8_t *values, const uint8_t *block, size_t n);
/* TQ2_0: n = 256; the scale after the codes. */
void bn_pack_tq2(uint8_t *out, const int8_t *values, size_t n, uint16_t scale);
uint16_t bn_unpack_tq2(int8_t *values, const uint8_t *block, size_t n);
/* TQ1_0 (n = 256) and PTQ1_0 (n = 128): base 3 in n / 8 + n / 16 + n / 64 bytes, then the scale. */
void bn_pack_base3(uint8_t *out, const int8_t *values, size_t n, uint16_t scale);
uint16_t bn_unpack_base3(int8_t *values, const uint8_t *block, size_t n);
/* Q2_0 (n = 64) and PQ2_0 (n = 128): the scale, then weight j in byte j / 4 at bits 2 (j mod 4). */
void bn_pack_q2(uint8_t *out, const int8_t *values, size_t n, uint16_t scale);
uint16_t bn_unpack_q2(int8_t *values, const uint8_t *block, size_t n);
/* What the t5_pack slot packs. */
void bn_unpack_t5(int8_t values[BN_T5_BLOCK], const uint8_t block[BN_T5_BLOCK_BYTES]);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The tensor types of GGUF files that this engine reads: names, block sizes, bytes.
 */
#ifndef BN_MODEL_TYPES_H
#define BN_MODEL_TYPES_H

#include "base/mem.h"

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
    /* Of ternary types: a block from values -1, 0, +1 and a binary16 scale, and back. I2_S has no scale here. */
    void (*pack)(uint8_t *out, const int8_t *values, uint16_t scale);
    uint16_t (*unpack)(int8_t *values, const uint8_t *block);
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

#endif

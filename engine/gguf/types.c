/* SPDX-License-Identifier: MIT
 *
 * The table of tensor types. It also has the block sizes of common types that the engine does not compute
 * with, so that a message can name them. Sizes follow ggml's blocks; I2_S is the layout of published BitNet
 * files: 128 elements in 32 bytes, one run for the whole tensor, then the tail.
 */
#include "gguf/types.h"

#include <string.h>

#define OTHER(name_, block_, bytes_)                          \
    {                                                         \
        .name = name_, .block = block_, .block_bytes = bytes_ \
    }
#define READ(name_, block_, bytes_)                                             \
    {                                                                           \
        .name = name_, .block = block_, .block_bytes = bytes_, .readable = true \
    }
static const struct bn_type_info TYPES[] = {
    [BN_TYPE_F32] = {"F32", 1, 4, true, true, "f32", 0, NULL, NULL, false},
    [BN_TYPE_F16] = {"F16", 1, 2, true, true, "f16", 1, NULL, NULL, false},
    [BN_TYPE_Q4_0] = READ("Q4_0", 32, 18),
    [3] = OTHER("Q4_1", 32, 20),
    [6] = OTHER("Q5_0", 32, 22),
    [7] = OTHER("Q5_1", 32, 24),
    [BN_TYPE_Q8_0] = READ("Q8_0", 32, 34),
    [9] = OTHER("Q8_1", 32, 36),
    [10] = OTHER("Q2_K", 256, 84),
    [11] = OTHER("Q3_K", 256, 110),
    [BN_TYPE_Q4_K] = READ("Q4_K", 256, 144),
    [BN_TYPE_Q5_K] = READ("Q5_K", 256, 176),
    [BN_TYPE_Q6_K] = READ("Q6_K", 256, 210),
    [15] = OTHER("Q8_K", 256, 292),
    [16] = OTHER("IQ2_XXS", 256, 66),
    [17] = OTHER("IQ2_XS", 256, 74),
    [18] = OTHER("IQ3_XXS", 256, 98),
    [19] = OTHER("IQ1_S", 256, 50),
    [20] = OTHER("IQ4_NL", 32, 18),
    [21] = OTHER("IQ3_S", 256, 110),
    [22] = OTHER("IQ2_S", 256, 82),
    [23] = OTHER("IQ4_XS", 256, 136),
    [24] = OTHER("I8", 1, 1),
    [25] = OTHER("I16", 1, 2),
    [26] = OTHER("I32", 1, 4),
    [27] = OTHER("I64", 1, 8),
    [28] = OTHER("F64", 1, 8),
    [29] = OTHER("IQ1_M", 256, 56),
    [BN_TYPE_BF16] = {"BF16", 1, 2, true, true, NULL, 0, NULL, NULL, false},
    [BN_TYPE_TQ1_0] = {"TQ1_0", 256, 54, true, false, "tq1_0", 36, bn_pack_base3, bn_unpack_base3, false},
    [BN_TYPE_TQ2_0] = {"TQ2_0", 256, 66, true, false, "tq2_0", 37, bn_pack_tq2, bn_unpack_tq2, true},
    [BN_TYPE_I2_S] = {"I2_S", 128, 32, true, false, "i2_s", 40, bn_pack_i2s, bn_unpack_i2s, false},
    [BN_TYPE_TL1] = OTHER("TL1", 0, 0),
    [BN_TYPE_TL2] = OTHER("TL2", 0, 0),
    [41] = OTHER("Q1_0", 128, 18),
    [BN_TYPE_Q2_0] = {"Q2_0", 64, 18, true, false, "q2_0", 41, bn_pack_q2, bn_unpack_q2, true},
    [BN_TYPE_PQ2_0] = {"PQ2_0", 128, 34, true, false, "pq2_0", 141, bn_pack_q2, bn_unpack_q2, true},
    [BN_TYPE_PTQ1_0] = {"PTQ1_0", 128, 28, true, false, "ptq1_0", 143, bn_pack_base3, bn_unpack_base3, false},
};

const struct bn_type_info *bn_type_info(uint32_t type)
{
    return type < BN_ARRAY_LEN(TYPES) && TYPES[type].name != NULL ? &TYPES[type] : NULL;
}

uint32_t bn_type_find(const char *label)
{
    for (uint32_t i = 0; i < BN_ARRAY_LEN(TYPES); i++)
        if (TYPES[i].label != NULL && strcmp(TYPES[i].label, label) == 0) return i;
    return UINT32_MAX;
}

bool bn_type_bytes(uint32_t type, const uint64_t ne[4], uint64_t *bytes)
{
    const struct bn_type_info *info = bn_type_info(type);
    uint64_t n;
    if (info == NULL || info->block == 0 || ne[0] % info->block != 0) return false;
    if (!bn_mul_ok(ne[0] / info->block, info->block_bytes, &n)) return false;
    /* The product of the elements must not wrap either: others compute with it. */
    uint64_t elements = ne[0];
    for (int i = 1; i < 4; i++)
        if (!bn_mul_ok(n, ne[i], &n) || !bn_mul_ok(elements, ne[i], &elements)) return false;
    if (type == BN_TYPE_I2_S && !bn_add_ok(n, BN_I2S_TAIL_BYTES, &n)) return false;
    *bytes = n;
    return true;
}

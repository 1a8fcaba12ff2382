/* SPDX-License-Identifier: MIT
 *
 * The table of tensor types. It also has the block sizes of common types that the engine does not compute
 * with, so that a message can name them. Sizes follow ggml's blocks; I2_S is the layout of published BitNet
 * files: 128 elements in 32 bytes, one run for the whole tensor, then the tail.
 */
#include "gguf/types.h"

static const struct bn_type_info TYPES[] = {
    [BN_TYPE_F32] = {"F32", 1, 4, true},
    [BN_TYPE_F16] = {"F16", 1, 2, true},
    [BN_TYPE_Q4_0] = {"Q4_0", 32, 18, true},
    [3] = {"Q4_1", 32, 20, false},
    [6] = {"Q5_0", 32, 22, false},
    [7] = {"Q5_1", 32, 24, false},
    [BN_TYPE_Q8_0] = {"Q8_0", 32, 34, true},
    [9] = {"Q8_1", 32, 36, false},
    [10] = {"Q2_K", 256, 84, false},
    [11] = {"Q3_K", 256, 110, false},
    [BN_TYPE_Q4_K] = {"Q4_K", 256, 144, true},
    [BN_TYPE_Q5_K] = {"Q5_K", 256, 176, true},
    [BN_TYPE_Q6_K] = {"Q6_K", 256, 210, true},
    [15] = {"Q8_K", 256, 292, false},
    [16] = {"IQ2_XXS", 256, 66, false},
    [17] = {"IQ2_XS", 256, 74, false},
    [18] = {"IQ3_XXS", 256, 98, false},
    [19] = {"IQ1_S", 256, 50, false},
    [20] = {"IQ4_NL", 32, 18, false},
    [21] = {"IQ3_S", 256, 110, false},
    [22] = {"IQ2_S", 256, 82, false},
    [23] = {"IQ4_XS", 256, 136, false},
    [24] = {"I8", 1, 1, false},
    [25] = {"I16", 1, 2, false},
    [26] = {"I32", 1, 4, false},
    [27] = {"I64", 1, 8, false},
    [28] = {"F64", 1, 8, false},
    [29] = {"IQ1_M", 256, 56, false},
    [BN_TYPE_BF16] = {"BF16", 1, 2, true},
    [BN_TYPE_TQ1_0] = {"TQ1_0", 256, 54, true},
    [BN_TYPE_TQ2_0] = {"TQ2_0", 256, 66, true},
    [BN_TYPE_I2_S] = {"I2_S", 128, 32, true},
    [BN_TYPE_TL1] = {"TL1", 0, 0, false},
    [BN_TYPE_TL2] = {"TL2", 0, 0, false},
    [41] = {"Q1_0", 128, 18, false},
    [BN_TYPE_Q2_0] = {"Q2_0", 64, 18, true},
    [BN_TYPE_PQ2_0] = {"PQ2_0", 128, 34, true},
    [BN_TYPE_PTQ1_0] = {"PTQ1_0", 128, 28, true},
};

const struct bn_type_info *bn_type_info(uint32_t type)
{
    return type < BN_ARRAY_LEN(TYPES) && TYPES[type].name != NULL ? &TYPES[type] : NULL;
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

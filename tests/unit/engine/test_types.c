/* SPDX-License-Identifier: MIT
 *
 * Tensor types: names, sizes, what is refused.
 */
#include "gguf/types.h"
#include "tests/unit/unit.h"

TEST(names_and_readability)
{
    static const struct {
        uint32_t type;
        const char *name;
        bool readable;
    } ROWS[] = {{BN_TYPE_F32, "F32", true},
                {BN_TYPE_F16, "F16", true},
                {BN_TYPE_Q4_0, "Q4_0", true},
                {BN_TYPE_Q8_0, "Q8_0", true},
                {BN_TYPE_Q6_K, "Q6_K", true},
                {BN_TYPE_Q4_K, "Q4_K", true},
                {BN_TYPE_BF16, "BF16", true},
                {BN_TYPE_TQ1_0, "TQ1_0", true},
                {BN_TYPE_TQ2_0, "TQ2_0", true},
                {BN_TYPE_I2_S, "I2_S", true},
                {BN_TYPE_TL1, "TL1", false},
                {BN_TYPE_TL2, "TL2", false},
                {10, "Q2_K", false},
                {BN_TYPE_Q2_0, "Q2_0", true},
                {BN_TYPE_PQ2_0, "PQ2_0", true},
                {BN_TYPE_PTQ1_0, "PTQ1_0", true}};
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++) {
        const struct bn_type_info *info = bn_type_info(ROWS[i].type);
        assert_non_null(info);
        assert_string_equal(info->name, ROWS[i].name);
        assert_int_equal(info->readable, ROWS[i].readable);
    }
    static const uint32_t NONE[] = {4, 5, 31, 32, 33, 37, 40, 134, 255, UINT32_C(0x80000000), UINT32_MAX};
    for (size_t i = 0; i < BN_ARRAY_LEN(NONE); i++)
        assert_null(bn_type_info(NONE[i]));
}

TEST(sizes)
{
    static const struct {
        uint32_t type;
        uint64_t ne[4];
        uint64_t bytes;
    } ROWS[] = {{BN_TYPE_F32, {7, 1, 1, 1}, 28},           {BN_TYPE_F16, {2560, 128256, 1, 1}, 656670720},
                {BN_TYPE_BF16, {3, 5, 7, 2}, 420},         {BN_TYPE_Q8_0, {64, 3, 1, 1}, 204},
                {BN_TYPE_Q4_0, {32, 1, 1, 1}, 18},         {BN_TYPE_Q6_K, {2560, 2, 1, 1}, 4200},
                {BN_TYPE_TQ1_0, {256, 3, 1, 1}, 162},      {BN_TYPE_TQ2_0, {512, 3, 1, 1}, 396},
                {BN_TYPE_I2_S, {2560, 640, 1, 1}, 409632}, {BN_TYPE_I2_S, {128, 1, 1, 1}, 64},
                {BN_TYPE_I2_S, {128, 2, 3, 1}, 224},       {BN_TYPE_Q2_0, {192, 5, 1, 1}, 270},
                {BN_TYPE_PQ2_0, {256, 5, 1, 1}, 340},      {BN_TYPE_PTQ1_0, {256, 5, 1, 1}, 280}};
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++) {
        uint64_t bytes = 0;
        assert_true(bn_type_bytes(ROWS[i].type, ROWS[i].ne, &bytes));
        assert_int_equal(bytes, ROWS[i].bytes);
    }
}

TEST(sizes_refused)
{
    static const struct {
        uint32_t type;
        uint64_t ne[4];
    } ROWS[] = {{BN_TYPE_I2_S, {100, 1, 1, 1}},
                {BN_TYPE_TQ2_0, {128, 2, 1, 1}},
                {BN_TYPE_Q8_0, {33, 1, 1, 1}},
                {BN_TYPE_PQ2_0, {192, 1, 1, 1}},
                {BN_TYPE_TL1, {256, 1, 1, 1}},
                {BN_TYPE_TL2, {256, 1, 1, 1}},
                {99, {256, 1, 1, 1}},
                {BN_TYPE_F32, {INT64_MAX, 2, 1, 1}},
                {BN_TYPE_F32, {UINT64_C(1) << 32, UINT64_C(1) << 32, 1, 1}},
                {BN_TYPE_F32, {4, (UINT64_C(1) << 30) - 1, (UINT64_C(1) << 30) + 1, 4}},
                {BN_TYPE_I2_S, {UINT64_C(1) << 40, UINT64_C(1) << 24, 1, 1}}, /* bytes fit, elements do not */
                {BN_TYPE_F16, {2, UINT64_MAX / 4 + 1, 1, 1}}};
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++) {
        uint64_t bytes = 77;
        assert_false(bn_type_bytes(ROWS[i].type, ROWS[i].ne, &bytes));
        assert_int_equal(bytes, 77);
    }
}

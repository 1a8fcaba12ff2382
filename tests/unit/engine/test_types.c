/* SPDX-License-Identifier: MIT
 *
 * Tensor types: names, sizes, what is refused; ternary values into block formats and back, against blocks that were
 * written down by hand.
 */
#include "base/mem.h"
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

static void from_hex(uint8_t *out, const char *hex)
{
    for (; *hex != '\0'; hex += 2) {
        const char byte[3] = {hex[0], hex[1], 0};
        *out++ = (uint8_t)strtoul(byte, NULL, 16);
    }
}

/* -1, 0, +1, -1, ... */
static void cycle(int8_t *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] = (int8_t)((int)(i % 3) - 1);
}

TEST(known_blocks)
{
    int8_t values[128], back[128];
    uint8_t block[34], want[34];
    cycle(values, 128);
    from_hex(want, "34122449922449922449922449922449922449922449922449922449922449922449");
    bn_pack_q2(block, values, 128, 0x1234);
    assert_memory_equal(block, want, 34);
    assert_int_equal(bn_unpack_q2(back, block, 128), 0x1234);
    assert_memory_equal(back, values, 128);
    from_hex(want, "3194bb3194bb3194bb3194bb3194bb31cf456ccf456ccf45436c3412");
    bn_pack_base3(block, values, 128, 0x1234);
    assert_memory_equal(block, want, BN_PTQ1_BLOCK_BYTES);
    assert_int_equal(bn_unpack_base3(back, block, 128), 0x1234);
    assert_memory_equal(back, values, 128);
}

TEST(constant_blocks)
{
    static const struct {
        int8_t value;
        uint8_t five, four;
    } ROWS[] = {{-1, 0x00, 0x00}, {0, 0x80, 0x7f}, {1, 0xff, 0xfd}};
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++) {
        int8_t values[128];
        uint8_t block[BN_PTQ1_BLOCK_BYTES];
        memset(values, ROWS[i].value, sizeof values);
        bn_pack_base3(block, values, 128, 0);
        for (size_t b = 0; b < 26; b++)
            assert_int_equal(block[b], b < 24 ? ROWS[i].five : ROWS[i].four);
    }
}

/* The format gives the value +2 to the code 3, which ternary weights do not have. */
TEST(code_three_is_two)
{
    uint8_t block[18] = {0, 0, 0xE4};
    int8_t values[64];
    bn_unpack_q2(values, block, 64);
    assert_memory_equal(values, ((const int8_t[]){-1, 0, 1, 2}), 4);
}

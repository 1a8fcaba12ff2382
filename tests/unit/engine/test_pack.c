/* SPDX-License-Identifier: MIT
 *
 * Ternary values into block formats and back, against blocks that were written down by hand.
 */
#include "base/mem.h"
#include "gguf/pack.h"
#include "tests/unit/unit.h"

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
    bn_pack_ptq1(block, values, 0x1234);
    assert_memory_equal(block, want, BN_PTQ1_BLOCK_BYTES);
    assert_int_equal(bn_unpack_ptq1(back, block), 0x1234);
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
        bn_pack_ptq1(block, values, 0);
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

/* SPDX-License-Identifier: MIT
 *
 * The references of to_tiles and of a code in a block. Plain C, written to be read.
 */
#include "kernels/blocks.h"
#include "kernels/kernels_table.h"

/* Digit d of a byte that holds five digits to base 3 as ceil(number * 256 / 243), the first one most significant. */
static unsigned digit(unsigned byte, size_t d)
{
    for (; d > 0; d--)
        byte = byte * 3 % 256;
    return byte * 3 / 256;
}

/* Weight i where three runs of n bytes have five digits, five digits and four digits: the d'th n weights of a run are
 * its digits d. */
static unsigned base3_code(const uint8_t *block, size_t i, size_t n)
{
    const size_t bytes[3] = {n, n / 2, n / 8};
    size_t run = i < 5 * bytes[0] ? 0 : i < 5 * (bytes[0] + bytes[1]) ? 1 : 2;
    for (size_t before = 0; before < run; before++) {
        i -= 5 * bytes[before];
        block += bytes[before];
    }
    return digit(block[i % bytes[run]], i / bytes[run]);
}

static unsigned code_of(enum bn_blocks blocks, const uint8_t *block, size_t i)
{
    switch (blocks) {
    case BN_BLOCKS_Q2:
        return block[2 + i / 4] >> (2 * (i % 4)) & 3u;
    case BN_BLOCKS_TQ2:
        return block[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3u;
    case BN_BLOCKS_TQ1:
        return base3_code(block, i, 32);
    case BN_BLOCKS_I2S:
        return block[i % 32] >> (6 - i / 32 * 2) & 3u;
    case BN_BLOCKS_PTQ1:
    default:
        return base3_code(block, i, 16);
    }
}

unsigned bn_stored_code(const struct bn_ternary *w, size_t r, size_t i)
{
    const uint8_t *row = w->stored + r * w->row_bytes;
    return code_of(w->blocks, row + i / w->group * bn_block_bytes(w), i % w->group);
}

/* The byte of row r whose codes lie at `at` in its part of a tile. */
static uint8_t tile_byte(const struct bn_ternary *w, size_t r, size_t at)
{
    unsigned packed = 0;
    if (w->blocks == BN_BLOCKS_I2S) return w->stored[r * w->row_bytes + at];
    for (size_t p = 0; p < 4; p++)
        packed |= bn_stored_code(w, r, 4 * at + p) << (2 * p);
    return (uint8_t)packed;
}

void bn_to_tiles_ref(uint8_t *codes, uint16_t *scales, const struct bn_ternary *w)
{
    size_t n_groups = w->k / w->group, n_tiles = (w->rows + BN_TILE_ROWS - 1) / BN_TILE_ROWS;
    size_t block_bytes = bn_block_bytes(w);
    for (size_t r = 0; r < n_tiles * BN_TILE_ROWS; r++) {
        size_t tile = r / BN_TILE_ROWS, row = r % BN_TILE_ROWS;
        uint8_t *out = codes + tile * 4 * w->k + 4 * row;
        for (size_t at = 0; at < w->k / 4; at++)
            out[at / 4 * 64 + at % 4] = r < w->rows ? tile_byte(w, r, at) : 0;
        for (size_t g = 0; w->blocks != BN_BLOCKS_I2S && g < n_groups; g++)
            scales[(tile * n_groups + g) * BN_TILE_ROWS + row] =
                r < w->rows ? bn_block_scale(w, w->stored + r * w->row_bytes + g * block_bytes) : 0;
    }
}

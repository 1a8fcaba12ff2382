/* SPDX-License-Identifier: MIT
 *
 * blocks.h - ternary weights from the blocks of a file into tiles (to_tiles in kernels.h), for the files of this folder.
 * The sizes of blocks, the codes of a block in the order of Q2_0 eight at a time (unless CODES_OF_BLOCKS says that faster
 * functions are there), and with LANES the transposition of sixteen rows by vectors of LANES times 16 bytes.
 *
 * Rows lie one after the other in a file, so the sixteen rows of a tile are one piece of memory. The piece of the next
 * tile is prefetched at the rate at which this one is read.
 */
#ifndef BN_KERNELS_BLOCKS_H
#define BN_KERNELS_BLOCKS_H

#include <string.h>

#include "kernels/kernels.h"

/* Bytes of codes in a block, which is a group. */
static inline size_t bn_block_codes_bytes(const struct bn_grouped *w)
{
    static const size_t BYTES[] = {[BN_BLOCKS_TQ2] = 64, [BN_BLOCKS_TQ1] = 52, [BN_BLOCKS_PTQ1] = 26};
    return w->blocks == BN_BLOCKS_Q2 ? w->group / 4 : BYTES[w->blocks];
}

static inline size_t bn_block_bytes(const struct bn_grouped *w)
{
    return bn_block_codes_bytes(w) + sizeof(uint16_t);
}

static inline uint16_t bn_block_scale(const struct bn_grouped *w, const uint8_t *block)
{
    const uint8_t *at = w->blocks == BN_BLOCKS_Q2 ? block : block + bn_block_codes_bytes(w);
    return (uint16_t)(at[0] | at[1] << 8);
}

#endif

#ifdef LANES

#define INLINE static inline __attribute__((always_inline))

/* ---- codes of a block in the order of Q2_0: four in a byte, the first in the low bits ---- */

INLINE uint64_t load_eight(const uint8_t *bytes)
{
    uint64_t x;
    memcpy(&x, bytes, sizeof x);
    return x;
}

/* Eight codes, one a byte, to two bytes with four each. */
INLINE void put_eight(uint8_t *out, uint64_t codes)
{
    codes |= codes >> 6;
    codes |= codes >> 12;
    out[0] = (uint8_t)codes;
    out[1] = (uint8_t)(codes >> 32);
}

/* A digit of eight bytes to base 3, power = 3^digit: in each byte, byte * power mod 256, times 3, / 256. */
INLINE uint64_t eight_digits(uint64_t bytes, uint64_t power)
{
    const uint64_t even_bytes = 0x00FF00FF00FF00FFu;
    uint64_t even = bytes & even_bytes, odd = bytes >> 8 & even_bytes;
    even = (even * power & even_bytes) * 3 >> 8 & even_bytes;
    odd = (odd * power & even_bytes) * 3 >> 8 & even_bytes;
    return even | odd << 8;
}

/* Runs of n, n / 2 and n / 8 bytes. The last one has too few bytes for eight at a time. */
INLINE void codes_of_base3(uint8_t *codes, const uint8_t *block, size_t n)
{
    static const uint64_t POW3[5] = {1, 3, 9, 27, 81};
    for (size_t run = n; run >= n / 2; block += run, run /= 2)
        for (size_t d = 0; d < 5; d++)
            for (size_t m = 0; m < run; m += 8, codes += 2)
                put_eight(codes, eight_digits(load_eight(block + m), POW3[d]));
    uint8_t last[16];
    for (size_t d = 0, i = 0; d < 4; d++)
        for (size_t m = 0; m < n / 8; m++)
            last[i++] = (uint8_t)((uint8_t)(block[m] * POW3[d]) * 3 >> 8);
    for (size_t i = 0; i < n / 2; i += 8, codes += 2)
        put_eight(codes, load_eight(last + i));
}

#ifndef CODES_OF_BLOCKS

INLINE void codes_of_tq2(uint8_t *codes, const uint8_t *block)
{
    for (size_t half = 0; half < 64; half += 32)
        for (size_t n = 0; n < 4; n++)
            for (size_t m = 0; m < 32; m += 8, codes += 2)
                put_eight(codes, load_eight(block + half + m) >> (2 * n) & 0x0303030303030303u);
}

INLINE void codes_of_ptq1(uint8_t *codes, const uint8_t *block)
{
    codes_of_base3(codes, block, 16);
}

#endif

/* The codes of a block: in the file, or at `room`. */
INLINE const uint8_t *codes_of_block(uint8_t *room, enum bn_blocks blocks, const uint8_t *block)
{
    switch (blocks) {
    case BN_BLOCKS_Q2:
        return block + 2;
    case BN_BLOCKS_TQ2:
        codes_of_tq2(room, block);
        return room;
    case BN_BLOCKS_TQ1:
        codes_of_base3(room, block, 32);
        return room;
    case BN_BLOCKS_PTQ1:
    default:
        codes_of_ptq1(room, block);
        return room;
    }
}

/* ---- sixteen rows ---- */

/* 64 weights of the rows at `rows`, `stride` apart. Lane l of a vector has a row of the l'th four. */
INLINE void transpose(uint8_t *out, const uint8_t *rows, size_t stride)
{
    for (size_t r = 0; r < BN_TILE_ROWS; r += 4 * LANES, rows += 4 * LANES * stride) {
        vec a = load_lanes(rows, 4 * stride), b = load_lanes(rows + stride, 4 * stride);
        vec c = load_lanes(rows + 2 * stride, 4 * stride), d = load_lanes(rows + 3 * stride, 4 * stride);
        vec ab = low32(a, b), cd = low32(c, d), ab2 = high32(a, b), cd2 = high32(c, d);
        vec_store(out + 4 * r, low64(ab, cd));
        vec_store(out + 64 + 4 * r, high64(ab, cd));
        vec_store(out + 128 + 4 * r, low64(ab2, cd2));
        vec_store(out + 192 + 4 * r, high64(ab2, cd2));
    }
}

/* A block of each of sixteen rows. */
INLINE void tile_block(uint8_t *codes, uint16_t *scales, const struct bn_grouped *w, const uint8_t *block,
                       const enum bn_blocks blocks, size_t block_bytes)
{
    uint8_t room[BN_TILE_ROWS][BN_MAX_GROUP / 4];
    const uint8_t *rows = block + 2;
    size_t stride = w->row_bytes, at_scale = blocks == BN_BLOCKS_Q2 ? 0 : block_bytes - 2;
    for (size_t r = 0; blocks != BN_BLOCKS_Q2 && r < BN_TILE_ROWS; r++)
        (void)codes_of_block(room[r], blocks, block + r * stride);
    for (size_t r = 0; r < BN_TILE_ROWS; r++)
        memcpy(scales + r, block + r * stride + at_scale, sizeof *scales);
    if (blocks != BN_BLOCKS_Q2) {
        rows = room[0];
        stride = sizeof room[0];
    }
    for (size_t i = 0; i < w->group / 4; i += 16, codes += 256)
        transpose(codes, rows + i, stride);
}

INLINE void whole_tile(uint8_t *codes, uint16_t *scales, const struct bn_grouped *w, const uint8_t *rows,
                       const enum bn_blocks blocks)
{
    size_t block_bytes = bn_block_bytes(w), piece = BN_TILE_ROWS * block_bytes;
    size_t fetched = !w->streamed ? 0 : w->ahead != NULL ? piece / 2 : piece;
    const uint8_t *next = rows + BN_TILE_ROWS * w->row_bytes;
    for (size_t i = 0; i < w->k; i += w->group, rows += block_bytes, next += fetched) {
        for (size_t at = 0; at < fetched; at += 64)
            __builtin_prefetch(next + at, 0, 2);
        tile_block(codes, scales, w, rows, blocks, block_bytes);
        codes += 4 * w->group;
        scales += BN_TILE_ROWS;
    }
}

/* The last tile has fewer rows. */
INLINE void part_of_tile(uint8_t *codes, uint16_t *scales, const struct bn_grouped *w, const uint8_t *rows,
                         size_t n_rows)
{
    size_t block_bytes = bn_block_bytes(w), n_groups = w->k / w->group;
    uint8_t room[BN_MAX_GROUP / 4];
    memset(codes, 0, BN_TILE_ROWS * w->k / 4);
    memset(scales, 0, n_groups * BN_TILE_ROWS * sizeof *scales);
    for (size_t r = 0; r < n_rows; r++, rows += w->row_bytes)
        for (size_t g = 0; g < n_groups; g++) {
            const uint8_t *from = codes_of_block(room, w->blocks, rows + g * block_bytes);
            scales[g * BN_TILE_ROWS + r] = bn_block_scale(w, rows + g * block_bytes);
            for (size_t i = 0; i < w->group / 16; i++)
                memcpy(codes + (g * w->group / 16 + i) * 64 + 4 * r, from + 4 * i, 4);
        }
}

INLINE void to_tiles(uint8_t *codes, uint16_t *scales, const struct bn_grouped *w)
{
    for (size_t r = 0; r < w->rows; r += BN_TILE_ROWS) {
        const uint8_t *rows = w->stored + r * w->row_bytes;
        if (w->rows - r < BN_TILE_ROWS)
            part_of_tile(codes, scales, w, rows, w->rows - r);
        else if (w->blocks == BN_BLOCKS_Q2)
            whole_tile(codes, scales, w, rows, BN_BLOCKS_Q2);
        else if (w->blocks == BN_BLOCKS_TQ2)
            whole_tile(codes, scales, w, rows, BN_BLOCKS_TQ2);
        else if (w->blocks == BN_BLOCKS_TQ1)
            whole_tile(codes, scales, w, rows, BN_BLOCKS_TQ1);
        else
            whole_tile(codes, scales, w, rows, BN_BLOCKS_PTQ1);
        codes += BN_TILE_ROWS * w->k / 4;
        scales += w->k / w->group * BN_TILE_ROWS;
    }
}

#endif

/* SPDX-License-Identifier: MIT
 *
 * blocks.h - ternary weights from the blocks of a file into tiles (to_tiles in kernels.h), for the files of this folder.
 * The sizes of blocks, the codes of a block in the order of Q2_0 eight at a time (unless CODES_OF_BLOCKS says that faster
 * functions are there), and with LANES the transposition of sixteen rows by vectors of LANES times 16 bytes.
 *
 * I2_S has no scale in its blocks, and their bytes stay as they are.
 *
 * Rows lie one after the other in a file, so the sixteen rows of a tile are one piece of memory. The piece of the next
 * tile is prefetched at the rate at which this one is read. A product of one token takes a group of sixteen rows at a
 * time, so that its codes stay in the nearest cache.
 */
#ifndef BN_KERNELS_BLOCKS_H
#define BN_KERNELS_BLOCKS_H

#include <string.h>

#include "kernels/kernels.h"

/* Bytes of codes in a block, which is a group. */
static inline size_t bn_block_codes_bytes(const struct bn_ternary *w)
{
    static const size_t BYTES[] = {
        [BN_BLOCKS_TQ2] = 64, [BN_BLOCKS_TQ1] = 52, [BN_BLOCKS_PTQ1] = 26, [BN_BLOCKS_I2S] = 32};
    return w->blocks == BN_BLOCKS_Q2 ? w->group / 4 : BYTES[w->blocks];
}

static inline size_t bn_block_bytes(const struct bn_ternary *w)
{
    return bn_block_codes_bytes(w) + (w->blocks == BN_BLOCKS_I2S ? 0 : sizeof(uint16_t));
}

static inline uint16_t bn_block_scale(const struct bn_ternary *w, const uint8_t *block)
{
    const uint8_t *at = w->blocks == BN_BLOCKS_Q2 ? block : block + bn_block_codes_bytes(w);
    return (uint16_t)(at[0] | at[1] << 8);
}

/* What is multiplied, a constant wherever it is passed on: groups with scales and 16 bits, the same and 8 bits, or I2_S,
 * whose sums stay integers up to the end of the row. */
enum product { WIDE, NARROW, WHOLE };

static inline enum product product_of(const struct bn_ternary *w, const struct bn_act *x)
{
    return w->blocks == BN_BLOCKS_I2S ? WHOLE : x->high != NULL ? WIDE : NARROW;
}

/* Calls a function whose last argument is the product, as a constant. */
#define BY_PRODUCT(w, x, function, ...)       \
    do {                                      \
        enum product here = product_of(w, x); \
        if (here == WIDE)                     \
            function(__VA_ARGS__, WIDE);      \
        else if (here == NARROW)              \
            function(__VA_ARGS__, NARROW);    \
        else                                  \
            function(__VA_ARGS__, WHOLE);     \
    } while (false)

/* The values, or their low plane. */
static inline const int8_t *plane_of(const struct bn_act *x, const enum product product)
{
    return product == WHOLE ? x->q : x->low;
}

/* Weights that are summed at once: a constant for I2_S. */
static inline size_t group_of(const struct bn_ternary *w, const enum product product)
{
    return product == WHOLE ? BN_I2S_BLOCK : w->group;
}

/* Where the four values are that belong to the codes at bits 2p of the sixteen weights from i on. I2_S: i = 16j. */
static inline size_t four_at(size_t i, size_t p, const enum product product)
{
    return product == WHOLE ? i / BN_I2S_BLOCK * BN_I2S_BLOCK + 32 * (3 - p) + i % BN_I2S_BLOCK / 4
                            : i + 4 * p;
}

/* The code of weight i in row r of the file, slowly (ref_grouped.c). */
unsigned bn_stored_code(const struct bn_ternary *w, size_t r, size_t i);

#endif

#ifdef LANES

#ifndef INLINE
#define INLINE static inline __attribute__((always_inline))
#endif
/* The address stays in a register: gcc 12 computes each of sixteen rows anew otherwise. */
#define KEEP(pointer) __asm__("" : "+r"(pointer))

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
    case BN_BLOCKS_I2S:
        return block;
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

/* Where the next block of sixteen rows begins: every fourth row, and the bytes from it to the next three. */
struct blocks_at {
    const uint8_t *fourth[4];
    size_t to_row[4];
};

INLINE struct blocks_at blocks_at(const uint8_t *first, size_t stride)
{
    struct blocks_at at;
    for (size_t i = 0; i < 4; i++) {
        at.fourth[i] = first + 4 * i * stride;
        at.to_row[i] = i * stride;
    }
    return at;
}

/* 64 weights of each row, from byte i on. Lane l of a vector has a row of the l'th four. */
INLINE void transpose(uint8_t *out, const struct blocks_at *at, size_t i)
{
    for (size_t r = 0; r < BN_TILE_ROWS; r += 4 * LANES) {
        const uint8_t *const *four = at->fourth + r / 4;
        vec a = load_lanes(four, i), b = load_lanes(four, i + at->to_row[1]);
        vec c = load_lanes(four, i + at->to_row[2]), d = load_lanes(four, i + at->to_row[3]);
        vec ab = low32(a, b), cd = low32(c, d), ab2 = high32(a, b), cd2 = high32(c, d);
        vec_store(out + 4 * r, low64(ab, cd));
        vec_store(out + 64 + 4 * r, high64(ab, cd));
        vec_store(out + 128 + 4 * r, low64(ab2, cd2));
        vec_store(out + 192 + 4 * r, high64(ab2, cd2));
    }
}

/* A block of each of sixteen rows. */
INLINE void tile_blocks(uint8_t *codes, uint16_t *scales, const struct bn_ternary *w,
                        const struct blocks_at *at, const enum bn_blocks blocks, size_t block_bytes)
{
    size_t at_scale = blocks == BN_BLOCKS_Q2 ? 0 : block_bytes - 2;
    for (size_t r = 0; blocks != BN_BLOCKS_I2S && r < BN_TILE_ROWS; r++)
        memcpy(scales + r, at->fourth[r / 4] + at->to_row[r % 4] + at_scale, sizeof *scales);
    if (blocks == BN_BLOCKS_Q2 || blocks == BN_BLOCKS_I2S) {
        for (size_t i = 0; i < w->group / 4; i += 16, codes += 256)
            transpose(codes, at, i + (blocks == BN_BLOCKS_Q2 ? 2 : 0));
        return;
    }
    uint8_t room[BN_TILE_ROWS][BN_MAX_GROUP / 4];
    const struct blocks_at unpacked = blocks_at(room[0], sizeof room[0]);
    for (size_t r = 0; r < BN_TILE_ROWS; r++)
        (void)codes_of_block(room[r], blocks, at->fourth[r / 4] + at->to_row[r % 4]);
    for (size_t i = 0; i < w->group / 4; i += 16, codes += 256)
        transpose(codes, &unpacked, i);
}

/* The last tile has fewer rows; the others are zero. */
INLINE void tile_few_blocks(uint8_t *codes, uint16_t *scales, const struct bn_ternary *w,
                            const uint8_t *block, const enum bn_blocks blocks, size_t n_rows)
{
    uint8_t room[BN_MAX_GROUP / 4];
    memset(codes, 0, BN_TILE_ROWS * w->group / 4);
    if (blocks != BN_BLOCKS_I2S) memset(scales, 0, BN_TILE_ROWS * sizeof *scales);
    for (size_t r = 0; r < n_rows; r++, block += w->row_bytes) {
        const uint8_t *from = codes_of_block(room, blocks, block);
        if (blocks != BN_BLOCKS_I2S) scales[r] = bn_block_scale(w, block);
        for (size_t i = 0; i < w->group / 16; i++)
            memcpy(codes + i * 64 + 4 * r, from + 4 * i, 4);
    }
}

/* The rows of a tile, group by group. */
struct stored_tile {
    const uint8_t *block, *next; /* of the first row; of the piece to prefetch */
    struct blocks_at at;
    size_t n_rows, block_bytes, fetched;
};

INLINE struct stored_tile stored_tile(const struct bn_ternary *w, size_t tile)
{
    const uint8_t *first = w->stored + tile * BN_TILE_ROWS * w->row_bytes;
    size_t block_bytes = bn_block_bytes(w);
    return (struct stored_tile){.block = first,
                                .next = first + BN_TILE_ROWS * w->row_bytes,
                                .at = blocks_at(first, w->row_bytes),
                                .n_rows = w->rows - tile * BN_TILE_ROWS,
                                .block_bytes = block_bytes,
                                .fetched = w->streamed ? BN_TILE_ROWS * block_bytes : 0};
}

/* Groups of other blocks than Q2_0 and I2_S, or of the last tile. */
__attribute__((noinline)) static void tile_other_group(uint8_t *codes, uint16_t *scales,
                                                       const struct bn_ternary *w,
                                                       const struct stored_tile *t)
{
    if (t->n_rows < BN_TILE_ROWS)
        tile_few_blocks(codes, scales, w, t->block, w->blocks, t->n_rows);
    else if (w->blocks == BN_BLOCKS_TQ2)
        tile_blocks(codes, scales, w, &t->at, BN_BLOCKS_TQ2, t->block_bytes);
    else if (w->blocks == BN_BLOCKS_TQ1)
        tile_blocks(codes, scales, w, &t->at, BN_BLOCKS_TQ1, t->block_bytes);
    else
        tile_blocks(codes, scales, w, &t->at, BN_BLOCKS_PTQ1, t->block_bytes);
}

/* The next group: 4 * group bytes of codes, 64-byte aligned, and sixteen scales. */
INLINE void next_group(uint8_t *codes, uint16_t *scales, const struct bn_ternary *w, struct stored_tile *t)
{
    for (size_t i = 0; i < t->fetched; i += 64)
        __builtin_prefetch(t->next + i, 0, 2);
    if (w->blocks == BN_BLOCKS_Q2 && t->n_rows >= BN_TILE_ROWS)
        tile_blocks(codes, scales, w, &t->at, BN_BLOCKS_Q2, t->block_bytes);
    else if (w->blocks == BN_BLOCKS_I2S && t->n_rows >= BN_TILE_ROWS)
        tile_blocks(codes, scales, w, &t->at, BN_BLOCKS_I2S, t->block_bytes);
    else
        tile_other_group(codes, scales, w, t);
    t->next += t->fetched;
    t->block += t->block_bytes;
    for (size_t i = 0; i < 4; i++) {
        t->at.fourth[i] += t->block_bytes;
        KEEP(t->at.fourth[i]);
    }
}

INLINE void to_tiles(uint8_t *codes, uint16_t *scales, const struct bn_ternary *w)
{
    for (size_t tile = 0; tile * BN_TILE_ROWS < w->rows; tile++) {
        struct stored_tile from = stored_tile(w, tile);
        for (size_t i = 0; i < w->k; i += w->group, codes += 4 * w->group) {
            next_group(codes, scales, w, &from);
            if (scales != NULL) scales += BN_TILE_ROWS;
        }
    }
}

#endif

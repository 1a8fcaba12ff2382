/* SPDX-License-Identifier: MIT
 *
 * tiles.h - the tile operations of kernels/x86/tiles.h in plain C, after Intel's description of the instructions:
 * what they compute, what they clear, and when they fault. A #UD is SIGILL here, a #GP is SIGSEGV; checkkern catches
 * both. Each file that includes this has tiles of its own, and each thread of it.
 */
#ifndef CHECKKERN_TILES_H
#define CHECKKERN_TILES_H

#include <signal.h>
#include <stdbool.h>
#include <string.h>

#define TILES_IN_C
#include "kernels/x86/tiles.h"

/* What a processor could do wrong, or a kernel with it; for the self-test. */
enum tile_fault {
    NO_TILE_FAULT,
    NOT_CONFIGURED,   /* ldtilecfg does nothing */
    KEEPS_SUMS,       /* tilezero does nothing */
    PACKS_ROWS,       /* loads ignore the distance of rows */
    SWAPS_OPERANDS,   /* the product with x and y exchanged */
    UNSIGNED_ACTS,    /* bytes of x are not signed */
    DROPS_LAST_ROW,   /* stores one row fewer */
    DROPS_HALF_A_ROW, /* loads 32 bytes of a row */
    UNSIGNED_WEIGHTS, /* bytes of y are not signed; those of I2_S are 0 ... 3 */
    N_TILE_FAULTS
};

static _Thread_local struct {
    bool configured;
    struct tile_config config;
    uint8_t row[8][16][64];
    enum tile_fault fault;
} tiles;

static inline void tiles_release(void)
{
    tiles.configured = false;
    memset(tiles.row, 0, sizeof tiles.row);
}

static inline void tiles_configure(const void *at)
{
    struct tile_config c;
    memcpy(&c, at, sizeof c);
    unsigned wrong = c.palette > 1u || c.start_row > 0u; /* the kernels never resume a load */
    for (size_t i = 0; i < sizeof c.reserved; i++)
        wrong |= c.reserved[i];
    for (size_t t = 0; t < 16; t++) {
        wrong |= c.row_bytes[t] > 64u || c.rows[t] > 16u;
        wrong |= (c.row_bytes[t] == 0) != (c.rows[t] == 0);
        wrong |= t >= 8 && c.rows[t] != 0;
    }
    if (wrong != 0) raise(SIGSEGV);
    tiles_release();
    tiles.config = c;
    tiles.configured = c.palette == 1 && tiles.fault != NOT_CONFIGURED;
}

static inline void tile_must_be(bool valid)
{
    if (!valid) raise(SIGILL);
}

static inline bool tile_exists(unsigned t)
{
    return tiles.configured && t < 8 && tiles.config.rows[t] > 0 && tiles.config.row_bytes[t] > 0;
}

static inline void tile_zero(unsigned t)
{
    tile_must_be(tile_exists(t));
    if (tiles.fault != KEEPS_SUMS) memset(tiles.row[t], 0, sizeof tiles.row[t]);
}

/* What is beyond the rows and their bytes becomes zero. */
static inline void tile_load(unsigned t, const void *from, size_t stride)
{
    tile_must_be(tile_exists(t));
    size_t bytes = tiles.config.row_bytes[t];
    memset(tiles.row[t], 0, sizeof tiles.row[t]);
    if (tiles.fault == PACKS_ROWS) stride = bytes;
    if (tiles.fault == DROPS_HALF_A_ROW) bytes /= 2;
    for (size_t r = 0; r < tiles.config.rows[t]; r++)
        memcpy(tiles.row[t][r], (const uint8_t *)from + r * stride, bytes);
}

static inline void tile_store(unsigned t, void *to, size_t stride)
{
    tile_must_be(tile_exists(t));
    size_t n = tiles.config.rows[t];
    if (tiles.fault == DROPS_LAST_ROW) n--;
    for (size_t r = 0; r < n; r++)
        memcpy((uint8_t *)to + r * stride, tiles.row[t][r], tiles.config.row_bytes[t]);
}

static inline int32_t tile_byte(uint8_t byte, enum tile_fault unsigned_one)
{
    return tiles.fault == unsigned_one ? (int32_t)byte : (int32_t)(int8_t)byte;
}

/* Four products of bytes. */
static inline uint32_t tile_dword(const uint8_t *x, const uint8_t *y)
{
    int32_t sum = 0;
    for (size_t b = 0; b < 4; b++)
        sum += tile_byte(x[b], UNSIGNED_ACTS) * tile_byte(y[b], UNSIGNED_WEIGHTS);
    return (uint32_t)sum;
}

static inline void tile_dot(unsigned c, unsigned x, unsigned y)
{
    const struct tile_config *config = &tiles.config;
    if (tiles.fault == SWAPS_OPERANDS) {
        unsigned other = x;
        x = y;
        y = other;
    }
    tile_must_be(tile_exists(c) && tile_exists(x) && tile_exists(y) && c != x && c != y && x != y);
    size_t rows = config->rows[c], lanes = config->row_bytes[c] / 4u, depth = config->rows[y];
    if (tiles.fault != SWAPS_OPERANDS) /* whose shapes may not fit */
        tile_must_be(rows == config->rows[x] && config->row_bytes[c] == config->row_bytes[y] &&
                     config->row_bytes[x] == 4 * depth && config->row_bytes[c] % 4u == 0);
    for (size_t m = 0; m < rows; m++)
        for (size_t n = 0; n < lanes; n++) {
            uint32_t sum;
            memcpy(&sum, &tiles.row[c][m][4 * n], sizeof sum);
            for (size_t i = 0; i < depth; i++)
                sum += tile_dword(&tiles.row[x][m][4 * i], &tiles.row[y][i][4 * n]);
            memcpy(&tiles.row[c][m][4 * n], &sum, sizeof sum);
        }
    memset(tiles.row[c][rows], 0, (16 - rows) * 64);
    for (size_t m = 0; m < rows; m++)
        memset(&tiles.row[c][m][4 * lanes], 0, 64 - 4 * lanes);
}

#define TILES_CONFIGURE(config) tiles_configure(config)
#define TILES_RELEASE() tiles_release()
#define TILE_ZERO(t) tile_zero(t)
#define TILE_LOAD(t, from, stride) tile_load(t, from, stride)
#define TILE_STORE(t, to, stride) tile_store(t, to, stride)
#define TILE_DOT(c, x, y) tile_dot(c, x, y)

#endif

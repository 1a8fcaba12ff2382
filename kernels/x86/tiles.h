/* SPDX-License-Identifier: MIT
 *
 * tiles.h - the tile instructions of AMX that the products use. The numbers of tiles are literals, 0 to 7.
 * tests/checkkern/tiles.h has the same operations in plain C, and takes the configuration alone from here (TILES_IN_C).
 *
 * They are instructions, not intrinsics: those of gcc 12 do not say that they read and write memory, so the
 * compiler may move the stores of a buffer after the load of it into a tile.
 */
#ifndef BN_KERNELS_X86_TILES_H
#define BN_KERNELS_X86_TILES_H

#include <stdint.h>

/* The operand of ldtilecfg: how many rows each tile has and how many bytes each row has. */
struct tile_config {
    uint8_t palette; /* 1: eight tiles of 16 x 64 bytes */
    uint8_t start_row;
    uint8_t reserved[14]; /* zeros; so is what follows of the tiles from 8 on */
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
_Static_assert(sizeof(struct tile_config) == 64, "the operand of ldtilecfg has 64 bytes");

#ifndef TILES_IN_C
#define TILES_CONFIGURE(config) __asm__ volatile("ldtilecfg %0" ::"m"(*(const struct tile_config *)(config)))
#define TILES_RELEASE() __asm__ volatile("tilerelease" ::: "memory")
#define TILE_ZERO(t) __asm__ volatile("tilezero %%tmm" #t ::: "memory")
/* The rows of a tile are stride bytes apart. */
#define TILE_LOAD(t, from, stride) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"((const void *)(from)), "r"(stride) : "memory")
#define TILE_STORE(t, to, stride) \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"((void *)(to)), "r"(stride) : "memory")
/* Row m, lane n of c: adds the sum over i < 16 and b < 4 of byte 4i + b of row m of x times byte 4n + b of row i of y,
 * all signed. */
#define TILE_DOT(c, x, y) __asm__ volatile("tdpbssd %%tmm" #y ", %%tmm" #x ", %%tmm" #c ::: "memory")

#endif
#endif

/* SPDX-License-Identifier: MIT
 *
 * tile_config.h - the operand of ldtilecfg: how many rows each tile has and how many bytes each row has.
 */
#ifndef BN_KERNELS_X86_TILE_CONFIG_H
#define BN_KERNELS_X86_TILE_CONFIG_H

#include <stdint.h>

struct tile_config {
    uint8_t palette; /* 1: eight tiles of 16 x 64 bytes */
    uint8_t start_row;
    uint8_t reserved[14]; /* zeros; so is what follows of the tiles from 8 on */
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
_Static_assert(sizeof(struct tile_config) == 64, "the operand of ldtilecfg has 64 bytes");

#endif

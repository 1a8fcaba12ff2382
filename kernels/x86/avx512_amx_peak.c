/* SPDX-License-Identifier: MIT
 *
 * The loop of peak.h for AMX: six sums cover the latency of one product every sixteen cycles.
 */
#include "kernels/peak.h"
#include "kernels/x86/tiles.h"

#define SUMS 6u

uint64_t bn_peak_int8_amx(uint64_t turns)
{
    struct tile_config config = {.palette = 1};
    for (unsigned t = 0; t < SUMS + 2; t++) {
        config.row_bytes[t] = 64;
        config.rows[t] = 16;
    }
    TILES_CONFIGURE(&config); /* all tiles are zero */
    for (uint64_t turn = 0; turn < turns; turn++) {
        TILE_DOT(0, 6, 7);
        TILE_DOT(1, 6, 7);
        TILE_DOT(2, 6, 7);
        TILE_DOT(3, 6, 7);
        TILE_DOT(4, 6, 7);
        TILE_DOT(5, 6, 7);
    }
    TILES_RELEASE();
    return turns * SUMS * 16 * 16 * 64;
}

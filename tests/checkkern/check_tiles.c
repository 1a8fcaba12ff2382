/* SPDX-License-Identifier: MIT
 *
 * The products of kernels/x86/amx_gemm.h with tiles in plain C, as a table of their own: their logic is checked on
 * machines without AMX too. The faults of the self-test are in the tiles.
 */
#include "checkkern.h"

#include "tiles.h"

#define AMX(slot) tiles_##slot
#define LOWER(slot) bn_kernels_ref.slot

static void tiles_ternary_gemm(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x,
                               size_t n);

#include "kernels/x86/amx_gemm.h"

const struct bn_kernels *ck_tiles(void)
{
    static struct bn_kernels table;
    table = bn_kernels_ref;
    table.isa = "tiles";
    table.ternary_gemm = tiles_ternary_gemm;
    table.name[BN_KERNEL_TERNARY_GEMM] = "ternary_gemm_tiles";
    return &table;
}

/* ---- for the self-test ---- */

static enum tile_fault fault;

static void wrong_ternary_gemm(float *y, size_t ldy, const struct bn_ternary *w, const struct bn_act *x,
                               size_t n)
{
    tiles.fault = fault;
    tiles_ternary_gemm(y, ldy, w, x, n);
    tiles.fault = NO_TILE_FAULT;
}

const char *ck_wrong_tiles(struct bn_kernels *table, size_t i)
{
    static const char *const NAMES[N_TILE_FAULTS] = {
        "",
        "tiles that are not configured",
        "tiles that keep their sums",
        "tiles that ignore the distance of rows",
        "tiles with exchanged operands",
        "tiles with unsigned activations",
        "tiles without the last row",
        "tiles with half a row",
        "tiles with unsigned weights",
    };
    if (i + 1 >= N_TILE_FAULTS) return NULL;
    fault = (enum tile_fault)(i + 1);
    table->ternary_gemm = wrong_ternary_gemm;
    return NAMES[fault];
}

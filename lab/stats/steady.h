/* SPDX-License-Identifier: MIT
 *
 * Has a sequence of timings settled? Caches, page tables and clocks need some runs to get warm; what comes
 * before is not what is asked for. A line is laid through the last two windows, the median of the slopes
 * between all their samples, which outliers do not move (Theil, 1950; Sen, 1968).
 */
#ifndef BN_STATS_STEADY_H
#define BN_STATS_STEADY_H

#include "base/mem.h"

struct bn_steady {
    bool steady;    /* false as long as there are fewer than two windows */
    double change;  /* from one window to the next, by the slope; -0.02: two per cent less */
    double allowed; /* |change| up to this is steady: the tolerance, and what noise alone does */
};

/* times: n positive ones in their order; window >= 3; tolerance: 0.01 is one per cent. */
BN_MUST_CHECK bn_status bn_steady(struct bn_steady *out, const double *times, size_t n, size_t window,
                                  double tolerance, bn_error *err);

#endif

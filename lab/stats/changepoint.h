/* SPDX-License-Identifier: MIT
 *
 * Changes in a sequence of samples. bn_steady: has a sequence of timings settled? bn_changepoints: where did
 * a history change, and by how much?
 */
#ifndef BN_STATS_CHANGEPOINT_H
#define BN_STATS_CHANGEPOINT_H

#include "lab/stats/interval.h"

/* Caches, page tables and clocks need some runs to warm up. The slope through the last two windows is the
 * median of the slopes between all pairs of their samples, which outliers do not move (Theil, 1950; Sen,
 * 1968). */
struct bn_steady {
    bool steady;    /* false while there are fewer than two windows */
    double change;  /* from one window to the next, by the slope; -0.02: two per cent less */
    double allowed; /* |change| up to this is steady: the tolerance, plus the effect of noise */
};

/* times: n positive ones in their order; window >= 3; tolerance: 0.01 is one per cent. */
BN_MUST_CHECK bn_status bn_steady(struct bn_steady *out, const double *times, size_t n, size_t window,
                                  double tolerance, bn_error *err);

/* E-divisive (Matteson and James, 2014): the best split is the one between whose sides the distances most
 * exceed those within them. It is significant when few shuffles of the segment split as well. Then each side
 * is searched again. */
struct bn_changepoint {
    size_t at;                /* the first index after the change */
    size_t low, high;         /* 95 % interval of that index: resampled segments, split again */
    double p;                 /* of the split, by shuffles; never 0 */
    size_t n_before, n_after; /* samples up to the neighbouring changes */
    struct bn_interval shift; /* Hodges and Lehmann's, of after against before; of logarithms, a log ratio */
};

#define BN_CHANGEPOINT_LEAST 3u
#define BN_CHANGEPOINT_SAMPLES_MAX 2000u

/* Finds all changes in x, n samples in their order (of costs, give logarithms), ascending, with at least `least` samples on
 * either side, raised to BN_CHANGEPOINT_LEAST; *list is
 * bn_alloc'ed, n_found may be 0. BN_ERR_ARG for samples that are not finite, BN_ERR_LIMIT for more than
 * BN_CHANGEPOINT_SAMPLES_MAX. */
BN_MUST_CHECK bn_status bn_changepoints(struct bn_changepoint **list, size_t *n_found, const double *x,
                                        size_t n, size_t least, bn_error *err);

#endif

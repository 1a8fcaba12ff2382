/* SPDX-License-Identifier: MIT
 *
 * Where did a history change, and by how much? E-divisive (Matteson and James, 2014): the split between whose
 * sides the distances exceed those within the most; significant when few shuffles of the segment split as
 * well; then each side again.
 */
#ifndef BN_STATS_CHANGEPOINT_H
#define BN_STATS_CHANGEPOINT_H

#include "lab/stats/interval.h"

struct bn_changepoint {
    size_t at;                /* the first index behind the change */
    size_t low, high;         /* 95 % interval of that index: segments drawn anew and split again */
    double p;                 /* of the split, by shuffles; never 0 */
    size_t n_before, n_after; /* samples up to the neighbouring changes */
    struct bn_interval shift; /* Hodges and Lehmann's, of after against before; of logarithms, a log ratio */
};

struct bn_changepoint_rules {
    size_t least; /* samples on either side; fewer than BN_CHANGEPOINT_LEAST are never believed */
    size_t n_shuffles;
    double alpha;
    uint64_t seed;
};
#define BN_CHANGEPOINT_LEAST 3u
#define BN_CHANGEPOINT_SAMPLES_MAX 2000u
#define BN_CHANGEPOINT_RULES_INIT \
    {                             \
        5, 999, 0.01, 1,          \
    }

/* Finds all changes in x, n samples in their order (of costs, give logarithms), ascending; *list is
 * bn_alloc'ed, n_found may be 0. BN_ERR_ARG for samples that are not finite, BN_ERR_LIMIT for more than
 * BN_CHANGEPOINT_SAMPLES_MAX. */
BN_MUST_CHECK bn_status bn_changepoints(struct bn_changepoint **list, size_t *n_found, const double *x,
                                        size_t n, const struct bn_changepoint_rules *rules, bn_error *err);

/* q[t], for t from 2 to n - 2, of the split into the first t samples and the rest; 0 elsewhere. q has n. */
void bn_split_gain(double *q, const double *x, size_t n);

#endif

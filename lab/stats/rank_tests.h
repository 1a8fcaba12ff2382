/* SPDX-License-Identifier: MIT
 *
 * Rank tests, and the shifts that belong to them. They use only the order of samples, so a few disturbed
 * samples change little. Of costs, give natural logarithms: a shift is then the logarithm of a ratio.
 *
 * All p are two-sided and never 0. BN_ERR_ARG for samples that are not finite, BN_ERR_LIMIT for more than
 * BN_RANKS_MAX of them.
 */
#ifndef BN_STATS_RANK_TESTS_H
#define BN_STATS_RANK_TESTS_H

#include "lab/stats/interval.h"

#define BN_RANKS_MAX (1u << 24)

/* Wilcoxon's signed rank test (1945): are the d of pairs about 0? Ties get midranks; zeros are left out of
 * the test, not of the shift. The distribution is exact for at most 25 pairs, with ties too, else normal
 * with the ties in its variance, and with the continuity correction. */
struct bn_signed_rank {
    size_t n;                 /* pairs that are not 0 */
    double w;                 /* sum of the ranks of those above 0 */
    double p;                 /* 1 when all are 0 */
    bool exact;               /* the distribution of w was counted */
    struct bn_interval shift; /* Hodges and Lehmann's: median of the Walsh averages; the test inverted */
};
BN_MUST_CHECK bn_status bn_signed_rank(struct bn_signed_rank *out, const double *d, size_t n,
                                       double confidence, bn_error *err);

/* Mann and Whitney's U test (1947): do b lie above or below a? Exact for at most 20 on either side, with
 * ties too (all ways of dealing the midranks are counted), else normal as above. */
struct bn_rank_sum {
    double u;                 /* pairs in which b is less than a; a tie counts half */
    double p;                 /* 1 when a side is empty */
    bool exact;               /* the distribution of u was counted */
    struct bn_interval shift; /* of b against a: median of all differences; the test inverted */
};
BN_MUST_CHECK bn_status bn_rank_sum(struct bn_rank_sum *out, const double *a, size_t n_a, const double *b,
                                    size_t n_b, double confidence, bn_error *err);

/* Benjamini and Hochberg (1995): p of n tests, corrected for their number. Of the tests with q < x, a share
 * of at most x is false. q may be p. */
BN_MUST_CHECK bn_status bn_false_discovery(double *q, const double *p, size_t n, bn_error *err);

#endif

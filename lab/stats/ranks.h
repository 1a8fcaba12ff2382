/* SPDX-License-Identifier: MIT
 *
 * Tests that use the order of samples only, and the shifts that belong to them: what a few disturbed samples
 * cannot upset. Of costs, give natural logarithms: a shift is then the logarithm of a ratio.
 *
 * All p are two-sided and never 0. Nothing here needs more memory than a few times the samples; BN_ERR_NOMEM
 * is the only error but BN_ERR_ARG, for samples that are not finite, and BN_ERR_LIMIT, for more than
 * BN_RANKS_MAX of them.
 */
#ifndef BN_STATS_RANKS_H
#define BN_STATS_RANKS_H

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
    double cliff;             /* share of pairs in which b is more, minus that in which it is less */
    struct bn_interval shift; /* of b against a: median of all differences; the test inverted */
};
BN_MUST_CHECK bn_status bn_rank_sum(struct bn_rank_sum *out, const double *a, size_t n_a, const double *b,
                                    size_t n_b, double confidence, bn_error *err);

/* Welch's t of two means whose variances differ; both sides need 2 samples. NaN when neither side varies. */
struct bn_welch {
    double t, df, p;
};
struct bn_welch bn_welch(const double *a, size_t n_a, const double *b, size_t n_b);

/* Of n_drawn permutations n_extreme were at least as extreme as what was seen, which counts as one of them:
 * the p that cannot be 0 (Phipson and Smyth, 2010). */
double bn_permutation_p(size_t n_extreme, size_t n_drawn);

/* Benjamini and Hochberg (1995): p of n tests, corrected for their number; calling those with q < x changes
 * makes a share of at most x of the calls false. q may be p. */
BN_MUST_CHECK bn_status bn_false_discovery(double *q, const double *p, size_t n, bn_error *err);

#endif

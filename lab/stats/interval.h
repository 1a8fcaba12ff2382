/* SPDX-License-Identifier: MIT
 *
 * Estimates with their confidence intervals, tests, and the distributions that both need.
 * docs/explain/performance.md says which one answers which question.
 *
 * Too few samples for an interval give NaN ends, never a guess.
 */
#ifndef BN_STATS_INTERVAL_H
#define BN_STATS_INTERVAL_H

#include "base/mem.h"

struct bn_interval {
    double estimate;
    double low, high;   /* NaN when there are too few samples for an interval */
    const char *method; /* a literal: how the interval was computed */
};

/* The median, with the order statistics that enclose it: of 95 % from 6 samples on. BN_ERR_ARG for samples that
 * are not finite. */
BN_MUST_CHECK bn_status bn_interval_median(struct bn_interval *out, const double *samples, size_t n,
                                           double confidence, bn_error *err);

/* Of a share that was observed in n samples (Wilson, 1927); n need not be whole. */
struct bn_interval bn_interval_wilson(double share, double n, double confidence);

/* Two shares 0 <= a, b <= 1, observed in n_a and n_b independent samples. Counts need not be whole: the test
 * rounds hits and samples to whole numbers. More than 2^24 samples count as 2^24. NaN when a side has less
 * than one sample. */

/* Fisher's exact test (1935), two-sided by doubling. */
struct bn_fisher {
    double p;       /* never 0 */
    double least_p; /* the smallest p that samples with these margins can have */
};
struct bn_fisher bn_fisher(double a, double n_a, double b, double n_b);

/* Of b - a: Newcombe's hybrid of two Wilson intervals (1998, method 10). */
struct bn_interval bn_interval_difference(double a, double n_a, double b, double n_b, double confidence);

/* ---- rank tests and the shifts that belong to them (rank_tests.c) ----
 *
 * They use only the order of samples, so a few disturbed samples change little. Of costs, give natural
 * logarithms: a shift is then the logarithm of a ratio. All p are two-sided and never 0. BN_ERR_ARG for samples
 * that are not finite, BN_ERR_LIMIT for more than BN_RANKS_MAX of them. */

#define BN_RANKS_MAX (1u << 24)

struct bn_rank_test {
    double statistic;         /* W of signed ranks, U of rank sums */
    double p;                 /* 1 when all pairs are 0, or a side is empty */
    struct bn_interval shift; /* Hodges and Lehmann's; the test inverted */
};

/* Wilcoxon's signed rank test (1945): are the d of pairs about 0? The shift is the median of the Walsh
 * averages. Ties get midranks; zeros are left out of the test, not of the shift. The distribution is exact for
 * at most 25 pairs, with ties too, else normal with the ties in its variance, and with the continuity
 * correction. */
BN_MUST_CHECK bn_status bn_signed_rank(struct bn_rank_test *out, const double *d, size_t n, double confidence,
                                       bn_error *err);

/* Mann and Whitney's U test (1947): do b lie above or below a? The shift is the median of all differences of b
 * from a. Exact for at most 20 on either side, with ties too (all ways of dealing the midranks are counted), else
 * normal as above. */
BN_MUST_CHECK bn_status bn_rank_sum(struct bn_rank_test *out, const double *a, size_t n_a, const double *b,
                                    size_t n_b, double confidence, bn_error *err);

/* Benjamini and Hochberg (1995): p of n tests, corrected for their number. Of the tests with q < x, a share
 * of at most x is false. q may be p. */
BN_MUST_CHECK bn_status bn_false_discovery(double *q, const double *p, size_t n, bn_error *err);

/* ---- distributions: correct to about 1e-12 (for n or df of many thousands, to 1e-9) ---- */

double bn_normal_cdf(double z);
/* -infinity for p <= 0, infinity for p >= 1; so of the next. */
double bn_normal_quantile(double p);
/* Student's t with df > 0 degrees of freedom, which need not be whole. */
double bn_student_cdf(double t, double df);
double bn_student_quantile(double p, double df);
/* P(X <= k) of n trials that succeed with probability p. */
double bn_binomial_cdf(size_t k, size_t n, double p);

#endif

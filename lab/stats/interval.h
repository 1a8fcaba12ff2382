/* SPDX-License-Identifier: MIT
 *
 * An estimate and its confidence interval: of a median, a quantile, a share of samples, and of the difference
 * of two shares. docs/explain/performance.md says which one answers which question.
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

#endif

/* SPDX-License-Identifier: MIT
 *
 * Figures that stand for many samples: median, spread, quantiles, which samples stand apart, whether they
 * hang together. Robust ones first; a mean says little about times, which have a lower bound and a long tail.
 */
#ifndef BN_MEASURE_SUMMARY_H
#define BN_MEASURE_SUMMARY_H

#include "base/mem.h"

/* MAD of normal samples times this is their standard deviation. */
#define BN_MAD_SIGMA 1.4826

struct bn_summary {
    size_t n;
    double min, max, median;
    double mad; /* median of the distances from the median */
};

/* False, and zeros, without samples or memory. The samples stay as they are. */
bool bn_summarize(struct bn_summary *out, const double *samples, size_t n);

/* The p-quantile (0 < p < 1), linear between neighbours: position p * (n - 1) in ascending order. False when
 * n is less than bn_quantile_needs(p), and without memory. */
bool bn_quantile(double *out, const double *samples, size_t n, double p);
/* Samples from which on one is expected beyond the quantile: 100 for 0.99. */
size_t bn_quantile_needs(double p);

/* Ascending, in place. */
void bn_sort(double *x, size_t n);
/* The p-quantile of n >= 1 ascending samples, as above, without asking whether there are enough. */
double bn_sorted_quantile(const double *sorted, size_t n, double p);

/* The mean, and the standard deviation with n - 1 (0 for n < 2) unless sd is NULL; NaN of no samples. */
double bn_mean(const double *x, size_t n, double *sd);

#endif

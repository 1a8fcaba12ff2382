/* SPDX-License-Identifier: MIT
 *
 * Figures that stand for many samples: median, spread, quantiles. Robust ones only; a mean says little about
 * times, which have a lower bound and a long tail.
 */
#ifndef BN_MEASURE_SUMMARY_H
#define BN_MEASURE_SUMMARY_H

#include "base/mem.h"

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

#endif

/* SPDX-License-Identifier: MIT
 *
 * Summaries of samples: median, spread, quantiles, outliers, correlation. Robust figures first: a mean says
 * little about times, which have a lower bound and a long tail.
 */
#ifndef BN_STATS_SUMMARY_H
#define BN_STATS_SUMMARY_H

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
/* The median alone; NaN without samples or memory. */
double bn_median(const double *samples, size_t n);
/* The same of samples that may be sorted in place. */
double bn_median_in_place(double *x, size_t n);

/* The p-quantile (0 < p < 1), linear between neighbours: position p * (n - 1) in ascending order. False when
 * n is less than bn_quantile_needs(p), and without memory. */
bool bn_quantile(double *out, const double *samples, size_t n, double p);
/* The least number of samples of which one is expected beyond the quantile: 100 for 0.99. */
size_t bn_quantile_needs(double p);

/* Are all samples the same? */
bool bn_all_equal(const double *x, size_t n);

/* Ascending, in place. */
void bn_sort(double *x, size_t n);
/* The samples in ascending order, allocated (bn_free); NULL without memory. */
double *bn_sorted_copy(const double *samples, size_t n);
/* The p-quantile of n >= 1 ascending samples, as above, without asking whether there are enough. */
double bn_sorted_quantile(const double *sorted, size_t n, double p);

/* The mean, and the standard deviation with n - 1 (0 for n < 2) unless sd is NULL; NaN of no samples. */
double bn_mean(const double *x, size_t n, double *sd);

/* Correlation of each sample with the next; 0 of fewer than 3, and when all are equal. Of independent samples
 * it rarely exceeds 2 / sqrt(n). */
double bn_autocorrelation(const double *x, size_t n);

/* Tukey's fences: samples beyond 1.5 spans of the middle half are outliers. A label only; nothing is ever
 * dropped. */
struct bn_tukey {
    double q1, q3, low, high; /* the fences; infinite when half of the samples are equal: a coarse clock */
    size_t n_outliers;
};
/* False, and zeros, without samples or memory. */
bool bn_tukey(struct bn_tukey *out, const double *samples, size_t n);

#endif

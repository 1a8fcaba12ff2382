/* SPDX-License-Identifier: MIT
 *
 * The distributions that tests and intervals need. Probabilities are correct to about 1e-12 (for n or df of
 * many thousands, to 1e-9), quantiles are their probabilities inverted.
 */
#ifndef BN_STATS_DISTRIBUTION_H
#define BN_STATS_DISTRIBUTION_H

#include <stddef.h>

double bn_normal_cdf(double z);
/* -infinity for p <= 0, infinity for p >= 1; so of the next. */
double bn_normal_quantile(double p);
/* Student's t with df > 0 degrees of freedom, which need not be whole. */
double bn_student_cdf(double t, double df);
double bn_student_quantile(double p, double df);
/* P(X <= k) of n trials that succeed with probability p. */
double bn_binomial_cdf(size_t k, size_t n, double p);

#endif

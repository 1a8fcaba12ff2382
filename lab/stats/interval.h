/* SPDX-License-Identifier: MIT
 *
 * An estimate and how sure it is. Which one answers which question: docs/explain/statistics.md.
 *
 * Samples that are too few for an interval give NaN ends, never a guess. BN_ERR_ARG is for samples that are
 * not finite, BN_ERR_NOMEM for memory.
 */
#ifndef BN_STATS_INTERVAL_H
#define BN_STATS_INTERVAL_H

#include "base/mem.h"

struct bn_interval {
    double estimate;
    double low, high;   /* NaN when the samples are too few for an interval */
    const char *method; /* a literal: how the interval was computed */
};

/* ---- of the median, of a share ---- */

/* The k for which the k-th smallest and the k-th largest of n independent samples enclose their median with
 * this confidence: the largest with 1 - 2 * P(X < k) >= confidence, X binomial of n and 1/2; 0 when there is
 * none, as for n <= 5 at 0.95. */
size_t bn_median_rank(size_t n, double confidence);
BN_MUST_CHECK bn_status bn_interval_median(struct bn_interval *out, const double *samples, size_t n,
                                           double confidence, bn_error *err);

/* Of a share that was seen in n samples (Wilson, 1927); n need not be whole. */
struct bn_interval bn_interval_wilson(double share, double n, double confidence);
/* ---- bootstrap: of any statistic ---- */

/* A statistic of n rows. They are a copy: it may put them into another order. NaN when it cannot be computed.
 */
typedef double bn_statistic(double *rows, size_t n, void *context);
bn_statistic bn_median_of; /* of rows of one number */

struct bn_bootstrap {
    bn_statistic *of;
    void *context;
    size_t width;      /* numbers in a row, which are drawn together; 0 is 1 */
    size_t n_draws;    /* 0 is BN_BOOTSTRAP_DRAWS */
    uint64_t seed;     /* the same seed, the same interval */
    double confidence; /* 0 is 0.95 */
};
#define BN_BOOTSTRAP_DRAWS 10000u

/* The percentile bootstrap. NaN ends for fewer than 2 rows. */
BN_MUST_CHECK bn_status bn_interval_bootstrap(struct bn_interval *out, const double *rows, size_t n,
                                              const struct bn_bootstrap *how, bn_error *err);

#endif

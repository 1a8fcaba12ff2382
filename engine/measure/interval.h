/* SPDX-License-Identifier: MIT
 *
 * An estimate and how sure it is. Which one answers which question: docs/explain/statistics.md.
 *
 * Samples that are too few for an interval give NaN ends, never a guess. BN_ERR_ARG is for samples that are
 * not finite, BN_ERR_NOMEM for memory.
 */
#ifndef BN_MEASURE_INTERVAL_H
#define BN_MEASURE_INTERVAL_H

#include "base/mem.h"

struct bn_interval {
    double estimate;
    double low, high;   /* NaN when the samples are too few for an interval */
    const char *method; /* a literal: how the interval was had */
};

/* ---- of the median, of the mean, of a share ---- */

/* The k for which the k-th smallest and the k-th largest of n independent samples enclose their median with
 * this confidence: the largest with 1 - 2 * P(X < k) >= confidence, X binomial of n and 1/2; 0 when there is
 * none, as for n <= 5 at 0.95. */
size_t bn_median_rank(size_t n, double confidence);
BN_MUST_CHECK bn_status bn_interval_median(struct bn_interval *out, const double *samples, size_t n,
                                           double confidence, bn_error *err);

/* Of the geometric mean, by Student's t of the logarithms, for few samples that are all positive. */
BN_MUST_CHECK bn_status bn_interval_log_mean(struct bn_interval *out, const double *samples, size_t n,
                                             double confidence, bn_error *err);

/* Of a share that was seen in n samples (Wilson, 1927); n need not be whole. */
struct bn_interval bn_interval_wilson(double share, double n, double confidence);
/* So many equal samples are as good as these of different weight: (sum w)^2 / sum w^2. */
double bn_effective_n(const double *weights, size_t n);

/* ---- bootstrap: of any statistic ---- */

/* A statistic of n rows. They are a copy: it may put them into another order. NaN when it cannot be had. */
typedef double bn_statistic(double *rows, size_t n, void *context);
bn_statistic bn_mean_of;   /* of rows of one number */
bn_statistic bn_median_of; /* the same */
bn_statistic bn_slope_of;  /* of rows x, y: bn_slope */

struct bn_bootstrap {
    bn_statistic *of;
    void *context;
    size_t width;         /* numbers in a row, which are drawn together; 0 is 1 */
    size_t block;         /* neighbouring rows that are drawn together (moving blocks); 0 is 1 */
    const size_t *groups; /* rows of each process: processes are drawn, then rows inside; NULL is one */
    size_t n_groups;
    size_t n_draws;    /* 0 is BN_BOOTSTRAP_DRAWS */
    uint64_t seed;     /* the same seed, the same interval */
    double confidence; /* 0 is 0.95 */
    bool bca; /* Efron's correction (1987) of bias and skew; of smooth statistics of 20 rows or more, not of a
                 median, and not with blocks or groups: BN_ERR_ARG */
};
#define BN_BOOTSTRAP_DRAWS 10000u

/* NaN ends for fewer than 2 rows. BN_ERR_ARG also when the groups do not add up to n. */
BN_MUST_CHECK bn_status bn_interval_bootstrap(struct bn_interval *out, const double *rows, size_t n,
                                              const struct bn_bootstrap *how, bn_error *err);

/* The corrected levels (for 0.95, of 0.025 and 0.975): share of the n_draws draws lies below the estimate
 * (ties half), and the statistic without each row is in jackknife. */
struct bn_bca {
    double z0, a, low, high;
};
struct bn_bca bn_bca_levels(double share, size_t n_draws, const double *jackknife, size_t n,
                            double confidence);

/* Rows to draw together: 1 when neighbours hang together no more than by chance (lag-1 autocorrelation up to
 * 2 / sqrt(n), or fewer than 10 samples), else n^(1/3), or more when they hang together for longer. */
size_t bn_block_length(const double *samples, size_t n);

/* The interval of a series' median, as its samples allow: by order statistics, or by blocks when neighbours
 * hang together. */
BN_MUST_CHECK bn_status bn_interval_of_series(struct bn_interval *out, const double *samples, size_t n,
                                              double confidence, uint64_t seed, bn_error *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Measures of the difference between two rows of numbers; a threshold can limit each of them. a is
 * judged, b is the reference. All sums are binary64 in index order, so that the same rows give the same
 * figures everywhere.
 */
#ifndef BN_COMPARE_METRICS_H
#define BN_COMPARE_METRICS_H

#include "base/mem.h"

/* The measures, in the order in which they are shown. */
enum bn_metric {
    BN_METRIC_COSINE,  /* sum ab / sqrt(sum aa sum bb); 1 for two rows of zeros, 0 for one */
    BN_METRIC_NRMSE,   /* rms(a - b) / rms(b): the error relative to the row's size */
    BN_METRIC_MSE,     /* mean (a - b)^2 */
    BN_METRIC_MAX_ABS, /* max |a - b| */
    BN_METRIC_MAX_REL, /* max |a - b| / max |b| */
    BN_METRIC_RMS,     /* rms(a) / rms(b): a wrong scale stands out */
    BN_METRIC_KL,      /* sum p (log p - log q), p = softmax(b), q = softmax(a) */
    BN_METRIC_TOP_K,   /* share of b's k best that are among a's k best */
    BN_METRIC_KENDALL, /* tau-b of both orders over b's k best; ties count half */
    BN_METRIC_ARGMAX,  /* 1 when both have the same best, else 0 */
    BN_METRIC_MARGIN,  /* how much the best of b exceeds the best of a, in b; 0 when they are the same */
    BN_METRIC_COUNT
};
/* "cosine", "nrmse", ... */
const char *bn_metric_name(enum bn_metric metric);
/* BN_METRIC_COUNT for an unknown name. */
enum bn_metric bn_metric_from_name(const char *name);

#define BN_METRICS_K 10u /* of top_k and kendall */

struct bn_metrics {
    double of[BN_METRIC_COUNT];
    size_t argmax_a, argmax_b; /* the lowest index of the greatest value */
    size_t bad_a, bad_b;       /* index of the first value that is not finite; n: all are */
    bool same_bits;
};

/* n > 0 values each. When a value is not finite, all measures but same_bits are NaN. */
void bn_metrics_of(struct bn_metrics *out, const float *a, const float *b, size_t n);

/* log of the sum of exp(x_i), without overflow; and log softmax(x)[i]. In binary64, for divergences as small as 1e-12.
 * A generation has another one, from the exp of the kernels, which gives the same bits on every machine. */
double bn_log_sum_exp(const float *x, size_t n);
double bn_log_softmax(const float *x, size_t n, size_t i);
/* The lowest index of the greatest value. */
size_t bn_argmax(const float *x, size_t n);
/* The k <= n greatest, by descending value, lower indices first among equals. */
void bn_best(const float *x, size_t n, size_t k, size_t *out);
/* Kendall's tau-b of two orders of n values: (concordant - discordant) / sqrt((pairs - ties in a) (pairs -
 * ties in b)). When one side is all ties: 1 if both are, else 0. */
double bn_kendall(const float *a, const float *b, size_t n);

/* Sums over rows: for each measure the mean, the worst value and its row. Worst is the smallest where more
 * is better (cosine, top_k, kendall, argmax), the farthest from 1 for rms, else the greatest. */
struct bn_metrics_sum {
    size_t n_rows, n_values;
    size_t n_same_bits; /* rows */
    struct {
        double sum, worst;
        size_t worst_row;
    } of[BN_METRIC_COUNT];
};
void bn_metrics_add(struct bn_metrics_sum *sum, const struct bn_metrics *row, size_t index, size_t n_values);
double bn_metrics_mean(const struct bn_metrics_sum *sum, enum bn_metric metric);

#endif

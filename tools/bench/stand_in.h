/* SPDX-License-Identifier: MIT
 *
 * Stands in for engine/measure/{interval,steady,outliers} until those are there.
 */
#ifndef BN_BENCH_STAND_IN_H
#define BN_BENCH_STAND_IN_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "measure/summary.h"

struct bn_interval {
    double estimate;
    double low, high;
    const char *method;
};

enum bn_outlier {
    BN_OUTLIER_NONE,
    BN_OUTLIER_MILD_LOW,
    BN_OUTLIER_MILD_HIGH,
    BN_OUTLIER_SEVERE_LOW,
    BN_OUTLIER_SEVERE_HIGH
};

static inline const char *bn_outlier_name(enum bn_outlier o)
{
    static const char *const NAMES[] = {"none", "mild low", "mild high", "severe low", "severe high"};
    return NAMES[o];
}

static inline int stand_in_ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double *stand_in_sorted(const double *x, size_t n)
{
    double *s = bn_alloc(n + 1, sizeof *s);
    if (s == NULL) return NULL;
    memcpy(s, x, n * sizeof *s);
    qsort(s, n, sizeof *s, stand_in_ascending);
    return s;
}

static inline double stand_in_at(const double *s, size_t n, double p)
{
    double h = p * (double)(n - 1);
    size_t k = (size_t)h;
    return k + 1 >= n ? s[n - 1] : s[k] + (h - (double)k) * (s[k + 1] - s[k]);
}

/* Tukey's fences. */
static inline void bn_outliers(enum bn_outlier *out, const double *x, size_t n)
{
    double *s = stand_in_sorted(x, n);
    for (size_t i = 0; i < n; i++) {
        out[i] = BN_OUTLIER_NONE;
        if (s == NULL) continue;
        double q1 = stand_in_at(s, n, 0.25), q3 = stand_in_at(s, n, 0.75), iqr = q3 - q1;
        if (x[i] < q1 - 3 * iqr)
            out[i] = BN_OUTLIER_SEVERE_LOW;
        else if (x[i] > q3 + 3 * iqr)
            out[i] = BN_OUTLIER_SEVERE_HIGH;
        else if (x[i] < q1 - 1.5 * iqr)
            out[i] = BN_OUTLIER_MILD_LOW;
        else if (x[i] > q3 + 1.5 * iqr)
            out[i] = BN_OUTLIER_MILD_HIGH;
    }
    bn_free(s);
}

static inline double stand_in_binomial(size_t k, size_t n, double p)
{
    double sum = 0;
    for (size_t i = 0; i <= k; i++)
        sum += exp(lgamma((double)n + 1) - lgamma((double)i + 1) - lgamma((double)(n - i) + 1) +
                   (double)i * log(p) + (double)(n - i) * log1p(-p));
    return sum;
}

/* Order statistics around the p-quantile. NaN when there are too few. */
static inline struct bn_interval bn_quantile_interval(const double *x, size_t n, double p, double confidence)
{
    struct bn_interval r = {NAN, NAN, NAN, "order statistics"};
    double tail = (1 - confidence) / 2;
    double *s = n > 0 ? stand_in_sorted(x, n) : NULL;
    if (s == NULL) return r;
    r.estimate = stand_in_at(s, n, p);
    size_t low = 0, high = n + 1;
    while (low < n && stand_in_binomial(low, n, p) <= tail)
        low++;
    while (high > 1 && 1 - stand_in_binomial(high - 2, n, p) <= tail)
        high--;
    if (low >= 1 && high <= n) {
        r.low = s[low - 1];
        r.high = s[high - 1];
    }
    bn_free(s);
    return r;
}

/* No trend that matters: the first third against the last. */
static inline bool bn_steady(const double *x, size_t n)
{
    struct bn_summary a, b;
    if (n < 4) return true;
    (void)bn_summarize(&a, x, n / 2);
    (void)bn_summarize(&b, x + (n - n / 2), n / 2);
    double spread = fmax(a.mad, b.mad) * 1.4826 * 3;
    return fabs(a.median - b.median) <= fmax(0.02 * b.median, spread);
}
#endif

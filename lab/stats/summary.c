/* SPDX-License-Identifier: MIT
 *
 * Summaries of samples: median, MAD, quantiles, mean, correlation, outliers.
 */
#include "lab/stats/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bn_sort(double *x, size_t n)
{
    qsort(x, n, sizeof *x, ascending);
}

double *bn_sorted_copy(const double *samples, size_t n)
{
    double *copy = bn_alloc(n, sizeof *copy);
    if (copy == NULL) return NULL;
    memcpy(copy, samples, n * sizeof *copy);
    bn_sort(copy, n);
    return copy;
}

double bn_sorted_quantile(const double *sorted, size_t n, double p)
{
    double position = p * (double)(n - 1);
    size_t below = (size_t)position;
    if (below + 1 >= n) return sorted[n - 1];
    return sorted[below] + (position - (double)below) * (sorted[below + 1] - sorted[below]);
}

double bn_median_in_place(double *x, size_t n)
{
    bn_sort(x, n);
    return n > 0 ? bn_sorted_quantile(x, n, 0.5) : (double)NAN;
}

double bn_median(const double *samples, size_t n)
{
    struct bn_summary of;
    return bn_summarize(&of, samples, n) ? of.median : (double)NAN;
}

bool bn_summarize(struct bn_summary *out, const double *samples, size_t n)
{
    *out = (struct bn_summary){0};
    double *sorted = n > 0 ? bn_sorted_copy(samples, n) : NULL;
    if (sorted == NULL) return false;
    *out = (struct bn_summary){.n = n, .min = sorted[0], .max = sorted[n - 1]};
    out->median = bn_sorted_quantile(sorted, n, 0.5);
    for (size_t i = 0; i < n; i++)
        sorted[i] = fabs(sorted[i] - out->median);
    bn_sort(sorted, n);
    out->mad = bn_sorted_quantile(sorted, n, 0.5);
    bn_free(sorted);
    return true;
}

size_t bn_quantile_needs(double p)
{
    double tail = p < 0.5 ? p : 1.0 - p;
    return (size_t)ceil(1.0 / tail - 1e-9);
}

bool bn_quantile(double *out, const double *samples, size_t n, double p)
{
    double *sorted = n >= bn_quantile_needs(p) ? bn_sorted_copy(samples, n) : NULL;
    if (sorted == NULL) return false;
    *out = bn_sorted_quantile(sorted, n, p);
    bn_free(sorted);
    return true;
}

double bn_mean(const double *x, size_t n, double *sd)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    double mean = n > 0 ? sum / (double)n : (double)NAN;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    if (sd != NULL) *sd = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
    return mean;
}

double bn_autocorrelation(const double *x, size_t n)
{
    double mean = bn_mean(x, n, NULL), with_next = 0, with_self = 0;
    for (size_t i = 0; i < n; i++) {
        with_self += (x[i] - mean) * (x[i] - mean);
        if (i + 1 < n) with_next += (x[i] - mean) * (x[i + 1] - mean);
    }
    return n >= 3 && with_self > 0 ? with_next / with_self : 0;
}

bool bn_tukey(struct bn_tukey *out, const double *samples, size_t n)
{
    struct bn_summary of;
    *out = (struct bn_tukey){0};
    double *sorted = bn_summarize(&of, samples, n) ? bn_sorted_copy(samples, n) : NULL;
    if (sorted == NULL) return false;
    double q1 = bn_sorted_quantile(sorted, n, 0.25), q3 = bn_sorted_quantile(sorted, n, 0.75);
    double reach = of.mad > 0 ? 1.5 * (q3 - q1) : (double)INFINITY;
    bn_free(sorted);
    *out = (struct bn_tukey){.q1 = q1, .q3 = q3, .low = q1 - reach, .high = q3 + reach};
    for (size_t i = 0; i < n; i++)
        out->n_outliers += samples[i] < out->low || samples[i] > out->high;
    return true;
}

bool bn_all_equal(const double *x, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[0] || x[i] < x[0]) return false;
    return true;
}

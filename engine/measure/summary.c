/* SPDX-License-Identifier: MIT
 *
 * See summary.h.
 */
#include "measure/summary.h"

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

static double *sorted_copy(const double *samples, size_t n)
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

bool bn_summarize(struct bn_summary *out, const double *samples, size_t n)
{
    *out = (struct bn_summary){0};
    double *sorted = n > 0 ? sorted_copy(samples, n) : NULL;
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
    double *sorted = n >= bn_quantile_needs(p) ? sorted_copy(samples, n) : NULL;
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

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

static double *sorted_copy(const double *samples, size_t n)
{
    double *copy = bn_alloc(n, sizeof *copy);
    if (copy == NULL) return NULL;
    memcpy(copy, samples, n * sizeof *copy);
    qsort(copy, n, sizeof *copy, ascending);
    return copy;
}

static double at_share(const double *sorted, size_t n, double p)
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
    out->median = at_share(sorted, n, 0.5);
    for (size_t i = 0; i < n; i++)
        sorted[i] = fabs(sorted[i] - out->median);
    qsort(sorted, n, sizeof *sorted, ascending);
    out->mad = at_share(sorted, n, 0.5);
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
    *out = at_share(sorted, n, p);
    bn_free(sorted);
    return true;
}

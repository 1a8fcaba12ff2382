/* SPDX-License-Identifier: MIT
 *
 * See steady.h.
 */
#include "measure/steady.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "measure/interval.h"
#include "measure/summary.h"

/* The median of the slopes between all pairs; scratch holds n * (n - 1) / 2. */
static double robust_slope(const double *y, size_t n, double *scratch)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            scratch[m++] = (y[j] - y[i]) / (double)(j - i);
    return bn_median_of(scratch, m, NULL);
}

/* The standard deviation of one sample, from the differences of neighbours, which a trend shifts but does not
 * widen. */
static double noise_of(const double *y, size_t n, double *scratch)
{
    for (size_t i = 0; i + 1 < n; i++)
        scratch[i] = y[i + 1] - y[i];
    double middle = bn_median_of(scratch, n - 1, NULL);
    for (size_t i = 0; i + 1 < n; i++)
        scratch[i] = fabs(scratch[i] - middle);
    return BN_MAD_SIGMA / sqrt(2) * bn_median_of(scratch, n - 1, NULL);
}

static double median_copy(const double *y, size_t n, double *scratch)
{
    memcpy(scratch, y, n * sizeof *scratch);
    return bn_median_of(scratch, n, NULL);
}

bn_status bn_steady(struct bn_steady *out, const double *times, size_t n, size_t window, double tolerance,
                    bn_error *err)
{
    *out = (struct bn_steady){.change = (double)NAN, .trend = (double)NAN, .allowed = tolerance};
    if (window < 3 || !(tolerance >= 0)) return bn_fail(err, BN_ERR_ARG, "the window is too short");
    for (size_t i = 0; i < n; i++)
        if (!(times[i] > 0 && isfinite(times[i])))
            return bn_fail(err, BN_ERR_ARG, "time %zu is not a positive number", i);
    if (n / 2 < window) return BN_OK;
    double *scratch = bn_alloc(window * (2 * window - 1), sizeof *scratch);
    if (scratch == NULL) return bn_fail(err, BN_ERR_NOMEM, "out of memory");
    const double *last = times + n - window, *both = last - window;
    double before = median_copy(both, window, scratch), now = median_copy(last, window, scratch);
    double slope = robust_slope(both, 2 * window, scratch), noise = noise_of(both, 2 * window, scratch);
    bn_free(scratch);
    out->change = now / before - 1;
    out->trend = slope * (double)window / before;
    /* Twice the deviation of the difference of two medians, each of which has 1.25 * sigma / sqrt(window). */
    out->allowed = tolerance + 2 * 1.25 * noise / before * sqrt(2 / (double)window);
    out->steady = fabs(out->change) <= out->allowed && fabs(out->trend) <= out->allowed;
    return BN_OK;
}

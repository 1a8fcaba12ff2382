/* SPDX-License-Identifier: MIT
 *
 * See steady.h.
 */
#include "lab/stats/steady.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "lab/stats/interval.h"
#include "lab/stats/summary.h"

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

bn_status bn_steady(struct bn_steady *out, const double *times, size_t n, size_t window, double tolerance,
                    bn_error *err)
{
    *out = (struct bn_steady){.change = (double)NAN, .allowed = tolerance};
    if (window < 3 || !(tolerance >= 0)) return bn_fail(err, BN_ERR_ARG, "the window is too short");
    for (size_t i = 0; i < n; i++)
        if (!(times[i] > 0 && isfinite(times[i])))
            return bn_fail(err, BN_ERR_ARG, "time %zu is not a positive number", i);
    if (n / 2 < window) return BN_OK;
    double *scratch = bn_alloc(window * (2 * window - 1), sizeof *scratch);
    if (scratch == NULL) return bn_nomem(err);
    size_t m = 2 * window;
    const double *last = times + n - m;
    double slope = robust_slope(last, m, scratch), noise = noise_of(last, m, scratch);
    memcpy(scratch, last, m * sizeof *scratch);
    double level = bn_median_of(scratch, m, NULL);
    bn_free(scratch);
    out->change = slope * (double)window / level;
    /* Twice the deviation that noise gives the slope of m samples, sigma * sqrt(12 / m^3), times the window.
     */
    out->allowed = tolerance + 2 * noise / level * sqrt(1.5 / (double)window);
    out->steady = fabs(out->change) <= out->allowed;
    return BN_OK;
}

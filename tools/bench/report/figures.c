/* SPDX-License-Identifier: MIT
 *
 * The figures of a series: median, interval, spread, quantiles, outliers.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/stats/interval.h"
#include "tools/bench/report/report.h"

bn_status bn_report_figures(struct bn_report_series *r, bn_error *err)
{
    static const struct {
        enum bn_figure figure;
        double p;
    } QUANTILES[] = {{BN_FIGURE_P5, 0.05}, {BN_FIGURE_P95, 0.95}, {BN_FIGURE_P99, 0.99}};
    const struct bn_series *s = r->s;
    struct bn_summary sum;
    struct bn_interval interval = {.low = (double)NAN, .high = (double)NAN};
    if (!bn_summarize(&sum, s->samples, s->n) || !bn_tukey(&r->fences, s->samples, s->n))
        return bn_nomem(err);
    if (!s->exact) BN_TRY(bn_interval_median(&interval, s->samples, s->n, 0.95, err));
    r->figure[BN_FIGURE_MEDIAN] = sum.median;
    r->figure[BN_FIGURE_LOW] = isfinite(interval.high) ? interval.low : (double)NAN;
    r->figure[BN_FIGURE_HIGH] = isfinite(interval.low) ? interval.high : (double)NAN;
    r->figure[BN_FIGURE_MIN] = sum.min;
    r->figure[BN_FIGURE_MAX] = sum.max;
    r->figure[BN_FIGURE_MAD] = sum.mad;
    r->figure[BN_FIGURE_Q1] = s->n >= 4 ? r->fences.q1 : (double)NAN;
    r->figure[BN_FIGURE_Q3] = s->n >= 4 ? r->fences.q3 : (double)NAN;
    for (size_t i = 0; i < BN_ARRAY_LEN(QUANTILES); i++) {
        double x = 0;
        bool known = bn_quantile(&x, s->samples, s->n, QUANTILES[i].p);
        r->figure[QUANTILES[i].figure] = known ? x : (double)NAN;
    }
    r->n_outliers =
        r->fences.n_mild_low + r->fences.n_severe_low + r->fences.n_mild_high + r->fences.n_severe_high;
    r->correlation = bn_autocorrelation(s->samples, s->n);
    return BN_OK;
}

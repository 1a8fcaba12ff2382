/* SPDX-License-Identifier: MIT
 *
 * The figures of a series: median, interval, spread, quantiles, outliers.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/stats/interval.h"
#include "tools/bench/report/report.h"

const char *const bn_figure_names[BN_FIGURES] = {"median", "low", "high", "min", "max", "mad",
                                                 "p5",     "q1",  "q3",   "p95", "p99"};

static void figure(struct bn_report_series *r, enum bn_figure which, bool known, double value,
                   const char *why)
{
    r->figure[which] = known ? value : (double)NAN;
    r->why[which] = known ? NULL : why;
}

static void quantile(struct bn_report_series *r, enum bn_figure which, double p, const char *why)
{
    double value = 0;
    bool known = bn_quantile(&value, r->s->samples, r->s->n, p);
    figure(r, which, known, value, why);
}

bn_status bn_report_figures(struct bn_report_series *r, bn_error *err)
{
    static const char EXACT[] = "the value is the same each time";
    const struct bn_series *s = r->s;
    struct bn_summary sum;
    struct bn_interval interval = {0};
    if (!bn_summarize(&sum, s->samples, s->n) || !bn_tukey(&r->fences, s->samples, s->n))
        return bn_nomem(err);
    figure(r, BN_FIGURE_MEDIAN, true, sum.median, NULL);
    figure(r, BN_FIGURE_MIN, true, sum.min, NULL);
    figure(r, BN_FIGURE_MAX, true, sum.max, NULL);
    figure(r, BN_FIGURE_MAD, true, sum.mad, NULL);
    if (!s->exact) BN_TRY(bn_interval_median(&interval, s->samples, s->n, 0.95, err));
    bool known = !s->exact && isfinite(interval.low) && isfinite(interval.high);
    figure(r, BN_FIGURE_LOW, known, interval.low, s->exact ? EXACT : "needs 6 samples");
    figure(r, BN_FIGURE_HIGH, known, interval.high, s->exact ? EXACT : "needs 6 samples");
    r->method = known ? interval.method : NULL;
    quantile(r, BN_FIGURE_P5, 0.05, "needs 20 samples");
    figure(r, BN_FIGURE_Q1, s->n >= 4, r->fences.q1, "needs 4 samples");
    figure(r, BN_FIGURE_Q3, s->n >= 4, r->fences.q3, "needs 4 samples");
    quantile(r, BN_FIGURE_P95, 0.95, "needs 20 samples");
    quantile(r, BN_FIGURE_P99, 0.99, "needs 100 samples");
    r->n_outliers =
        r->fences.n_mild_low + r->fences.n_severe_low + r->fences.n_mild_high + r->fences.n_severe_high;
    r->correlation = bn_autocorrelation(s->samples, s->n);
    return BN_OK;
}

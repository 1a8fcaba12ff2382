/* SPDX-License-Identifier: MIT
 *
 * Figures of a series, and how people read them.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/stats/interval.h"
#include "tools/bench/report/report.h"

const char *const bn_figure_names[BN_FIGURES] = {"median", "low", "high", "min", "max", "mad",
                                                 "p5",     "q1",  "q3",   "p95", "p99"};

/* ---- figures of a series ---- */

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

/* ---- for people ---- */

struct bn_report_scale bn_report_scale(const char *unit, double value)
{
    static const struct {
        const char *unit;
        double from; /* the row counts from this value on */
        struct bn_report_scale scale;
    } ROWS[] = {{"ns", 1e9, {1e-9, "s"}},
                {"ns", 1e6, {1e-6, "ms"}},
                {"ns", 1e3, {1e-3, "\xC2\xB5s"}},
                {"ns", 0, {1, "ns"}},
                {"bytes", 1e9, {1e-9, "GB"}},
                {"bytes", 1e6, {1e-6, "MB"}},
                {"bytes", 1e4, {1e-3, "kB"}},
                {"bytes", 0, {1, "bytes"}},
                {"bytes/s", 1e9, {1e-9, "GB/s"}},
                {"bytes/s", 1e6, {1e-6, "MB/s"}},
                {"bytes/s", 0, {1, "bytes/s"}},
                {"1/s", 1e9, {1e-9, "G/s"}},
                {"1/s", 1e6, {1e-6, "M/s"}},
                {"1/s", 1e4, {1e-3, "k/s"}},
                {"1/s", 0, {1, "/s"}},
                {"1", 0, {1, ""}}};
    value = fabs(value);
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++)
        if (strcmp(ROWS[i].unit, unit) == 0 &&
            (value >= ROWS[i].from || !isfinite(value) || ROWS[i].from <= 0))
            return ROWS[i].scale;
    return (struct bn_report_scale){1, unit};
}

void bn_report_put(struct bn_buf *out, double value, const struct bn_report_scale *scale)
{
    double shown = value * scale->factor, size = fabs(shown);
    if (!isfinite(value)) {
        bn_buf_puts(out, "-");
        return;
    }
    if (size > 0 && (size < 1e-4 || size >= 1e15))
        bn_buf_printf(out, "%.3e", shown);
    else if (size >= 1000 || size <= 0 || (size < 1e6 && floor(size) >= size))
        bn_buf_printf(out, "%.0f", shown);
    else
        bn_buf_printf(out, "%.*f", (int)fmax(0, 3 - floor(log10(size))), shown);
}

void bn_report_put_percent(struct bn_buf *out, double share, bool sign)
{
    double size = fabs(100 * share);
    if (!isfinite(share))
        bn_buf_puts(out, "-");
    else if (size >= 1e6)
        bn_buf_printf(out, sign ? "%+.3e %%" : "%.3e %%", 100 * share);
    else
        bn_buf_printf(out, sign ? "%+.*f %%" : "%.*f %%", size < 10 ? 2 : size < 1000 ? 1 : 0, 100 * share);
}

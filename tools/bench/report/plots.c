/* SPDX-License-Identifier: MIT
 *
 * The plot of one series: its samples over time. At most MARKS marks are drawn: of more samples each one is a
 * column from the minimum to the maximum of several.
 */
#include <math.h>
#include <stdio.h>

#include "lab/report/plot.h"
#include "lab/report/units.h"
#include "lab/stats/summary.h"
#include "tools/bench/report/report.h"

#define MARKS 1000u
#define BLOCKS 24u /* medians of consecutive samples, to show drift */
#define FEW 100u   /* fewer samples are drawn as large dots */
#define BEYOND 6.0 /* quartile distances outside the quartiles that are still in the picture */

/* Sets the range of y and returns how many samples it leaves out. Samples of the warm-up widen it too, unless
 * they are far away. */
static size_t choose_range(struct bn_plot *p, const struct bn_report_series *s, double factor)
{
    const double *f = s->figure, *early = s->s->samples - s->s->n_warmup;
    double low = f[BN_FIGURE_MIN], high = f[BN_FIGURE_MAX],
           reach = BEYOND * (f[BN_FIGURE_Q3] - f[BN_FIGURE_Q1]);
    size_t outside = 0;
    if (s->s->n >= 8 && reach > 0) {
        low = fmax(low, f[BN_FIGURE_Q1] - reach);
        high = fmin(high, f[BN_FIGURE_Q3] + reach);
    }
    for (size_t i = 0; i < s->s->n; i++)
        outside += s->s->samples[i] < low || s->s->samples[i] > high;
    for (size_t i = 0; i < s->s->n_warmup; i++)
        if (early[i] < 1.5 * f[BN_FIGURE_MEDIAN]) bn_plot_include(&low, &high, early[i]);
    double edge = (high - low) * 0.06;
    p->y0 = (low - fmin(edge, low)) * factor;
    p->y1 = (high + edge) * factor;
    bn_plot_round(&p->y0, &p->y1, 6);
    return outside;
}

/* Marks of n samples, the first one at x, within the picture. */
static void draw_samples(struct bn_buf *out, const struct bn_plot *p, const char *class_name,
                         const double *samples, size_t n, double x, double factor)
{
    size_t marks = bn_min_size(n, MARKS);
    bn_html(out, "<path class=\"%s\" d=\"", class_name);
    for (size_t c = 0; c < marks; c++) {
        size_t from = c * n / marks, to = (c + 1) * n / marks;
        double low = HUGE_VAL, high = -HUGE_VAL;
        for (size_t i = from; i < to; i++)
            bn_plot_include(&low, &high, fmin(fmax(samples[i] * factor, p->y0), p->y1));
        bn_html(out, "M%.1f %.1fV%.1f", bn_plot_x(p, x + (double)(from + to - 1) / 2), bn_plot_y(p, low),
                bn_plot_y(p, high));
    }
    bn_html(out, "\"/>\n");
}

/* Medians of consecutive samples: a level line without drift. */
static void draw_drift(struct bn_buf *out, const struct bn_plot *p, const struct bn_report_series *s,
                       double factor)
{
    size_t n = s->s->n;
    double x[BLOCKS], y[BLOCKS];
    for (size_t b = 0; b < BLOCKS && n >= 2 * BLOCKS; b++) {
        size_t from = b * n / BLOCKS, m = (b + 1) * n / BLOCKS - from;
        x[b] = (double)from + ((double)m - 1) / 2;
        y[b] = bn_median(s->s->samples + from, m) * factor;
    }
    if (n >= 2 * BLOCKS) bn_plot_line(out, p, "drift", x, y, BLOCKS);
}

void bn_report_plot_time(struct bn_buf *out, const struct bn_report_series *s)
{
    const char *unit = bn_units_of(s->s->metric, s->s->unit);
    struct bn_units_scale scale = bn_units_scale(unit, s->figure[BN_FIGURE_MEDIAN]);
    size_t n = s->s->n, n_warmup = s->s->n_warmup;
    struct bn_plot p = bn_plot_of(250);
    char label[200], low[BN_UNITS_ROOM], high[BN_UNITS_ROOM];
    p.x0 = -0.5 - (double)n_warmup;
    p.x1 = (double)n - 0.5;
    p.whole_x = true;
    size_t outside = choose_range(&p, s, scale.factor);
    bn_plot_figure(out, "", "Over time",
                   "A dot is a sample, a column the range of several. A line joins medians of consecutive "
                   "samples; it is level without drift.");
    bn_plot_begin(out, &p, "samples in the order of time");
    if (n_warmup > 0) {
        bn_plot_band(out, &p, "early", p.x0, -0.5);
        bn_plot_note(out, &p, "open", p.x0, p.y1, 3, 12, "warm-up");
        draw_samples(out, &p, "before", s->s->samples - n_warmup, n_warmup, -(double)n_warmup, scale.factor);
    }
    bn_plot_y_axis(out, &p);
    draw_samples(out, &p,
                 n < FEW     ? "point few"
                 : n > MARKS ? "columns"
                             : "point",
                 s->s->samples, n, 0, scale.factor);
    bn_plot_rule_y(out, &p, "median", s->figure[BN_FIGURE_MEDIAN] * scale.factor);
    draw_drift(out, &p, s, scale.factor);
    snprintf(label, sizeof label, "%s%s%s", s->s->metric, scale.name[0] != '\0' ? ", " : "", scale.name);
    bn_plot_y_label(out, label);
    bn_plot_x_axis(out, &p, "sample");
    bn_plot_end(out);
    if (outside > 0)
        bn_html(out, "<p class=\"what\">%zu of %zu samples are outside the picture, between %s and %s.</p>",
                outside, n, bn_units_text(low, s->figure[BN_FIGURE_MIN], unit),
                bn_units_text(high, s->figure[BN_FIGURE_MAX], unit));
    bn_plot_figure_end(out);
}

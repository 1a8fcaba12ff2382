/* SPDX-License-Identifier: MIT
 *
 * The plot of one series: its samples over time. At most POINTS points are drawn: of more samples each column
 * shows its minimum and its maximum.
 */
#include <math.h>
#include <stdio.h>

#include "lab/report/plot.h"
#include "lab/report/units.h"
#include "tools/bench/report/report.h"

#define POINTS 2000u
#define COLUMNS (POINTS / 2)
#define BLOCKS 24u /* medians of consecutive samples, to show drift */
#define FEW 100u   /* fewer samples are drawn as large dots */
#define BEYOND 6.0 /* quartile distances outside the quartiles that are still in the picture */

/* ---- the range in the picture ---- */

struct view {
    struct bn_units_scale scale;
    double low, high; /* scaled */
    size_t outside;
    char label[200]; /* "metric, ms" */
};

/* A sample of the warm-up. */
static double early_sample(const struct bn_report_series *s, size_t i)
{
    return (s->s->samples - s->s->n_warmup)[i];
}

/* Samples of the warm-up widen the range too, unless they are far away. */
static struct view view_of(const struct bn_report_series *s)
{
    const double *f = s->figure;
    struct view v = {.scale = bn_units_scale(bn_units_of(s->s->metric, s->s->unit), f[BN_FIGURE_MEDIAN])};
    double low = f[BN_FIGURE_MIN], high = f[BN_FIGURE_MAX],
           reach = BEYOND * (f[BN_FIGURE_Q3] - f[BN_FIGURE_Q1]);
    if (s->s->n >= 8 && reach > 0) {
        low = fmax(low, f[BN_FIGURE_Q1] - reach);
        high = fmin(high, f[BN_FIGURE_Q3] + reach);
    }
    for (size_t i = 0; i < s->s->n; i++)
        v.outside += s->s->samples[i] < low || s->s->samples[i] > high;
    for (size_t i = 0; i < s->s->n_warmup; i++)
        if (early_sample(s, i) < 1.5 * f[BN_FIGURE_MEDIAN]) bn_plot_include(&low, &high, early_sample(s, i));
    double edge = (high - low) * 0.06;
    v.low = (low - fmin(edge, low)) * v.scale.factor;
    v.high = (high + edge) * v.scale.factor;
    bn_plot_round(&v.low, &v.high, 6);
    snprintf(v.label, sizeof v.label, "%s%s%s", s->s->metric, v.scale.name[0] != '\0' ? ", " : "",
             v.scale.name);
    return v;
}

static bool is_inside(const struct view *v, double scaled)
{
    return scaled >= v->low && scaled <= v->high;
}

/* Ends the picture and the figure; counts the samples outside. */
static void end_figure(struct bn_buf *out, const struct bn_report_series *s, const struct view *v)
{
    const char *unit = bn_units_of(s->s->metric, s->s->unit);
    char low[BN_UNITS_ROOM], high[BN_UNITS_ROOM];
    bn_plot_end(out);
    if (v->outside > 0)
        bn_html(out, "<p class=\"what\">%zu of %zu samples are outside the picture, between %s and %s.</p>",
                v->outside, s->s->n, bn_units_text(low, s->figure[BN_FIGURE_MIN], unit),
                bn_units_text(high, s->figure[BN_FIGURE_MAX], unit));
    bn_plot_figure_end(out);
}

/* Each sample: a dot, a cross for an outlier, a triangle at the edge for one outside the picture. */
static void draw_samples(struct bn_buf *out, const struct bn_plot *p, const struct bn_report_series *s,
                         const struct view *v)
{
    const char *const CLASSES[] = {s->s->n < FEW ? "point few" : "point", "cross", "edge"};
    for (unsigned c = 0; c < BN_ARRAY_LEN(CLASSES); c++) {
        bn_html(out, "<path class=\"%s\" d=\"", CLASSES[c]);
        for (size_t i = 0; i < s->s->n; i++) {
            double value = s->s->samples[i] * v->scale.factor, x = bn_plot_x(p, (double)i),
                   y = bn_plot_y(p, value);
            bool outlier = bn_tukey_label(&s->fences, s->s->samples[i]) != BN_OUTLIER_NONE;
            if (c != (!is_inside(v, value) ? 2u : outlier)) continue;
            if (c == 0)
                bn_html(out, "M%.1f %.1fh0", x, y);
            else if (c == 1)
                bn_html(out, "M%.1f %.1fl6 6m0 -6l-6 6", x - 3, y - 3);
            else
                bn_html(out, value > v->high ? "M%.1f %.1fl5 9h-10z" : "M%.1f %.1fl5 -9h-10z", x, y);
        }
        bn_html(out, "\"/>\n");
    }
}

/* The minimum and the maximum of each column. */
static void draw_columns(struct bn_buf *out, const struct bn_plot *p, const struct bn_report_series *s,
                         const struct view *v)
{
    size_t n = s->s->n;
    bn_html(out, "<path class=\"columns\" d=\"");
    for (size_t c = 0; c < COLUMNS; c++) {
        size_t from = c * n / COLUMNS, to = (c + 1) * n / COLUMNS;
        double low = HUGE_VAL, high = -HUGE_VAL;
        for (size_t i = from; i < to; i++)
            bn_plot_include(&low, &high, s->s->samples[i] * v->scale.factor);
        if (high >= low)
            bn_html(out, "M%.1f %.1fV%.1f", bn_plot_x(p, (double)(from + to) / 2),
                    bn_plot_y(p, fmax(low, v->low)), bn_plot_y(p, fmin(high, v->high)) - 0.5);
    }
    bn_html(out, "\"/>\n");
}

/* Medians of consecutive samples: a level line without drift. */
static void draw_drift(struct bn_buf *out, const struct bn_plot *p, const struct bn_report_series *s,
                       double factor)
{
    size_t n = s->s->n;
    double x[BLOCKS], y[BLOCKS], *part = n >= 2 * BLOCKS ? bn_alloc(n / BLOCKS + 1, sizeof *part) : NULL;
    if (part == NULL) return;
    for (size_t b = 0; b < BLOCKS; b++) {
        size_t from = b * n / BLOCKS, m = (b + 1) * n / BLOCKS - from;
        memcpy(part, s->s->samples + from, m * sizeof *part);
        bn_sort(part, m);
        x[b] = (double)from + ((double)m - 1) / 2;
        y[b] = bn_sorted_quantile(part, m, 0.5) * factor;
    }
    bn_plot_line(out, p, "drift", x, y, BLOCKS);
    bn_free(part);
}

/* The samples before, which do not count. */
static void draw_warmup(struct bn_buf *out, const struct bn_plot *p, const struct bn_report_series *s,
                        const struct view *v)
{
    if (s->s->n_warmup == 0) return;
    bn_plot_band(out, p, "early", p->x0, -0.5);
    bn_plot_note(out, p, "open", p->x0, p->y1, 3, 12, "warm-up");
    bn_html(out, "<path class=\"before\" d=\"");
    for (size_t i = 0; i < s->s->n_warmup; i++)
        bn_html(out, "M%.1f %.1fh0", bn_plot_x(p, (double)i - (double)s->s->n_warmup),
                bn_plot_y(p, fmin(early_sample(s, i) * v->scale.factor, v->high)));
    bn_html(out, "\"/>\n");
}

void bn_report_plot_time(struct bn_buf *out, const struct bn_report_series *s)
{
    struct view v = view_of(s);
    size_t n = s->s->n;
    struct bn_plot p = bn_plot_of(250);
    p.x0 = -0.5 - (double)s->s->n_warmup;
    p.x1 = (double)n - 0.5;
    p.y0 = v.low;
    p.y1 = v.high;
    p.whole_x = true;
    bn_plot_figure(
        out, "", "Over time",
        n > POINTS ? "Minimum and maximum of each column of samples. The line joins medians of consecutive "
                     "samples; it is level without drift."
        : n >= 2 * BLOCKS ? "A dot is a sample, a cross an outlier. The line joins medians of consecutive "
                            "samples; it is level without drift."
                          : "A dot is a sample, a cross an outlier.");
    bn_plot_begin(out, &p, "samples in the order of time");
    draw_warmup(out, &p, s, &v);
    bn_plot_y_axis(out, &p);
    if (n > POINTS)
        draw_columns(out, &p, s, &v);
    else
        draw_samples(out, &p, s, &v);
    bn_plot_rule_y(out, &p, "median", s->figure[BN_FIGURE_MEDIAN] * v.scale.factor);
    draw_drift(out, &p, s, v.scale.factor);
    bn_plot_y_label(out, v.label);
    bn_plot_x_axis(out, &p, "sample");
    end_figure(out, s, &v);
}

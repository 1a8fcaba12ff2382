/* SPDX-License-Identifier: MIT
 *
 * Plots of one series: how its samples are distributed, and what they did over time. At most POINTS points
 * are drawn, whatever the number of samples is: of more, the least and the greatest of each column.
 */
#include <math.h>

#include "lab/report/plot.h"
#include "tools/bench/report/report.h"

#define POINTS 2000u
#define COLUMNS (POINTS / 2)
#define CURVE 160u  /* points of a density */
#define SKETCH 800u /* samples that a density is made of */
#define BLOCKS 24u  /* medians of consecutive samples, to show drift */
#define FEW 100u    /* samples that are drawn as large dots */
#define BEYOND 6.0  /* quartile distances beyond the quartiles that are still in the picture */

/* ---- what is in the picture ---- */

struct view {
    struct bn_report_scale scale;
    double low, high; /* scaled */
    size_t below, above;
};

/* With early, samples of the warm-up widen it too, unless they are far away. */
static struct view view_of(const struct bn_report_series *s, bool early)
{
    const double *f = s->figure;
    struct view v = {.scale = bn_report_scale(s->s->unit, f[BN_FIGURE_MEDIAN])};
    double low = f[BN_FIGURE_MIN], high = f[BN_FIGURE_MAX],
           reach = BEYOND * (f[BN_FIGURE_Q3] - f[BN_FIGURE_Q1]);
    if (s->s->n >= 8 && reach > 0) {
        low = fmax(low, f[BN_FIGURE_Q1] - reach);
        high = fmin(high, f[BN_FIGURE_Q3] + reach);
    }
    for (size_t i = 0; i < s->s->n; i++) {
        v.below += s->s->samples[i] < low;
        v.above += s->s->samples[i] > high;
    }
    for (size_t i = 0; early && i < s->n_warmup; i++)
        if (s->warmup[i] < 1.5 * f[BN_FIGURE_MEDIAN]) bn_plot_include(&low, &high, s->warmup[i]);
    double edge = (high - low) * 0.06;
    v.low = (low - fmin(edge, low)) * v.scale.factor;
    v.high = (high + edge) * v.scale.factor;
    bn_plot_round(&v.low, &v.high, 6);
    return v;
}

static bool is_inside(const struct view *v, double scaled)
{
    return scaled >= v->low && scaled <= v->high;
}

static void begin_figure(struct bn_buf *out, const char *title, const char *what)
{
    bn_html(out, "<div class=\"figure\"><h4>%s</h4><p class=\"what\">%s</p>\n", title, what);
}

/* Says what was left outside, then ends the figure. */
static void end_figure(struct bn_buf *out, const struct bn_report_series *s, const struct view *v)
{
    struct bn_buf text = {.max = 1000};
    if (v->above + v->below > 0) {
        bn_buf_printf(&text, "%zu of %zu samples lie outside the picture, between ", v->above + v->below,
                      s->s->n);
        bn_report_put(&text, s->figure[BN_FIGURE_MIN], &v->scale);
        bn_buf_puts(&text, " and ");
        bn_report_put(&text, s->figure[BN_FIGURE_MAX], &v->scale);
        bn_buf_printf(&text, " %s.", v->scale.unit);
        bn_html(out, "<p class=\"what\">%s</p>", text.data);
    }
    bn_buf_release(&text);
    bn_html(out, "</div>\n");
}

/* "metric, ms" */
static void put_label(struct bn_buf *label, const struct bn_report_series *s, const struct view *v)
{
    bn_buf_puts(label, s->s->metric);
    if (v->scale.unit[0] != '\0') bn_buf_printf(label, ", %s", v->scale.unit);
}

/* ---- distribution ---- */

static double *sorted_of(const struct bn_series *s)
{
    double *copy = bn_alloc(s->n, sizeof *copy);
    if (copy == NULL) return NULL;
    memcpy(copy, s->samples, s->n * sizeof *copy);
    bn_sort(copy, s->n);
    return copy;
}

/* Where the samples are labelled, beyond the fences. */
static void draw_bands(struct bn_buf *out, const struct bn_plot *p, const struct bn_report_series *s,
                       const struct view *v)
{
    static const struct {
        const char *kind;
        double from, to; /* quartile distances beyond the quartile */
    } BANDS[] = {{"mild", 1.5, 3}, {"severe", 3, HUGE_VAL}};
    double q1 = s->figure[BN_FIGURE_Q1], q3 = s->figure[BN_FIGURE_Q3], iqr = q3 - q1;
    if (!(iqr > 0)) return;
    for (size_t i = 0; i < 2 * BN_ARRAY_LEN(BANDS); i++) {
        const double from = BANDS[i / 2].from * iqr, to = BANDS[i / 2].to * iqr;
        bool up = i % 2 == 1;
        double a = (up ? q3 + from : q1 - to) * v->scale.factor,
               b = (up ? q3 + to : q1 - from) * v->scale.factor;
        a = fmax(a, p->x0);
        b = fmin(b, p->x1);
        if (!(b > a)) continue;
        bn_html(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
                BANDS[i / 2].kind, bn_plot_x(p, a), p->top, bn_plot_x(p, b) - bn_plot_x(p, a),
                p->height - p->bottom - p->top);
    }
}

/* Gaussian kernels, the width by Silverman's rule. */
static void draw_density(struct bn_buf *out, struct bn_plot *p, const double *sorted, size_t n, double factor)
{
    size_t used = bn_min_size(n, SKETCH);
    double x[SKETCH] = {0}, y[CURVE + 1], mean = 0, square = 0, top = 0;
    for (size_t i = 0; i < used; i++) {
        x[i] = sorted[(size_t)((double)i * (double)(n - 1) / (double)(used - 1))] * factor;
        mean += x[i] / (double)used;
    }
    for (size_t i = 0; i < used; i++)
        square += (x[i] - mean) * (x[i] - mean) / (double)used;
    double iqr = x[(used * 3) / 4] - x[used / 4];
    double h = 0.9 * fmin(sqrt(square), iqr > 0 ? iqr / 1.34 : HUGE_VAL) * pow((double)used, -0.2);
    if (!(h > 0)) return;
    for (size_t i = 0; i <= CURVE; i++) {
        double at = p->x0 + (p->x1 - p->x0) * (double)i / CURVE;
        y[i] = 0;
        for (size_t k = 0; k < used; k++) {
            double z = (at - x[k]) / h;
            if (fabs(z) < 6) y[i] += exp(-z * z / 2);
        }
        top = fmax(top, y[i]);
    }
    if (!(top > 0)) return;
    bn_html(out, "<path class=\"density\" d=\"M%.1f %.1f", p->left, p->height - p->bottom);
    double room = p->height - p->bottom - p->top - 34;
    for (size_t i = 0; i <= CURVE; i++)
        bn_html(out, "L%.1f %.1f", bn_plot_x(p, p->x0 + (p->x1 - p->x0) * (double)i / CURVE),
                p->height - p->bottom - room * y[i] / top);
    bn_html(out, "L%.1f %.1fZ\"/>\n", p->width - p->right, p->height - p->bottom);
}

/* The samples along the foot, each a little higher or lower so that equal ones are seen. */
static void draw_rug(struct bn_buf *out, const struct bn_plot *p, const struct view *v, const double *sorted,
                     size_t n, bool tall)
{
    size_t step = (n + POINTS / 4 - 1) / (POINTS / 4);
    double foot = p->height - p->bottom, rise = tall ? 70 : 26;
    bn_html(out, "<path class=\"point %s\" d=\"", n < FEW ? "few" : "");
    for (size_t i = 0; i < n; i += step) {
        double x = sorted[i] * v->scale.factor;
        if (is_inside(v, x))
            bn_html(out, "M%.1f %.1fh0", bn_plot_x(p, x),
                    foot - 6 - fmod((double)(i / step) * 0.618034, 1) * rise);
    }
    bn_html(out, "\"/>\n");
}

/* The median and its interval, above everything. */
static void draw_median(struct bn_buf *out, const struct bn_plot *p, const struct bn_report_series *s,
                        const struct view *v)
{
    const double *f = s->figure;
    double x = bn_plot_x(p, f[BN_FIGURE_MEDIAN] * v->scale.factor), y = p->top + 20;
    struct bn_buf text = {.max = 200};
    bn_html(out, "<path class=\"median\" d=\"M%.1f %.1fV%.1f\"/>", x, y, p->height - p->bottom);
    if (isfinite(f[BN_FIGURE_LOW])) {
        double a = bn_plot_x(p, f[BN_FIGURE_LOW] * v->scale.factor),
               b = bn_plot_x(p, f[BN_FIGURE_HIGH] * v->scale.factor);
        bn_html(out, "<path class=\"bar\" d=\"M%.1f %.1fH%.1fM%.1f %.1fv8M%.1f %.1fv8\"/>", a, y, b, a, y - 4,
                b, y - 4);
    }
    bn_report_put(&text, f[BN_FIGURE_MEDIAN], &v->scale);
    bool right = x > p->width * 0.55;
    bn_html(out, "<text class=\"note %s\" x=\"%.1f\" y=\"%.1f\">median %s %s</text>\n",
            right ? "end" : "start", x + (right ? 4 : -4), p->top + 8, text.data, v->scale.unit);
    bn_buf_release(&text);
}

void bn_report_plot_distribution(struct bn_buf *out, const struct bn_report_series *s)
{
    struct view v = view_of(s, false);
    struct bn_plot p = {.width = 480,
                        .height = 250,
                        .left = 16,
                        .right = 16,
                        .top = 10,
                        .bottom = 44,
                        .x0 = v.low,
                        .x1 = v.high,
                        .y1 = 1};
    struct bn_buf label = {.max = 1000};
    double *sorted = sorted_of(s->s);
    if (sorted == NULL) return;
    put_label(&label, s, &v);
    begin_figure(out, "How the samples are distributed",
                 s->s->n >= 8
                     ? "Their density; each dot is a sample. The bar is the 95 % interval of the median; "
                       "shaded are mild and severe outliers."
                     : "Each dot is a sample. There are too few for a density.");
    bn_plot_begin(out, &p, "distribution of the samples");
    draw_bands(out, &p, s, &v);
    if (s->s->n >= 8) draw_density(out, &p, sorted, s->s->n, v.scale.factor);
    draw_rug(out, &p, &v, sorted, s->s->n, s->s->n < 8);
    draw_median(out, &p, s, &v);
    bn_plot_x_axis(out, &p, label.data);
    bn_plot_end(out);
    end_figure(out, s, &v);
    bn_buf_release(&label);
    bn_free(sorted);
}

/* ---- over time ---- */

/* Each sample: a dot, or a cross for an outlier; what is outside the picture, a triangle at its edge. */
static void draw_samples(struct bn_buf *out, const struct bn_plot *p, const struct bn_report_series *s,
                         const struct view *v)
{
    const char *const CLASSES[] = {s->s->n < FEW ? "point few" : "point", "cross", "edge"};
    for (unsigned c = 0; c < BN_ARRAY_LEN(CLASSES); c++) {
        bn_html(out, "<path class=\"%s\" d=\"", CLASSES[c]);
        for (size_t i = 0; i < s->s->n; i++) {
            double value = s->s->samples[i] * v->scale.factor, x = bn_plot_x(p, (double)i),
                   y = bn_plot_y(p, value);
            unsigned is = !is_inside(v, value)                                              ? 2
                          : bn_tukey_label(&s->fences, s->s->samples[i]) != BN_OUTLIER_NONE ? 1
                                                                                            : 0;
            if (is != c) continue;
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

/* The least and the greatest of each column. */
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

/* Medians of consecutive samples: a line that is level when nothing drifted. */
static void draw_blocks(struct bn_buf *out, const struct bn_plot *p, const struct bn_report_series *s,
                        const struct view *v)
{
    size_t n = s->s->n;
    double *part = n >= 2 * BLOCKS ? bn_alloc(n / BLOCKS + 1, sizeof *part) : NULL;
    if (part == NULL) return;
    bn_html(out, "<path class=\"drift\" d=\"");
    for (size_t b = 0; b < BLOCKS; b++) {
        size_t from = b * n / BLOCKS, m = (b + 1) * n / BLOCKS - from;
        memcpy(part, s->s->samples + from, m * sizeof *part);
        bn_sort(part, m);
        double median = bn_sorted_quantile(part, m, 0.5);
        bn_html(out, "%s%.1f %.1f", b == 0 ? "M" : "L", bn_plot_x(p, (double)from + ((double)m - 1) / 2),
                bn_plot_y(p, median * v->scale.factor));
    }
    bn_html(out, "\"/>\n");
    bn_free(part);
}

/* What was measured before, and does not count. */
static void draw_warmup(struct bn_buf *out, const struct bn_plot *p, const struct bn_report_series *s,
                        const struct view *v)
{
    if (s->n_warmup == 0) return;
    double right = bn_plot_x(p, -0.5);
    bn_html(out, "<rect class=\"early\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", p->left,
            p->top, right - p->left, p->height - p->bottom - p->top);
    bn_html(
        out,
        "<text class=\"note open start\" x=\"%.1f\" y=\"%.1f\">warm-up</text>\n<path class=\"before\" d=\"",
        p->left + 3, p->top + 12);
    for (size_t i = 0; i < s->n_warmup; i++)
        bn_html(out, "M%.1f %.1fh0", bn_plot_x(p, (double)i - (double)s->n_warmup),
                bn_plot_y(p, fmin(s->warmup[i] * v->scale.factor, v->high)));
    bn_html(out, "\"/>\n");
}

void bn_report_plot_time(struct bn_buf *out, const struct bn_report_series *s)
{
    struct view v = view_of(s, true);
    size_t n = s->s->n;
    struct bn_plot p = {.width = 480,
                        .height = 250,
                        .left = 60,
                        .right = 16,
                        .top = 30,
                        .bottom = 44,
                        .x0 = -0.5 - (double)s->n_warmup,
                        .x1 = (double)n - 0.5,
                        .y0 = v.low,
                        .y1 = v.high,
                        .whole_x = true};
    struct bn_buf label = {.max = 1000};
    put_label(&label, s, &v);
    begin_figure(
        out, "What they did over time",
        n > POINTS ? "The least and the greatest of each column of samples; the line joins medians of "
                     "consecutive samples and is level when nothing drifted."
        : n >= 2 * BLOCKS
            ? "A dot is a sample, a cross an outlier; the line joins medians of consecutive samples and is "
              "level when nothing drifted."
            : "A dot is a sample, a cross an outlier.");
    bn_plot_begin(out, &p, "samples in the order of time");
    draw_warmup(out, &p, s, &v);
    bn_plot_y_axis(out, &p);
    if (n > POINTS)
        draw_columns(out, &p, s, &v);
    else
        draw_samples(out, &p, s, &v);
    double y = bn_plot_y(&p, s->figure[BN_FIGURE_MEDIAN] * v.scale.factor);
    bn_html(out, "<path class=\"median\" d=\"M%.1f %.1fH%.1f\"/>\n", p.left, y, p.width - p.right);
    draw_blocks(out, &p, s, &v);
    bn_html(out, "<text class=\"start\" x=\"4\" y=\"12\">%s</text>\n", label.data);
    bn_plot_x_axis(out, &p, "sample");
    bn_plot_end(out);
    end_figure(out, s, &v);
    bn_buf_release(&label);
}

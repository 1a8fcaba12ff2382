/* SPDX-License-Identifier: MIT
 *
 * Plots of several series: comparisons, a series over the entries of a ledger, the bricks of a profile,
 * kernels under their limits.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/utf8.h"
#include "lab/report/plot.h"
#include "lab/report/units.h"
#include "tools/bench/report/report.h"

#define ROW 42.0
#define FOREST_MAX 60u
#define FOREST_REACH 0.25 /* longer intervals are cut, unless a change itself is larger */
#define BARS_MAX 40u

/* ---- comparisons ---- */

/* A band around 0, in per cent. */
static void draw_band(struct bn_buf *out, const struct bn_plot *p, const char *kind, double reach, double y,
                      double height)
{
    double a = bn_plot_x(p, fmax(-100 * reach, p->x0)), b = bn_plot_x(p, fmin(100 * reach, p->x1));
    if (reach > 0)
        bn_html(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", kind, a,
                y - height / 2, b - a, height);
}

/* The end of a bar: a stroke across, or an arrow where the bar goes on outside. */
static void draw_end(struct bn_buf *out, double x, double y, double arrow)
{
    bn_html(out, "M%.1f %.1fL%.1f %.1fL%.1f %.1f", x + arrow, y - 4, x, y, x + arrow, y + 4);
}

static void draw_comparison(struct bn_buf *out, const struct bn_plot *p, const struct bn_report_comparison *c,
                            double y)
{
    const struct bn_judgement shown = bn_comparison_shown(&c->c), *j = &shown;
    const char *kind = j->outcome == BN_OUTCOME_IMPROVED              ? "good"
                       : strcmp(bn_comparison_kind(&c->c), "ok") == 0 ? "same"
                                                                      : bn_comparison_kind(&c->c);
    double low = 100 * j->low, high = 100 * j->high, change = fmin(fmax(100 * j->change, p->x0), p->x1);
    char name[48], text[BN_UNITS_ROOM];
    int n = snprintf(name, sizeof name, "%s \xC2\xB7 %s", c->c.test, c->c.metric);
    bool cut = n >= (int)sizeof name;
    if (cut) name[bn_utf8_valid(name, strlen(name))] = '\0';
    bn_html(out,
            "<text class=\"op\" x=\"%.1f\" y=\"%.1f\">%s%s</text><text class=\"note end %s\" x=\"%.1f\" "
            "y=\"%.1f\">%s</text>",
            p->left, y - 12, name, cut ? "\xE2\x80\xA6" : "", kind, p->width - p->right, y - 12,
            bn_outcome_name(j->outcome));
    draw_band(out, p, "margin", c->margin, y, 16);
    draw_band(out, p, "noise", j->band, y, 10);
    if (isfinite(low) && isfinite(high)) {
        double a = bn_plot_x(p, fmin(fmax(low, p->x0), p->x1)),
               b = bn_plot_x(p, fmin(fmax(high, p->x0), p->x1));
        bn_html(out, "<path class=\"bar %s\" d=\"M%.1f %.1fH%.1f", kind, a, y, b);
        draw_end(out, a, y, low < p->x0 ? 5 : 0);
        draw_end(out, b, y, high > p->x1 ? -5 : 0);
        bn_html(out, "\"/>");
    }
    if (isfinite(change))
        bn_html(out, "<circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>%s</title></circle>\n",
                kind, bn_plot_x(p, change), y, bn_units_percent_text(text, j->change, true));
}

void bn_report_plot_forest(struct bn_buf *out, const struct bn_report *r)
{
    size_t n = bn_min_size(r->n_comparisons, FOREST_MAX);
    struct bn_plot p = {
        .width = 480, .height = 50 + ROW * (double)n, .left = 12, .right = 12, .top = 4, .bottom = 44};
    double reach = FOREST_REACH;
    if (n == 0) return;
    for (size_t i = 0; i < n; i++)
        if (fabs(r->comparisons[i].c.j.change) > reach)
            reach = fmin(1.1 * fabs(r->comparisons[i].c.j.change), 10);
    for (size_t i = 0; i < n; i++) {
        const struct bn_report_comparison *c = &r->comparisons[i];
        const struct bn_judgement j = bn_comparison_shown(&c->c);
        const double ends[] = {j.low, j.high, j.change, c->margin, -c->margin, j.band, -j.band};
        for (size_t k = 0; k < BN_ARRAY_LEN(ends); k++)
            bn_plot_include(&p.x0, &p.x1, 100 * fmin(fmax(ends[k], -reach), reach));
    }
    bn_plot_round(&p.x0, &p.x1, 8);
    p.y1 = 1;
    bn_plot_figure(
        out, "forest", "Changes from A to B",
        "Red is worse, green is better. The bar is the 95 % interval. Grey: changes that do not matter. Blue: how much A "
        "differs from itself.");
    bn_plot_begin(out, &p, "changes with their intervals");
    bn_plot_rule_x(out, &p, "grid", 0);
    for (size_t i = 0; i < n; i++)
        draw_comparison(out, &p, &r->comparisons[i], p.top + ROW * (double)i + 28);
    bn_plot_x_axis(out, &p, "change, %");
    bn_plot_end(out);
    if (n < r->n_comparisons)
        bn_html(out, "<p class=\"what\">The first %zu of %zu; the table has all of them.</p>", n,
                r->n_comparisons);
    bn_plot_figure_end(out);
}

/* ---- over the entries of a ledger ---- */

static void draw_moment(struct bn_buf *out, const struct bn_plot *p, const struct bn_report_trend *t,
                        size_t i, double factor)
{
    const struct bn_report_moment *m = &t->moments[i];
    char title[200], value[BN_UNITS_ROOM];
    snprintf(title, sizeof title, "%.10s, %.40s: %s", m->commit, m->created,
             bn_units_text(value, m->median, bn_units_of(t->metric, t->unit)));
    bn_plot_interval(out, p, "bar", (double)i + 1, m->low * factor, m->high * factor);
    bn_plot_mark(out, p, BN_PLOT_DOT, "dot", (double)i + 1, m->median * factor, 3, title);
}

/* The level changed before this entry. */
static void draw_change(struct bn_buf *out, const struct bn_plot *p, const struct bn_report_trend *t,
                        size_t row)
{
    const struct bn_report_change *c = &t->changes[row];
    double x = (double)c->at + 0.5;
    char text[BN_UNITS_ROOM];
    bn_plot_rule_x(out, p, "limit", x);
    bn_plot_note(out, p, (c->change > 0) != t->higher ? "bad" : "good", x, p->y1, 6,
                 12 + 16 * (double)(row % 3), bn_units_percent_text(text, c->change, true));
}

void bn_report_plot_trend(struct bn_buf *out, const struct bn_report_trend *t)
{
    struct bn_units_scale scale = bn_units_scale(bn_units_of(t->metric, t->unit), t->moments[0].median);
    struct bn_plot p = bn_plot_of(260);
    double *x = bn_alloc(t->n, 2 * sizeof *x), *y;
    char label[200];
    if (x == NULL) {
        out->failed = true;
        return;
    }
    y = x + t->n;
    p.x0 = 0.5;
    p.x1 = (double)t->n + 0.5;
    p.y0 = HUGE_VAL;
    p.y1 = -HUGE_VAL;
    p.whole_x = true;
    for (size_t i = 0; i < t->n; i++) {
        const double values[] = {t->moments[i].median, t->moments[i].low, t->moments[i].high};
        x[i] = (double)i + 1;
        y[i] = values[0] * scale.factor;
        for (size_t k = 0; k < BN_ARRAY_LEN(values); k++)
            bn_plot_include(&p.y0, &p.y1, values[k] * scale.factor);
    }
    bn_plot_round(&p.y0, &p.y1, 6);
    snprintf(label, sizeof label, "%s%s%s", t->metric, scale.name[0] != '\0' ? ", " : "", scale.name);
    bn_plot_figure(out, "", t->test,
                   "Median of each entry; bars are 95 % intervals, dashed lines changes of the level.");
    bn_plot_begin(out, &p, "medians over the entries of the ledger");
    bn_plot_y_axis(out, &p);
    bn_plot_line(out, &p, "line", x, y, t->n);
    for (size_t i = 0; i < t->n; i++)
        draw_moment(out, &p, t, i, scale.factor);
    for (size_t k = 0; k < t->n_changes; k++)
        draw_change(out, &p, t, k);
    bn_plot_y_label(out, label);
    bn_plot_x_axis(out, &p, "entry");
    bn_plot_end(out);
    bn_plot_figure_end(out);
    bn_free(x);
}

/* ---- bricks ---- */

void bn_report_plot_bricks(struct bn_buf *out, const struct bn_report *r,
                           const struct bn_report_source *source)
{
    struct bn_plot_bar bars[BARS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < r->n_bricks && n < BARS_MAX; i++) {
        const struct bn_report_brick *b = &r->bricks[i];
        char share[BN_UNITS_ROOM], time[BN_UNITS_ROOM];
        if (b->source != source) continue;
        bars[n] = (struct bn_plot_bar){b->name, b->share, (double)NAN, (double)NAN, "", b->rest};
        snprintf(bars[n++].text, sizeof bars->text, "%.20s  %.20s",
                 bn_units_percent_text(share, b->share, false), bn_units_text(time, b->ns, "ns"));
    }
    if (n == 0 || !(bars[0].value > 0)) return;
    bn_plot_figure(
        out, "", "Time of each brick",
        "Exclusive time, all threads, as a percentage of all time. The outline is unattributed time.");
    bn_plot_bars(out, "time of each brick", bars, n);
    bn_plot_figure_end(out);
}

/* ---- kernels under their limits; rates are in GMAC/s and GB/s ---- */

struct limits {
    double memory, cache, int8, real; /* NaN: not measured */
    double memory_set, cache_set;     /* bytes that were read over and over */
};

static struct limits limits_of(const struct bn_report_source *source, size_t threads)
{
    struct limits limits = {
        .memory = (double)NAN, .cache = (double)NAN, .int8 = (double)NAN, .real = (double)NAN};
    const bn_json *list = bn_json_get(source->doc, "limits");
    for (const bn_json *l = bn_json_first(list); l != NULL; l = bn_json_next(l)) {
        double macs = bn_json_number_of(l, "macs_per_second") / 1e9,
               bytes = bn_json_number_of(l, "bytes_per_second") / 1e9,
               set = bn_json_number_of(l, "set_bytes");
        if (bn_json_count_of(l, "threads") != threads) continue;
        if (bn_json_text_is(l, "kind", "int8")) limits.int8 = fmax(limits.int8, macs);
        if (bn_json_text_is(l, "kind", "float")) limits.real = fmax(limits.real, macs);
        if (!bn_json_text_is(l, "kind", "read") || !(bytes > 0)) continue;
        if (!(limits.cache >= bytes)) limits.cache = bytes, limits.cache_set = set;
        if (set > limits.memory_set) limits.memory = bytes, limits.memory_set = set;
    }
    return limits;
}

/* The limit of reading: it rises up to the limit of arithmetic. */
static void draw_slope(struct bn_buf *out, const struct bn_plot *p, double rate, double top, double set)
{
    char size[BN_UNITS_ROOM], text[100];
    if (!(rate > 0)) return;
    double x[] = {fmax(p->x0, p->y0 / rate), fmin(p->x1, (top > 0 ? top : p->y1) / rate)};
    const double y[] = {x[0] * rate, x[1] * rate};
    if (!(x[1] > x[0])) return;
    bn_plot_line(out, p, "roof", x, y, 2);
    snprintf(text, sizeof text, "%s, read at %.3g GB/s", bn_units_text(size, set, "bytes"), rate);
    bn_html(out, "<text class=\"limit start\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", bn_plot_x(p, x[0]) + 6,
            bn_plot_y(p, y[0]) - 10, text);
}

static void draw_ceiling(struct bn_buf *out, const struct bn_plot *p, double rate, const char *name)
{
    if (!(rate > 0)) return;
    bn_plot_rule_y(out, p, "roof", rate);
    bn_html(out, "<text class=\"limit\" x=\"%.1f\" y=\"%.1f\">%s %.3g GMAC/s</text>\n",
            p->width - p->right - 4, bn_plot_y(p, rate) - 6, name, rate);
}

/* Whether the number of this point would cover the number of an earlier one. */
static bool is_near(const struct bn_plot *p, const struct bn_report *r, size_t i)
{
    const struct bn_report_point *a = &r->points[i];
    for (size_t k = 0; k < i; k++) {
        const struct bn_report_point *b = &r->points[k];
        if (b->source == a->source && b->threads == a->threads && b->macs > 0 &&
            fabs(bn_plot_x(p, a->macs / a->bytes) - bn_plot_x(p, b->macs / b->bytes)) < 20 &&
            fabs(bn_plot_y(p, a->macs / a->ns) - bn_plot_y(p, b->macs / b->ns)) < 11)
            return true;
    }
    return false;
}

static void draw_kernel(struct bn_buf *out, const struct bn_plot *p, const struct bn_report *r, size_t i)
{
    const struct bn_report_point *k = &r->points[i];
    double x = k->macs / k->bytes, y = k->macs / k->ns;
    char title[300];
    snprintf(title, sizeof title, "%.120s %.120s: %.4g GMAC/s", k->kernel, k->shape, y);
    bn_plot_interval(out, p, "bar", x, k->macs / k->high, k->macs / k->low);
    bn_plot_mark(out, p, BN_PLOT_DOT, "dot", x, y, 4, title);
    if (!is_near(p, r, i))
        bn_html(out, "<text class=\"note start\" x=\"%.1f\" y=\"%.1f\">%zu</text>\n", bn_plot_x(p, x) + 6,
                bn_plot_y(p, y) + 4, i + 1);
}

static bool is_shown(const struct bn_report_point *k, size_t threads, const struct bn_report_source *source)
{
    return k->source == source && k->threads == threads && k->macs > 0;
}

void bn_report_plot_roofline(struct bn_buf *out, const struct bn_report *r, size_t threads,
                             const struct bn_report_source *source)
{
    struct limits limits = limits_of(source, threads);
    struct bn_plot p = bn_plot_of(440);
    char title[80];
    p.width = 980;
    p.x0 = p.y0 = HUGE_VAL;
    p.x1 = p.y1 = -HUGE_VAL;
    p.log_x = p.log_y = true;
    for (size_t i = 0; i < r->n_points; i++) {
        const struct bn_report_point *k = &r->points[i];
        if (!is_shown(k, threads, source)) continue;
        bn_plot_cover(&p.x0, &p.x1, k->macs / k->bytes);
        bn_plot_cover(&p.y0, &p.y1, k->macs / k->ns);
    }
    if (!(p.x1 > 0) || !(p.y1 > 0)) return;
    bn_plot_cover(&p.y0, &p.y1, limits.int8);
    bn_plot_cover(&p.y0, &p.y1, limits.real);
    snprintf(title, sizeof title, "Kernels under their limits, %zu thread%s", threads,
             threads == 1 ? "" : "s");
    bn_plot_figure(
        out, "wide", title,
        "Both axes are logarithmic. Lines are the measured limits of reading and of arithmetic. Numbers are "
        "those of the table; bars are 95 % intervals.");
    bn_html(out, "<div class=\"scroll\" tabindex=\"0\">");
    bn_plot_begin(out, &p, "rate of each kernel over its multiply-adds per byte, both logarithmic");
    bn_plot_y_axis(out, &p);
    draw_slope(out, &p, limits.memory, limits.int8, limits.memory_set);
    if (limits.cache > 1.1 * limits.memory) draw_slope(out, &p, limits.cache, limits.int8, limits.cache_set);
    draw_ceiling(out, &p, limits.int8, "int8");
    draw_ceiling(out, &p, limits.real, "float");
    for (size_t i = 0; i < r->n_points; i++)
        if (is_shown(&r->points[i], threads, source)) draw_kernel(out, &p, r, i);
    bn_plot_y_label(out, "GMAC/s");
    bn_plot_x_axis(out, &p, "multiply-adds per byte read");
    bn_plot_end(out);
    bn_html(out, "</div>");
    bn_plot_figure_end(out);
}

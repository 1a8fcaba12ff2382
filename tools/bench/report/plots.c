/* SPDX-License-Identifier: MIT
 *
 * Plots of one series over time, and of several: comparisons, medians, a series over the runs of a ledger, the bricks of a
 * profile, kernels under their limits. Of the samples of one series at most MARKS marks are drawn: of more samples each one is
 * a column from the minimum to the maximum of several.
 */
#include <math.h>
#include <stdio.h>

#include "base/utf8.h"
#include "lab/report/plot.h"
#include "lab/stats/summary.h"
#include "tools/bench/report/report.h"

#define MARKS 1000u
#define BLOCKS 24u /* medians of consecutive samples, to show drift */
#define FEW 100u   /* fewer samples are drawn as large dots */
#define BEYOND 6.0 /* quartile distances outside the quartiles that are still in the picture */
#define ROW 42.0
#define FOREST_MAX 60u
#define FOREST_REACH 25.0 /* per cent; longer intervals are cut, unless a change itself is larger */
#define BARS_MAX 40u
#define TRENDS_BYTES (400u << 10)

/* ---- one series over time ---- */

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
    bn_buf_puts(out, "</svg>\n");
    if (outside > 0)
        bn_html(out, "<p class=\"what\">%zu of %zu samples are outside the picture, between %s and %s.</p>",
                outside, n, bn_units_text(low, s->figure[BN_FIGURE_MIN], unit),
                bn_units_text(high, s->figure[BN_FIGURE_MAX], unit));
    bn_buf_puts(out, "</div>\n");
}

/* ---- comparisons ---- */

static double clip(const struct bn_plot *p, double x)
{
    return bn_plot_x(p, fmin(fmax(x, p->x0), p->x1));
}

static void draw_comparison(struct bn_buf *out, const struct bn_plot *p, const struct bn_comparison *c,
                            double y)
{
    const struct bn_judgement j = bn_comparison_shown(c);
    const char *kind = bn_comparison_kind(c);
    if (strcmp(kind, "ok") == 0) kind = j.outcome == BN_OUTCOME_IMPROVED ? "good" : "same";
    char name[64], test[BN_TEST_ROOM], text[BN_UNITS_ROOM];
    int n = snprintf(name, sizeof name, "%s \xC2\xB7 %s", bn_test_name(test, c->test), c->metric);
    bool cut = n >= (int)sizeof name;
    if (cut) name[bn_utf8_valid(name, strlen(name))] = '\0';
    bn_html(out,
            "<text class=\"op\" x=\"%.1f\" y=\"%.1f\">%s%s</text><text class=\"note end %s\" x=\"%.1f\" "
            "y=\"%.1f\">%s</text>",
            p->left, y - 12, name, cut ? "\xE2\x80\xA6" : "", kind, p->width - p->right, y - 12,
            bn_outcome_name(j.outcome));
    if (isfinite(j.low) && isfinite(j.high))
        bn_html(out, "<path class=\"bar %s\" d=\"M%.1f %.1fH%.1f\"/>", kind, clip(p, 100 * j.low), y,
                clip(p, 100 * j.high));
    if (isfinite(j.change))
        bn_html(out, "<circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>%s</title></circle>\n",
                kind, clip(p, 100 * j.change), y, bn_units_percent_text(text, j.change, true));
}

void bn_report_plot_forest(struct bn_buf *out, const struct bn_report *r)
{
    size_t n = bn_min_size(r->n_comparisons, FOREST_MAX);
    struct bn_plot p = {
        .width = 480, .height = 50 + ROW * (double)n, .left = 12, .right = 12, .top = 4, .bottom = 44};
    double reach = FOREST_REACH;
    for (size_t i = 0; i < n; i++)
        reach = fmax(reach, fmin(110 * fabs(bn_comparison_shown(&r->comparisons[i]).change), 1000));
    for (size_t i = 0; i < n; i++) {
        const struct bn_judgement j = bn_comparison_shown(&r->comparisons[i]);
        const double ends[] = {j.low, j.high, j.change};
        for (size_t k = 0; k < BN_ARRAY_LEN(ends); k++)
            if (isfinite(ends[k])) bn_plot_include(&p.x0, &p.x1, fmin(fmax(100 * ends[k], -reach), reach));
    }
    bn_plot_round(&p.x0, &p.x1, 8);
    p.y1 = 1;
    bn_plot_figure(out, "forest", "Changes from A to B",
                   "Red is worse, green is better. The bar is the 95 % interval.");
    bn_plot_begin(out, &p, "changes with their intervals");
    bn_plot_rule_x(out, &p, "grid", 0);
    for (size_t i = 0; i < n; i++)
        draw_comparison(out, &p, &r->comparisons[i], p.top + ROW * (double)i + 28);
    bn_plot_x_axis(out, &p, "change, %");
    bn_buf_puts(out, "</svg>\n");
    if (n < r->n_comparisons)
        bn_html(out, "<p class=\"what\">The first %zu of %zu; the table has all of them.</p>", n,
                r->n_comparisons);
    bn_buf_puts(out, "</div>\n");
}

/* ---- medians ---- */

/* A figure of the series for which `word` begins the name of the test of a speed; with "" of those that share
 * the first one's metric. False: there are none. */
static bool plot_medians(struct bn_buf *out, const struct bn_report *r, const char *word, const char *title)
{
    struct bn_plot_bar bars[BARS_MAX];
    char names[BARS_MAX][128], test[BN_TEST_ROOM];
    const struct bn_series *first = r->series[0].s;
    size_t n = 0;
    for (size_t i = 0; i < r->n_series && n < BARS_MAX; i++) {
        const struct bn_report_series *s = &r->series[i];
        const double *f = s->figure, median = f[BN_FIGURE_MEDIAN];
        bool speed = word[0] != '\0';
        if (speed ? !bn_report_is_speed(s, word)
                  : strcmp(s->s->metric, first->metric) != 0 || strcmp(s->s->unit, first->unit) != 0)
            continue;
        snprintf(names[n], sizeof names[n], "%.50s%s%.60s", r->n_sources > 1 ? s->source->label : "",
                 r->n_sources > 1 ? ": " : "", bn_test_name(test, s->s->test));
        bars[n] = (struct bn_plot_bar){names[n],
                                       speed ? 1e9 / median : median,
                                       speed ? 1e9 / f[BN_FIGURE_HIGH] : f[BN_FIGURE_LOW],
                                       speed ? 1e9 / f[BN_FIGURE_LOW] : f[BN_FIGURE_HIGH],
                                       "",
                                       false};
        bn_units_text(bars[n].text, bars[n].value, speed ? "tok/s" : s->s->unit);
        n++;
    }
    if (n == 0) return false;
    bn_plot_figure(out, "", title, "Medians; the line is the 95 % interval.");
    bn_plot_bars(out, title, bars, n);
    bn_buf_puts(out, "</div>\n");
    return true;
}

void bn_report_plot_bars(struct bn_buf *out, const struct bn_report *r)
{
    bool decode = plot_medians(out, r, "decode", "Decoding"),
         prompt = plot_medians(out, r, "prompt", "Prompts");
    if (!decode && !prompt) plot_medians(out, r, "", r->series[0].s->metric);
}

/* ---- over the runs of a ledger ---- */

static void plot_trend(struct bn_buf *out, const struct bn_report_trend *t)
{
    static const char *const VALUES[] = {"median", "low", "high"};
    const bn_json *points = bn_json_get(t->json, "points"), *changes = bn_json_get(t->json, "changes");
    const char *metric = bn_json_text_of(t->json, "metric"),
               *unit = bn_units_of(metric, bn_json_text_of(t->json, "unit"));
    double k = bn_json_number_of(bn_json_first(points), "median");
    struct bn_units_scale scale = bn_units_scale(unit, k);
    struct bn_plot p = bn_plot_of(260);
    char text[200], name[BN_TEST_ROOM], value[BN_UNITS_ROOM];
    p.x0 = 0.5;
    p.x1 = (double)t->n + 0.5;
    p.y0 = HUGE_VAL;
    p.y1 = -HUGE_VAL;
    p.whole_x = true;
    for (const bn_json *m = bn_json_first(points); m != NULL; m = bn_json_next(m))
        for (size_t i = 0; i < BN_ARRAY_LEN(VALUES); i++)
            bn_plot_include(&p.y0, &p.y1, bn_json_number_of(m, VALUES[i]) * scale.factor);
    bn_plot_round(&p.y0, &p.y1, 6);
    snprintf(text, sizeof text, "%s%s%s", metric, scale.name[0] != '\0' ? ", " : "", scale.name);
    bn_plot_figure(out, "", bn_test_name(name, bn_json_text_of(t->json, "test")),
                   "Median of each entry; bars are 95 % intervals, dashed lines changes of the level.");
    bn_plot_begin(out, &p, "medians over the entries of the ledger");
    bn_plot_y_axis(out, &p);
    bn_plot_y_label(out, text);
    k = 1;
    for (const bn_json *m = bn_json_first(points); m != NULL; m = bn_json_next(m), k++) {
        double median = bn_json_number_of(m, "median");
        snprintf(text, sizeof text, "%.10s, %.40s: %s", bn_json_text_of(m, "commit"),
                 bn_json_text_of(m, "created"), bn_units_text(value, median, unit));
        bn_plot_interval(out, &p, "bar", k, bn_json_number_of(m, "low") * scale.factor,
                         bn_json_number_of(m, "high") * scale.factor);
        bn_plot_mark(out, &p, k, median * scale.factor, 3, text);
    }
    size_t row = 0;
    for (const bn_json *c = bn_json_first(changes); c != NULL; c = bn_json_next(c)) {
        double change = bn_json_number_of(c, "change"), x = bn_json_number_of(c, "at") + 0.5;
        bool worse = (change > 0) != bn_json_text_is(t->json, "better", "higher");
        bn_plot_rule_x(out, &p, "limit", x);
        bn_plot_note(out, &p, worse ? "bad" : "good", x, p.y1, 6, 12 + 16 * (double)(row++ % 3),
                     bn_units_percent_text(value, change, true));
    }
    bn_plot_x_axis(out, &p, "entry");
    bn_buf_puts(out, "</svg>\n</div>\n");
}

void bn_report_plot_trends(struct bn_buf *out, const struct bn_report *r)
{
    for (size_t i = 0, start = out->len; i < r->n_trends && out->len - start < TRENDS_BYTES; i++)
        plot_trend(out, &r->trends[i]);
}

/* ---- bricks ---- */

static void plot_bricks(struct bn_buf *out, const struct bn_report *r, const struct bn_report_source *source)
{
    struct bn_plot_bar bars[BARS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < r->n_bricks && n < BARS_MAX; i++) {
        const struct bn_report_brick *b = &r->bricks[i];
        char share[BN_UNITS_ROOM], time[BN_UNITS_ROOM];
        if (b->source != source) continue;
        bars[n] = (struct bn_plot_bar){b->name, b->share, (double)NAN, (double)NAN, "", b->count == 0};
        snprintf(bars[n++].text, sizeof bars->text, "%.20s  %.20s",
                 bn_units_percent_text(share, b->share, false), bn_units_text(time, b->ns, "ns"));
    }
    if (n == 0 || !(bars[0].value > 0)) return;
    bn_plot_figure(
        out, "", "Time of each brick",
        "Exclusive time, all threads, as a percentage of all time. The outline is unattributed time.");
    bn_plot_bars(out, "time of each brick", bars, n);
    bn_buf_puts(out, "</div>\n");
}

void bn_report_plot_bricks(struct bn_buf *out, const struct bn_report *r)
{
    for (size_t i = 0; i < r->n_sources; i++)
        plot_bricks(out, r, &r->sources[i]);
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

static void draw_kernel(struct bn_buf *out, const struct bn_plot *p, const struct bn_report *r, size_t i)
{
    const struct bn_report_point *k = &r->points[i];
    double x = k->macs / k->bytes, y = k->macs / k->ns;
    char text[300];
    snprintf(text, sizeof text, "%.120s %.120s: %.4g GMAC/s", k->kernel, k->shape, y);
    bn_plot_interval(out, p, "bar", x, k->macs / k->high, k->macs / k->low);
    bn_plot_mark(out, p, x, y, 4, text);
    snprintf(text, sizeof text, "%zu", i + 1);
    bn_plot_note(out, p, "", x, y, 6, 4, text);
}

static bool is_shown(const struct bn_report_point *k, size_t threads, const struct bn_report_source *source)
{
    return k->source == source && k->threads == threads && k->macs > 0;
}

static void plot_roofline(struct bn_buf *out, const struct bn_report *r, size_t threads,
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
    bn_buf_puts(out, "</svg>\n</div></div>\n");
}

void bn_report_plot_rooflines(struct bn_buf *out, const struct bn_report *r)
{
    for (size_t i = 0; i < r->n_points; i++) {
        const struct bn_report_point *p = &r->points[i];
        bool first = true;
        for (size_t k = 0; k < i && first; k++)
            first = r->points[k].source != p->source || r->points[k].threads != p->threads;
        if (first) plot_roofline(out, r, p->threads, p->source);
    }
}

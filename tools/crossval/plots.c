/* SPDX-License-Identifier: MIT
 *
 * Plots of logits: the error at each position, and the values of both engines at the worst position.
 */
#include <math.h>
#include <stdio.h>

#include "lab/report/plot.h"
#include "tools/crossval/crossval.h"

#define COLUMNS 200u /* positions drawn one by one; of more, the worst of each column */
#define DOTS 80u     /* up to this many points are drawn as dots, too */
#define BEST 10u     /* tokens of either engine that are marked */

/* ---- error at each position ---- */

struct series {
    const bn_json *list;
    const char *title, *what;
    bool from_one; /* 1 - value is drawn */
    double limit;  /* NaN: none */
};

/* The worst of each column: its position and its value. What is not a number is left out. */
static size_t gather(const struct series *s, double at[COLUMNS], double value[COLUMNS])
{
    size_t width = (bn_json_size(s->list) + COLUMNS - 1) / COLUMNS, i = 0, n = 0, last = 0;
    for (const bn_json *e = bn_json_first(s->list); e != NULL; e = bn_json_next(e), i++) {
        double error;
        if (!bn_json_number(e, &error)) continue;
        error = fmax(s->from_one ? 1 - error : error, 0);
        bool same = n > 0 && i / width == last;
        if (same && !(error > value[n - 1])) continue;
        n += !same;
        last = i / width;
        at[n - 1] = (double)i;
        value[n - 1] = error;
    }
    return n;
}

static void draw_series(struct bn_buf *out, const struct bn_plot *p, const struct series *s, const double *at,
                        const double *value, size_t n, size_t worst)
{
    char text[80];
    bn_plot_begin(out, p, s->title);
    bn_plot_y_axis(out, p);
    bn_plot_x_axis(out, p, "position");
    bn_plot_line(out, p, "line", at, value, n);
    for (size_t i = 0; i < n; i++) {
        bool out_of_limit = value[i] > s->limit;
        if (n > DOTS && i != worst && !out_of_limit) continue;
        snprintf(text, sizeof text, "position %.0f: %.6g", at[i], value[i]);
        bn_plot_mark(out, p, out_of_limit ? BN_PLOT_CROSS : BN_PLOT_DOT, out_of_limit ? "cross" : "dot",
                     at[i], value[i], out_of_limit ? 4 : 3, text);
    }
    if (s->limit > 0) {
        bn_plot_rule_y(out, p, "limit", s->limit);
        bn_html(out, "<text class=\"limit\" x=\"%.1f\" y=\"%.1f\">limit %.3g</text>\n", p->width - p->right,
                bn_plot_y(p, s->limit) - 6, s->limit);
    }
    snprintf(text, sizeof text, "worst %.3g", value[worst]);
    bn_plot_note(out, p, "", at[worst], value[worst], 9, -7, text);
    bn_plot_end(out);
}

static void plot_series(struct bn_buf *out, const struct series *s)
{
    double at[COLUMNS], value[COLUMNS];
    struct bn_plot p = bn_plot_of(290);
    size_t n = gather(s, at, value), worst = 0, n_low = 0;
    if (n == 0) return;
    p.log_y = p.whole_x = true;
    p.x1 = fmax((double)bn_json_size(s->list) - 1, 1);
    p.y0 = HUGE_VAL;
    p.y1 = -HUGE_VAL;
    for (size_t i = 0; i < n; i++) {
        bn_plot_cover(&p.y0, &p.y1, value[i]);
        if (value[i] > value[worst]) worst = i;
    }
    bn_plot_figure(out, "", s->title, s->what);
    if (value[worst] > 0 && p.y1 > 0) {
        bn_plot_cover(&p.y0, &p.y1, s->limit);
        /* One nearly exact row, usually the first, would squeeze all others. */
        p.y0 = fmax(p.y0, p.y1 * 1e-8);
        if (n > 1 && p.x1 < COLUMNS) p.x0 = -0.5, p.x1 += 0.5;
        for (size_t i = 0; i < n; i++)
            n_low += value[i] < p.y0;
        draw_series(out, &p, s, at, value, n, worst);
        if (n_low > 0)
            bn_html(out, "<p class=\"what\">%zu of %zu are below the axis, drawn at its foot.</p>", n_low, n);
    } else {
        bn_html(out, "<p class=\"exact\">Zero at each of the %zu positions.</p>", bn_json_size(s->list));
    }
    bn_plot_figure_end(out);
}

/* The limit of a rung on the worst value of a measure. */
static double limit_on(const bn_json *ref, const char *metric, const char *side)
{
    const bn_json *rung = bn_json_find(bn_json_get(ref, "rungs"), "rung", "positions");
    const bn_json *list = bn_json_get(rung, "limits");
    for (const bn_json *l = bn_json_first(list); l != NULL; l = bn_json_next(l))
        if (bn_json_text_is(l, "metric", metric) && bn_json_text_is(l, "of", "worst") &&
            bn_json_get(l, side) != NULL)
            return bn_json_number_of(l, side);
    return (double)NAN;
}

void bn_crossval_plot_positions(struct bn_buf *out, const bn_json *ref)
{
    const struct series series[] = {
        {bn_json_path(ref, "positions.cosine"), "Direction of the logits, by position",
         "1 \xE2\x88\x92 cosine of the two rows; 0 is the same direction.", true,
         1 - limit_on(ref, "cosine", "min")},
        {bn_json_path(ref, "positions.max_abs"), "Largest difference, by position",
         "The largest difference of one logit.", false, limit_on(ref, "max_abs", "max")}};
    for (size_t i = 0; i < BN_ARRAY_LEN(series); i++)
        plot_series(out, &series[i]);
}

/* ---- scatter ---- */

/* The entry of a token among the best of one engine; NULL when it is not one of them. */
static const bn_json *best_of(const bn_json *scatter, const char *side, uint64_t id)
{
    const bn_json *list = bn_json_get(scatter, side), *b = bn_json_first(list);
    for (unsigned i = 0; b != NULL && i < BEST; i++, b = bn_json_next(b))
        if (bn_json_count_of(b, "id") == id) return b;
    return NULL;
}

/* Circle: among the best of both engines; triangle: of the reference only; square: of this engine only. */
static void draw_token(struct bn_buf *out, const struct bn_plot *p, const bn_json *scatter, uint64_t id,
                       double x, double y, bool marked)
{
    const bn_json *ours = best_of(scatter, "best_here", id), *theirs = best_of(scatter, "best_there", id);
    char title[100];
    if ((ours != NULL || theirs != NULL) != marked) return;
    if (!marked) {
        bn_html(out, "<path class=\"point\" d=\"M%.1f %.1fh0\"/>\n", bn_plot_x(p, x), bn_plot_y(p, y));
        return;
    }
    enum bn_plot_shape shape = theirs == NULL ? BN_PLOT_SQUARE
                               : ours == NULL ? BN_PLOT_TRIANGLE
                                              : BN_PLOT_DOT;
    snprintf(title, sizeof title, "token %zu %.60s", (size_t)id,
             bn_json_text_of(ours != NULL ? ours : theirs, "text"));
    bn_plot_mark(out, p, shape, shape == BN_PLOT_DOT ? "top" : "top alone", x, y, 4.5, title);
}

/* Marked tokens last, so that nothing covers them. */
static void draw_tokens(struct bn_buf *out, const struct bn_plot *p, const bn_json *scatter, bool marked)
{
    const bn_json *ids = bn_json_get(scatter, "ids"), *here = bn_json_get(scatter, "here"),
                  *there = bn_json_get(scatter, "there");
    const bn_json *id = bn_json_first(ids), *y = bn_json_first(here), *x = bn_json_first(there);
    for (; id != NULL && x != NULL && y != NULL;
         id = bn_json_next(id), x = bn_json_next(x), y = bn_json_next(y)) {
        uint64_t token = 0;
        double ours = 0, theirs = 0;
        if (bn_json_u64(id, &token) && bn_json_number(y, &ours) && bn_json_number(x, &theirs))
            draw_token(out, p, scatter, token, theirs, ours, marked);
    }
}

void bn_crossval_plot_scatter(struct bn_buf *out, const bn_json *ref)
{
    static const char *const SIDES[] = {"here", "there"};
    const bn_json *scatter = bn_json_get(ref, "scatter");
    struct bn_plot p = bn_plot_of(440);
    char title[80], what[160];
    double value;
    p.x0 = HUGE_VAL;
    p.x1 = -HUGE_VAL;
    for (size_t i = 0; i < BN_ARRAY_LEN(SIDES); i++) {
        const bn_json *list = bn_json_get(scatter, SIDES[i]);
        for (const bn_json *e = bn_json_first(list); e != NULL; e = bn_json_next(e))
            if (bn_json_number(e, &value)) bn_plot_include(&p.x0, &p.x1, value);
    }
    if (bn_json_size(bn_json_get(scatter, "ids")) == 0 || !(p.x1 > p.x0)) return;
    double edge = (p.x1 - p.x0) * 0.03, ends[] = {p.x0 - edge, p.x1 + edge};
    p.x0 = p.y0 = ends[0];
    p.x1 = p.y1 = ends[1];
    snprintf(title, sizeof title, "Logits at position %zu, the worst", bn_json_count_of(scatter, "position"));
    snprintf(what, sizeof what, "%zu of %zu tokens. On the line both engines have the same logit.",
             bn_json_size(bn_json_get(scatter, "ids")), bn_json_count_of(scatter, "of"));
    bn_plot_figure(out, "", title, what);
    bn_plot_begin(out, &p, "logits of both sides at the worst position");
    bn_plot_y_axis(out, &p);
    bn_plot_y_label(out, "this engine's logit");
    bn_plot_x_axis(out, &p, "the reference's logit");
    bn_plot_line(out, &p, "diagonal", ends, ends, 2);
    draw_tokens(out, &p, scatter, false);
    draw_tokens(out, &p, scatter, true);
    bn_plot_end(out);
    bn_html(out, "<p class=\"what\">\xE2\x97\x8B among the 10 best of both engines, \xE2\x96\xB3 of the "
                 "reference only, "
                 "\xE2\x96\xA1 of this engine only</p>");
    bn_plot_figure_end(out);
}

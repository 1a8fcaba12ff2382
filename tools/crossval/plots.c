/* SPDX-License-Identifier: MIT
 *
 * Plots of logits: the error at each position, and both sides' values at the worst one.
 */
#include <math.h>

#include "lab/report/plot.h"
#include "tools/crossval/page.h"

#define COLUMNS 200u /* positions drawn one by one; of more, the worst of each column is */
#define LEFT 64
#define BEST 10u /* tokens of either side that are marked */

/* ---- error per position ---- */

struct series {
    const bn_json *list;
    size_t n;
    bool from_one; /* 1 - value is drawn */
    double limit;  /* NaN: none */
};

static double error_of(const struct series *s, const bn_json *element)
{
    double value = (double)NAN;
    (void)bn_json_number(element, &value);
    return isnan(value) ? value : fmax(s->from_one ? 1 - value : value, 0);
}

static void draw_dot(struct bn_buf *out, const struct bn_plot *p, const struct series *s, double at,
                     double value)
{
    double x = bn_plot_x(p, at), y = bn_plot_y(p, value);
    if (value > s->limit)
        bn_html(out, "<path class=\"cross\" d=\"M%.1f %.1fl8 8m0 -8l-8 8\">", x - 4, y - 4);
    else
        bn_html(out, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\">", x, y);
    bn_html(out, "<title>position %g: %.6g</title></%s>\n", at, value, value > s->limit ? "path" : "circle");
}

static void draw_limit(struct bn_buf *out, const struct bn_plot *p, double limit)
{
    if (!(limit > 0)) return;
    double y = bn_plot_y(p, limit);
    bn_html(out, "<path class=\"limit\" d=\"M%.1f %.1fH%.1f\"/>", p->left, y, p->width - p->right);
    bn_html(out, "<text class=\"limit\" x=\"%.1f\" y=\"%.1f\">limit %.3g</text>\n", p->width - p->right,
            y - 6, limit);
}

/* The worst of each column: its position and its value. Values that are not numbers are left out. */
static size_t gather(const struct series *s, double at[COLUMNS], double value[COLUMNS])
{
    size_t width = (s->n + COLUMNS - 1) / COLUMNS, i = 0, n = 0, last = 0;
    for (const bn_json *e = bn_json_first(s->list); e != NULL; e = bn_json_next(e), i++) {
        double error = error_of(s, e);
        if (isnan(error)) continue;
        if (n > 0 && i / width == last) {
            if (!(error > value[n - 1])) continue;
        } else {
            n++;
        }
        last = i / width;
        at[n - 1] = (double)i;
        value[n - 1] = error;
    }
    return n;
}

static void plot_series(struct bn_buf *out, const struct series *s, const char *title, const char *what)
{
    double at[COLUMNS], value[COLUMNS];
    struct bn_plot p = {.width = 480,
                        .height = 290,
                        .left = LEFT,
                        .right = 14,
                        .top = 16,
                        .bottom = 44,
                        .x1 = (double)(s->n > 1 ? s->n - 1 : 1),
                        .y0 = HUGE_VAL,
                        .y1 = -HUGE_VAL,
                        .log_y = true,
                        .whole_x = true};
    size_t n = gather(s, at, value), zeros = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        bn_plot_cover(&p.y0, &p.y1, value[i]);
        zeros += value[i] == 0;
        if (value[i] > value[worst]) worst = i;
    }
    if (n == 0) return;
    bn_plot_cover(&p.y0, &p.y1, s->limit);
    if (n > 1 && s->n <= COLUMNS) p.x0 = -0.5, p.x1 += 0.5;
    bn_html(out, "<div class=\"figure\"><h4>%s</h4><p class=\"what\">%s</p>\n", title, what);
    if (zeros == n || !(p.y1 > 0)) {
        bn_html(out, "<p class=\"exact\">Zero at every one of the %zu positions.</p></div>\n", s->n);
        return;
    }
    /* One row that is nearly exact, the first, would press all others together. */
    p.y0 = fmax(p.y0, p.y1 * 1e-8);
    size_t n_low = 0;
    for (size_t i = 0; i < n; i++)
        n_low += value[i] < p.y0;
    bn_plot_begin(out, &p, title);
    bn_plot_y_axis(out, &p);
    bn_plot_x_axis(out, &p, "position");
    bn_html(out, "<path class=\"line\" d=\"");
    for (size_t i = 0; i < n; i++)
        bn_html(out, "%s%.1f %.1f", i == 0 ? "M" : "L", bn_plot_x(&p, at[i]), bn_plot_y(&p, value[i]));
    bn_html(out, "\"/>\n");
    for (size_t i = 0; i < n; i++)
        if (n <= 80 || i == worst || value[i] > s->limit) draw_dot(out, &p, s, at[i], value[i]);
    draw_limit(out, &p, s->limit);
    double x = bn_plot_x(&p, at[worst]), y = bn_plot_y(&p, value[worst]);
    bool right = x > p.width * 0.7;
    bn_html(out, "<text class=\"note %s\" x=\"%.1f\" y=\"%.1f\">worst %.3g</text>\n", right ? "end" : "start",
            x + (right ? -9 : 9), y < 30 ? y + 16 : y - 7, value[worst]);
    bn_plot_end(out);
    if (n_low > 0)
        bn_html(out, "<p class=\"what\">%zu of %zu are less than the axis begins with, at its foot.</p>",
                n_low, n);
    bn_html(out, "</div>\n");
}

/* The limit that a rung puts on the worst value of a measure. */
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
    const bn_json *positions = bn_json_get(ref, "positions");
    struct series cosine = {bn_json_get(positions, "cosine"), bn_json_size(bn_json_get(positions, "cosine")),
                            true, 1 - limit_on(ref, "cosine", "min")};
    struct series max_abs = {bn_json_get(positions, "max_abs"),
                             bn_json_size(bn_json_get(positions, "max_abs")), false,
                             limit_on(ref, "max_abs", "max")};
    if (cosine.n > 0)
        plot_series(out, &cosine, "Direction of the logits, by position",
                    "1 \xE2\x88\x92 cosine of the two rows; 0 is the same direction.");
    if (max_abs.n > 0)
        plot_series(out, &max_abs, "Greatest difference, by position",
                    "The logit that is farthest apart, in logits.");
}

/* ---- scatter ---- */

static bool has_id(const bn_json *best, uint64_t id)
{
    const bn_json *b = bn_json_first(best);
    for (unsigned i = 0; b != NULL && i < BEST; i++, b = bn_json_next(b))
        if (bn_json_count_of(b, "id") == id) return true;
    return false;
}

/* Circle: among the best of both; triangle: of the reference only; square: of this engine only. */
static void draw_point(struct bn_buf *out, const bn_json *scatter, uint64_t id, double x, double y)
{
    bool ours = has_id(bn_json_get(scatter, "best_here"), id);
    bool theirs = has_id(bn_json_get(scatter, "best_there"), id);
    if (ours && theirs)
        bn_html(out, "<circle class=\"top\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\">", x, y);
    else if (theirs)
        bn_html(out, "<path class=\"top alone\" d=\"M%.1f %.1fl5 9h-10z\">", x, y - 5.5);
    else if (ours)
        bn_html(out, "<path class=\"top alone\" d=\"M%.1f %.1fh8v8h-8z\">", x - 4, y - 4);
    else
        bn_html(out, "<path class=\"point\" d=\"M%.1f %.1fh0\"/>\n", x, y);
    if (!ours && !theirs) return;
    const bn_json *b = bn_json_first(bn_json_get(scatter, ours ? "best_here" : "best_there"));
    while (b != NULL && bn_json_count_of(b, "id") != id)
        b = bn_json_next(b);
    bn_html(out, "<title>token %zu %s</title></%s>\n", (size_t)id, bn_json_text_of(b, "text"),
            ours && theirs ? "circle" : "path");
}

/* Points first, then those that are marked, so that none of these is covered. */
static void draw_points(struct bn_buf *out, const struct bn_plot *p, const bn_json *scatter, bool marked)
{
    const bn_json *id = bn_json_first(bn_json_get(scatter, "ids"));
    const bn_json *here = bn_json_first(bn_json_get(scatter, "here"));
    const bn_json *there = bn_json_first(bn_json_get(scatter, "there"));
    for (; id != NULL && here != NULL && there != NULL;
         id = bn_json_next(id), here = bn_json_next(here), there = bn_json_next(there)) {
        uint64_t token = 0;
        double x = 0, y = 0;
        if (!bn_json_u64(id, &token) || !bn_json_number(here, &y) || !bn_json_number(there, &x)) continue;
        bool best = has_id(bn_json_get(scatter, "best_here"), token) ||
                    has_id(bn_json_get(scatter, "best_there"), token);
        if (best == marked) draw_point(out, scatter, token, bn_plot_x(p, x), bn_plot_y(p, y));
    }
}

static void cover_list(struct bn_plot *p, const bn_json *list)
{
    double value;
    for (const bn_json *e = bn_json_first(list); e != NULL; e = bn_json_next(e))
        if (bn_json_number(e, &value)) bn_plot_include(&p->x0, &p->x1, value);
}

void bn_crossval_plot_scatter(struct bn_buf *out, const bn_json *ref)
{
    const bn_json *scatter = bn_json_get(ref, "scatter");
    struct bn_plot p = {.width = 480,
                        .height = 440,
                        .left = LEFT,
                        .right = 14,
                        .top = 14,
                        .bottom = 44,
                        .x0 = HUGE_VAL,
                        .x1 = -HUGE_VAL};
    if (bn_json_size(bn_json_get(scatter, "ids")) == 0) return;
    cover_list(&p, bn_json_get(scatter, "here"));
    cover_list(&p, bn_json_get(scatter, "there"));
    if (!(p.x1 > p.x0)) return;
    double edge = (p.x1 - p.x0) * 0.03;
    p.x0 = p.y0 = p.x0 - edge;
    p.x1 = p.y1 = p.x1 + edge;
    bn_html(
        out,
        "<div class=\"figure\"><h4>Logits at the worst position, %zu</h4><p class=\"what\">This engine's, "
        "upwards, over the reference's; %zu of %zu tokens. On the line both are equal.</p>\n",
        bn_json_count_of(scatter, "position"), bn_json_size(bn_json_get(scatter, "ids")),
        bn_json_count_of(scatter, "of"));
    bn_plot_begin(out, &p, "logits of both sides at the worst position");
    bn_plot_y_axis(out, &p);
    bn_plot_x_axis(out, &p, "the reference's logit");
    bn_html(out, "<path class=\"diagonal\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", bn_plot_x(&p, p.x0),
            bn_plot_y(&p, p.y0), bn_plot_x(&p, p.x1), bn_plot_y(&p, p.y1));
    draw_points(out, &p, scatter, false);
    draw_points(out, &p, scatter, true);
    bn_plot_end(out);
    bn_html(out, "<p class=\"key\"><span class=\"k-both\">\xE2\x97\x8B</span> among the 10 best of both "
                 "<span class=\"k-one\">\xE2\x96\xB3</span> of the reference only "
                 "<span class=\"k-one\">\xE2\x96\xA1</span> of this engine only</p></div>\n");
}

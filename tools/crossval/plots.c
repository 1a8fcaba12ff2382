/* SPDX-License-Identifier: MIT
 *
 * Plots of errors with their limits: of the logits at each position, and of the operations in the order of
 * computing.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/report/plot.h"
#include "tools/crossval/crossval.h"

#define DOTS 500u /* of more points only those beyond their limit are marked */

/* Point i is of the i-th element of a list. NaN: no value, no limit. */
struct series {
    const char *title, *caption, *alternative, *axis;
    size_t n, noted; /* the point with a note */
    double *at, *value, *limit;
    char note[120];
};

static bool open_series(struct series *s, const bn_json *list, struct bn_buf *out)
{
    s->n = bn_json_size(list);
    s->noted = SIZE_MAX;
    s->at = bn_alloc(3 * s->n + 1, sizeof *s->at);
    out->failed = out->failed || s->at == NULL;
    if (s->at == NULL) return false;
    s->value = s->at + s->n;
    s->limit = s->value + s->n;
    for (size_t i = 0; i < s->n; i++)
        s->at[i] = (double)i;
    return true;
}

static void draw_points(struct bn_buf *out, const struct bn_plot *p, const struct series *s)
{
    char title[80];
    for (size_t i = 0; i < s->n; i++) {
        bool bad = s->value[i] > s->limit[i];
        if (isfinite(s->limit[i]))
            bn_html(out, "<path class=\"allowed\" d=\"M%.1f %.1fh6\"/>", bn_plot_x(p, s->at[i]) - 3,
                    bn_plot_y(p, s->limit[i]));
        if (!isfinite(s->value[i]) || (!bad && s->n > DOTS)) continue;
        snprintf(title, sizeof title, "%zu: %.6g, limit %.6g", i, s->value[i], s->limit[i]);
        bn_plot_mark(out, p, bad ? BN_PLOT_CROSS : BN_PLOT_DOT, bad ? "cross" : "dot", s->at[i], s->value[i],
                     bad ? 4 : 2.6, title);
    }
    if (s->noted < s->n) bn_plot_note(out, p, "", s->at[s->noted], s->value[s->noted], 9, -7, s->note);
}

/* Draws the series and releases it. */
static void draw(struct bn_buf *out, struct series *s)
{
    struct bn_plot p = bn_plot_of(300);
    p.width = 980;
    p.log_y = p.whole_x = true;
    p.x0 = -0.5;
    p.x1 = (double)s->n - 0.5;
    p.y0 = HUGE_VAL;
    p.y1 = -HUGE_VAL;
    double greatest = 0;
    for (size_t i = 0; i < s->n; i++) {
        bn_plot_cover(&p.y0, &p.y1, s->value[i]);
        bn_plot_cover(&p.y0, &p.y1, s->limit[i]);
        greatest = fmax(greatest, s->value[i]);
    }
    /* One nearly exact point, usually the first, would squeeze all others. */
    p.y0 = fmax(p.y0, p.y1 * 1e-8);
    if (s->n == 0) {
        bn_free(s->at);
        return;
    }
    bn_plot_figure(out, "wide", s->title, s->caption);
    if (greatest > 0 && p.y1 > 0) {
        bn_html(out, "<div class=\"scroll\" tabindex=\"0\">\n");
        bn_plot_begin(out, &p, s->alternative);
        bn_plot_y_axis(out, &p);
        bn_plot_x_axis(out, &p, s->axis);
        draw_points(out, &p, s);
        bn_plot_end(out);
        bn_html(out, "</div>");
    } else {
        bn_html(out, "<p class=\"exact\">Zero at each of the %zu points.</p>", s->n);
    }
    bn_plot_figure_end(out);
    bn_free(s->at);
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
    static const struct {
        const char *metric, *side, *title, *caption;
        bool from_one;
    } PLOTS[] = {{"cosine", "min", "Direction of the logits, by position",
                  "1 \xE2\x88\x92 cosine of the two rows; 0 is the same direction. \xE2\x80\x94 limit.",
                  true},
                 {"max_abs", "max", "Largest difference, by position",
                  "The largest difference of one logit. \xE2\x80\x94 limit.", false}};
    for (size_t k = 0; k < BN_ARRAY_LEN(PLOTS); k++) {
        const bn_json *list = bn_json_get(bn_json_get(ref, "positions"), PLOTS[k].metric);
        double limit = limit_on(ref, PLOTS[k].metric, PLOTS[k].side);
        struct series s = {.title = PLOTS[k].title,
                           .caption = PLOTS[k].caption,
                           .alternative = PLOTS[k].title,
                           .axis = "position"};
        size_t i = 0;
        if (!open_series(&s, list, out)) return;
        for (const bn_json *e = bn_json_first(list); e != NULL; e = bn_json_next(e), i++) {
            double error = (double)NAN;
            if (bn_json_number(e, &error)) error = fmax(PLOTS[k].from_one ? 1 - error : error, 0);
            s.value[i] = error;
            s.limit[i] = PLOTS[k].from_one ? 1 - limit : limit;
            if (isfinite(error) && (s.noted == SIZE_MAX || error > s.value[s.noted])) s.noted = i;
        }
        if (s.noted < s.n) snprintf(s.note, sizeof s.note, "worst %.3g", s.value[s.noted]);
        draw(out, &s);
    }
}

void bn_crossval_plot_operations(struct bn_buf *out, const bn_json *trace)
{
    const bn_json *list = bn_json_get(trace, "operations");
    struct series s = {.title = "Error of each operation, in the order of computing",
                       .caption = "\xE2\x97\x8F error, \xE2\x80\x94 tolerance given the error of the inputs. "
                                  "Operations after the first one out of tolerance inherit its error.",
                       .alternative = "what each operation is off by, in the order of computing",
                       .axis = "operations in order"};
    size_t i = 0;
    if (!open_series(&s, list, out)) return;
    double first = bn_json_number_of(trace, "first.index");
    for (const bn_json *o = bn_json_first(list); o != NULL; o = bn_json_next(o), i++) {
        double layer = bn_json_number_of(o, "layer");
        s.value[i] = bn_json_number_of(o, "error");
        s.limit[i] = bn_json_number_of(o, "allowed");
        if ((double)i != first) continue;
        s.noted = i;
        snprintf(s.note, sizeof s.note, layer >= 0 ? "first: %.60s, layer %.0f" : "first: %.60s",
                 bn_json_text_of(o, "op"), layer);
    }
    draw(out, &s);
}

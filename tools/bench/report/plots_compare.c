/* SPDX-License-Identifier: MIT
 *
 * Plots of more than one series: comparisons beside what does not matter, a series over the entries of a
 * ledger, the bricks of a profile, kernels under their roofs.
 */
#include <math.h>
#include <stdio.h>

#include "lab/report/plot.h"
#include "tools/bench/report/report.h"

#define ROW 42.0
#define FOREST_MAX 60u
#define FOREST_REACH 0.25 /* intervals that reach farther are cut, unless a change itself is larger */

/* As much of a text as fits n characters, ended by an ellipsis when it does not all. */
static void put_cut(struct bn_buf *out, const char *text, size_t n)
{
    struct bn_buf cut = {.max = 4096};
    size_t seen = 0;
    const char *c = text;
    for (; *c != '\0' && (seen < n || ((unsigned char)*c & 0xC0) == 0x80); c++) {
        seen += ((unsigned char)*c & 0xC0) != 0x80;
        bn_buf_putc(&cut, *c);
    }
    bn_html(out, "%s%s", cut.data != NULL ? cut.data : "", *c != '\0' ? "\xE2\x80\xA6" : "");
    bn_buf_release(&cut);
}

/* ---- comparisons ---- */

static void draw_band(struct bn_buf *out, const struct bn_plot *p, const char *kind, double reach, double y,
                      double height)
{
    double a = bn_plot_x(p, fmax(-reach, p->x0)), b = bn_plot_x(p, fmin(reach, p->x1));
    bn_html(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", kind, a, y,
            b - a, height);
}

static double clamp(double x, const struct bn_plot *p)
{
    return fmin(fmax(x, p->x0), p->x1);
}

/* The end of a bar: a stroke across, or an arrow where it goes on. */
static void draw_end(struct bn_buf *out, double x, double y, double arrow)
{
    bn_html(out, "M%.1f %.1fL%.1f %.1fL%.1f %.1f", x + arrow, y - 4, x, y, x + arrow, y + 4);
}

static void draw_comparison(struct bn_buf *out, const struct bn_plot *p, const struct bn_report_comparison *c,
                            double y)
{
    const struct bn_judgement *j = &c->c.j;
    const char *kind = j->outcome == BN_OUTCOME_REGRESSED      ? "bad"
                       : j->outcome == BN_OUTCOME_IMPROVED     ? "good"
                       : j->outcome == BN_OUTCOME_INCONCLUSIVE ? "open"
                                                               : "same";
    struct bn_buf name = {.max = 4096};
    bn_buf_printf(&name, "%s \xC2\xB7 %s", c->c.test, c->c.metric);
    bn_html(out, "<text class=\"op\" x=\"%.1f\" y=\"%.1f\">", p->left, y - 12);
    put_cut(out, name.data != NULL ? name.data : "", 44);
    bn_html(out, "</text><text class=\"note end %s\" x=\"%.1f\" y=\"%.1f\">%s</text>", kind,
            p->width - p->right, y - 12, bn_outcome_name(j->outcome));
    bn_buf_release(&name);
    if (c->margin > 0) draw_band(out, p, "margin", 100 * c->margin, y - 8, 16);
    if (j->band > 0) draw_band(out, p, "noise", 100 * j->band, y - 5, 10);
    if (isfinite(j->low) && isfinite(j->high)) {
        double a = bn_plot_x(p, clamp(100 * j->low, p)), b = bn_plot_x(p, clamp(100 * j->high, p));
        bn_html(out, "<path class=\"bar %s\" d=\"M%.1f %.1fH%.1f", kind, a, y, b);
        draw_end(out, a, y, 100 * j->low < p->x0 ? 5 : 0);
        draw_end(out, b, y, 100 * j->high > p->x1 ? -5 : 0);
        bn_html(out, "\"/>");
    }
    if (isfinite(j->change)) {
        struct bn_buf text = {.max = 100};
        bn_report_put_percent(&text, j->change, true);
        bn_html(out, "<circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>%s</title></circle>",
                kind, bn_plot_x(p, clamp(100 * j->change, p)), y, text.data);
        bn_buf_release(&text);
    }
}

void bn_report_plot_forest(struct bn_buf *out, const struct bn_report *r)
{
    size_t n = bn_min_size(r->n_comparisons, FOREST_MAX);
    double low = 0, high = 0;
    bool margin = false, noise = false;
    double reach = FOREST_REACH;
    if (n == 0) return;
    for (size_t i = 0; i < n; i++)
        if (fabs(r->comparisons[i].c.j.change) > reach)
            reach = fmin(1.1 * fabs(r->comparisons[i].c.j.change), 10);
    for (size_t i = 0; i < n; i++) {
        const struct bn_report_comparison *c = &r->comparisons[i];
        const double ends[] = {c->c.j.low, c->c.j.high, c->c.j.change, c->margin,
                               -c->margin, c->c.j.band, -c->c.j.band};
        for (size_t k = 0; k < BN_ARRAY_LEN(ends); k++)
            bn_plot_include(&low, &high, 100 * fmin(fmax(ends[k], -reach), reach));
        margin = margin || c->margin > 0;
        noise = noise || c->c.j.band > 0;
    }
    bn_plot_round(&low, &high, 8);
    struct bn_plot p = {.width = 480,
                        .height = 50 + ROW * (double)n,
                        .left = 12,
                        .right = 12,
                        .top = 4,
                        .bottom = 44,
                        .x0 = low,
                        .x1 = high,
                        .y1 = 1};
    bn_html(
        out,
        "<div class=\"figure forest\"><h4>What changed, and how sure that is</h4><p class=\"what\">The dot "
        "is the "
        "change of cost from A to B, the bar its 95 %% interval; to the right is worse.%s%s</p>\n",
        margin ? " Grey: what does not matter." : "", noise ? " Blue: how much A differs from itself." : "");
    bn_plot_begin(out, &p, "changes with their intervals");
    bn_html(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", bn_plot_x(&p, 0), p.top,
            p.height - p.bottom);
    for (size_t i = 0; i < n; i++)
        draw_comparison(out, &p, &r->comparisons[i], p.top + ROW * (double)i + 28);
    bn_plot_x_axis(out, &p, "change of cost, %");
    bn_plot_end(out);
    if (n < r->n_comparisons)
        bn_html(out, "<p class=\"what\">The first %zu of %zu; all are in the table.</p>", n,
                r->n_comparisons);
    bn_html(out, "</div>\n");
}

/* ---- over the entries of a ledger ---- */

static void draw_moment(struct bn_buf *out, const struct bn_plot *p, const struct bn_report_trend *t,
                        size_t i, const struct bn_report_scale *scale)
{
    const struct bn_report_moment *m = &t->moments[i];
    struct bn_buf text = {.max = 100};
    double x = bn_plot_x(p, (double)i + 1);
    if (isfinite(m->low))
        bn_html(out, "<path class=\"bar\" d=\"M%.1f %.1fV%.1f\"/>", x, bn_plot_y(p, m->low * scale->factor),
                bn_plot_y(p, m->high * scale->factor));
    bn_report_put(&text, m->median, scale);
    bn_html(out, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>", x,
            bn_plot_y(p, m->median * scale->factor));
    put_cut(out, m->commit, 10);
    bn_html(out, "%s, %s: %s %s</title></circle>\n", m->dirty ? " with changes" : "", m->created, text.data,
            scale->unit);
    bn_buf_release(&text);
}

void bn_report_plot_trend(struct bn_buf *out, const struct bn_report_trend *t)
{
    struct bn_report_scale scale = bn_report_scale(t->unit, t->moments[0].median);
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (size_t i = 0; i < t->n; i++) {
        bn_plot_include(&low, &high, t->moments[i].median * scale.factor);
        bn_plot_include(&low, &high, t->moments[i].low * scale.factor);
        bn_plot_include(&low, &high, t->moments[i].high * scale.factor);
    }
    bn_plot_round(&low, &high, 6);
    struct bn_plot p = {.width = 480,
                        .height = 260,
                        .left = 60,
                        .right = 16,
                        .top = 26,
                        .bottom = 44,
                        .x0 = 0.5,
                        .x1 = (double)t->n + 0.5,
                        .y0 = low,
                        .y1 = high,
                        .whole_x = true};
    bn_html(out,
            "<div class=\"figure\"><h4>%s</h4><p class=\"what\">Median of each entry; bars are 95 %% "
            "intervals%s.</p>\n",
            t->test, t->n_changes > 0 ? ", dashed lines where the level changed" : "");
    bn_plot_begin(out, &p, "medians over the entries of the ledger");
    bn_plot_y_axis(out, &p);
    bn_html(out, "<path class=\"line\" d=\"");
    for (size_t i = 0; i < t->n; i++)
        bn_html(out, "%s%.1f %.1f", i == 0 ? "M" : "L", bn_plot_x(&p, (double)i + 1),
                bn_plot_y(&p, t->moments[i].median * scale.factor));
    bn_html(out, "\"/>\n");
    for (size_t i = 0; i < t->n; i++)
        draw_moment(out, &p, t, i, &scale);
    for (size_t k = 0; k < t->n_changes; k++) {
        double x = bn_plot_x(&p, (double)t->changes[k].at + 0.5);
        bool right = x > p.width * 0.7;
        bn_html(out,
                "<path class=\"limit\" d=\"M%.1f %.1fV%.1f\"/><text class=\"note %s %s\" x=\"%.1f\" "
                "y=\"%.1f\">%s%.2g %%",
                x, p.top, p.height - p.bottom, right ? "end" : "start",
                t->changes[k].change > 0 ? "bad" : "good", x + (right ? -6 : 6),
                p.top + 12 + 16 * (double)(k % 3), t->changes[k].change > 0 ? "+" : "",
                100 * t->changes[k].change);
        bn_html(out, "</text>\n");
    }
    bn_html(out, "<text class=\"start\" x=\"4\" y=\"12\">%s%s%s</text>\n", t->metric,
            scale.unit[0] != '\0' ? ", " : "", scale.unit);
    bn_plot_x_axis(out, &p, "entry");
    bn_plot_end(out);
    bn_html(out, "</div>\n");
}

/* ---- bricks ---- */

void bn_report_plot_bricks(struct bn_buf *out, const struct bn_report *r,
                           const struct bn_report_source *source)
{
    size_t n = 0;
    double most = 0, y = 4;
    for (size_t i = 0; i < r->n_bricks; i++) {
        if (r->bricks[i].source != source) continue;
        n++;
        most = fmax(most, r->bricks[i].share);
    }
    if (n == 0 || !(most > 0)) return;
    struct bn_plot p = {.width = 480, .height = 8 + 24 * (double)n, .left = 144, .right = 128, .x1 = most};
    bn_html(out, "<div class=\"figure\"><h4>Where the time goes</h4><p class=\"what\">Exclusive time of each "
                 "brick, all "
                 "threads, as a share of all time; what no brick accounts for is a line of its own.</p>\n");
    bn_plot_begin(out, &p, "time of each brick");
    for (size_t i = 0; i < r->n_bricks; i++) {
        const struct bn_report_brick *b = &r->bricks[i];
        if (b->source != source) continue;
        struct bn_report_scale scale = bn_report_scale("ns", b->ns);
        struct bn_buf text = {.max = 200};
        bn_report_put_percent(&text, b->share, false);
        bn_buf_puts(&text, "  ");
        bn_report_put(&text, b->ns, &scale);
        double width = bn_plot_x(&p, b->share) - p.left;
        bn_html(out, "<text class=\"op end\" x=\"%.1f\" y=\"%.1f\">", p.left - 8, y + 15);
        put_cut(out, b->name, 18);
        bn_html(out, "</text><rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"16\"/>",
                b->rest ? "rest" : "brick", p.left, y + 2, fmax(width, 1));
        bn_html(out, "<text class=\"value\" x=\"%.1f\" y=\"%.1f\">%s %s</text>\n", p.left + width + 6, y + 15,
                text.data, scale.unit);
        bn_buf_release(&text);
        y += 24;
    }
    bn_plot_end(out);
    bn_html(out, "</div>\n");
}

/* ---- roofs ---- */

struct roofs {
    double memory, cache, int8, real; /* rates; NaN where none was measured */
    double memory_set, cache_set;     /* bytes that were read over and over */
};

static struct roofs roofs_of(const struct bn_report_source *source, size_t threads)
{
    struct roofs roofs = {
        .memory = (double)NAN, .cache = (double)NAN, .int8 = (double)NAN, .real = (double)NAN};
    const bn_json *list = bn_json_get(source->doc, "limits");
    for (const bn_json *l = bn_json_first(list); l != NULL; l = bn_json_next(l)) {
        double macs = bn_json_number_of(l, "macs_per_second"),
               bytes = bn_json_number_of(l, "bytes_per_second");
        double set = bn_json_number_of(l, "set_bytes");
        if (bn_json_count_of(l, "threads") != threads) continue;
        if (bn_json_text_is(l, "kind", "int8")) roofs.int8 = fmax(roofs.int8, macs);
        if (bn_json_text_is(l, "kind", "float")) roofs.real = fmax(roofs.real, macs);
        if (!bn_json_text_is(l, "kind", "read") || !(bytes > 0)) continue;
        if (!(roofs.cache >= bytes)) roofs.cache = bytes, roofs.cache_set = set;
        if (set > roofs.memory_set) roofs.memory = bytes, roofs.memory_set = set;
    }
    return roofs;
}

/* A roof that reading puts: it rises until arithmetic takes over. */
static void draw_slope(struct bn_buf *out, const struct bn_plot *p, double rate, double top, double set)
{
    if (!(rate > 0)) return;
    double x0 = fmax(p->x0, p->y0 / rate), x1 = fmin(p->x1, (top > 0 ? top : p->y1) / rate);
    if (!(x1 > x0)) return;
    bn_html(out, "<path class=\"roof\" d=\"M%.1f %.1fL%.1f %.1f\"/>", bn_plot_x(p, x0),
            bn_plot_y(p, x0 * rate), bn_plot_x(p, x1), bn_plot_y(p, x1 * rate));
    struct bn_report_scale scale = bn_report_scale("bytes", set);
    bn_html(out, "<text class=\"limit start\" x=\"%.1f\" y=\"%.1f\">%.3g %s, read at %.3g GB/s</text>\n",
            bn_plot_x(p, x0) + 6, bn_plot_y(p, x0 * rate) - 10, set * scale.factor, scale.unit, rate / 1e9);
}

static void draw_ceiling(struct bn_buf *out, const struct bn_plot *p, double rate, const char *name)
{
    if (!(rate > 0)) return;
    double y = bn_plot_y(p, rate);
    bn_html(out, "<path class=\"roof\" d=\"M%.1f %.1fH%.1f\"/>", p->left, y, p->width - p->right);
    bn_html(out, "<text class=\"limit\" x=\"%.1f\" y=\"%.1f\">%s %.3g GMAC/s</text>\n",
            p->width - p->right - 4, y - 6, name, rate / 1e9);
}

/* Whether the number of this point would cover that of one before. */
static bool is_near(const struct bn_plot *p, const struct bn_report *r, size_t i)
{
    const struct bn_report_point *a = &r->points[i];
    for (size_t k = 0; k < i; k++) {
        const struct bn_report_point *b = &r->points[k];
        if (b->source == a->source && b->threads == a->threads && b->macs > 0 &&
            fabs(bn_plot_x(p, a->macs / a->bytes) - bn_plot_x(p, b->macs / b->bytes)) < 20 &&
            fabs(bn_plot_y(p, a->macs / a->ns * 1e9) - bn_plot_y(p, b->macs / b->ns * 1e9)) < 11)
            return true;
    }
    return false;
}

static void draw_kernel(struct bn_buf *out, const struct bn_plot *p, const struct bn_report_point *k,
                        size_t number, bool covers)
{
    double at = k->macs / k->bytes, x = bn_plot_x(p, at), y = bn_plot_y(p, k->macs * 1e9 / k->ns);
    if (isfinite(k->low))
        bn_html(out, "<path class=\"bar\" d=\"M%.1f %.1fV%.1f\"/>", x, bn_plot_y(p, k->macs * 1e9 / k->high),
                bn_plot_y(p, k->macs * 1e9 / k->low));
    bn_html(out,
            "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>%s %s: %g GMAC/s</title></circle>",
            x, y, k->kernel, k->shape, k->macs / k->ns);
    if (!covers)
        bn_html(out, "<text class=\"note start\" x=\"%.1f\" y=\"%.1f\">%zu</text>\n", x + 6, y + 4, number);
}

void bn_report_plot_roofline(struct bn_buf *out, const struct bn_report *r, size_t threads,
                             const struct bn_report_source *source)
{
    struct roofs roofs = roofs_of(source, threads);
    struct bn_plot p = {.width = 980,
                        .height = 440,
                        .left = 64,
                        .right = 20,
                        .top = 26,
                        .bottom = 44,
                        .x0 = HUGE_VAL,
                        .x1 = -HUGE_VAL,
                        .y0 = HUGE_VAL,
                        .y1 = -HUGE_VAL,
                        .log_x = true,
                        .log_y = true};
    size_t n = 0;
    for (size_t i = 0; i < r->n_points; i++) {
        const struct bn_report_point *k = &r->points[i];
        if (k->source != source || k->threads != threads || !(k->macs > 0)) continue;
        n++;
        bn_plot_cover(&p.x0, &p.x1, k->macs / k->bytes);
        bn_plot_cover(&p.y0, &p.y1, k->macs * 1e9 / k->ns);
    }
    if (n == 0) return;
    bn_plot_cover(&p.y0, &p.y1, roofs.int8);
    bn_plot_cover(&p.y0, &p.y1, roofs.real);
    /* The marks are in 1e9 per second. */
    bn_html(out,
            "<div class=\"figure wide\"><h4>Kernels under their roofs, %zu thread%s</h4><p "
            "class=\"what\">Both axes are "
            "logarithmic. A kernel cannot be above the roof of what it reads from or of its arithmetic; "
            "numbers are those "
            "of the table. Bars are 95 %% intervals.</p>\n<div class=\"scroll\" tabindex=\"0\">",
            threads, threads == 1 ? "" : "s");
    bn_plot_begin(out, &p, "rate of each kernel over its multiply-adds per byte, both logarithmic");
    struct bn_plot axis = p;
    axis.y0 /= 1e9;
    axis.y1 /= 1e9;
    bn_plot_y_axis(out, &axis);
    draw_slope(out, &p, roofs.memory, roofs.int8, roofs.memory_set);
    if (roofs.cache > 1.1 * roofs.memory) draw_slope(out, &p, roofs.cache, roofs.int8, roofs.cache_set);
    draw_ceiling(out, &p, roofs.int8, "bytes");
    draw_ceiling(out, &p, roofs.real, "floats");
    for (size_t i = 0; i < r->n_points; i++)
        if (r->points[i].source == source && r->points[i].threads == threads && r->points[i].macs > 0)
            draw_kernel(out, &p, &r->points[i], i + 1, is_near(&p, r, i));
    bn_html(out, "<text class=\"start\" x=\"4\" y=\"12\">GMAC/s</text>\n");
    bn_plot_x_axis(out, &p, "multiply-adds per byte read");
    bn_plot_end(out);
    bn_html(out, "</div></div>\n");
}

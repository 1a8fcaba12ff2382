/* SPDX-License-Identifier: MIT
 *
 * Plots of a trace: the error of every operation in every layer as a map, and, in the order of computing,
 * what each operation is off by beside what it may be.
 */
#include <math.h>
#include <stdio.h>

#include "lab/report/plot.h"
#include "tools/crossval/page.h"

#define OPS_MAX 32u
#define LAYERS_MAX 256.0 /* of a map; deeper models have the table */

static bool is_out(const bn_json *op)
{
    return !bn_json_text_is(op, "found", "within") && !bn_json_text_is(op, "found", "absent");
}

static const bn_json *operations(const bn_json *ref)
{
    return bn_json_get(bn_json_get(ref, "trace"), "operations");
}

/* ---- the map ---- */

struct map {
    const char *rows[OPS_MAX];
    size_t n_rows;
    double n_layers; /* columns are these, one in front for the embedding, one behind for the head */
    double left, top, width, height; /* of a cell */
};

static size_t row_of(struct map *m, const char *op)
{
    size_t r = 0;
    while (r < m->n_rows && strcmp(m->rows[r], op) != 0)
        r++;
    if (r == m->n_rows && r < OPS_MAX) m->rows[m->n_rows++] = op;
    return r;
}

static void read_map(struct map *m, const bn_json *list)
{
    for (const bn_json *o = bn_json_first(list); o != NULL; o = bn_json_next(o)) {
        (void)row_of(m, bn_json_text_of(o, "op"));
        m->n_layers = fmax(m->n_layers, bn_json_number_of(o, "layer") + 1);
    }
}

/* 0 for none, then a step for each power of ten from 1e-6 on. */
static unsigned shade(double error)
{
    unsigned step = error > 0 ? 1 : 0;
    for (double limit = 1e-6; step > 0 && step < 7 && error >= limit; limit *= 10)
        step++;
    return step;
}

static void draw_cell(struct bn_buf *out, struct map *m, const bn_json *op)
{
    double layer = bn_json_number_of(op, "layer"), error = bn_json_number_of(op, "nrmse");
    size_t row = row_of(m, bn_json_text_of(op, "op"));
    if (row == OPS_MAX || !(layer >= -1 && layer < m->n_layers)) return;
    double column = layer >= 0 ? layer + 1 : row == 0 ? 0 : m->n_layers + 1;
    double x = m->left + column * m->width, y = m->top + (double)row * m->height;
    double gap = m->width > 6 ? 1 : 0.2;
    char shown[16] = "absent";
    if (is_out(op))
        snprintf(shown, sizeof shown, "hot");
    else if (isfinite(error))
        snprintf(shown, sizeof shown, "h%u", shade(error));
    bn_html(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">", shown, x + gap,
            y + 1, m->width - 2 * gap, m->height - 2);
    bn_html(out, "<title>%s, layer %g: %s, nrmse %g</title></rect>\n", bn_json_text_of(op, "op"), layer,
            bn_json_text_of(op, "found"), error);
    if (!is_out(op)) return;
    double size = fmin(m->width, m->height) / 4;
    bn_html(out, "<path class=\"out\" d=\"M%.1f %.1fl%.1f %.1fm0 -%.1fl-%.1f %.1f\"/>\n",
            x + m->width / 2 - size, y + m->height / 2 - size, 2 * size, 2 * size, 2 * size, 2 * size,
            2 * size);
}

static void map_labels(struct bn_buf *out, const struct map *m)
{
    double y = m->top + (double)m->n_rows * m->height + 16, step = bn_plot_step(m->n_layers, 8);
    for (size_t r = 0; r < m->n_rows; r++)
        bn_html(out, "<text class=\"y op\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", m->left - 6,
                m->top + ((double)r + 0.5) * m->height + 4, m->rows[r]);
    for (double layer = 0; layer < m->n_layers; layer += fmax(step, 1))
        bn_html(out, "<text class=\"x\" x=\"%.1f\" y=\"%.1f\">%g</text>\n",
                m->left + (layer + 1.5) * m->width, y, layer);
    bn_html(out, "<text class=\"label\" x=\"466\" y=\"%.1f\">layer</text>\n", y + 18);
}

void bn_crossval_plot_layers(struct bn_buf *out, const bn_json *ref)
{
    static const char *const STEPS[] = {"0", "<1e-6", "1e-5", "1e-4", "1e-3", "0.01", "0.1", "more"};
    const bn_json *list = operations(ref);
    struct map m = {.left = 104, .top = 8, .height = 17};
    read_map(&m, list);
    if (m.n_rows == 0 || m.n_layers > LAYERS_MAX) return;
    m.width = (480 - m.left - 14) / (m.n_layers + 2);
    struct bn_plot p = {.width = 480, .height = m.top + (double)m.n_rows * m.height + 40};
    bn_html(out,
            "<div class=\"figure\"><h4>Error of every operation, by layer</h4><p class=\"what\">nrmse of "
            "the worst position; \xE2\x9C\x95 is out of tolerance, an empty cell was not sent.</p>\n");
    bn_plot_begin(out, &p, "nrmse of every operation in every layer");
    for (const bn_json *o = bn_json_first(list); o != NULL; o = bn_json_next(o))
        draw_cell(out, &m, o);
    map_labels(out, &m);
    bn_plot_end(out);
    bn_html(out, "<p class=\"scale\">");
    for (unsigned i = 0; i < BN_ARRAY_LEN(STEPS); i++)
        bn_html(out, "<span><i class=\"s%u\"></i>%s</span>", i, STEPS[i]);
    bn_html(out, "</p></div>\n");
}

/* ---- the path ---- */

static void layer_bands(struct bn_buf *out, const struct bn_plot *p, const bn_json *list, double n_layers)
{
    double every = fmax(bn_plot_step(fmax(n_layers, 1), 16), 1), i = 0, from = 0, layer = (double)NAN;
    double y = p->height - p->bottom;
    for (const bn_json *o = bn_json_first(list);; o = bn_json_next(o), i++) {
        double next = o != NULL ? bn_json_number_of(o, "layer") : (double)NAN;
        if (o != NULL && next == layer) continue;
        double x0 = bn_plot_x(p, from - 0.5), x1 = bn_plot_x(p, i - 0.5);
        if (layer >= 0 && fmod(layer, 2) == 0)
            bn_html(out, "<rect class=\"band\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", x0,
                    p->top, x1 - x0, y - p->top);
        if (layer >= 0 && fmod(layer, every) == 0)
            bn_html(out, "<text class=\"x\" x=\"%.1f\" y=\"%.1f\">%g</text>\n", (x0 + x1) / 2, y + 18, layer);
        if (o == NULL) break;
        from = i;
        layer = next;
    }
    bn_html(out, "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"/>\n", p->left, y, p->width - p->right);
    bn_html(out, "<text class=\"label\" x=\"%.1f\" y=\"%.1f\">layer, operations in order</text>\n",
            p->width - p->right, p->height - 4);
}

static void path_point(struct bn_buf *out, const struct bn_plot *p, const bn_json *op, double i)
{
    double error = bn_json_number_of(op, "error"), allowed = bn_json_number_of(op, "allowed"),
           layer = bn_json_number_of(op, "layer");
    if (!isfinite(error) || !isfinite(allowed)) return;
    double x = bn_plot_x(p, i), y = bn_plot_y(p, error);
    char where[32] = "";
    if (layer >= 0) snprintf(where, sizeof where, ", layer %.0f", layer);
    bn_html(out, "<path class=\"allowed\" d=\"M%.1f %.1fh6\"/>", x - 3, bn_plot_y(p, allowed));
    if (error > allowed)
        bn_html(out, "<path class=\"cross\" d=\"M%.1f %.1fl8 8m0 -8l-8 8\">", x - 4, y - 4);
    else
        bn_html(out, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\">", x, y);
    bn_html(out, "<title>%s%s: off by %g, %g is allowed</title></%s>\n", bn_json_text_of(op, "op"), where,
            error, allowed, error > allowed ? "path" : "circle");
}

/* Names the first that is out of tolerance; drawn last, so that nothing covers it. */
static void path_note(struct bn_buf *out, const struct bn_plot *p, const bn_json *list, const bn_json *first)
{
    const bn_json *op = bn_json_first(list);
    double i = 0, layer = bn_json_number_of(first, "layer");
    while (op != NULL && (!bn_json_text_is(op, "op", bn_json_text_of(first, "op")) ||
                          bn_json_number_of(op, "layer") != layer)) {
        op = bn_json_next(op);
        i++;
    }
    if (first == NULL || op == NULL || !isfinite(bn_json_number_of(op, "error"))) return;
    double x = bn_plot_x(p, i), y = bn_plot_y(p, bn_json_number_of(op, "error"));
    bool right = x > p->width * 0.75;
    bn_html(out, "<text class=\"note bad %s\" x=\"%.1f\" y=\"%.1f\">first: %s", right ? "end" : "start",
            x + (right ? -10 : 10), y < 30 ? y + 20 : y + 5, bn_json_text_of(op, "op"));
    if (layer >= 0) bn_html(out, ", layer %g", layer);
    bn_html(out, "</text>\n");
}

void bn_crossval_plot_path(struct bn_buf *out, const bn_json *ref)
{
    const bn_json *list = operations(ref), *first = bn_json_path(ref, "trace.first");
    struct bn_plot p = {.width = 980,
                        .height = 330,
                        .left = 56,
                        .right = 14,
                        .top = 14,
                        .bottom = 44,
                        .x0 = -0.5,
                        .x1 = (double)bn_json_size(list) - 0.5,
                        .y0 = HUGE_VAL,
                        .y1 = -HUGE_VAL,
                        .log_y = true};
    double i = 0, n_layers = 0;
    for (const bn_json *o = bn_json_first(list); o != NULL; o = bn_json_next(o)) {
        bn_plot_cover(&p.y0, &p.y1, bn_json_number_of(o, "error"));
        bn_plot_cover(&p.y0, &p.y1, bn_json_number_of(o, "allowed"));
        n_layers = fmax(n_layers, bn_json_number_of(o, "layer") + 1);
    }
    if (!(p.y1 > 0)) return;
    p.y0 = fmax(p.y0, 1e-9);
    bn_html(out,
            "<div class=\"figure wide\"><h4>Through the network</h4><p class=\"what\">What each operation "
            "is off by (<span class=\"k-both\">\xE2\x97\x8F</span>) and what it may be, given the error "
            "of its inputs (<span class=\"k-allowed\">\xE2\x80\x94</span>). What lies behind the first "
            "that is out of tolerance is no fault of its own.</p><div class=\"scroll\" tabindex=\"0\">\n");
    bn_plot_begin(out, &p, "what each operation is off by, in the order of computing");
    layer_bands(out, &p, list, n_layers);
    bn_plot_y_axis(out, &p);
    for (const bn_json *o = bn_json_first(list); o != NULL; o = bn_json_next(o), i++)
        path_point(out, &p, o, i);
    path_note(out, &p, list, first);
    bn_plot_end(out);
    bn_html(out, "</div></div>\n");
}

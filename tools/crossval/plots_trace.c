/* SPDX-License-Identifier: MIT
 *
 * Plots of a trace: a map of the error of each operation in each layer, and the errors in the order of
 * computation with their tolerances.
 */
#include <math.h>
#include <stdio.h>

#include "lab/report/plot.h"
#include "tools/crossval/crossval.h"

#define OPS_MAX 32u
#define LAYERS_MAX 256.0 /* of a map; the table shows deeper models */

/* ---- the map ---- */

struct map {
    const char *rows[OPS_MAX];
    size_t n_rows;
    double n_layers; /* the columns are the layers, one before them for the embedding, one after them for the
                        head */
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

/* 0 for no error, then one step for each power of ten from 1e-6 on. */
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
    double column = layer >= 0 ? layer + 1 : row == 0 ? 0 : m->n_layers + 1, gap = m->width > 6 ? 1 : 0.2;
    double x = m->left + column * m->width, y = m->top + (double)row * m->height;
    bool absent = bn_json_text_is(op, "found", "absent"),
         bad = !absent && !bn_json_text_is(op, "found", "within");
    char shown[16] = "absent";
    if (bad)
        snprintf(shown, sizeof shown, "hot");
    else if (isfinite(error))
        snprintf(shown, sizeof shown, "h%u", shade(error));
    bn_html(out,
            "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>%s, layer %g: "
            "%s, nrmse "
            "%g</title></rect>\n",
            shown, x + gap, y + 1, m->width - 2 * gap, m->height - 2, bn_json_text_of(op, "op"), layer,
            bn_json_text_of(op, "found"), error);
    double size = fmin(m->width, m->height) / 4;
    if (bad)
        bn_html(out, "<path class=\"cross\" d=\"M%.1f %.1fl%.1f %.1fm0 -%.1fl-%.1f %.1f\"/>\n",
                x + m->width / 2 - size, y + m->height / 2 - size, 2 * size, 2 * size, 2 * size, 2 * size,
                2 * size);
}

static void draw_labels(struct bn_buf *out, const struct map *m)
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
    const bn_json *list = bn_json_path(ref, "trace.operations");
    struct map m = {.left = 144, .top = 8, .height = 17};
    for (const bn_json *o = bn_json_first(list); o != NULL; o = bn_json_next(o)) {
        (void)row_of(&m, bn_json_text_of(o, "op"));
        m.n_layers = fmax(m.n_layers, bn_json_number_of(o, "layer") + 1);
    }
    if (m.n_rows == 0 || m.n_layers > LAYERS_MAX) return;
    struct bn_plot p = bn_plot_of(m.top + (double)m.n_rows * m.height + 40);
    m.width = (p.width - m.left - 14) / (m.n_layers + 2);
    bn_plot_figure(out, "", "Error of each operation, by layer",
                   "nrmse at the worst position. \xE2\x9C\x95: out of tolerance. Empty cell: not sent.");
    bn_plot_begin(out, &p, "nrmse of every operation in every layer");
    for (const bn_json *o = bn_json_first(list); o != NULL; o = bn_json_next(o))
        draw_cell(out, &m, o);
    draw_labels(out, &m);
    bn_plot_end(out);
    bn_html(out, "<p class=\"scale\">");
    for (unsigned i = 0; i < BN_ARRAY_LEN(STEPS); i++)
        bn_html(out, "<span><i class=\"s%u\"></i>%s</span>", i, STEPS[i]);
    bn_html(out, "</p>");
    bn_plot_figure_end(out);
}

/* ---- in the order of computation ---- */

/* Shades every second layer and numbers the layers below the axis. */
static void draw_layers(struct bn_buf *out, const struct bn_plot *p, const bn_json *list, double n_layers)
{
    double every = fmax(bn_plot_step(fmax(n_layers, 1), 16), 1), i = 0, from = 0, layer = (double)NAN;
    double y = p->height - p->bottom;
    for (const bn_json *o = bn_json_first(list);; o = bn_json_next(o), i++) {
        double next = o != NULL ? bn_json_number_of(o, "layer") : (double)NAN;
        if (o != NULL && next == layer) continue;
        if (layer >= 0 && fmod(layer, 2) == 0) bn_plot_band(out, p, "band", from - 0.5, i - 0.5);
        if (layer >= 0 && fmod(layer, every) == 0)
            bn_html(out, "<text class=\"x\" x=\"%.1f\" y=\"%.1f\">%g</text>\n",
                    bn_plot_x(p, (from + i - 1) / 2), y + 18, layer);
        if (o == NULL) break;
        from = i;
        layer = next;
    }
    bn_html(out,
            "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"/>\n<text class=\"label\" x=\"%.1f\" "
            "y=\"%.1f\">layer, operations "
            "in order</text>\n",
            p->left, y, p->width - p->right, p->width - p->right, p->height - 4);
}

static void draw_operation(struct bn_buf *out, const struct bn_plot *p, const bn_json *op, double i)
{
    double error = bn_json_number_of(op, "error"), allowed = bn_json_number_of(op, "allowed"),
           layer = bn_json_number_of(op, "layer");
    char title[160], where[40] = "";
    if (!isfinite(error) || !isfinite(allowed)) return;
    if (layer >= 0) snprintf(where, sizeof where, ", layer %.0f", layer);
    snprintf(title, sizeof title, "%.60s%s: error %.4g, allowed %.4g", bn_json_text_of(op, "op"), where,
             error, allowed);
    bn_html(out, "<path class=\"allowed\" d=\"M%.1f %.1fh6\"/>", bn_plot_x(p, i) - 3, bn_plot_y(p, allowed));
    bool bad = error > allowed;
    bn_plot_mark(out, p, bad ? BN_PLOT_CROSS : BN_PLOT_DOT, bad ? "cross" : "dot", i, error, bad ? 4 : 2.6,
                 title);
}

/* Names the first operation out of tolerance. */
static void draw_first(struct bn_buf *out, const struct bn_plot *p, const bn_json *list, const bn_json *first)
{
    const bn_json *op = bn_json_first(list);
    double i = 0, layer = bn_json_number_of(first, "layer"), error;
    char text[120], where[40] = "";
    while (op != NULL && (!bn_json_text_is(op, "op", bn_json_text_of(first, "op")) ||
                          bn_json_number_of(op, "layer") != layer)) {
        op = bn_json_next(op);
        i++;
    }
    if (first == NULL || !bn_json_number(bn_json_get(op, "error"), &error)) return;
    if (layer >= 0) snprintf(where, sizeof where, ", layer %.0f", layer);
    snprintf(text, sizeof text, "first: %.60s%s", bn_json_text_of(op, "op"), where);
    bn_plot_note(out, p, "bad", i, error, 10, 5, text);
}

void bn_crossval_plot_path(struct bn_buf *out, const bn_json *ref)
{
    const bn_json *list = bn_json_path(ref, "trace.operations");
    struct bn_plot p = bn_plot_of(330);
    double i = 0, n_layers = 0;
    p.width = 980;
    p.x0 = -0.5;
    p.x1 = (double)bn_json_size(list) - 0.5;
    p.y0 = HUGE_VAL;
    p.y1 = -HUGE_VAL;
    p.log_y = true;
    for (const bn_json *o = bn_json_first(list); o != NULL; o = bn_json_next(o)) {
        bn_plot_cover(&p.y0, &p.y1, bn_json_number_of(o, "error"));
        bn_plot_cover(&p.y0, &p.y1, bn_json_number_of(o, "allowed"));
        n_layers = fmax(n_layers, bn_json_number_of(o, "layer") + 1);
    }
    if (!(p.y1 > 0)) return;
    p.y0 = fmax(p.y0, 1e-9);
    bn_plot_figure(out, "wide", "Error of each operation, in the order of computation",
                   "\xE2\x97\x8F error, \xE2\x80\x94 tolerance given the error of the inputs. Operations "
                   "after the first "
                   "one out of tolerance inherit its error.");
    bn_html(out, "<div class=\"scroll\" tabindex=\"0\">\n");
    bn_plot_begin(out, &p, "what each operation is off by, in the order of computing");
    draw_layers(out, &p, list, n_layers);
    bn_plot_y_axis(out, &p);
    for (const bn_json *o = bn_json_first(list); o != NULL; o = bn_json_next(o), i++)
        draw_operation(out, &p, o, i);
    draw_first(out, &p, list, bn_json_path(ref, "trace.first"));
    bn_plot_end(out);
    bn_html(out, "</div>");
    bn_plot_figure_end(out);
}

/* SPDX-License-Identifier: MIT
 *
 * The frame of a plot as SVG: the picture's size, its axes and their marks. Coordinates have one decimal, so
 * that the bytes are the same wherever the program runs.
 */
#include <math.h>
#include <stdio.h>

#include "tools/crossval/html.h"

#define MARKS_MAX 40u /* of an axis, whatever the numbers are */

static double share(double value, double from, double to)
{
    return to > from ? (value - from) / (to - from) : 0.5;
}

double bn_plot_x(const struct bn_plot *p, double x)
{
    return p->left + share(x, p->x0, p->x1) * (p->width - p->left - p->right);
}

/* Zero has no place on a logarithmic axis: it is drawn at its foot. */
double bn_plot_y(const struct bn_plot *p, double y)
{
    double at = share(y, p->y0, p->y1);
    if (p->log) at = y > 0 ? share(log10(y), log10(p->y0), log10(p->y1)) : 0;
    if (!(at >= 0)) at = 0;
    return p->height - p->bottom - fmin(at, 1) * (p->height - p->top - p->bottom);
}

void bn_plot_cover(struct bn_plot *p, double value)
{
    if (!isfinite(value) || value < 1e-30) return;
    value = fmin(value, 1e30);
    p->y0 = fmin(p->y0, pow(10, floor(log10(value))));
    p->y1 = fmax(p->y1, pow(10, ceil(log10(value) + 1e-9)));
}

void bn_plot_begin(struct bn_buf *out, const struct bn_plot *p, const char *title)
{
    bn_html(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.1f %.1f\" role=\"img\" "
            "aria-label=\"%s\">\n",
            p->width, p->height, title);
}

void bn_plot_end(struct bn_buf *out)
{
    bn_html(out, "</svg>\n");
}

double bn_plot_step(double range, unsigned n)
{
    double power = pow(10, floor(log10(range / n))), times = range / n / power;
    return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

static void mark_y(struct bn_buf *out, const struct bn_plot *p, double value)
{
    double y = bn_plot_y(p, value);
    value += 0.0; /* no minus in front of a zero */
    bn_html(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", p->left, y, p->width - p->right);
    bn_html(out, "<text class=\"y\" x=\"%.1f\" y=\"%.1f\">%.3g</text>\n", p->left - 7, y + 4, value);
}

void bn_plot_y_axis(struct bn_buf *out, const struct bn_plot *p)
{
    if (p->log) {
        int from = (int)lround(log10(p->y0)), to = (int)lround(log10(p->y1)), step = (to - from + 5) / 6;
        for (int e = from; e <= to; e += step > 0 ? step : 1)
            mark_y(out, p, pow(10, e));
        return;
    }
    double step = bn_plot_step(p->y1 - p->y0, 6), first = ceil(p->y0 / step - 1e-9);
    for (unsigned i = 0; i < MARKS_MAX && (first + i) * step <= p->y1 + 1e-9 * step; i++)
        mark_y(out, p, (first + i) * step);
}

void bn_plot_x_axis(struct bn_buf *out, const struct bn_plot *p, const char *label)
{
    double step = fmax(bn_plot_step(fmax(p->x1 - p->x0, 1), 8), p->log ? 1 : 0);
    double first = ceil(p->x0 / step - 1e-9), y = p->height - p->bottom;
    bn_html(out, "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"/>\n", p->left, y, p->width - p->right);
    for (unsigned i = 0; i < MARKS_MAX && (first + i) * step <= p->x1 + 1e-9 * step; i++)
        bn_html(out, "<text class=\"x\" x=\"%.1f\" y=\"%.1f\">%.3g</text>\n",
                bn_plot_x(p, (first + i) * step), y + 18, fabs(first + i) < 0.5 ? 0 : (first + i) * step);
    bn_html(out, "<text class=\"label\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", p->width - p->right,
            p->height - 4, label);
}

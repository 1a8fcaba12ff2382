/* SPDX-License-Identifier: MIT
 *
 * Plots as SVG: ranges, axes, marks and bars.
 */
#include "lab/report/plot.h"

#include <math.h>
#include <stdio.h>

#define MARKS_MAX 40u /* of an axis, whatever the numbers are */

static double share(double value, double from, double to)
{
    return to > from ? (value - from) / (to - from) : 0.5;
}

/* Zero has no place on a logarithmic axis: it is drawn at its foot. */
static double log_share(double value, double from, double to)
{
    return value > 0 ? share(log10(value), log10(from), log10(to)) : 0;
}

double bn_plot_x(const struct bn_plot *p, double x)
{
    double at = p->log_x ? log_share(x, p->x0, p->x1) : share(x, p->x0, p->x1);
    return p->left + at * (p->width - p->left - p->right);
}

double bn_plot_y(const struct bn_plot *p, double y)
{
    double at = p->log_y ? log_share(y, p->y0, p->y1) : share(y, p->y0, p->y1);
    if (!(at >= 0)) at = 0;
    return p->height - p->bottom - fmin(at, 1) * (p->height - p->top - p->bottom);
}

void bn_plot_cover(double *low, double *high, double value)
{
    if (!isfinite(value) || value < 1e-30) return;
    value = fmin(value, 1e30);
    *low = fmin(*low, pow(10, floor(log10(value))));
    *high = fmax(*high, pow(10, ceil(log10(value) + 1e-9)));
}

void bn_plot_include(double *low, double *high, double value)
{
    if (!isfinite(value)) return;
    *low = fmin(*low, value);
    *high = fmax(*high, value);
}

/* Distance of the marks of an axis: 1, 2 or 5 times a power of ten. */
static double step_of(double range, unsigned n)
{
    double power = pow(10, floor(log10(range / n))), times = range / n / power;
    return power * (times < 1 + 1e-9 ? 1 : times < 2 + 1e-9 ? 2 : times < 5 + 1e-9 ? 5 : 10);
}

void bn_plot_round(double *low, double *high, unsigned marks)
{
    if (!(*high >= *low)) *low = 0, *high = 1;
    double width = *high - *low, least = fmax(fabs(*high) * 1e-9, 1e-300);
    if (width < least) width = *high != 0 ? fabs(*high) * 0.1 : 1;
    double step = step_of(width, marks), middle = (*low + *high) / 2;
    *low = floor(fmin(*low, middle - width / 2) / step + 1e-9) * step;
    *high = ceil(fmax(*high, middle + width / 2) / step - 1e-9) * step;
}

struct bn_plot bn_plot_of(double height)
{
    return (struct bn_plot){
        .width = 480, .height = height, .left = 62, .right = 16, .top = 26, .bottom = 44, .x1 = 1, .y1 = 1};
}

void bn_plot_figure(struct bn_buf *out, const char *class_name, const char *title, const char *caption)
{
    bn_html(out, "<div class=\"figure %s\"><h4>%s</h4><p class=\"what\">%s</p>\n", class_name, title,
            caption);
}

void bn_plot_begin(struct bn_buf *out, const struct bn_plot *p, const char *title)
{
    bn_html(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.1f %.1f\" role=\"img\" "
            "aria-label=\"%s\">\n",
            p->width, p->height, title);
}

/* ---- axes ---- */

/* Digits that tell neighbouring marks apart. */
static void put_mark(struct bn_buf *out, double value, double most, double step)
{
    double digits = step > 0 ? floor(log10(fmax(most, step))) - floor(log10(step) + 1e-9) + 1 : 3;
    char text[40];
    value = fabs(value) < step * 1e-6 ? 0 : value; /* -0 is written as 0 */
    if (digits <= 3 && fabs(value) >= 1000 && fabs(value) < 1e6)
        bn_html(out, "%.6g", value);
    else if (digits <= 3)
        bn_html(out, "%.3g", value);
    else if (digits <= 9 && most < 1e9) {
        snprintf(text, sizeof text, "%.*f", (int)fmax(0, -floor(log10(step) + 1e-9)), value);
        bn_html(out, "%s", text);
    } else
        bn_html(out, "%.9g", value);
}

/* Draws the mark of an axis. */
typedef void mark_fn(struct bn_buf *out, const struct bn_plot *p, double value, double step);

static void mark_y(struct bn_buf *out, const struct bn_plot *p, double value, double step)
{
    double y = bn_plot_y(p, value);
    bn_html(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", p->left, y, p->width - p->right);
    bn_html(out, "<text class=\"y\" x=\"%.1f\" y=\"%.1f\">", p->left - 7, y + 4);
    put_mark(out, value, fmax(fabs(p->y0), fabs(p->y1)), step);
    bn_html(out, "</text>\n");
}

static void mark_x(struct bn_buf *out, const struct bn_plot *p, double value, double step)
{
    bn_html(out, "<text class=\"x\" x=\"%.1f\" y=\"%.1f\">", bn_plot_x(p, value), p->height - p->bottom + 18);
    put_mark(out, value, fmax(fabs(p->x0), fabs(p->x1)), step);
    bn_html(out, "</text>\n");
}

/* At multiples of the step; on a logarithmic axis at powers of ten. */
static void put_marks(struct bn_buf *out, const struct bn_plot *p, mark_fn *mark, double low, double high,
                      bool is_log, double step)
{
    if (is_log) {
        int from = (int)lround(log10(low)), to = (int)lround(log10(high)), each = (to - from + 5) / 6;
        for (int e = from; e <= to; e += each > 0 ? each : 1)
            mark(out, p, pow(10, e), 0);
        return;
    }
    double first = ceil(low / step - 1e-9);
    for (unsigned i = 0; i < MARKS_MAX && (first + i) * step <= high + 1e-9 * step; i++)
        mark(out, p, (first + i) * step, step);
}

void bn_plot_y_axis(struct bn_buf *out, const struct bn_plot *p)
{
    put_marks(out, p, mark_y, p->y0, p->y1, p->log_y, step_of(p->y1 - p->y0, 6));
}

void bn_plot_x_axis(struct bn_buf *out, const struct bn_plot *p, const char *label)
{
    bn_html(out, "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"/>\n", p->left, p->height - p->bottom,
            p->width - p->right);
    double step = step_of(p->whole_x ? fmax(p->x1 - p->x0, 1) : p->x1 - p->x0, 8);
    if (p->whole_x) step = fmax(step, 1);
    put_marks(out, p, mark_x, p->x0, p->x1, p->log_x, step);
    bn_html(out, "<text class=\"label\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", p->width - p->right,
            p->height - 4, label);
}

void bn_plot_y_label(struct bn_buf *out, const char *label)
{
    bn_html(out, "<text class=\"start\" x=\"4\" y=\"12\">%s</text>\n", label);
}

/* ---- marks ---- */

void bn_plot_mark(struct bn_buf *out, const struct bn_plot *p, double x, double y, double r,
                  const char *title)
{
    bn_html(out, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"><title>%s</title></circle>\n",
            bn_plot_x(p, x), bn_plot_y(p, y), r, title);
}

void bn_plot_line(struct bn_buf *out, const struct bn_plot *p, const char *class_name, const double *x,
                  const double *y, size_t n)
{
    char pen = 'M';
    bn_html(out, "<path class=\"%s\" d=\"", class_name);
    for (size_t i = 0; i < n; i++) {
        bool there = isfinite(x[i]) && isfinite(y[i]);
        if (there) {
            bn_buf_putc(out, pen);
            bn_html(out, "%.1f %.1f", bn_plot_x(p, x[i]), bn_plot_y(p, y[i]));
        }
        pen = there ? 'L' : 'M';
    }
    bn_buf_puts(out, "\"/>\n");
}

void bn_plot_interval(struct bn_buf *out, const struct bn_plot *p, const char *class_name, double x,
                      double low, double high)
{
    if (!isfinite(low) || !isfinite(high)) return;
    bn_html(out, "<path class=\"%s\" d=\"M%.1f %.1fV%.1f\"/>", class_name, bn_plot_x(p, x), bn_plot_y(p, low),
            bn_plot_y(p, high));
}

void bn_plot_rule_x(struct bn_buf *out, const struct bn_plot *p, const char *class_name, double x)
{
    bn_html(out, "<path class=\"%s\" d=\"M%.1f %.1fV%.1f\"/>\n", class_name, bn_plot_x(p, x), p->top,
            p->height - p->bottom);
}

void bn_plot_rule_y(struct bn_buf *out, const struct bn_plot *p, const char *class_name, double y)
{
    bn_html(out, "<path class=\"%s\" d=\"M%.1f %.1fH%.1f\"/>\n", class_name, p->left, bn_plot_y(p, y),
            p->width - p->right);
}

void bn_plot_band(struct bn_buf *out, const struct bn_plot *p, const char *class_name, double a, double b)
{
    double left = bn_plot_x(p, fmax(a, p->x0)), right = bn_plot_x(p, fmin(b, p->x1));
    if (!(right > left)) return;
    bn_html(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", class_name,
            left, p->top, right - left, p->height - p->bottom - p->top);
}

void bn_plot_note(struct bn_buf *out, const struct bn_plot *p, const char *class_name, double x, double y,
                  double dx, double dy, const char *text)
{
    double at = bn_plot_x(p, x), up = bn_plot_y(p, y) + dy;
    bool right = at > p->width * 0.6;
    bn_html(out, "<text class=\"note %s %s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", class_name,
            right ? "end" : "start", right ? at - dx : at + dx, fmax(up, 12), text);
}

/* ---- bars ---- */

#define BAR_ROW 40.0

/* The name above each bar, where a long one has room on a phone, too. */
void bn_plot_bars(struct bn_buf *out, const char *title, const struct bn_plot_bar *bars, size_t n)
{
    struct bn_plot p = {.width = 480, .height = 6 + BAR_ROW * (double)n, .left = 4, .right = 130, .y1 = 1};
    for (size_t i = 0; i < n; i++) {
        bn_plot_include(&p.x0, &p.x1, bars[i].value);
        bn_plot_include(&p.x0, &p.x1, bars[i].high);
    }
    bn_plot_begin(out, &p, title);
    for (size_t i = 0; i < n; i++) {
        const struct bn_plot_bar *b = &bars[i];
        double y = BAR_ROW * (double)i, x = bn_plot_x(&p, fmax(b->value, 0)), end = x;
        bn_html(out, "<text class=\"op start\" x=\"4\" y=\"%.1f\">%s</text>", y + 14, b->name);
        bn_html(out, "<rect class=\"%s\" x=\"4\" y=\"%.1f\" width=\"%.1f\" height=\"14\"/>",
                b->hollow ? "rest" : "brick", y + 20, fmax(x - p.left, 1));
        if (isfinite(b->low) && isfinite(b->high)) {
            end = fmax(x, bn_plot_x(&p, b->high));
            bn_html(out, "<path class=\"bar\" d=\"M%.1f %.1fH%.1f\"/>", bn_plot_x(&p, b->low), y + 27, end);
        }
        bn_html(out, "<text class=\"value start\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", end + 8, y + 32,
                b->text);
    }
    bn_buf_puts(out, "</svg>\n");
}

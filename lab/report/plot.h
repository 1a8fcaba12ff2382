/* SPDX-License-Identifier: MIT
 *
 * Plots as SVG: figures with a caption, axes, and marks at data coordinates. Coordinates have one decimal, so
 * that the bytes are the same on every machine. Looks are classes of lab/report/page.css.
 */
#ifndef BN_REPORT_PLOT_H
#define BN_REPORT_PLOT_H

#include "lab/report/page.h"

struct bn_plot {
    double width, height, left, right, top, bottom; /* of the picture; margins */
    double x0, x1, y0, y1;                          /* data; powers of ten where the axis is logarithmic */
    bool log_y, log_x;
    bool whole_x; /* the x axis counts something: marks at whole numbers only */
};
/* A plot of half the page's width with room for both axes; the data range is 0 to 1. */
struct bn_plot bn_plot_of(double height);

/* A figure: title, caption ("" for none), and what follows up to </div>. */
void bn_plot_figure(struct bn_buf *out, const char *class_name, const char *title, const char *caption);
/* The picture in a figure, up to </svg>; the title is for readers who cannot see it. */
void bn_plot_begin(struct bn_buf *out, const struct bn_plot *plot, const char *title);

/* ---- ranges ---- */

double bn_plot_x(const struct bn_plot *plot, double x);
double bn_plot_y(const struct bn_plot *plot, double y);
/* Widens a logarithmic range from low to high to include a positive value. Start with low = HUGE_VAL, high =
 * -HUGE_VAL. */
void bn_plot_cover(double *low, double *high, double value);
/* The same for a linear range. */
void bn_plot_include(double *low, double *high, double value);
/* Moves the ends of a linear range outwards to marks of its axis. An empty range gets a width. */
void bn_plot_round(double *low, double *high, unsigned marks);

/* ---- axes ---- */

void bn_plot_y_axis(struct bn_buf *out, const struct bn_plot *plot);
void bn_plot_x_axis(struct bn_buf *out, const struct bn_plot *plot, const char *label);
/* The label of the y axis, above it. */
void bn_plot_y_label(struct bn_buf *out, const char *label);

/* ---- marks, at data coordinates ---- */

/* A dot of that radius in pixels; the title is shown when the pointer is on it. */
void bn_plot_mark(struct bn_buf *out, const struct bn_plot *plot, double x, double y, double radius,
                  const char *title);
/* A line through n points; a value that is not finite breaks it. */
void bn_plot_line(struct bn_buf *out, const struct bn_plot *plot, const char *class_name, const double *x,
                  const double *y, size_t n);
/* A vertical interval at x; nothing when an end is not finite. */
void bn_plot_interval(struct bn_buf *out, const struct bn_plot *plot, const char *class_name, double x,
                      double low, double high);
/* A rule across the picture, at x or at y. */
void bn_plot_rule_x(struct bn_buf *out, const struct bn_plot *plot, const char *class_name, double x);
void bn_plot_rule_y(struct bn_buf *out, const struct bn_plot *plot, const char *class_name, double y);
/* A band of the x axis from a to b, clipped, over the height of the picture. */
void bn_plot_band(struct bn_buf *out, const struct bn_plot *plot, const char *class_name, double a, double b);
/* A text beside a point, on the side where there is room; dx and dy are pixels. */
void bn_plot_note(struct bn_buf *out, const struct bn_plot *plot, const char *class_name, double x, double y,
                  double dx, double dy, const char *text);

/* ---- bars ---- */

struct bn_plot_bar {
    const char *name;
    double value, low, high; /* the interval may be NaN */
    char text[64];           /* beside the bar, "38.4 tok/s" */
    bool hollow;             /* drawn as an outline */
};
/* Horizontal bars from 0, one below the other. */
void bn_plot_bars(struct bn_buf *out, const char *title, const struct bn_plot_bar *bars, size_t n);

#endif

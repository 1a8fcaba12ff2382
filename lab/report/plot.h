/* SPDX-License-Identifier: MIT
 *
 * The frame of a plot as SVG: the picture's size, its axes and their marks; data coordinates in, picture
 * coordinates out. Coordinates have one decimal, so that the bytes are the same wherever the program runs.
 */
#ifndef BN_REPORT_PLOT_H
#define BN_REPORT_PLOT_H

#include "lab/report/html.h"

struct bn_plot {
    double width, height, left, right, top, bottom; /* of the picture; margins */
    double x0, x1, y0, y1;                          /* data; powers of ten where the axis is logarithmic */
    bool log_y, log_x;
    bool whole_x; /* the x axis counts something: marks at whole numbers only */
};
double bn_plot_x(const struct bn_plot *plot, double x);
double bn_plot_y(const struct bn_plot *plot, double y);
/* Widens a logarithmic range from low to high, so that a positive value is inside; start with low = HUGE_VAL,
 * high = -HUGE_VAL. */
void bn_plot_cover(double *low, double *high, double value);
/* The same of a linear range. */
void bn_plot_include(double *low, double *high, double value);
/* Moves a linear range's ends outwards to marks of its axis; one that is empty is given a width. */
void bn_plot_round(double *low, double *high, unsigned marks);
void bn_plot_begin(struct bn_buf *out, const struct bn_plot *plot, const char *title);
void bn_plot_end(struct bn_buf *out);
void bn_plot_y_axis(struct bn_buf *out, const struct bn_plot *plot);
void bn_plot_x_axis(struct bn_buf *out, const struct bn_plot *plot, const char *label);
/* Distance of the marks of an axis, 1, 2 or 5 times a power of ten. */
double bn_plot_step(double range, unsigned n);

#endif

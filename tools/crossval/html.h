/* SPDX-License-Identifier: MIT
 *
 * Writing the report: text into HTML, so that no text of a document can become markup, and values of a
 * document that may lack or be of another kind: a missing text is "", a missing number is NaN.
 */
#ifndef BN_CROSSVAL_HTML_H
#define BN_CROSSVAL_HTML_H

#include "base/json.h"

/* The style sheet, carried by the program: tools/crossval/report.css. */
extern const char bn_report_style[];
extern const uint64_t bn_report_style_bytes;

/* Appends markup. Of the conversions there are %s, which escapes its text; %g, a number for people, which
 * takes "%.Ng" digits and is a dash when it is not finite; %.1f, %u, %zu and %%. */
void bn_html(struct bn_buf *out, const char *fmt, ...) BN_PRINTF(2, 3);
/* A number for people, its exact text as the document has it in the title. */
void bn_html_number(struct bn_buf *out, const bn_json *value);
/* The mark of a state, with its word: "pass", "fail", "skip", "error", "agree", "differ", ... */
void bn_html_state(struct bn_buf *out, const char *state);

const char *bn_html_string(const bn_json *object, const char *name);
double bn_html_value(const bn_json *object, const char *name);
size_t bn_html_size(const bn_json *object, const char *name);
bool bn_html_is(const bn_json *object, const char *name, const char *text);
bool bn_html_true(const bn_json *object, const char *name);
/* The element of an array whose member has this text; NULL for none. */
const bn_json *bn_html_find(const bn_json *array, const char *member, const char *text);

/* report.c */
void bn_report_page(struct bn_buf *out, const bn_json *doc);
/* report_ref.c: the section of one reference, the index-th. */
void bn_report_reference(struct bn_buf *out, const bn_json *ref, size_t index);
/* plots.c: each nothing where the document has no data for it. */
void bn_plot_positions(struct bn_buf *out, const bn_json *ref);
void bn_plot_scatter(struct bn_buf *out, const bn_json *ref);
/* plots_trace.c */
void bn_plot_layers(struct bn_buf *out, const bn_json *ref);
void bn_plot_path(struct bn_buf *out, const bn_json *ref);

/* plot.c: a frame with axes; data coordinates in, picture coordinates out. */
struct bn_plot {
    double width, height, left, right, top, bottom; /* of the picture; margins */
    double x0, x1, y0, y1;                          /* data; powers of ten where log is set */
    bool log;
};
double bn_plot_x(const struct bn_plot *plot, double x);
double bn_plot_y(const struct bn_plot *plot, double y);
/* Widens y0, y1 so that a positive value is inside; start with y0 = INFINITY, y1 = -INFINITY. */
void bn_plot_cover(struct bn_plot *plot, double value);
void bn_plot_begin(struct bn_buf *out, const struct bn_plot *plot, const char *title);
void bn_plot_end(struct bn_buf *out);
void bn_plot_y_axis(struct bn_buf *out, const struct bn_plot *plot);
void bn_plot_x_axis(struct bn_buf *out, const struct bn_plot *plot, const char *label);
/* Distance of the marks of an axis, 1, 2 or 5 times a power of ten. */
double bn_plot_step(double range, unsigned n);

#endif

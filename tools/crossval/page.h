/* SPDX-License-Identifier: MIT
 *
 * The parts of the page that shows a result.
 */
#ifndef BN_CROSSVAL_PAGE_H
#define BN_CROSSVAL_PAGE_H

#include "lab/report/html.h"

/* What this page's style sheet has beyond that of all pages: tools/crossval/report.css. */
extern const char bn_report_style[];
extern const uint64_t bn_report_style_bytes;

/* report.c */
void bn_report_page(struct bn_buf *out, const bn_json *doc);
/* The mark of a state, with its word: "pass", "fail", "skip", "error", "agree", "differ", ... */
void bn_crossval_put_state(struct bn_buf *out, const char *state);
/* report_ref.c: the section of one reference, the index-th. */
void bn_report_reference(struct bn_buf *out, const bn_json *ref, size_t index);
/* plots.c: each nothing where the document has no data for it. */
void bn_crossval_plot_positions(struct bn_buf *out, const bn_json *ref);
void bn_crossval_plot_scatter(struct bn_buf *out, const bn_json *ref);
/* plots_trace.c */
void bn_crossval_plot_layers(struct bn_buf *out, const bn_json *ref);
void bn_crossval_plot_path(struct bn_buf *out, const bn_json *ref);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The parts of the page that shows a result of bn-crossval.
 */
#ifndef BN_CROSSVAL_PAGE_H
#define BN_CROSSVAL_PAGE_H

#include "lab/report/html.h"

/* page.c: "ok", "bad" or "skip" for a state of a result: "pass", "differ", "no_data", ... */
const char *bn_crossval_kind(const char *state);
/* page_ref.c: the section of one reference, the index-th. */
void bn_crossval_put_reference(struct bn_buf *out, const bn_json *ref, size_t index);
/* plots.c, plots_trace.c: each appends nothing where the document has no data for it. */
void bn_crossval_plot_positions(struct bn_buf *out, const bn_json *ref);
void bn_crossval_plot_scatter(struct bn_buf *out, const bn_json *ref);
void bn_crossval_plot_layers(struct bn_buf *out, const bn_json *ref);
void bn_crossval_plot_path(struct bn_buf *out, const bn_json *ref);

#endif

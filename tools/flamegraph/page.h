/* SPDX-License-Identifier: MIT
 *
 * The Markdown page next to a kept picture: what was recorded, the tables that `text`, `bricks` and `diff`
 * print, and the comparison with the timing document. The same stacks give the same bytes.
 */
#ifndef BN_FLAMEGRAPH_PAGE_H
#define BN_FLAMEGRAPH_PAGE_H

#include "lab/stacks/stacks.h"

struct bn_flamegraph_page {
    const char *name; /* of the recording's files: "phase2_1tok" */
    const bn_stacks *stacks;
    const char *timing_path; /* of the document that ci/phase2-timing.sh writes */
    const char *timing_text; /* NULL: it could not be read */
    const char *timing_why;  /* why not */
    const bn_stacks *before; /* the archived recording to compare with; NULL: none */
    const char *before_name; /* its folder; "" when there is none */
    const char *before_why;  /* why there is none */
    const char *shows;       /* sentences of bn_flamegraph_insights */
};
BN_MUST_CHECK bn_status bn_flamegraph_page(struct bn_buf *out, const struct bn_flamegraph_page *page,
                                           bn_error *err);

/* At most five sentences about the recording, with line breaks between them. The same stacks give the same
 * sentences. */
BN_MUST_CHECK bn_status bn_flamegraph_insights(struct bn_buf *out, const struct bn_flamegraph_page *page,
                                               bn_error *err);

/* The bytes that one pass reads and the time that it takes: of a token that is decoded alone, else of the whole
 * generation, which is then one pass over the prompt. False when one of them is not known. */
bool bn_flamegraph_pass(const bn_json *about, double *bytes, double *ns, const char **what);

/* Appends untrusted text as a code span: control characters as \xNN, backticks inside a longer fence, bars
 * escaped, so that the cells of a table stay apart. */
void bn_markdown_code(struct bn_buf *out, const char *text);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The result of a comparison of stacks: the rows that are shown, the verdict, and its forms as text and JSON.
 */
#ifndef BN_FLAMEGRAPH_DIFF_REPORT_H
#define BN_FLAMEGRAPH_DIFF_REPORT_H

#include "lab/stacks/diff.h"

struct bn_diff_report {
    const struct bn_stacks_diff *diff;
    const char *before, *after; /* names of the sides */
    const bn_json *differ;      /* names of the facts in which they differ, and should not */
    bool by_total;              /* order, --min and the gate look at totals, not at selves */
    bool generations;           /* weights are of one generation of a model, not of a run */
    bool strict;                /* the gate fails also when a gain over fail_above may have been missed */
    double min;                 /* share of the whole that a row has on one side at least */
    double fail_above; /* a gate: most that a function may significantly gain, in shares; NaN: none */
    size_t top;        /* rows of text; 0: all */
    /* ---- made by bn_diff_report_make ---- */
    uint32_t *functions; /* frames, those that changed first, then by the size of the difference */
    size_t n_functions;
    /* Of all functions, shown or not. */
    size_t n_judged;       /* in which a gain that is possible would have been found */
    bool whole_judged;     /* with same_work */
    size_t n_more, n_less; /* significantly */
    uint32_t worst;        /* the function that gained most, significantly; BN_STACKS_NONE */
    double worst_gain;     /* its share; 0 */
    double finds, misses;  /* the least and the greatest detectable change of those listed; NaN */
    bool gate_failed;      /* also when there is a gate and nothing was judged */
};

BN_MUST_CHECK bn_status bn_diff_report_make(struct bn_diff_report *report, bn_error *err);
void bn_diff_report_release(struct bn_diff_report *report);

/* One line without its end: "FAILED: f gained 3.1 points, more than 1". */
void bn_diff_report_verdict(struct bn_buf *out, const struct bn_diff_report *report);
/* "+37.01 %* (95 %: +30.26 to +43.75)": the change of the whole. */
void bn_diff_report_whole(struct bn_buf *out, const struct bn_diff_report *report);
void bn_diff_report_text(struct bn_buf *out, const struct bn_diff_report *report, bool colour);
/* bn.stacks-diff/1 (docs/reference/stacks-diff.md). */
BN_MUST_CHECK bn_status bn_diff_report_json(struct bn_buf *out, const struct bn_diff_report *report,
                                            bn_error *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The result of a comparison of stacks: the rows that are shown, the verdict, and its forms as text, JSON
 * and folded stacks.
 */
#ifndef BN_FLAMEGRAPH_DIFF_REPORT_H
#define BN_FLAMEGRAPH_DIFF_REPORT_H

#include "lab/stacks/diff.h"

#define BN_STACKS_DIFF_SCHEMA "bn.stacks-diff/1"

struct bn_diff_report {
    const struct bn_stacks_diff *diff;
    const char *before, *after; /* names of the sides */
    const bn_json *differ;      /* names of the facts in which they differ, and should not; NULL: none */
    bool by_total;              /* order, --min and the gate look at totals, not at selves */
    double min;                 /* share of the whole that a row has on one side at least */
    double fail_above;   /* a gate: most that a function may significantly gain, in shares; NaN: none */
    uint32_t *functions; /* frames, those that changed first, then by the size of the difference */
    size_t n_functions;
    size_t n_shown; /* of them, in text */
    /* ---- of all functions, shown or not ---- */
    size_t n_judged;        /* in which a gain that is possible would have been found */
    bool whole_judged;      /* with same_work */
    size_t n_more, n_less;  /* significantly */
    uint32_t worst;         /* the function that gained most, significantly; BN_STACKS_NONE */
    double worst_gain;      /* its share; 0 */
    double finds, misses;   /* the least and the greatest detectable change of those listed; NaN */
    bool generations;       /* weights are of one generation of a model, not of a run */
    bool strict;            /* the gate fails also when a gain over fail_above may have been missed */
    bool gate, gate_failed; /* gate_failed also when there is a gate and nothing was judged */
};

/* top: most functions that text shows, 0: all. */
BN_MUST_CHECK bn_status bn_diff_report_make(struct bn_diff_report *out, const struct bn_stacks_diff *diff,
                                            bool by_total, size_t top, double min, double fail_above,
                                            bool strict, bn_error *err);
void bn_diff_report_release(struct bn_diff_report *report);

/* One line without its end: "FAILED: f gained 3.1 points, more than 1". */
void bn_diff_report_verdict(struct bn_buf *out, const struct bn_diff_report *report);
/* "5 vs 5 runs, total +37.01 %* (95 %: +30.26 to +43.75)". */
void bn_diff_report_head(struct bn_buf *out, const struct bn_diff_report *report);
void bn_diff_report_text(struct bn_buf *out, const struct bn_diff_report *report, bool colour);
/* Lines "path before after" of mean weights in a run, as programs that colour differences read them. */
void bn_diff_report_folded(struct bn_buf *out, const struct bn_stacks_diff *diff);
BN_MUST_CHECK bn_status bn_diff_report_json(struct bn_buf *out, const struct bn_diff_report *report,
                                            bn_error *err);

#endif

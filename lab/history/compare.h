/* SPDX-License-Identifier: MIT
 *
 * Compares two sets of series. Series are paired by test and metric; one that only one side has is reported.
 *
 * Samples that were taken in turn are judged as pairs (bn_judge_pairs), others as two samples
 * (bn_judge_samples). Of those not in turn, single values, samples that are too few for an interval, and
 * metrics with absolute levels are judged by the levels alone, by medians: worse by more than the warning level
 * is REGRESSED, better by as much is IMPROVED, anything else STABLE; the same samples on both sides are STABLE.
 *
 * Times and rates of a contended session are INCONCLUSIVE, and so are their changes when both sessions are of
 * one program; not when one session is a copy of the other.
 */
#ifndef BN_HISTORY_COMPARE_H
#define BN_HISTORY_COMPARE_H

#include "lab/history/series.h"
#include "lab/stats/comparison.h"

struct bn_history_rules {
    struct bn_judge_rules judge;
    double drift;
    const struct bn_levels *levels; /* not in turn: a metric's drift raises `drift`; in turn: the margin */
    bool points;                    /* one side has values without samples: only the levels apply */
    const char *contended; /* why times of one of the sessions do not count; NULL or empty when they do */
    bool same_program;     /* both sessions ran the same program, byte for byte */
    bool in_turn;          /* sample i of both sides, and of `again`, is of round i */
    size_t n_rounds;       /* samples that each side must have then */
    const struct bn_series_list *again; /* A measured a second time in each round */
};

struct bn_history_comparison {
    struct bn_comparison *list; /* those of A in its order, then those that only B has; texts are borrowed */
    size_t n;
    size_t n_missing;          /* that only A has */
    size_t n_extra;            /* that only B has */
    size_t n_incomplete;       /* that could not be compared, those two among them */
    size_t n_timed;            /* that both have and that are times or rates, not their spread */
    size_t n_timed_judged;     /* of these, not INCONCLUSIVE */
    size_t n_judged;           /* of all, not INCONCLUSIVE */
    enum bn_outcome worst;     /* of those that both have */
    enum bn_severity severity; /* the worst one */
};

BN_MUST_CHECK bn_status bn_history_compare(struct bn_history_comparison *out, const struct bn_series_list *a,
                                           const struct bn_series_list *b,
                                           const struct bn_history_rules *rules, bn_error *err);
void bn_history_release(struct bn_history_comparison *result);

#endif

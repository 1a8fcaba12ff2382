/* SPDX-License-Identifier: MIT
 *
 * Did it get slower? One rule for every comparison, and five verdicts.
 *
 * A *cost* is a measurement of which less is better (of rates, the reciprocal). A *change* is the cost's
 * ratio minus one: +0.05 is five per cent worse. Work is done on natural logarithms of ratios.
 *
 *   REGRESSED     the whole confidence interval lies above the margin and above the difference of two copies
 * of the same program; the test is significant after the correction for many comparisons; and most pairs
 * agree in sign IMPROVED      the same below SAME          the whole interval lies within the margin STABLE
 * of runs taken at different times: the whole interval lies within the drift of a machine between them, so a
 * smaller change is not excluded INCONCLUSIVE  anything else, with the reason, and the number of pairs that
 * are needed
 */
#ifndef BN_STATS_JUDGE_H
#define BN_STATS_JUDGE_H

#include "base/mem.h"

/* From good to bad. */
enum bn_outcome {
    BN_OUTCOME_SAME,
    BN_OUTCOME_STABLE,
    BN_OUTCOME_IMPROVED,
    BN_OUTCOME_INCONCLUSIVE,
    BN_OUTCOME_REGRESSED,
    BN_OUTCOMES
};
/* "INCONCLUSIVE", ... */
const char *bn_outcome_name(enum bn_outcome outcome);

struct bn_judge_rules {
    double margin;     /* a change that does not matter: 0.01 is one per cent */
    double confidence; /* of the interval: 0.95 */
    double q;          /* share of false alarms among the alarms of one session: 0.05 */
    double agreement;  /* share of pairs that have the sign of the change: 0.8 */
    bool higher; /* more of the figure is better; reasons name the change of the figure, not of the cost */
};
#define BN_JUDGE_RULES_INIT           \
    {                                 \
        0.01, 0.95, 0.05, 0.8, false, \
    }

struct bn_judgement {
    enum bn_outcome outcome;
    char reason[200]; /* of the outcome, one line; never empty */
    bool higher;      /* as in the rules */
    size_t n;         /* pairs; of unpaired samples the smaller number */
    double change;    /* the estimate */
    double low, high; /* its interval; NaN when there are too few pairs for one */
    double p;         /* of no change, two-sided; never 0; NaN of exact values, which are not tested */
    double q;         /* p corrected for the comparisons of the session; p until bn_judge_session */
    double agreement; /* share of pairs that have the sign of the change; NaN of unpaired samples */
    double band;      /* difference of two copies of the same program (the farther end of the interval),
                         |change|; 0 when not measured */
    double mde;       /* smallest change detectable with 80 % power: 2.8 standard deviations of the mean pair
                         (of the copies, if there are any); 0 of exact values, NaN when unknown. For a
                         verdict the margin is added. */
    size_t n_needed;  /* of an inconclusive result: pairs needed in total; 0 when more do not help */
};

/* The change of the figure of a change of its cost, and the other way round: of a rate, +25 % becomes -20 %. */
double bn_judge_turn(double change, bool higher);

/* INCONCLUSIVE for this reason, without any number; it is not a test of the session. */
void bn_judge_none(struct bn_judgement *out, const char *fmt, ...) BN_PRINTF(2, 3);

/* Judges n pairs taken in turn: d[i] = ln(cost of B / cost of A) in round i. null are n_null such numbers of
 * a copy of A against A, from the same rounds; NULL when there was no copy. The estimate is Hodges and
 * Lehmann's, the interval Wilcoxon's signed rank test inverted. BN_ERR_ARG for numbers that are not finite.
 */
BN_MUST_CHECK bn_status bn_judge_pairs(struct bn_judgement *out, const double *d, size_t n,
                                       const double *null, size_t n_null, const struct bn_judge_rules *rules,
                                       bn_error *err);

/* Judges samples that were taken at different times: a earlier, b later, costs, all positive. The estimate is
 * Hodges and Lehmann's shift of logarithms, the test Mann and Whitney's. The machine may have drifted
 * in between, which no number of samples shows. So a change counts only beyond `drift` (0.08: eight per
 * cent), and an interval within it is STABLE; with a drift of no more than the margin it is SAME. */
BN_MUST_CHECK bn_status bn_judge_samples(struct bn_judgement *out, const double *a, size_t n_a,
                                         const double *b, size_t n_b, double drift,
                                         const struct bn_judge_rules *rules, bn_error *err);

/* Judges values without noise (bytes, counts, digests): any difference is a change. */
void bn_judge_exact(struct bn_judgement *out, double a, double b, bool higher);

/* Corrects all judgements of one session for their number: fills q (Benjamini and Hochberg) and withdraws
 * changes with a large q. */
BN_MUST_CHECK bn_status bn_judge_session(struct bn_judgement *list, size_t n,
                                         const struct bn_judge_rules *rules, bn_error *err);

#endif

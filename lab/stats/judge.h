/* SPDX-License-Identifier: MIT
 *
 * Did it get slower? One rule for every comparison, and five answers.
 *
 * A *cost* is a measurement of which less is better (of rates, the reciprocal). A *change* is the cost's
 * ratio minus one: +0.05 is five per cent worse. Work is done on natural logarithms of ratios.
 *
 *   REGRESSED     the whole confidence interval lies above what does not matter, and above what two copies of
 *                 the same program differ by; the test says so after the correction for many comparisons; and
 *                 most pairs agree in sign
 *   IMPROVED      the same below
 *   SAME          the whole interval lies within what does not matter: shown, not merely unrefuted
 *   STABLE        of runs taken at different times: the whole interval lies within what a machine drifts by
 *                 between them, so a smaller change is not excluded
 *   INCONCLUSIVE  anything else, with the reason, and how many pairs would be enough
 */
#ifndef BN_STATS_JUDGE_H
#define BN_STATS_JUDGE_H

#include "base/mem.h"

enum bn_outcome {
    BN_OUTCOME_INCONCLUSIVE,
    BN_OUTCOME_SAME,
    BN_OUTCOME_IMPROVED,
    BN_OUTCOME_REGRESSED,
    BN_OUTCOME_STABLE,
    BN_OUTCOMES
};
/* "INCONCLUSIVE", ... */
const char *bn_outcome_name(enum bn_outcome outcome);
/* How bad it is: SAME, STABLE, IMPROVED, INCONCLUSIVE, REGRESSED, ascending. */
int bn_outcome_rank(enum bn_outcome outcome);

struct bn_judge_rules {
    double margin;     /* a change that does not matter: 0.01 is one per cent */
    double confidence; /* of the interval: 0.95 */
    double q;          /* share of false alarms among the alarms of one session: 0.05 */
    double agreement;  /* share of pairs that have the sign of the change: 0.8 */
};
#define BN_JUDGE_RULES_INIT    \
    {                          \
        0.01, 0.95, 0.05, 0.8, \
    }

struct bn_judgement {
    enum bn_outcome outcome;
    char reason[200]; /* one line, for people: why this outcome; never empty */
    size_t n;         /* pairs; of unpaired samples the smaller number */
    double change;    /* the estimate */
    double low, high; /* its interval; NaN when there are too few pairs for one */
    double p;         /* of no change at all, two-sided; never 0; NaN of exact values, which no test is for */
    double q;         /* p corrected for the comparisons of the session; p until bn_judge_session */
    double agreement; /* share of pairs that have the sign of the change; NaN of unpaired samples */
    double band;      /* what two copies of the same program may differ by (the farther end of the interval),
                         |change|; 0 when not measured */
    double mde;       /* smallest change that these pairs tell from none four times out of five: 2.8 standard
                         deviations of the mean pair, those of the copies where there are some; 0 of exact
                         values, NaN when unknown. Calling it takes the margin on top. */
    size_t n_needed;  /* of an inconclusive result: pairs in all that would do; 0 when no number would help */
};

/* Judges n pairs taken in turn: d[i] = ln(cost of B / cost of A) in round i. null are n_null such numbers of
 * a copy of A against A, from the same rounds; NULL when there was no copy. The estimate is Hodges and
 * Lehmann's, the interval Wilcoxon's signed rank test inverted. BN_ERR_ARG for numbers that are not finite.
 */
BN_MUST_CHECK bn_status bn_judge_pairs(struct bn_judgement *out, const double *d, size_t n,
                                       const double *null, size_t n_null, const struct bn_judge_rules *rules,
                                       bn_error *err);

/* Judges samples that were taken at different times: a before, b now, costs, all positive. The estimate is
 * Hodges and Lehmann's shift of logarithms, the test Mann and Whitney's. The machine may have drifted
 * meanwhile, which no number of samples shows. So a change counts only beyond `drift` (0.08: eight per cent),
 * and an interval within it is STABLE; with a drift of no more than the margin it is SAME. */
BN_MUST_CHECK bn_status bn_judge_samples(struct bn_judgement *out, const double *a, size_t n_a,
                                         const double *b, size_t n_b, double drift,
                                         const struct bn_judge_rules *rules, bn_error *err);

/* Judges values that have no spread (bytes, counts, digests): any difference is a change. */
void bn_judge_exact(struct bn_judgement *out, double a, double b, const struct bn_judge_rules *rules);

/* The last word over all judgements of one session: fills q (Benjamini and Hochberg) and takes back outcomes
 * that do not survive it. With contaminated, the reason why the machine was not itself, nothing but
 * INCONCLUSIVE remains of those that are not exact. */
BN_MUST_CHECK bn_status bn_judge_session(struct bn_judgement *list, size_t n, const char *contaminated,
                                         const struct bn_judge_rules *rules, bn_error *err);

#endif

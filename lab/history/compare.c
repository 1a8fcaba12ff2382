/* SPDX-License-Identifier: MIT
 *
 * Compares two sets of series, each by statistics, by levels or exactly, and adds the result up.
 */
#include "lab/history/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/stats/summary.h"

static double median_of(const struct bn_series *s)
{
    return s != NULL ? bn_median(s->samples, s->n) : (double)NAN;
}

/* Times and rates, which other work on the machine changes; memory and counts it does not. A number without a
 * unit is a time or a rate where commands printed it. */
static bool is_timed(const struct bn_comparison *c, const struct bn_history_rules *rules)
{
    bool memory = strcmp(c->unit, "bytes") == 0 || strcmp(c->unit, "MB") == 0;
    return !c->exact && !memory && (rules->in_turn || strcmp(c->unit, "1") != 0);
}

/* How times vary, which says nothing about how long they are. */
static bool is_spread(const struct bn_comparison *c)
{
    return strstr(c->metric, "_jitter_") != NULL || strstr(c->metric, "_spread_") != NULL;
}

/* Compares medians by the levels: the spread of too few samples is unknown. */
static void judge_values(struct bn_comparison *c, const struct bn_levels *levels)
{
    static const char *const ABOVE[] = {[BN_SEVERITY_NONE] = "below the warning level",
                                        [BN_SEVERITY_WARNING] = "above the warning level",
                                        [BN_SEVERITY_CRITICAL] = "above the critical level"};
    double a = c->median_a, b = c->median_b;
    const struct bn_level *level = bn_levels_find(levels, c->test, c->metric, c->higher);
    bool absolute = level != NULL && level->absolute;
    double worse = (c->higher ? a - b : b - a) / (absolute ? 1 : a / 100);
    enum bn_severity severity = bn_levels_severity(levels, c->test, c->metric, c->higher, a, b);
    bool better = bn_levels_severity(levels, c->test, c->metric, c->higher, b, a) != BN_SEVERITY_NONE;
    char counts[80] = "single values";
    if (absolute && c->n_a + c->n_b > 2)
        snprintf(counts, sizeof counts, "medians of %zu and %zu samples", c->n_a, c->n_b);
    else if (c->n_a > 1 || c->n_b > 1)
        snprintf(counts, sizeof counts, "%zu and %zu samples are too few for statistics", c->n_a, c->n_b);
    bn_judge_none(&c->j, absolute ? "%s: %.4g%s %s%s%s" : "%s: %.1f%s %s%s%s", counts, fabs(worse),
                  absolute ? "" : " %", worse > 0 ? "worse" : "better", worse > 0 ? ", " : "",
                  worse > 0 ? ABOVE[severity] : "");
    c->j.n = bn_min_size(c->n_a, c->n_b);
    c->j.change = c->higher ? a / b - 1 : b / a - 1;
    c->j.outcome = severity != BN_SEVERITY_NONE ? BN_OUTCOME_REGRESSED
                   : better                     ? BN_OUTCOME_IMPROVED
                                                : BN_OUTCOME_STABLE;
}

/* The logarithms of B's costs divided by A's, of each round. */
static void ratios(double *d, const struct bn_series *a, const struct bn_series *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = log(bn_series_cost(a, b->samples[i]) / bn_series_cost(a, a->samples[i]));
}

static bn_status judge_samples(struct bn_comparison *c, const struct bn_series *a, const struct bn_series *b,
                               const struct bn_series *again, const struct bn_history_rules *rules,
                               bn_error *err)
{
    double *work = bn_alloc(a->n + b->n, sizeof *work);
    if (work == NULL) return bn_nomem(err);
    const struct bn_level *level = bn_levels_find(rules->levels, c->test, c->metric, c->higher);
    double drift = level != NULL ? level->drift : 0;
    struct bn_judge_rules judge = rules->judge;
    judge.higher = c->higher;
    bn_status status;
    if (rules->in_turn) {
        judge.margin = fmax(judge.margin, drift);
        ratios(work, a, b, a->n);
        if (again != NULL) ratios(work + a->n, a, again, a->n);
        status = bn_judge_pairs(&c->j, work, a->n, work + a->n, again != NULL ? a->n : 0, &judge, err);
    } else {
        for (size_t i = 0; i < a->n + b->n; i++)
            work[i] = bn_series_cost(a, i < a->n ? a->samples[i] : b->samples[i - a->n]);
        status =
            bn_judge_samples(&c->j, work, a->n, work + a->n, b->n, fmax(rules->drift, drift), &judge, err);
    }
    bn_free(work);
    return status;
}

static bool are_the_same(const struct bn_series *a, const struct bn_series *b)
{
    return a->n == b->n && memcmp(a->samples, b->samples, a->n * sizeof *a->samples) == 0;
}

/* Whether every round has a value on every side. */
static bool is_complete(struct bn_comparison *c, const struct bn_series *again,
                        const struct bn_history_rules *rules)
{
    size_t n = rules->n_rounds;
    bool complete =
        n > 0 && c->n_a == n && c->n_b == n && (rules->again == NULL || (again != NULL && again->n == n));
    if (!complete)
        bn_judge_none(&c->j, "of %zu round%s, %zu of A and %zu of B have a value%s", n, n == 1 ? "" : "s",
                      c->n_a, c->n_b, c->n_a == n && c->n_b == n ? "; repeated runs of A lack some" : "");
    return complete;
}

/* The one side without the series is NULL. */
static bn_status compare_one(struct bn_comparison *c, const struct bn_series *a, const struct bn_series *b,
                             const struct bn_history_rules *rules, bn_error *err)
{
    static const struct bn_series NONE;
    const struct bn_series *s = a != NULL ? a : b != NULL ? b : &NONE;
    *c = (struct bn_comparison){
        .test = s->test, .metric = s->metric, .unit = s->unit, .higher = s->higher, .exact = s->exact};
    c->n_a = a != NULL ? a->n : 0;
    c->n_b = b != NULL ? b->n : 0;
    c->median_a = median_of(a);
    c->median_b = median_of(b);
    const struct bn_level *level = bn_levels_find(rules->levels, s->test, s->metric, s->higher);
    const struct bn_series *again =
        rules->again != NULL ? bn_series_find(rules->again, s->test, s->metric) : NULL;
    bool by_levels = rules->points || (level != NULL && level->absolute && !rules->in_turn);
    if (b == NULL)
        bn_judge_none(&c->j, "missing in B");
    else if (a == NULL)
        bn_judge_none(&c->j, "only in B");
    else if (strcmp(a->unit, b->unit) != 0 || a->higher != b->higher || a->exact != b->exact)
        bn_judge_none(&c->j, "the units differ: %s and %s", a->unit, b->unit);
    else if (rules->in_turn && !is_complete(c, again, rules))
        return BN_OK;
    else if (!s->exact && !rules->in_turn && are_the_same(a, b)) {
        bn_judge_none(&c->j, "the same samples on both sides");
        c->j.outcome = BN_OUTCOME_STABLE;
        c->j.n = a->n;
        c->j.change = c->j.low = c->j.high = 0;
    } else if (rules->points || (!s->exact && !rules->in_turn && (by_levels || a->n + b->n <= 2)))
        judge_values(c, rules->levels);
    else if (!s->exact)
        return judge_samples(c, a, b, again, rules, err);
    else if (!bn_all_equal(a->samples, a->n) || !bn_all_equal(b->samples, b->n))
        bn_judge_none(&c->j, "the samples of an exact series differ on one side");
    else
        bn_judge_exact(&c->j, c->median_a, c->median_b, c->higher);
    return BN_OK;
}

/* Corrects the judgements by statistics for their number; those of too few samples are made by the levels. */
static bn_status judge_session(struct bn_history_comparison *out, const struct bn_history_rules *rules,
                               bn_error *err)
{
    struct bn_judgement *list = bn_alloc(out->n, sizeof *list);
    if (list == NULL) return bn_nomem(err);
    for (size_t i = 0; i < out->n; i++) {
        struct bn_comparison *c = &out->list[i];
        if (!isnan(c->j.p) && isnan(c->j.low) && !rules->in_turn) judge_values(c, rules->levels);
        list[i] = c->j;
    }
    bn_status status = bn_judge_session(list, out->n, &rules->judge, err);
    for (size_t i = 0; i < out->n; i++)
        out->list[i].j = list[i];
    bn_free(list);
    return status;
}

/* Withdraws judgements of times that the circumstances of the sessions do not allow. */
static void doubt(struct bn_comparison *c, const struct bn_history_rules *rules)
{
    bool contended = rules->contended != NULL && rules->contended[0] != '\0';
    bool changed = c->j.outcome == BN_OUTCOME_REGRESSED || c->j.outcome == BN_OUTCOME_IMPROVED;
    if (!is_timed(c, rules) || (rules->in_turn && isnan(c->j.p)) ||
        !(contended || (changed && rules->same_program)))
        return;
    c->j.outcome = BN_OUTCOME_INCONCLUSIVE;
    c->j.n_needed = 0;
    snprintf(c->j.reason, sizeof c->j.reason, "%s",
             contended ? rules->contended
                       : "both runs are of the same program, byte for byte, so the difference is that of the "
                         "machine");
}

/* Is one set of series a copy of the other? Then nothing changed, under any circumstances. */
static bool is_copy(const struct bn_series_list *a, const struct bn_series_list *b)
{
    bool copy = a->n == b->n;
    for (size_t i = 0; i < a->n && copy; i++) {
        const struct bn_series *other = bn_series_find(b, a->list[i].test, a->list[i].metric);
        copy = other != NULL && are_the_same(&a->list[i], other);
    }
    return copy;
}

static void sum_up(struct bn_history_comparison *out, const struct bn_history_rules *rules, bool copy)
{
    bool any = false;
    out->worst = BN_OUTCOME_INCONCLUSIVE;
    for (size_t i = 0; i < out->n; i++) {
        struct bn_comparison *c = &out->list[i];
        double a, b;
        out->n_incomplete += isnan(c->j.change) ? 1 : 0;
        if (c->n_a == 0 || c->n_b == 0) continue;
        if (!copy || rules->in_turn) doubt(c, rules);
        bool judged = c->j.outcome != BN_OUTCOME_INCONCLUSIVE, timed = is_timed(c, rules) && !is_spread(c);
        out->n_judged += judged;
        out->n_timed += timed;
        out->n_timed_judged += timed && judged;
        bn_comparison_sides(c, &a, &b);
        if (c->j.outcome == BN_OUTCOME_REGRESSED)
            c->severity = bn_levels_severity(rules->levels, c->test, c->metric, c->higher, a, b);
        if (c->severity > out->severity) out->severity = c->severity;
        if (!any || c->j.outcome > out->worst) out->worst = c->j.outcome;
        any = true;
    }
}

bn_status bn_history_compare(struct bn_history_comparison *out, const struct bn_series_list *a,
                             const struct bn_series_list *b, const struct bn_history_rules *rules,
                             bn_error *err)
{
    *out = (struct bn_history_comparison){.list = bn_alloc(a->n + b->n, sizeof *out->list)};
    bn_status status = out->list != NULL ? BN_OK : bn_nomem(err);
    for (size_t i = 0; i < a->n + b->n && status == BN_OK; i++) {
        bool of_a = i < a->n;
        const struct bn_series *s = of_a ? &a->list[i] : &b->list[i - a->n];
        const struct bn_series *other = bn_series_find(of_a ? b : a, s->test, s->metric);
        if (s->neutral || (!of_a && other != NULL)) continue;
        out->n_missing += of_a && other == NULL;
        out->n_extra += !of_a;
        status = compare_one(&out->list[out->n++], of_a ? s : NULL, of_a ? other : s, rules, err);
    }
    if (status == BN_OK) status = judge_session(out, rules, err);
    if (status == BN_OK) sum_up(out, rules, is_copy(a, b));
    if (status != BN_OK) bn_history_release(out);
    return status;
}

void bn_history_release(struct bn_history_comparison *result)
{
    bn_free(result->list);
    *result = (struct bn_history_comparison){0};
}

/* SPDX-License-Identifier: MIT
 *
 * Compares two sets of series, each by statistics, by levels or exactly, and adds the result up.
 */
#include "lab/history/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "lab/stats/summary.h"

static double median_of(const struct bn_series *s)
{
    return s != NULL ? bn_median(s->samples, s->n) : (double)NAN;
}

/* Times and rates, which other work on the machine changes; memory and counts it does not. */
static bool is_timed(const struct bn_comparison *c)
{
    return !c->exact && !bn_comparison_is_memory(c) && strcmp(c->unit, "1") != 0;
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

static bn_status judge_samples(struct bn_comparison *c, const struct bn_series *a, const struct bn_series *b,
                               const struct bn_history_rules *rules, bn_error *err)
{
    double *costs = bn_alloc(a->n + b->n, sizeof *costs);
    if (costs == NULL) return bn_nomem(err);
    for (size_t i = 0; i < a->n; i++)
        costs[i] = bn_series_cost(a, a->samples[i]);
    for (size_t i = 0; i < b->n; i++)
        costs[a->n + i] = bn_series_cost(b, b->samples[i]);
    const struct bn_level *level = bn_levels_find(rules->levels, c->test, c->metric, c->higher);
    double drift = level != NULL ? fmax(rules->drift, level->drift) : rules->drift;
    struct bn_judge_rules judge = rules->judge;
    judge.higher = c->higher;
    bn_status status = bn_judge_samples(&c->j, costs, a->n, costs + a->n, b->n, drift, &judge, err);
    bn_free(costs);
    return status;
}

static bool are_the_same(const struct bn_series *a, const struct bn_series *b)
{
    return a->n == b->n && memcmp(a->samples, b->samples, a->n * sizeof *a->samples) == 0;
}

static void set_unchanged(struct bn_judgement *j, size_t n)
{
    bn_judge_none(j, "the same samples on both sides");
    j->outcome = BN_OUTCOME_STABLE;
    j->n = n;
    j->change = j->low = j->high = 0;
}

/* s is the series of either side; a side without it is NULL. statistics is set when bn_judge_session has to
 * correct the judgement. */
static bn_status compare_one(struct bn_comparison *c, const struct bn_series *s, const struct bn_series *a,
                             const struct bn_series *b, const struct bn_history_rules *rules,
                             bool *statistics, bn_error *err)
{
    *c = (struct bn_comparison){
        .test = s->test, .metric = s->metric, .unit = s->unit, .higher = s->higher, .exact = s->exact};
    c->n_a = a != NULL ? a->n : 0;
    c->n_b = b != NULL ? b->n : 0;
    c->median_a = median_of(a);
    c->median_b = median_of(b);
    *statistics = false;
    const struct bn_level *level = bn_levels_find(rules->levels, s->test, s->metric, s->higher);
    bool by_levels = rules->points || (level != NULL && level->absolute);
    if (b == NULL)
        bn_judge_none(&c->j, "missing in B");
    else if (a == NULL)
        bn_judge_none(&c->j, "only in B");
    else if (strcmp(a->unit, b->unit) != 0 || a->higher != b->higher || a->exact != b->exact)
        bn_judge_none(&c->j, "the units differ: %s and %s", a->unit, b->unit);
    else if (!s->exact && are_the_same(a, b))
        set_unchanged(&c->j, a->n);
    else if (!s->exact && !by_levels && a->n + b->n > 2)
        *statistics = true;
    else if (!s->exact || rules->points)
        judge_values(c, rules->levels);
    else if (!bn_all_equal(a->samples, a->n) || !bn_all_equal(b->samples, b->n))
        bn_judge_none(&c->j, "the samples of an exact series differ on one side");
    else
        bn_judge_exact(&c->j, c->median_a, c->median_b, c->higher);
    if (!*statistics) return BN_OK;
    BN_TRY(judge_samples(c, a, b, rules, err));
    if (!isnan(c->j.low)) return BN_OK;
    *statistics = false; /* too few samples for an interval */
    judge_values(c, rules->levels);
    return BN_OK;
}

/* Corrects the judgements by statistics for their number. */
static bn_status judge_session(struct bn_history_comparison *out, const bool *statistics,
                               const struct bn_history_rules *rules, bn_error *err)
{
    struct bn_judgement *list = bn_alloc(out->n, sizeof *list);
    if (list == NULL) return bn_nomem(err);
    size_t n = 0;
    for (size_t i = 0; i < out->n; i++)
        if (statistics[i]) list[n++] = out->list[i].j;
    bn_status status = n == 0 ? BN_OK : bn_judge_session(list, n, NULL, &rules->judge, err);
    for (size_t i = out->n; i-- > 0;)
        if (statistics[i]) out->list[i].j = list[--n];
    bn_free(list);
    return status;
}

static void withdraw(struct bn_judgement *j, const char *why)
{
    j->outcome = BN_OUTCOME_INCONCLUSIVE;
    j->n_needed = 0;
    snprintf(j->reason, sizeof j->reason, "%s", why);
}

/* Withdraws judgements of times that the circumstances of the sessions do not allow. */
static void doubt(struct bn_comparison *c, const struct bn_history_rules *rules)
{
    bool contended = rules->contended != NULL && rules->contended[0] != '\0';
    bool changed = c->j.outcome == BN_OUTCOME_REGRESSED || c->j.outcome == BN_OUTCOME_IMPROVED;
    if (c->exact || !is_timed(c)) return;
    if (contended)
        withdraw(&c->j, rules->contended);
    else if (changed && rules->same_program)
        withdraw(
            &c->j,
            "both runs are of the same program, byte for byte, so the difference is that of the machine");
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
    int worst = -1;
    out->worst = BN_OUTCOME_INCONCLUSIVE;
    for (size_t i = 0; i < out->n; i++) {
        struct bn_comparison *c = &out->list[i];
        double a, b;
        if (c->n_a == 0 || c->n_b == 0) continue;
        if (!copy) doubt(c, rules);
        bool judged = c->j.outcome != BN_OUTCOME_INCONCLUSIVE, timed = is_timed(c) && !is_spread(c);
        out->n_judged += judged;
        out->n_timed += timed;
        out->n_timed_judged += timed && judged;
        bn_comparison_sides(c, &a, &b);
        if (c->j.outcome == BN_OUTCOME_REGRESSED)
            c->severity = bn_levels_severity(rules->levels, c->test, c->metric, c->higher, a, b);
        if (c->severity > out->severity) out->severity = c->severity;
        if (bn_outcome_rank(c->j.outcome) <= worst) continue;
        worst = bn_outcome_rank(c->j.outcome);
        out->worst = c->j.outcome;
    }
}

bn_status bn_history_compare(struct bn_history_comparison *out, const struct bn_series_list *a,
                             const struct bn_series_list *b, const struct bn_history_rules *rules,
                             bn_error *err)
{
    *out = (struct bn_history_comparison){0};
    bool *statistics = bn_alloc(a->n + b->n, sizeof *statistics);
    out->list = bn_alloc(a->n + b->n, sizeof *out->list);
    bn_status status = BN_OK;
    if (statistics == NULL || out->list == NULL) status = bn_nomem(err);
    for (size_t i = 0; i < a->n && status == BN_OK; i++) {
        const struct bn_series *s = &a->list[i], *other = bn_series_find(b, s->test, s->metric);
        if (s->neutral) continue;
        out->n_missing += other == NULL;
        status = compare_one(&out->list[out->n], s, s, other, rules, &statistics[out->n], err);
        out->n++;
    }
    for (size_t i = 0; i < b->n && status == BN_OK; i++) {
        const struct bn_series *s = &b->list[i];
        if (s->neutral || bn_series_find(a, s->test, s->metric) != NULL) continue;
        out->n_extra++;
        status = compare_one(&out->list[out->n], s, NULL, s, rules, &statistics[out->n], err);
        out->n++;
    }
    if (status == BN_OK) status = judge_session(out, statistics, rules, err);
    if (status == BN_OK) sum_up(out, rules, is_copy(a, b));
    bn_free(statistics);
    if (status != BN_OK) bn_history_release(out);
    return status;
}

void bn_history_release(struct bn_history_comparison *result)
{
    bn_free(result->list);
    *result = (struct bn_history_comparison){0};
}

/* SPDX-License-Identifier: MIT
 *
 * See offline.h.
 */
#include "measure/offline.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "measure/summary.h"

static double median_of(const struct bn_series *s)
{
    struct bn_summary summary;
    return s != NULL && bn_summarize(&summary, s->samples, s->n) ? summary.median : (double)NAN;
}

static void set_inconclusive(struct bn_judgement *j, const char *fmt, ...) BN_PRINTF(2, 3);
static void set_inconclusive(struct bn_judgement *j, const char *fmt, ...)
{
    va_list list;
    const double none = (double)NAN;
    *j = (struct bn_judgement){
        .change = none, .low = none, .high = none, .p = none, .q = none, .agreement = none, .mde = none};
    va_start(list, fmt);
    vsnprintf(j->reason, sizeof j->reason, fmt, list);
    va_end(list);
}

/* Values without samples have no spread: how far they lie apart is all that can be said. */
static void judge_points(struct bn_comparison *c, const struct bn_levels *levels)
{
    double a = c->higher ? 1 / c->median_a : c->median_a, b = c->higher ? 1 / c->median_b : c->median_b;
    /* From the values themselves, so that a level is met exactly. */
    double worse = 100 * (c->higher ? c->median_a - c->median_b : c->median_b - c->median_a) / c->median_a;
    c->severity = bn_levels_severity(levels, c->test, c->metric, c->higher, worse);
    set_inconclusive(&c->j, "values without samples: %.1f %% %s, by the levels %s; statistics say nothing",
                     fabs(worse), worse > 0 ? "worse" : "better",
                     c->severity == BN_SEVERITY_CRITICAL  ? "critical"
                     : c->severity == BN_SEVERITY_WARNING ? "a warning"
                                                          : "no matter");
    c->j.change = b / a - 1;
    c->j.n = 1;
}

static bn_status judge_samples(struct bn_comparison *c, const struct bn_series *a, const struct bn_series *b,
                               const struct bn_offline_rules *rules, bn_error *err)
{
    double *costs = bn_alloc(a->n + b->n, sizeof *costs);
    if (costs == NULL) return bn_fail(err, BN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < a->n; i++)
        costs[i] = bn_series_cost(a, a->samples[i]);
    for (size_t i = 0; i < b->n; i++)
        costs[a->n + i] = bn_series_cost(b, b->samples[i]);
    bn_status status =
        bn_judge_samples(&c->j, costs, a->n, costs + a->n, b->n, rules->drift, &rules->judge, err);
    bn_free(costs);
    return status;
}

static bool all_equal(const struct bn_series *s)
{
    for (size_t i = 1; i < s->n; i++)
        if (s->samples[i] != s->samples[0]) return false;
    return true;
}

/* s is the series itself, from whichever side has it; the other side's is NULL. statistics is set for what
 * bn_judge_session has the last word on. */
static bn_status compare_one(struct bn_comparison *c, const struct bn_series *s, const struct bn_series *a,
                             const struct bn_series *b, const struct bn_offline_rules *rules,
                             bool *statistics, bn_error *err)
{
    *c = (struct bn_comparison){
        .test = s->test, .metric = s->metric, .unit = s->unit, .higher = s->higher, .exact = s->exact};
    c->n_a = a != NULL ? a->n : 0;
    c->n_b = b != NULL ? b->n : 0;
    c->median_a = median_of(a);
    c->median_b = median_of(b);
    *statistics = false;
    if (b == NULL)
        set_inconclusive(&c->j, "missing in B: nothing to compare with");
    else if (a == NULL)
        set_inconclusive(&c->j, "only in B: nothing to compare with");
    else if (strcmp(a->unit, b->unit) != 0 || a->higher != b->higher || a->exact != b->exact)
        set_inconclusive(&c->j, "the two sides do not mean the same: %s and %s", a->unit, b->unit);
    else if (rules->points)
        judge_points(c, rules->levels);
    else if (!s->exact)
        *statistics = true;
    else if (!all_equal(a) || !all_equal(b))
        set_inconclusive(&c->j, "should be the same each time, and is not on one side");
    else
        bn_judge_exact(&c->j, bn_series_cost(a, c->median_a), bn_series_cost(b, c->median_b), &rules->judge);
    return *statistics ? judge_samples(c, a, b, rules, err) : BN_OK;
}

/* The last word over those that statistics judged. */
static bn_status judge_session(struct bn_offline *out, const bool *statistics,
                               const struct bn_offline_rules *rules, bn_error *err)
{
    const char *contended = rules->contended != NULL && rules->contended[0] != '\0' ? rules->contended : NULL;
    struct bn_judgement *list = bn_alloc(out->n, sizeof *list);
    if (list == NULL) return bn_fail(err, BN_ERR_NOMEM, "out of memory");
    size_t n = 0;
    for (size_t i = 0; i < out->n; i++)
        if (statistics[i]) list[n++] = out->list[i].j;
    bn_status status = n == 0 ? BN_OK : bn_judge_session(list, n, contended, &rules->judge, err);
    for (size_t i = out->n; i-- > 0;)
        if (statistics[i]) out->list[i].j = list[--n];
    bn_free(list);
    return status;
}

static void sum_up(struct bn_offline *out, const struct bn_offline_rules *rules)
{
    static const int RANK[] = {[BN_OUTCOME_SAME] = 1,
                               [BN_OUTCOME_IMPROVED] = 2,
                               [BN_OUTCOME_INCONCLUSIVE] = 3,
                               [BN_OUTCOME_REGRESSED] = 4};
    int worst = 0;
    out->worst = BN_OUTCOME_INCONCLUSIVE;
    for (size_t i = 0; i < out->n; i++) {
        struct bn_comparison *c = &out->list[i];
        if (c->j.outcome == BN_OUTCOME_REGRESSED)
            c->severity = bn_levels_severity(rules->levels, c->test, c->metric, c->higher,
                                             bn_worse_percent(c->higher, c->j.change));
        if (c->severity > out->severity) out->severity = c->severity;
        if (c->n_a == 0 || c->n_b == 0 || RANK[c->j.outcome] <= worst) continue;
        worst = RANK[c->j.outcome];
        out->worst = c->j.outcome;
    }
}

bn_status bn_offline_compare(struct bn_offline *out, const struct bn_series_list *a,
                             const struct bn_series_list *b, const struct bn_offline_rules *rules,
                             bn_error *err)
{
    *out = (struct bn_offline){0};
    bool *statistics = bn_alloc(a->n + b->n, sizeof *statistics);
    out->list = bn_alloc(a->n + b->n, sizeof *out->list);
    bn_status status = BN_OK;
    if (statistics == NULL || out->list == NULL) status = bn_fail(err, BN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < a->n && status == BN_OK; i++) {
        const struct bn_series *s = &a->list[i], *other = bn_series_find(b, s->test, s->metric);
        out->n_missing += other == NULL;
        status = compare_one(&out->list[out->n], s, s, other, rules, &statistics[out->n], err);
        out->n++;
    }
    for (size_t i = 0; i < b->n && status == BN_OK; i++) {
        const struct bn_series *s = &b->list[i];
        if (bn_series_find(a, s->test, s->metric) != NULL) continue;
        out->n_extra++;
        status = compare_one(&out->list[out->n], s, NULL, s, rules, &statistics[out->n], err);
        out->n++;
    }
    if (status == BN_OK) status = judge_session(out, statistics, rules, err);
    if (status == BN_OK) sum_up(out, rules);
    bn_free(statistics);
    if (status != BN_OK) bn_offline_release(out);
    return status;
}

void bn_offline_release(struct bn_offline *result)
{
    bn_free(result->list);
    *result = (struct bn_offline){0};
}

/* SPDX-License-Identifier: MIT
 *
 * bn-bench ab: the verdicts of a session. Each series is judged over the rounds after the warm-up; a series
 * that lacks a value in any of them is INCONCLUSIVE.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/stats/summary.h"
#include "tools/bench/ab/session.h"

/* The accepted drift between the halves of a session. Pairs cancel a drift, but not any. */
#define DRIFT 0.10

/* Room for one number of each round and side. */
struct work {
    uint32_t n; /* rounds that count */
    double *value[BN_AB_SIDES];
    double *d, *null;
};

/* ---- the control ---- */

static bn_status judge_control(struct bn_ab_session *s, struct work *w, enum bn_ab_control k, bn_error *err)
{
    size_t n = 0, n_half[2] = {0, 0};
    double *half[2] = {w->value[BN_AB_A], w->value[BN_AB_B]};
    for (uint32_t r = 0; r < w->n; r++) {
        const struct bn_ab_slot *a = bn_ab_session_at(s, s->warmup + r, BN_AB_A);
        const struct bn_ab_slot *b = bn_ab_session_at(s, s->warmup + r, BN_AB_B);
        if (a == NULL || b == NULL) break;
        w->d[n++] = log(b->control_ns[k] / a->control_ns[k]);
        unsigned h = r >= w->n / 2;
        half[h][n_half[h]++] = sqrt(a->control_ns[k] * b->control_ns[k]);
    }
    BN_TRY(bn_judge_pairs(&s->control[k], w->d, n, NULL, 0, &s->rules, err));
    return bn_judge_samples(&s->drift[k], half[0], n_half[0], half[1], n_half[1], DRIFT, &s->rules, err);
}

static bool alarms(const struct bn_judgement *j)
{
    return j->outcome == BN_OUTCOME_REGRESSED || j->outcome == BN_OUTCOME_IMPROVED;
}

/* All four judgements of the control are one family of tests. */
static bn_status judge_controls(struct bn_ab_session *s, struct work *w, bn_error *err)
{
    struct bn_judgement all[2 * BN_AB_CONTROLS];
    for (int k = 0; k < BN_AB_CONTROLS; k++) {
        BN_TRY(judge_control(s, w, (enum bn_ab_control)k, err));
        all[k] = s->control[k];
        all[BN_AB_CONTROLS + k] = s->drift[k];
    }
    BN_TRY(bn_judge_session(all, BN_ARRAY_LEN(all), NULL, &s->rules, err));
    for (int k = 0; k < BN_AB_CONTROLS; k++) {
        const char *name = bn_ab_control_name((enum bn_ab_control)k);
        s->control[k] = all[k];
        s->drift[k] = all[BN_AB_CONTROLS + k];
        if (s->contaminated[0] != '\0') continue;
        if (alarms(&s->control[k]))
            snprintf(s->contaminated, sizeof s->contaminated,
                     "contaminated: the control (%s) took %+.1f %% next to B, compared with A", name,
                     100 * s->control[k].change);
        else if (alarms(&s->drift[k]))
            snprintf(
                s->contaminated, sizeof s->contaminated,
                "contaminated: the control (%s) took %+.1f %% in the second half, compared with the first",
                name, 100 * s->drift[k].change);
    }
    return BN_OK;
}

/* ---- one series ---- */

/* Collects the values of all sides and counts them. */
static void collect(const struct bn_ab_session *s, struct work *w, const struct bn_comparison *c,
                    size_t there[BN_AB_SIDES], bool *alike)
{
    *alike = true;
    for (int side = 0; side < BN_AB_SIDES; side++) {
        there[side] = 0;
        for (uint32_t r = 0; r < w->n; r++) {
            const struct bn_ab_slot *slot = bn_ab_session_at(s, s->warmup + r, (enum bn_ab_side)side);
            const struct bn_series *v =
                slot != NULL ? bn_series_find(&slot->values, c->test, c->metric) : NULL;
            if (v == NULL) continue;
            w->value[side][there[side]++] = v->samples[0];
            if (strcmp(v->unit, c->unit) != 0 || v->higher != c->higher || v->exact != c->exact)
                *alike = false;
        }
    }
}

/* Logarithms of the ratio of costs; the cost of a rate is its reciprocal. */
static void ratios(double *d, const double *a, const double *b, size_t n, bool higher)
{
    for (size_t i = 0; i < n; i++)
        d[i] = higher ? log(a[i] / b[i]) : log(b[i] / a[i]);
}

static bool positive(const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(values[i] > 0)) return false;
    return true;
}

static void set_incomplete(const struct bn_ab_session *s, struct bn_comparison *c, uint32_t n,
                           const size_t there[BN_AB_SIDES])
{
    const struct bn_ab_slot *stop = bn_ab_session_stop(s);
    char what[256];
    if (stop != NULL) {
        bn_ab_slot_describe(what, sizeof what, stop);
        bn_judge_none(&c->j, "%.199s", what);
    } else if (n == 0) {
        bn_judge_none(&c->j, "--max-time ended before a round that counts");
    } else if (c->n_a == 0 || c->n_b == 0) {
        bn_judge_none(&c->j, "command %s printed no such series", c->n_a == 0 ? "A" : "B");
    } else {
        bn_judge_none(&c->j, "of %u round%s, %zu of A and %zu of B have a value%s", n, n == 1 ? "" : "s",
                      there[BN_AB_A], there[BN_AB_B],
                      s->null && there[BN_AB_NULL] < n ? "; repeated runs of A lack some" : "");
    }
}

static bn_status judge_series(struct bn_ab_session *s, struct work *w, struct bn_comparison *c, bn_error *err)
{
    size_t there[BN_AB_SIDES];
    bool alike, null = s->null;
    const double *a = w->value[BN_AB_A], *b = w->value[BN_AB_B];
    struct bn_judge_rules rules = s->rules;
    const struct bn_level *level = bn_levels_find(&s->levels, c->test, c->metric, c->higher);
    rules.higher = c->higher;
    if (level != NULL) rules.margin = fmax(rules.margin, level->drift);
    collect(s, w, c, there, &alike);
    c->n_a = there[BN_AB_A];
    c->n_b = there[BN_AB_B];
    c->median_a = bn_median(a, c->n_a);
    c->median_b = bn_median(b, c->n_b);
    bool complete = w->n > 0 && c->n_a == w->n && c->n_b == w->n && (!null || there[BN_AB_NULL] == w->n);
    bool ratio =
        positive(a, c->n_a) && positive(b, c->n_b) && (!null || positive(w->value[BN_AB_NULL], w->n));
    if (complete && alike && c->exact && bn_all_equal(a, c->n_a) && bn_all_equal(b, c->n_b)) {
        bn_judge_exact(&c->j, *a, *b, c->higher);
        return BN_OK;
    }
    if (complete && alike && ratio) {
        ratios(w->d, a, b, w->n, c->higher);
        if (null) ratios(w->null, a, w->value[BN_AB_NULL], w->n, c->higher);
        return bn_judge_pairs(&c->j, w->d, w->n, null ? w->null : NULL, null ? w->n : 0, &rules, err);
    }
    s->n_incomplete++;
    if (!complete)
        set_incomplete(s, c, w->n, there);
    else
        bn_judge_none(&c->j, "%s",
                      alike ? "some values are 0, so there is no ratio"
                            : "A and B differ in its unit, direction or exactness");
    return BN_OK;
}

/* ---- all of them ---- */

static bool is_listed(const struct bn_ab_session *s, const struct bn_series *v)
{
    for (size_t i = 0; i < s->n_comparisons; i++)
        if (strcmp(s->comparisons[i].test, v->test) == 0 && strcmp(s->comparisons[i].metric, v->metric) == 0)
            return true;
    return false;
}

/* Every series that a run printed, in the order of first appearance. */
static bn_status list_series(struct bn_ab_session *s, bn_error *err)
{
    size_t room = 0;
    for (size_t i = 0; i < s->n_slots; i++) {
        const struct bn_ab_slot *slot = &s->slots[i];
        for (size_t k = 0; k < slot->values.n; k++) {
            const struct bn_series *v = &slot->values.list[k];
            if (is_listed(s, v)) continue;
            BN_TRY(bn_array_grow(&s->comparisons, &room, s->n_comparisons + 1, sizeof *s->comparisons, err));
            s->comparisons[s->n_comparisons++] = (struct bn_comparison){.test = v->test,
                                                                        .metric = v->metric,
                                                                        .unit = v->unit,
                                                                        .higher = v->higher,
                                                                        .exact = v->exact};
        }
    }
    return BN_OK;
}

static bn_status last_word(struct bn_ab_session *s, bn_error *err)
{
    struct bn_judgement *list = bn_alloc(s->n_comparisons, sizeof *list);
    if (list == NULL) return bn_nomem(err);
    for (size_t i = 0; i < s->n_comparisons; i++)
        list[i] = s->comparisons[i].j;
    bn_status status = bn_judge_session(list, s->n_comparisons, NULL, &s->rules, err);
    for (size_t i = 0; i < s->n_comparisons && status == BN_OK; i++) {
        struct bn_comparison *c = &s->comparisons[i];
        c->j = list[i];
        if (s->contaminated[0] == '\0' || isnan(c->j.p) || bn_comparison_is_memory(c)) continue;
        c->j.outcome = BN_OUTCOME_INCONCLUSIVE;
        c->j.n_needed = 0;
        bn_judge_reason(&c->j, "%s", s->contaminated);
    }
    bn_free(list);
    return status;
}

/* Metrics that every process has. */
static bool is_usage(const struct bn_comparison *c)
{
    static const char *const USAGE[] = {"wall_ns", "cpu_ns", "max_rss_bytes"};
    for (size_t i = 0; i < BN_ARRAY_LEN(USAGE); i++)
        if (strcmp(c->metric, USAGE[i]) == 0) return true;
    return false;
}

bn_status bn_ab_session_choose(struct bn_ab_session *s, const char *metric, bn_error *err)
{
    size_t n_primary = 0, n_printed = 0;
    for (size_t i = 0; i < s->n_comparisons; i++)
        n_printed += !is_usage(&s->comparisons[i]);
    for (size_t i = 0; i < s->n_comparisons; i++) {
        struct bn_comparison *c = &s->comparisons[i];
        bool primary = metric != NULL  ? strcmp(c->metric, metric) == 0
                       : n_printed > 0 ? !is_usage(c)
                                       : strcmp(c->metric, "wall_ns") == 0;
        c->secondary = !primary;
        n_primary += primary;
    }
    if (n_primary == 0 && metric != NULL && s->n_comparisons > 0)
        return bn_fail(err, BN_ERR_MISMATCH, "--metric: no series has the metric '%.60s'", metric);
    for (size_t i = 0; i < s->n_comparisons && n_primary == 0; i++)
        s->comparisons[i].secondary = false; /* --filter left only other metrics */
    return BN_OK;
}

bn_status bn_ab_session_judge(struct bn_ab_session *s, bn_error *err)
{
    uint32_t rounds = bn_ab_session_rounds(s);
    struct work w = {.n = rounds > s->warmup ? rounds - s->warmup : 0};
    double *room = bn_alloc((size_t)w.n * (BN_AB_SIDES + 2), sizeof *room);
    if (room == NULL) return bn_nomem(err);
    for (int side = 0; side < BN_AB_SIDES; side++)
        w.value[side] = room + (size_t)side * w.n;
    w.d = room + (size_t)BN_AB_SIDES * w.n;
    w.null = w.d + w.n;
    bn_status status = s->no_control ? BN_OK : judge_controls(s, &w, err);
    if (status == BN_OK) status = list_series(s, err);
    for (size_t i = 0; i < s->n_comparisons && status == BN_OK; i++)
        status = judge_series(s, &w, &s->comparisons[i], err);
    if (status == BN_OK) status = last_word(s, err);
    bn_free(room);
    return status;
}

/* SPDX-License-Identifier: MIT
 *
 * bn-bench trend: each series from run to run, and where it changed, as a document that bn-bench report shows. Runs
 * are taken in the order in which they were saved; runs with other settings or another model are a separate history.
 */
#define _POSIX_C_SOURCE 200809L /* fnmatch */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/stats/changepoint.h"
#include "lab/stats/comparison.h"
#include "tools/bench/history/history.h"
#include "tools/bench/report/report.h"

const struct bn_option bn_bench_trend_options[] = {
    BN_OPTION("suite", "only this suite: run, kernels", .arg = "NAME",
              BN_TO_TEXT(struct bn_bench_options, suite)),
    BN_OPTION("machine", "only this machine", .arg = "LABEL", BN_TO_TEXT(struct bn_bench_options, machine)),
    BN_OPTION("name", "only runs saved under this name", .arg = "NAME",
              BN_TO_TEXT(struct bn_bench_options, name)),
    BN_OPTION("test", "only tests that match", .arg = "PATTERN", .preset = "*",
              BN_TO_TEXT(struct bn_bench_options, test)),
    BN_OPTION("metric", "only metrics that match", .arg = "PATTERN", .preset = "*",
              BN_TO_TEXT(struct bn_bench_options, metric)),
    BN_OPTION("last", "use at most the newest N runs", .arg = "N", .preset = "200",
              BN_TO_U32(struct bn_bench_options, last, 1, BN_CHANGEPOINT_SAMPLES_MAX)),
    BN_OPTION("least", "least number of runs on each side of a change, 3 or more", .arg = "N", .preset = "5",
              BN_TO_U32(struct bn_bench_options, least, BN_CHANGEPOINT_LEAST, 1000)),
    BN_OPTION("margin", "a change that does not matter", .rare = true, .arg = "PERCENT", .preset = "1",
              BN_TO_F64(struct bn_bench_options, margin, 0, 1000)),
    {0},
};

/* A run with its samples. */
struct point {
    const struct bn_entry *entry;
    struct bn_series_list series;
};

/* One series over the runs that have it. */
struct history {
    const struct bn_series *series; /* of the first of them */
    const struct bn_entry **runs;
    struct bn_interval *medians; /* in its unit */
    double *logs;                /* logarithms of costs */
    size_t n;
};

struct trend {
    const struct bn_bench_options *o;
    bn_json *array;
};

/* ---- one history ---- */

static const char *known(const char *text)
{
    return text[0] != '\0' ? text : "unknown";
}

/* The change of the figure, in which the shift of a cost's logarithm of a rate has the other sign. */
static struct bn_interval figure_of(const struct history *h, const struct bn_changepoint *c)
{
    bool higher = h->series->higher;
    return (struct bn_interval){.estimate = bn_judge_turn(expm1(c->shift.estimate), higher),
                                .low = bn_judge_turn(expm1(higher ? c->shift.high : c->shift.low), higher),
                                .high = bn_judge_turn(expm1(higher ? c->shift.low : c->shift.high), higher)};
}

static void put_change(bn_json *array, const struct bn_ledger *l, const struct history *h,
                       const struct bn_changepoint *c)
{
    /* The last run that is surely before the change, and the first that is surely after it. */
    const struct bn_entry *before = h->runs[c->low > 0 ? c->low - 1 : 0],
                          *after = h->runs[c->high < h->n ? c->high : h->n - 1];
    bool two = before->commit[0] != '\0' && after->commit[0] != '\0' &&
               strcmp(before->commit, after->commit) != 0 && strcmp(l->suite, "cmd") != 0;
    char confirm[96];
    struct bn_interval of = figure_of(h, c);
    bn_json *o = bn_json_add_object(array);
    bn_json_put_object(o, "unavailable");
    BN_PUT_COUNTS(o, {"at", c->at}, {"at_low", c->low}, {"at_high", c->high}, {"n_before", c->n_before},
                  {"n_after", c->n_after});
    BN_PUT_STRINGS(o, {"date", known(h->runs[c->at]->created)}, {"commit_before", known(before->commit)},
                   {"commit_behind", known(after->commit)});
    bn_json_put_finite(o, "p", c->p, "exact values are not tested");
    bn_json_put_number(o, "change", of.estimate);
    bn_json_put_finite(o, "change_low", of.low, "too few runs for an interval");
    bn_json_put_finite(o, "change_high", of.high, "too few runs for an interval");
    snprintf(confirm, sizeof confirm, "ci/bench-gate.sh %.12s %.12s", before->commit, after->commit);
    bn_json_put_known(o, "confirm", two ? confirm : "", "the runs do not name two commits of bn");
}

static bn_json *put_history(const struct trend *t, const struct bn_ledger *l, const struct history *h)
{
    bn_json *o = bn_json_add_object(t->array);
    BN_PUT_STRINGS(o, {"machine", l->machine_label}, {"suite", l->suite},
                   {"settings_sha256", h->runs[0]->like.settings});
    bn_json_put_object(o, "unavailable");
    bn_json_put_known(o, "model_sha256", h->runs[0]->like.model, "the runs name no model");
    BN_PUT_STRINGS(o, {"test", h->series->test}, {"metric", h->series->metric}, {"unit", h->series->unit},
                   {"better", h->series->higher ? "higher" : "lower"});
    bn_json *points = bn_json_put_array(o, "points");
    for (size_t i = 0; i < h->n; i++) {
        bn_json *p = bn_json_add_object(points);
        BN_PUT_STRINGS(p, {"id", h->runs[i]->id}, {"created", known(h->runs[i]->created)},
                       {"commit", known(h->runs[i]->commit)},
                       {"state", bn_entry_state_name(h->runs[i]->state)});
        bn_json_put_number(p, "median", h->medians[i].estimate);
        if (!isfinite(h->medians[i].low) || !isfinite(h->medians[i].high)) continue;
        bn_json_put_number(p, "low", h->medians[i].low);
        bn_json_put_number(p, "high", h->medians[i].high);
    }
    return bn_json_put_array(o, "changes");
}

/* Of exact values every difference is a change. */
static bn_status find_exact(struct bn_changepoint **out, size_t *n_found, const struct history *h,
                            bn_error *err)
{
    struct bn_changepoint *list = bn_alloc(h->n, sizeof *list);
    size_t n = 0, since = 0;
    if (list == NULL) return bn_nomem(err);
    for (size_t i = 1; i < h->n; i++) {
        if (h->medians[i].estimate >= h->medians[i - 1].estimate &&
            h->medians[i].estimate <= h->medians[i - 1].estimate)
            continue;
        double shift = h->logs[i] - h->logs[i - 1];
        if (n > 0) list[n - 1].n_after = i - since;
        list[n] = (struct bn_changepoint){
            .at = i, .low = i, .high = i, .p = (double)NAN, .n_before = i - since, .n_after = h->n - i};
        list[n++].shift = (struct bn_interval){.estimate = shift, .low = shift, .high = shift};
        since = i;
    }
    *out = list;
    *n_found = n;
    return BN_OK;
}

static bn_status add_history(struct trend *t, const struct bn_ledger *l, const struct history *h,
                             bn_error *err)
{
    struct bn_changepoint *list = NULL;
    size_t n_found = 0;
    bool exact = h->series->exact;
    BN_TRY(exact ? find_exact(&list, &n_found, h, err)
                 : bn_changepoints(&list, &n_found, h->logs, h->n, t->o->least, err));
    bn_json *changes = put_history(t, l, h);
    for (size_t i = 0; i < n_found; i++)
        if (exact || fabs(expm1(list[i].shift.estimate)) > t->o->margin / 100)
            put_change(changes, l, h, &list[i]);
    bn_free(list);
    return BN_OK;
}

/* ---- the histories of a ledger ---- */

/* Collects a series over the points; an exact zero, which has no logarithm, is left out. */
static bn_status gather(struct history *h, const struct point *points, size_t n,
                        const struct bn_series *series, bn_error *err)
{
    h->series = series;
    h->n = 0;
    for (size_t i = 0; i < n; i++) {
        const struct bn_series *s = bn_series_find(&points[i].series, series->test, series->metric);
        struct bn_interval *m = &h->medians[h->n];
        if (s == NULL) continue;
        BN_TRY(bn_interval_median(m, s->samples, s->n, 0.95, err));
        if (!(m->estimate > 0)) continue;
        h->runs[h->n] = points[i].entry;
        h->logs[h->n++] = log(bn_series_cost(s, m->estimate));
    }
    return BN_OK;
}

static bool seen_before(const struct point *points, size_t n, const struct bn_series *s)
{
    for (size_t i = 0; i < n; i++)
        if (bn_series_find(&points[i].series, s->test, s->metric) != NULL) return true;
    return false;
}

static bn_status add_line(struct trend *t, const struct bn_ledger *l, const struct point *points, size_t n,
                          struct history *h, bn_error *err)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < points[i].series.n; k++) {
            const struct bn_series *s = &points[i].series.list[k];
            if (s->neutral || fnmatch(t->o->test, s->test, 0) != 0 ||
                fnmatch(t->o->metric, s->metric, 0) != 0 || seen_before(points, i, s))
                continue;
            BN_TRY(gather(h, points, n, s, err));
            if (h->n > 0) BN_TRY(add_history(t, l, h, err));
        }
    return BN_OK;
}

/* Whether two runs belong to one history: they are alike, and of the name that is asked for. */
static bool same_line(const struct trend *t, const struct bn_entry *a, const struct bn_entry *b)
{
    const char *name = t->o->name;
    return strcmp(a->like.settings, b->like.settings) == 0 && strcmp(a->like.model, b->like.model) == 0 &&
           (name == NULL || strcmp(name, b->name) == 0);
}

/* The history of the entry `first`, from its newest runs; nothing when an earlier entry belongs to it. */
static bn_status add_line_of(struct trend *t, const struct bn_ledger *l, size_t first, struct point *points,
                             struct history *h, bn_error *err)
{
    size_t n_line = 0, n = 0;
    bn_status status = BN_OK;
    if (!same_line(t, &l->entries[first], &l->entries[first])) return BN_OK;
    for (size_t i = 0; i < l->n; i++) {
        if (!same_line(t, &l->entries[first], &l->entries[i])) continue;
        if (i < first) return BN_OK;
        n_line++;
    }
    for (size_t i = first; i < l->n && status == BN_OK; i++) {
        if (!same_line(t, &l->entries[first], &l->entries[i]) || n_line-- > t->o->last) continue;
        points[n].entry = &l->entries[i];
        status = bn_series_read(&points[n++].series, l->entries[i].json, err);
    }
    if (status == BN_OK) status = add_line(t, l, points, n, h, err);
    for (size_t i = 0; i < n; i++)
        bn_series_release(&points[i].series);
    return status;
}

static bn_status add_ledger(struct trend *t, const struct bn_ledger *l, bn_error *err)
{
    struct point *points = bn_alloc(l->n, sizeof *points);
    struct history h = {.runs = bn_alloc(l->n, sizeof *h.runs)};
    h.medians = bn_alloc(l->n, sizeof *h.medians);
    h.logs = bn_alloc(l->n, sizeof *h.logs);
    bn_status status = BN_OK;
    if (points == NULL || h.runs == NULL || h.medians == NULL || h.logs == NULL) status = bn_nomem(err);
    for (size_t i = 0; i < l->n && status == BN_OK; i++)
        status = add_line_of(t, l, i, points, &h, err);
    bn_free(points);
    bn_free(h.runs);
    bn_free(h.medians);
    bn_free(h.logs);
    return status;
}

bn_status bn_bench_trend(struct bn_args *args, bn_error *err)
{
    bn_json *doc = bn_bench_document("trend", NULL);
    struct trend t = {.o = args->fields, .array = bn_json_put_array(doc, "histories")};
    struct bn_ledgers all = {0};
    bn_status status = bn_ledgers_open(&all, t.o->ledger, t.o->machine, t.o->suite, err);
    for (size_t i = 0; i < all.n && status == BN_OK; i++)
        status = add_ledger(&t, &all.list[i], err);
    bn_ledgers_close(&all);
    if (status == BN_OK && bn_json_size(t.array) == 0)
        status = bn_hint(bn_fail(err, BN_ERR_MISMATCH, "no saved run has a matching series"), err,
                         "bn-bench baseline save NAME RUN.json saves a run");
    if (status == BN_OK && !args->json) return bn_report_print(doc, "trend", err);
    if (status == BN_OK) status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    return status;
}

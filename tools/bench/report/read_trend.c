/* SPDX-License-Identifier: MIT
 *
 * Reads series over time: from a ledger, where runs with the same name, settings and model form a trend that
 * is searched for changes of its level; or from the histories that bn-bench trend wrote.
 */
#include <math.h>

#include "base/error.h"
#include "lab/stats/changepoint.h"
#include "tools/bench/report/report.h"

#define MARGIN 0.01 /* smaller changes do not matter, as in bn-bench trend */

static bool same(const struct bn_report_trend *a, const struct bn_report_trend *b)
{
    return a->source == b->source && strcmp(a->name, b->name) == 0 && strcmp(a->settings, b->settings) == 0 &&
           strcmp(a->model, b->model) == 0 && strcmp(a->test, b->test) == 0 &&
           strcmp(a->metric, b->metric) == 0;
}

/* The trend that is like this one, or a new one. */
static struct bn_report_trend *trend_of(struct bn_report *r, const struct bn_report_trend *like)
{
    void *element;
    for (size_t i = 0; i < r->n_trends; i++)
        if (same(&r->trends[i], like)) return &r->trends[i];
    struct bn_report_trend *t = BN_REPORT_APPEND(r->trends, r->n_trends);
    if (t != NULL) *t = *like;
    return t;
}

static bn_status add_moment(struct bn_report_trend *t, const struct bn_report_moment *moment, bn_error *err)
{
    void *element;
    struct bn_report_moment *m = BN_REPORT_APPEND(t->moments, t->n);
    if (m == NULL) return bn_nomem(err);
    *m = *moment;
    return BN_OK;
}

static bn_status add_change(struct bn_report_trend *t, const struct bn_report_change *change, bn_error *err)
{
    void *element;
    struct bn_report_change *c = BN_REPORT_APPEND(t->changes, t->n_changes);
    if (c == NULL) return bn_nomem(err);
    *c = *change;
    return BN_OK;
}

/* ---- a ledger ---- */

/* Texts come from the document: those of the list of series are released with the list. */
static bn_status add_run(struct bn_report *r, const struct bn_report_source *source, const bn_json *record,
                         const struct bn_series_list *series, bn_error *err)
{
    const bn_json *e = bn_json_first(bn_json_get(record, "series"));
    for (size_t i = 0; i < series->n && e != NULL; i++, e = bn_json_next(e)) {
        struct bn_report_series s = {.s = &series->list[i], .source = source};
        struct bn_report_trend like = {.source = source,
                                       .name = bn_json_text_of(record, "name"),
                                       .settings = bn_json_text_of(record, "settings_sha256"),
                                       .model = bn_json_text_of(record, "model_sha256"),
                                       .test = bn_json_text_of(e, "test"),
                                       .metric = bn_json_text_of(e, "metric"),
                                       .unit = bn_json_text_of(e, "unit"),
                                       .higher = s.s->higher};
        struct bn_report_trend *t = trend_of(r, &like);
        if (t == NULL) return bn_nomem(err);
        BN_TRY(bn_report_figures(&s, err));
        struct bn_report_moment m = {.commit = bn_json_text_of(record, "commit"),
                                     .created = bn_json_text_of(record, "created"),
                                     .n = s.s->n,
                                     .median = s.figure[BN_FIGURE_MEDIAN],
                                     .low = s.figure[BN_FIGURE_LOW],
                                     .high = s.figure[BN_FIGURE_HIGH]};
        (void)bn_json_bool(bn_json_get(record, "dirty"), &m.dirty);
        BN_TRY(add_moment(t, &m, err));
    }
    return BN_OK;
}

/* Searches the logarithms of the costs, as bn-bench trend does. */
static bn_status find_changes(struct bn_report_trend *t, bn_error *err)
{
    struct bn_changepoint_rules rules = BN_CHANGEPOINT_RULES_INIT;
    struct bn_changepoint *list = NULL;
    size_t n = 0;
    double *logs = bn_alloc(t->n, sizeof *logs);
    bn_status status = logs != NULL ? BN_OK : bn_nomem(err);
    bool positive = true;
    for (size_t i = 0; i < t->n && status == BN_OK; i++) {
        positive = positive && t->moments[i].median > 0;
        logs[i] = positive ? log(t->moments[i].median) * (t->higher ? -1 : 1) : 0;
    }
    if (status == BN_OK && positive && t->n <= BN_CHANGEPOINT_SAMPLES_MAX)
        status = bn_changepoints(&list, &n, logs, t->n, &rules, err);
    for (size_t i = 0; i < n && status == BN_OK; i++) {
        struct bn_report_change c = {list[i].at, list[i].p,
                                     bn_judge_turn(expm1(list[i].shift.estimate), t->higher)};
        if (fabs(c.change) > MARGIN) status = add_change(t, &c, err);
    }
    bn_free(list);
    bn_free(logs);
    return status;
}

bn_status bn_report_read_ledger(struct bn_report *r, const struct bn_report_source *source, bn_error *err)
{
    const bn_json *records = bn_json_get(source->doc, "records");
    size_t first = r->n_trends;
    if (bn_json_kind(records) != BN_JSON_ARRAY)
        return bn_fail(err, BN_ERR_FORMAT, "the ledger has no list 'records'");
    for (const bn_json *e = bn_json_first(records); e != NULL; e = bn_json_next(e)) {
        struct bn_series_list series = {0};
        if (strcmp(bn_json_text_of(e, "kind"), "run") != 0) continue;
        bn_status status = bn_series_read(&series, e, err);
        if (status == BN_OK) status = add_run(r, source, e, &series, err);
        bn_series_release(&series);
        if (status != BN_OK) return status;
    }
    if (r->n_trends == first)
        return bn_fail(err, BN_ERR_MISMATCH, "nothing was measured: the ledger has no runs");
    for (size_t i = first; i < r->n_trends; i++)
        BN_TRY(find_changes(&r->trends[i], err));
    return BN_OK;
}

/* ---- histories of bn-bench trend ---- */

static bn_status read_history(struct bn_report *r, const struct bn_report_source *source,
                              const bn_json *history, bn_error *err)
{
    void *element;
    struct bn_report_trend *t = BN_REPORT_APPEND(r->trends, r->n_trends);
    if (t == NULL) return bn_nomem(err);
    *t = (struct bn_report_trend){.source = source,
                                  .name = "",
                                  .settings = bn_json_text_of(history, "settings_sha256"),
                                  .model = bn_json_text_of(history, "model_sha256"),
                                  .test = bn_json_text_of(history, "test"),
                                  .metric = bn_json_text_of(history, "metric"),
                                  .unit = bn_json_text_of(history, "unit"),
                                  .higher = strcmp(bn_json_text_of(history, "better"), "higher") == 0};
    const bn_json *points = bn_json_get(history, "points"), *changes = bn_json_get(history, "changes");
    for (const bn_json *e = bn_json_first(points); e != NULL; e = bn_json_next(e)) {
        struct bn_report_moment m = {.commit = bn_json_text_of(e, "commit"),
                                     .created = bn_json_text_of(e, "created"),
                                     .low = (double)NAN,
                                     .high = (double)NAN};
        if (!bn_json_number(bn_json_get(e, "median"), &m.median))
            return bn_fail(err, BN_ERR_FORMAT, "a point of '%s' of '%s' has no median", t->metric, t->test);
        BN_TRY(add_moment(t, &m, err));
    }
    if (t->n == 0)
        return bn_fail(err, BN_ERR_FORMAT, "the history of '%s' of '%s' has no points", t->metric, t->test);
    for (const bn_json *e = bn_json_first(changes); e != NULL; e = bn_json_next(e)) {
        struct bn_report_change c = {0, (double)NAN, (double)NAN};
        uint64_t at = SIZE_MAX;
        (void)bn_json_u64(bn_json_get(e, "at"), &at);
        (void)bn_json_number(bn_json_get(e, "p"), &c.p);
        if (at >= t->n || !bn_json_number(bn_json_get(e, "change"), &c.change))
            return bn_fail(err, BN_ERR_FORMAT, "a change of '%s' of '%s' is malformed", t->metric, t->test);
        c.at = (size_t)at;
        BN_TRY(add_change(t, &c, err));
    }
    return BN_OK;
}

bn_status bn_report_read_trend(struct bn_report *r, const struct bn_report_source *source, bn_error *err)
{
    const bn_json *histories = bn_json_get(source->doc, "histories");
    if (bn_json_kind(histories) != BN_JSON_ARRAY)
        return bn_fail(err, BN_ERR_FORMAT, "'histories' is not a list");
    if (bn_json_size(histories) == 0)
        return bn_fail(err, BN_ERR_MISMATCH, "nothing was measured: there are no histories");
    for (const bn_json *e = bn_json_first(histories); e != NULL; e = bn_json_next(e))
        BN_TRY(read_history(r, source, e, err));
    return BN_OK;
}

/* SPDX-License-Identifier: MIT
 *
 * Reads series over time: the histories that bn-bench trend wrote.
 */
#include <stdio.h>

#include "base/error.h"
#include "tools/bench/report/report.h"

static bn_status read_history(struct bn_report *r, const struct bn_report_source *source,
                              const bn_json *history, bn_error *err)
{
    void *element;
    struct bn_report_trend *t = BN_REPORT_APPEND(r->trends, r->n_trends);
    if (t == NULL) return bn_nomem(err);
    *t = (struct bn_report_trend){.source = source,
                                  .test = bn_json_text_of(history, "test"),
                                  .metric = bn_json_text_of(history, "metric"),
                                  .unit = bn_json_text_of(history, "unit"),
                                  .higher = strcmp(bn_json_text_of(history, "better"), "higher") == 0};
    snprintf(t->runs, sizeof t->runs, "%.20s of %.60s, settings %.12s", bn_json_text_of(history, "suite"),
             bn_json_text_of(history, "machine"), bn_json_text_of(history, "settings_sha256"));
    const bn_json *points = bn_json_get(history, "points"), *changes = bn_json_get(history, "changes");
    for (const bn_json *e = bn_json_first(points); e != NULL; e = bn_json_next(e)) {
        struct bn_report_moment *m = BN_REPORT_APPEND(t->moments, t->n);
        if (m == NULL) return bn_nomem(err);
        *m = (struct bn_report_moment){.commit = bn_json_text_of(e, "commit"),
                                       .created = bn_json_text_of(e, "created"),
                                       .low = bn_json_number_of(e, "low"),
                                       .high = bn_json_number_of(e, "high")};
        if (!bn_json_number(bn_json_get(e, "median"), &m->median))
            return bn_fail(err, BN_ERR_FORMAT, "a point of '%s' of '%s' has no median", t->metric, t->test);
    }
    if (t->n == 0)
        return bn_fail(err, BN_ERR_FORMAT, "the history of '%s' of '%s' has no points", t->metric, t->test);
    for (const bn_json *e = bn_json_first(changes); e != NULL; e = bn_json_next(e)) {
        struct bn_report_change *c = BN_REPORT_APPEND(t->changes, t->n_changes);
        uint64_t at = SIZE_MAX;
        if (c == NULL) return bn_nomem(err);
        (void)bn_json_u64(bn_json_get(e, "at"), &at);
        if (at >= t->n || !bn_json_number(bn_json_get(e, "change"), &c->change))
            return bn_fail(err, BN_ERR_FORMAT, "a change of '%s' of '%s' is malformed", t->metric, t->test);
        c->at = (size_t)at;
        c->confirm = bn_json_text_of(e, "confirm");
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

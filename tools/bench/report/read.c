/* SPDX-License-Identifier: MIT
 *
 * Reads documents of bn-bench and bn-crossval into a report. A document without measurements fails with
 * BN_ERR_MISMATCH (no data), a document that cannot be understood with BN_ERR_FORMAT.
 */
#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "lab/stats/interval.h"
#include "lab/stats/summary.h"
#include "tools/bench/bench.h"
#include "tools/bench/report/report.h"

/* Makes room for another element of a list of the report. */
#define ROOM_FOR_ONE(r, list) \
    bn_array_grow(&(r)->list, &(r)->room_of_##list, (r)->n_##list + 1, sizeof *(r)->list, err)

/* ---- a document of measurements ---- */

static bn_status read_figures(struct bn_report_series *r, bn_error *err)
{
    static const struct {
        enum bn_figure figure;
        double p;
    } QUANTILES[] = {{BN_FIGURE_P5, 0.05}, {BN_FIGURE_P95, 0.95}, {BN_FIGURE_P99, 0.99}};
    const struct bn_series *s = r->s;
    struct bn_summary sum;
    struct bn_tukey fences;
    struct bn_interval interval = {.low = (double)NAN, .high = (double)NAN};
    if (!bn_summarize(&sum, s->samples, s->n) || !bn_tukey(&fences, s->samples, s->n)) return bn_nomem(err);
    if (!s->exact) BN_TRY(bn_interval_median(&interval, s->samples, s->n, 0.95, err));
    const double figures[] = {
        [BN_FIGURE_MEDIAN] = sum.median,
        [BN_FIGURE_LOW] = interval.low,
        [BN_FIGURE_HIGH] = interval.high,
        [BN_FIGURE_MIN] = sum.min,
        [BN_FIGURE_MAX] = sum.max,
        [BN_FIGURE_MAD] = sum.mad,
        [BN_FIGURE_Q1] = s->n >= 4 ? fences.q1 : (double)NAN,
        [BN_FIGURE_Q3] = s->n >= 4 ? fences.q3 : (double)NAN,
        [BN_FIGURE_P99] = 0,
    };
    memcpy(r->figure, figures, sizeof figures);
    for (size_t i = 0; i < BN_ARRAY_LEN(QUANTILES); i++)
        if (!bn_quantile(&r->figure[QUANTILES[i].figure], s->samples, s->n, QUANTILES[i].p))
            r->figure[QUANTILES[i].figure] = (double)NAN;
    r->n_outliers = fences.n_outliers;
    r->correlation = bn_autocorrelation(s->samples, s->n);
    return BN_OK;
}

static bn_status read_series(struct bn_report *r, struct bn_report_source *source, bn_error *err)
{
    BN_TRY(bn_series_read(&source->series, source->doc, err));
    for (size_t i = 0; i < source->series.n; i++) {
        BN_TRY(ROOM_FOR_ONE(r, series));
        struct bn_report_series *s = &r->series[r->n_series++];
        s->s = &source->series.list[i];
        s->source = source;
        BN_TRY(read_figures(s, err));
    }
    return BN_OK;
}

static bn_status read_comparisons(struct bn_report *r, const struct bn_report_source *source, bn_error *err)
{
    const bn_json *list = bn_json_get(source->doc, "comparisons");
    for (const bn_json *e = bn_json_first(list); e != NULL; e = bn_json_next(e)) {
        BN_TRY(ROOM_FOR_ONE(r, comparisons));
        struct bn_comparison *c = &r->comparisons[r->n_comparisons++];
        BN_TRY(bn_comparison_read(c, e, err));
        if (r->n_sources > 1) c->document = source->label;
    }
    return BN_OK;
}

/* Kernels: tests that count the bytes of a call, and have a series of its times. */
static bn_status read_points(struct bn_report *r, const struct bn_report_source *source, bn_error *err)
{
    const bn_json *tests = bn_json_get(source->doc, "tests");
    for (size_t i = 0; i < r->n_series; i++) {
        const struct bn_report_series *times = &r->series[i];
        const bn_json *e = bn_json_find(tests, "name", times->s->test);
        if (times->source != source || strcmp(times->s->metric, "ns_per_call") != 0 ||
            bn_json_text_of(e, "kernel")[0] == '\0' || !(bn_json_number_of(e, "bytes") > 0))
            continue;
        BN_TRY(ROOM_FOR_ONE(r, points));
        struct bn_report_point *p = &r->points[r->n_points++];
        double ns = times->figure[BN_FIGURE_MEDIAN];
        *p = (struct bn_report_point){.source = source,
                                      .kernel = bn_json_text_of(e, "kernel"),
                                      .shape = bn_json_text_of(e, "shape"),
                                      .limit = bn_json_text_of(e, "limit"),
                                      .threads = bn_json_count_of(e, "threads"),
                                      .macs = bn_json_number_of(e, "macs"),
                                      .bytes = bn_json_number_of(e, "bytes"),
                                      .ns = ns,
                                      .low = times->figure[BN_FIGURE_LOW],
                                      .high = times->figure[BN_FIGURE_HIGH],
                                      .share = bn_json_number_of(e, "limit_ns") / ns};
    }
    return BN_OK;
}

static bn_status read_measurements(struct bn_report *r, struct bn_report_source *source, bn_error *err)
{
    const bn_json *series = bn_json_get(source->doc, "series");
    const bn_json *comparisons = bn_json_get(source->doc, "comparisons");
    if (series == NULL && comparisons == NULL)
        return bn_fail(err, BN_ERR_FORMAT, "the document has neither series nor comparisons");
    if (bn_json_size(series) + bn_json_size(comparisons) == 0)
        return bn_fail(err, BN_ERR_MISMATCH, "nothing was measured: there are no series and no comparisons");
    if (bn_json_size(series) > 0) BN_TRY(read_series(r, source, err));
    BN_TRY(read_comparisons(r, source, err));
    return read_points(r, source, err);
}

/* ---- a profile ---- */

static int by_time(const void *a, const void *b)
{
    const struct bn_report_brick *x = a, *y = b;
    return (x->ns < y->ns) - (x->ns > y->ns);
}

/* The bricks of a profile, and one entry for the unattributed time of its threads. */
static bn_status read_profile(struct bn_report *r, struct bn_report_source *source, bn_error *err)
{
    const bn_json *list = bn_json_path(source->doc, "profile.summary.bricks"), *e = bn_json_first(list);
    const bn_json *threads = bn_json_path(source->doc, "profile.summary.threads");
    size_t first = r->n_bricks;
    double all = 0;
    if (bn_json_kind(list) != BN_JSON_ARRAY || bn_json_kind(threads) != BN_JSON_ARRAY)
        return bn_fail(err, BN_ERR_FORMAT, "the profile has no summary of bricks and threads");
    for (bool rest = false; !rest; e = bn_json_next(e)) {
        rest = e == NULL;
        if (!rest && bn_json_count_of(e, "count") == 0) continue;
        BN_TRY(ROOM_FOR_ONE(r, bricks));
        struct bn_report_brick *b = &r->bricks[r->n_bricks++];
        *b = (struct bn_report_brick){.source = source,
                                      .name = rest ? "unattributed" : bn_json_text_of(e, "name"),
                                      .category = bn_json_text_of(e, "category"),
                                      .count = bn_json_count_of(e, "count"),
                                      .ns = rest ? 0 : bn_json_number_of(e, "exclusive_ns")};
        for (const bn_json *t = bn_json_first(threads); t != NULL && rest; t = bn_json_next(t))
            b->ns += bn_json_number_of(t, "unattributed_ns");
        if (b->name[0] == '\0' || !(b->ns >= 0))
            return bn_fail(err, BN_ERR_FORMAT, "a brick or thread of the profile has no name or no time");
        all += b->ns;
        if (rest) break;
    }
    if (r->n_bricks == first + 1) return bn_fail(err, BN_ERR_MISMATCH, "nothing was measured: no brick ran");
    for (size_t i = first; i < r->n_bricks; i++)
        r->bricks[i].share = all > 0 ? r->bricks[i].ns / all : (double)NAN;
    qsort(r->bricks + first, r->n_bricks - first, sizeof *r->bricks, by_time);
    /* Profiles of bn-run have no series. */
    return bn_json_size(bn_json_get(source->doc, "series")) > 0 ? read_series(r, source, err) : BN_OK;
}

/* ---- series over time ---- */

static bn_status read_trends(struct bn_report *r, const struct bn_report_source *source, bn_error *err)
{
    const bn_json *histories = bn_json_get(source->doc, "histories");
    if (bn_json_size(histories) == 0)
        return bn_fail(err, BN_ERR_MISMATCH, "nothing was measured: there are no histories");
    for (const bn_json *e = bn_json_first(histories); e != NULL; e = bn_json_next(e)) {
        BN_TRY(ROOM_FOR_ONE(r, trends));
        struct bn_report_trend *t = &r->trends[r->n_trends++];
        const bn_json *points = bn_json_get(e, "points"), *changes = bn_json_get(e, "changes");
        *t = (struct bn_report_trend){source, e, bn_json_size(points)};
        bool good = t->n > 0;
        for (const bn_json *p = bn_json_first(points); p != NULL; p = bn_json_next(p))
            good = good && isfinite(bn_json_number_of(p, "median"));
        for (const bn_json *c = bn_json_first(changes); c != NULL; c = bn_json_next(c))
            good = good && bn_json_get(c, "at") != NULL && bn_json_count_of(c, "at") < t->n &&
                   isfinite(bn_json_number_of(c, "change"));
        if (!good)
            return bn_fail(err, BN_ERR_FORMAT, "the history of '%s' of '%s' is malformed",
                           bn_json_text_of(e, "metric"), bn_json_text_of(e, "test"));
    }
    return BN_OK;
}

/* ---- a comparison with other engines ---- */

/* The results of a comparison become rows of a table. */
static bn_status read_results(struct bn_report *r, const struct bn_report_source *source, const bn_json *of,
                              bn_error *err)
{
    const bn_json *list = bn_json_get(of, "references");
    for (const bn_json *e = bn_json_first(list); e != NULL; e = bn_json_next(e)) {
        if (bn_json_text_of(e, "reference")[0] == '\0' || bn_json_text_of(e, "result")[0] == '\0')
            return bn_fail(err, BN_ERR_FORMAT, "a reference has no name or no result");
        /* A bench may compare speeds alone. */
        if (bn_json_text_is(e, "result", "no_data") && bn_json_get(of, "series") != NULL) continue;
        BN_TRY(ROOM_FOR_ONE(r, results));
        struct bn_report_result *one = &r->results[r->n_results++];
        *one = (struct bn_report_result){source, of, e};
    }
    return BN_OK;
}

/* Of ladder and the like, or of each prompt of a sweep. A bench has series, too. */
static bn_status read_crossval(struct bn_report *r, struct bn_report_source *source, bn_error *err)
{
    size_t first = r->n_results;
    const bn_json *prompts = bn_json_get(source->doc, "results");
    BN_TRY(read_results(r, source, source->doc, err));
    for (const bn_json *e = bn_json_first(prompts); e != NULL; e = bn_json_next(e))
        BN_TRY(read_results(r, source, e, err));
    if (bn_json_get(source->doc, "series") != NULL) return read_measurements(r, source, err);
    return r->n_results > first
               ? BN_OK
               : bn_fail(err, BN_ERR_MISMATCH, "nothing was compared: there are no references");
}

/* ---- a file ---- */

static bn_status read_document(struct bn_report_source *source, const char *path, bn_error *err)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    bn_status status = bn_file_read(path, &text, err);
    if (status == BN_OK && text.len == 0)
        status = bn_fail(err, BN_ERR_MISMATCH, "the file is empty: nothing was measured");
    if (status == BN_OK) bn_sha256_hex(text.data, text.len, source->sha256);
    if (status == BN_OK) status = bn_json_parse(&source->doc, text.data, text.len, err);
    bn_buf_release(&text);
    return status;
}

static bn_status read_source(struct bn_report *r, struct bn_report_source *source, bn_error *err)
{
    const char *schema = bn_json_text_of(source->doc, "schema");
    if (strcmp(schema, "bn.bench/1") == 0 && bn_json_get(source->doc, "histories") != NULL)
        return read_trends(r, source, err);
    if (strcmp(schema, "bn.bench/1") == 0) return read_measurements(r, source, err);
    if (strcmp(schema, "bn.crossval/1") == 0) return read_crossval(r, source, err);
    if (strcmp(schema, "bn.profile/1") == 0) return read_profile(r, source, err);
    return bn_hint(
        bn_fail(err, BN_ERR_FORMAT, "the schema '%.40s' is not one of bn-bench or bn-crossval", schema), err,
        strcmp(schema, "bn.ledger/1") == 0
            ? "bn-bench trend --json | bn-bench report - reads ledgers"
            : "give a document of bn-bench or bn-crossval --json, or a profile");
}

bn_status bn_report_read(struct bn_report *r, const char *const *paths, size_t n, bn_error *err)
{
    BN_TRY(BN_NEW(r->sources, n, err));
    r->n_sources = n;
    for (size_t i = 0; i < n; i++) {
        struct bn_report_source *source = &r->sources[i];
        source->label = bn_bench_base_name(paths[i]);
        for (size_t k = 0; k < n; k++)
            if (k != i && strcmp(bn_bench_base_name(paths[k]), source->label) == 0) source->label = paths[i];
        bn_status status = read_document(source, paths[i], err);
        if (status == BN_OK) status = read_source(r, source, err);
        if (status != BN_OK) bn_error_name(err, paths[i]);
        BN_TRY(status);
    }
    return BN_OK;
}

bn_status bn_report_of(struct bn_report *r, bn_json *document, const char *label, bn_error *err)
{
    r->sources = bn_alloc(1, sizeof *r->sources);
    if (r->sources == NULL) {
        bn_json_free(document);
        return bn_nomem(err);
    }
    r->n_sources = 1;
    r->sources[0] = (struct bn_report_source){.label = label, .doc = document};
    return read_source(r, &r->sources[0], err);
}

void bn_report_release(struct bn_report *r)
{
    for (size_t i = 0; i < r->n_sources; i++) {
        bn_series_release(&r->sources[i].series);
        bn_json_free(r->sources[i].doc);
    }
    bn_free(r->sources);
    bn_free(r->series);
    bn_free(r->comparisons);
    bn_free(r->points);
    bn_free(r->bricks);
    bn_free(r->trends);
    bn_free(r->results);
    *r = (struct bn_report){0};
}

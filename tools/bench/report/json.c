/* SPDX-License-Identifier: MIT
 *
 * A report as JSON: the whole report, one line for each series, the comparisons, the machines, and the two
 * lists that github-action-benchmark reads.
 */
#include <math.h>

#include "base/error.h"
#include "tools/bench/report/report.h"

static bn_status write_out(struct bn_buf *out, bn_json *doc, bn_error *err)
{
    bn_status status = bn_json_write(doc, false, out, err);
    bn_buf_putc(out, '\n');
    bn_json_free(doc);
    return status == BN_OK ? bn_buf_check(out, err) : status;
}

/* ---- parts ---- */

static void put_sources(bn_json *doc, const struct bn_report *r)
{
    static const char *const COPIES[] = {"schema",   "command", "created", "program",     "git",
                                         "settings", "model",   "machine", "result_class"};
    bn_json *array = bn_json_put_array(doc, "sources");
    for (size_t i = 0; i < r->n_sources; i++) {
        const struct bn_report_source *s = &r->sources[i];
        bn_json *o = bn_json_add_object(array);
        bn_json_put_string(o, "file", s->label);
        bn_json_put_string(o, "sha256", s->sha256);
        for (size_t k = 0; k < BN_ARRAY_LEN(COPIES); k++)
            if (bn_json_get(s->doc, COPIES[k]) != NULL)
                bn_json_put_copy(o, COPIES[k], bn_json_get(s->doc, COPIES[k]));
    }
}

static void put_statistics(bn_json *object, const struct bn_report_series *s)
{
    bn_json *o = bn_json_put_object(object, "statistics");
    bn_json_put_object(o, "unavailable");
    bn_json_put_u64(o, "n", s->s->n);
    for (size_t f = 0; f < BN_FIGURES; f++)
        bn_json_put_finite(o, bn_figure_names[f], s->figure[f], s->why[f]);
    if (s->method != NULL)
        bn_json_put_string(o, "method", s->method);
    else
        bn_json_put_unavailable(o, "method", s->why[BN_FIGURE_LOW]);
    bn_json_put_number(o, "correlation", s->correlation);
    bn_json *outliers = bn_json_put_object(o, "outliers");
    bn_json_put_u64(outliers, "low_severe", s->fences.n_severe_low);
    bn_json_put_u64(outliers, "low_mild", s->fences.n_mild_low);
    bn_json_put_u64(outliers, "high_mild", s->fences.n_mild_high);
    bn_json_put_u64(outliers, "high_severe", s->fences.n_severe_high);
}

/* As in measurements (series.h), with the file and the statistics. */
static void put_series(bn_json *o, const struct bn_report_series *s)
{
    bn_json_put_string(o, "file", s->source->label);
    bn_json_put_string(o, "test", s->s->test);
    bn_json_put_string(o, "metric", s->s->metric);
    bn_json_put_string(o, "unit", s->s->unit);
    bn_json_put_string(o, "better", s->s->higher ? "higher" : "lower");
    bn_json_put_bool(o, "exact", s->s->exact);
    put_statistics(o, s);
    bn_json_put_numbers(o, "samples", s->s->samples, s->s->n);
}

static bn_status put_comparisons(bn_json *doc, const struct bn_report *r, bn_error *err)
{
    struct bn_comparison *list = bn_alloc(r->n_comparisons, sizeof *list);
    if (list == NULL) return bn_nomem(err);
    for (size_t i = 0; i < r->n_comparisons; i++)
        list[i] = r->comparisons[i].c;
    if (r->n_comparisons > 0)
        bn_comparisons_put(doc, list, r->n_comparisons);
    else
        bn_json_put_unavailable(doc, "comparisons", "no document has any");
    bn_free(list);
    return BN_OK;
}

static void put_bricks(bn_json *doc, const struct bn_report *r)
{
    bn_json *array = r->n_bricks > 0 ? bn_json_put_array(doc, "bricks") : NULL;
    for (size_t i = 0; i < r->n_bricks; i++) {
        const struct bn_report_brick *b = &r->bricks[i];
        bn_json *o = bn_json_add_object(array);
        bn_json_put_string(o, "file", b->source->label);
        bn_json_put_string(o, "brick", b->name);
        bn_json_put_string(o, "category", b->category);
        bn_json_put_number(o, "exclusive_ns", b->ns);
        bn_json_put_finite(o, "share", b->share, "no time was measured");
        if (!b->rest) bn_json_put_u64(o, "count", b->count);
    }
}

static void put_points(bn_json *doc, const struct bn_report *r)
{
    bn_json *array = r->n_points > 0 ? bn_json_put_array(doc, "kernels") : NULL;
    for (size_t i = 0; i < r->n_points; i++) {
        const struct bn_report_point *p = &r->points[i];
        bn_json *o = bn_json_add_object(array);
        bn_json_put_string(o, "file", p->source->label);
        bn_json_put_string(o, "kernel", p->kernel);
        bn_json_put_string(o, "shape", p->shape);
        bn_json_put_string(o, "isa", p->isa);
        bn_json_put_u64(o, "threads", p->threads);
        bn_json_put_number(o, "ns_per_call", p->ns);
        bn_json_put_finite(o, "low", p->low, "needs 6 samples");
        bn_json_put_finite(o, "high", p->high, "needs 6 samples");
        bn_json_put_finite(o, "share_of_limit", p->share, "it has no limit");
    }
}

static void put_trends(bn_json *doc, const struct bn_report *r)
{
    bn_json *array = r->n_trends > 0 ? bn_json_put_array(doc, "trends") : NULL;
    for (size_t i = 0; i < r->n_trends; i++) {
        const struct bn_report_trend *t = &r->trends[i];
        bn_json *o = bn_json_add_object(array);
        bn_json_put_string(o, "file", t->source->label);
        bn_json_put_string(o, "test", t->test);
        bn_json_put_string(o, "metric", t->metric);
        bn_json_put_string(o, "unit", t->unit);
        bn_json *moments = bn_json_put_array(o, "entries");
        for (size_t k = 0; k < t->n; k++) {
            bn_json *m = bn_json_add_object(moments);
            bn_json_put_string(m, "commit", t->moments[k].commit);
            bn_json_put_string(m, "created", t->moments[k].created);
            bn_json_put_u64(m, "n", t->moments[k].n);
            bn_json_put_number(m, "median", t->moments[k].median);
        }
        bn_json *changes = bn_json_put_array(o, "changes");
        for (size_t k = 0; k < t->n_changes; k++) {
            bn_json *c = bn_json_add_object(changes);
            bn_json_put_u64(c, "entry", t->changes[k].at);
            bn_json_put_number(c, "change", t->changes[k].change);
        }
    }
}

static bn_json *begin(const char *what)
{
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", BN_REPORT_SCHEMA);
    bn_json_put_string(doc, "content", what);
    bn_json_put_object(doc, "unavailable");
    return doc;
}

/* ---- the forms ---- */

bn_status bn_report_json(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    struct bn_buf headline = {.max = 1000};
    bn_json *doc = begin("report");
    bn_report_headline(&headline, r);
    bn_json_put_string(doc, "headline", headline.data);
    bn_buf_release(&headline);
    put_sources(doc, r);
    bn_json *array = bn_json_put_array(doc, "series");
    for (size_t i = 0; i < r->n_series; i++)
        put_series(bn_json_add_object(array), &r->series[i]);
    bn_status status = put_comparisons(doc, r, err);
    put_points(doc, r);
    put_bricks(doc, r);
    put_trends(doc, r);
    bn_json *findings = bn_json_put_array(doc, "findings");
    for (size_t i = 0; i < r->n_findings; i++) {
        bn_json *o = bn_json_add_object(findings);
        bn_json_put_string(o, "rule", r->findings[i].rule);
        bn_json_put_string(o, "kind", r->findings[i].kind);
        bn_json_put_string(o, "text", r->findings[i].text);
        bn_json_put_string(o, "evidence", r->findings[i].evidence);
        bn_json_put_u64(o, "more", r->findings[i].n_more);
    }
    if (status == BN_OK) return write_out(out, doc, err);
    bn_json_free(doc);
    return status;
}

bn_status bn_report_json_lines(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    for (size_t i = 0; i < r->n_series; i++) {
        bn_json *o = bn_json_new_object();
        put_series(o, &r->series[i]);
        bn_status status = bn_json_write(o, true, out, err);
        bn_json_free(o);
        if (status != BN_OK) return status;
        bn_buf_putc(out, '\n');
    }
    return bn_buf_check(out, err);
}

bn_status bn_report_json_comparisons(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    bn_json *doc = begin("comparisons");
    put_sources(doc, r);
    bn_status status = put_comparisons(doc, r, err);
    if (status == BN_OK) return write_out(out, doc, err);
    bn_json_free(doc);
    return status;
}

/* The machines that measured, not the machine that makes the report. */
bn_status bn_report_json_systems(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    bn_json *doc = begin("systems");
    bn_json *array = bn_json_put_array(doc, "systems");
    for (size_t i = 0; i < r->n_sources; i++) {
        const bn_json *from = r->sources[i].doc;
        bn_json *o = bn_json_add_object(array);
        bn_json_put_object(o, "unavailable");
        bn_json_put_string(o, "file", r->sources[i].label);
        if (bn_json_get(from, "created") != NULL)
            bn_json_put_copy(o, "created", bn_json_get(from, "created"));
        static const char *const PARTS[] = {"machine", "program"};
        for (size_t k = 0; k < BN_ARRAY_LEN(PARTS); k++)
            if (bn_json_get(from, PARTS[k]) != NULL)
                bn_json_put_copy(o, PARTS[k], bn_json_get(from, PARTS[k]));
            else
                bn_json_put_unavailable(o, PARTS[k], "the document does not say");
    }
    return write_out(out, doc, err);
}

/* Each list has one direction. The range is the interval of the median. */
static bn_status github(struct bn_buf *out, const struct bn_report *r, bool higher, bn_error *err)
{
    bn_json *array = bn_json_new_array();
    for (size_t i = 0; i < r->n_series; i++) {
        const struct bn_report_series *s = &r->series[i];
        struct bn_buf text = {.max = 1u << 16};
        if (s->s->neutral || s->s->higher != higher) continue;
        bn_json *o = bn_json_add_object(array);
        if (r->n_sources > 1) bn_buf_printf(&text, "%s: ", s->source->label);
        bn_buf_printf(&text, "%s %s", s->s->test, s->s->metric);
        bn_json_put_string(o, "name", text.data);
        bn_json_put_string(o, "unit", s->s->unit);
        bn_json_put_number(o, "value", s->figure[BN_FIGURE_MEDIAN]);
        text.len = 0;
        if (isfinite(s->figure[BN_FIGURE_LOW])) {
            bn_json_write_number(&text, s->figure[BN_FIGURE_LOW]);
            bn_buf_puts(&text, " .. ");
            bn_json_write_number(&text, s->figure[BN_FIGURE_HIGH]);
            bn_json_put_string(o, "range", text.data);
        }
        text.len = 0;
        bn_buf_printf(&text, "median of %zu sample%s, MAD ", s->s->n, s->s->n == 1 ? "" : "s");
        bn_json_write_number(&text, s->figure[BN_FIGURE_MAD]);
        bn_json_put_string(o, "extra", text.data);
        bn_buf_release(&text);
    }
    return write_out(out, array, err);
}

bn_status bn_report_github_smaller(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    return github(out, r, false, err);
}

bn_status bn_report_github_bigger(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    return github(out, r, true, err);
}

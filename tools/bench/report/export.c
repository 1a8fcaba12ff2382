/* SPDX-License-Identifier: MIT
 *
 * A report for other programs: JSON, the two lists that github-action-benchmark reads, and CSV (RFC 4180). Numbers
 * are exact, with a point in every locale.
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

/* The tables of the report, which the other forms show, too. */
static void put_tables(bn_json *doc, const struct bn_report *r)
{
    bn_json *tables = bn_json_put_object(doc, "tables");
    for (size_t i = 0; i < BN_REPORT_PARTS; i++) {
        struct bn_table t;
        if (i == BN_PART_COMPARISONS || i == BN_PART_SERIES) continue; /* members of their own */
        bn_report_parts[i].fill(&t, r);
        if (t.n_rows > 0) bn_table_put_json(tables, bn_report_parts[i].title, &t);
        bn_table_release(&t);
    }
}

/* ---- the forms ---- */

bn_status bn_report_json(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    struct bn_buf headline = {.max = 1000};
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", BN_REPORT_SCHEMA);
    bn_json_put_object(doc, "unavailable");
    bn_report_headline(&headline, r);
    bn_json_put_string(doc, "headline", headline.data);
    bn_buf_release(&headline);
    put_sources(doc, r);
    bn_json *array = bn_json_put_array(doc, "series");
    for (size_t i = 0; i < r->n_series; i++)
        put_series(bn_json_add_object(array), &r->series[i]);
    bn_status status = put_comparisons(doc, r, err);
    put_tables(doc, r);
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

/* Each list has one direction. The range is the interval of the median. */
static bn_status github(struct bn_buf *out, const struct bn_report *r, bool higher, bn_error *err)
{
    bn_json *array = bn_json_new_array();
    for (size_t i = 0; i < r->n_series; i++) {
        const struct bn_report_series *s = &r->series[i];
        struct bn_buf text = {.max = 1u << 16};
        if (s->s->higher != higher) continue;
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

/* ---- CSV: the comparisons, or else the series ---- */

static void put_names(struct bn_table *t, const struct bn_report_source *source, const char *test,
                      const char *metric, const char *unit)
{
    bn_table_text(t, source->label);
    bn_table_text(t, test);
    bn_table_text(t, metric);
    bn_table_text(t, unit);
}

/* Writes a table and releases it. */
static bn_status write_csv(struct bn_buf *out, struct bn_table *t, bn_error *err)
{
    bn_table_put_csv(out, t);
    bn_table_release(t);
    return bn_buf_check(out, err);
}

static bn_status write_series(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    static const char *const HEADS[] = {"file",   "test", "metric", "unit", "better",  "exact", "n",
                                        "median", "low",  "high",   "min",  "max",     "mad",   "p5",
                                        "q1",     "q3",   "p95",    "p99",  "outliers"};
    struct bn_table t;
    bn_table_begin(&t, HEADS, "llllllrrrrrrrrrrrrr");
    for (size_t i = 0; i < r->n_series; i++) {
        const struct bn_report_series *s = &r->series[i];
        bn_table_row(&t, "");
        put_names(&t, s->source, s->s->test, s->s->metric, s->s->unit);
        bn_table_text(&t, s->s->higher ? "higher" : "lower");
        bn_table_text(&t, s->s->exact ? "true" : "false");
        bn_table_count(&t, s->s->n);
        for (size_t f = 0; f < BN_FIGURES; f++)
            bn_table_number(&t, s->figure[f]);
        bn_table_count(&t, s->n_outliers);
    }
    return write_csv(out, &t, err);
}

static bn_status write_comparisons(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    static const char *const HEADS[] = {"file",      "test",   "metric", "unit", "verdict",  "a",
                                        "b",         "change", "low",    "high", "p",        "q",
                                        "agreement", "band",   "mde",    "n",    "n_needed", "reason"};
    struct bn_table t;
    bn_table_begin(&t, HEADS, "lllllrrrrrrrrrrrrl");
    for (size_t i = 0; i < r->n_comparisons; i++) {
        const struct bn_comparison *c = &r->comparisons[i].c;
        const struct bn_judgement shown = bn_comparison_shown(c), *j = &shown;
        double a, b;
        bn_comparison_sides(c, &a, &b);
        const double values[] = {a, b, j->change, j->low, j->high, j->p, j->q, j->agreement, j->band, j->mde};
        bn_table_row(&t, "");
        put_names(&t, r->comparisons[i].source, c->test, c->metric, c->unit);
        bn_table_text(&t, bn_outcome_name(j->outcome));
        for (size_t k = 0; k < BN_ARRAY_LEN(values); k++)
            bn_table_number(&t, values[k]);
        bn_table_count(&t, j->n);
        bn_table_count(&t, j->n_needed);
        bn_table_text(&t, j->reason);
    }
    return write_csv(out, &t, err);
}

bn_status bn_report_csv(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    if (r->n_comparisons > 0) return write_comparisons(out, r, err);
    return r->n_series > 0 ? write_series(out, r, err) : BN_OK;
}

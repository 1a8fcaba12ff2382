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

/* The tables of the report, with exact numbers. */
static void put_tables(bn_json *doc, const struct bn_report *r)
{
    bn_json *tables = bn_json_put_object(doc, "tables");
    for (size_t i = 0; i < BN_REPORT_PARTS; i++) {
        struct bn_table t;
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

bn_status bn_report_csv(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    struct bn_table t;
    if (r->n_comparisons + r->n_series == 0) return BN_OK;
    bn_report_parts[r->n_comparisons > 0 ? BN_PART_COMPARISONS : BN_PART_SERIES].fill(&t, r);
    bn_table_put_csv(out, &t);
    bn_table_release(&t);
    return bn_buf_check(out, err);
}

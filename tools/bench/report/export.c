/* SPDX-License-Identifier: MIT
 *
 * A report for other programs: CSV (RFC 4180) and JUnit XML. Numbers are exact, as in JSON, with a point in
 * every locale.
 */
#include "base/error.h"
#include "lab/report/html.h"
#include "tools/bench/report/report.h"

/* ---- CSV ---- */

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

bn_status bn_report_csv(struct bn_buf *out, const struct bn_report *r, bn_error *err)
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

bn_status bn_report_csv_samples(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    static const char *const HEADS[] = {"file", "test", "metric", "unit", "sample", "value"};
    struct bn_table t;
    bn_table_begin(&t, HEADS, "llllrr");
    for (size_t i = 0; i < r->n_series; i++)
        for (size_t k = 0; k < r->series[i].s->n; k++) {
            const struct bn_series *s = r->series[i].s;
            bn_table_row(&t, "");
            put_names(&t, r->series[i].source, s->test, s->metric, s->unit);
            bn_table_count(&t, k);
            bn_table_number(&t, s->samples[k]);
        }
    return write_csv(out, &t, err);
}

bn_status bn_report_csv_comparisons(struct bn_buf *out, const struct bn_report *r, bn_error *err)
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

/* ---- JUnit ---- */

static void put_case(struct bn_buf *out, const struct bn_report_comparison *c)
{
    const struct bn_judgement shown = bn_comparison_shown(&c->c), *j = &shown;
    bn_html(out, "    <testcase classname=\"%s\" name=\"%s %s\"", c->source->label, c->c.test, c->c.metric);
    if (j->outcome != BN_OUTCOME_REGRESSED && j->outcome != BN_OUTCOME_INCONCLUSIVE) {
        bn_html(out, "/>\n");
        return;
    }
    bool bad = j->outcome == BN_OUTCOME_REGRESSED;
    bn_html(out, "><%s message=\"%s: %s\">change ", bad ? "failure" : "skipped", bn_outcome_name(j->outcome),
            j->reason);
    bn_json_write_number(out, j->change);
    bn_html(out, ", interval ");
    bn_json_write_number(out, j->low);
    bn_html(out, " to ");
    bn_json_write_number(out, j->high);
    bn_html(out, "</%s></testcase>\n", bad ? "failure" : "skipped");
}

/* Without comparisons each measurement is a case that passes; its time is the median. */
static void put_measured(struct bn_buf *out, const struct bn_report_series *s)
{
    bn_html(out, "    <testcase classname=\"%s\" name=\"%s %s\"", s->source->label, s->s->test, s->s->metric);
    if (strcmp(s->s->unit, "ns") == 0) {
        bn_html(out, " time=\"");
        bn_json_write_number(out, s->figure[BN_FIGURE_MEDIAN] / 1e9);
        bn_html(out, "\"");
    }
    bn_html(out, "><properties><property name=\"median\" value=\"");
    bn_json_write_number(out, s->figure[BN_FIGURE_MEDIAN]);
    bn_html(out, "\"/><property name=\"unit\" value=\"%s\"/></properties></testcase>\n", s->s->unit);
}

bn_status bn_report_junit(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    bn_html(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"bn-bench\">\n");
    for (size_t i = 0; i < r->n_sources; i++) {
        const struct bn_report_source *source = &r->sources[i];
        size_t n = 0, bad = 0, open = 0;
        for (size_t k = 0; k < r->n_comparisons; k++) {
            if (r->comparisons[k].source != source) continue;
            n++;
            bad += r->comparisons[k].c.j.outcome == BN_OUTCOME_REGRESSED;
            open += r->comparisons[k].c.j.outcome == BN_OUTCOME_INCONCLUSIVE;
        }
        bool judged = n > 0;
        n = judged ? n : source->series.n;
        bn_html(out,
                "  <testsuite name=\"%s\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\">\n",
                source->label, n, bad, open);
        for (size_t k = 0; k < r->n_comparisons; k++)
            if (r->comparisons[k].source == source) put_case(out, &r->comparisons[k]);
        for (size_t k = 0; k < r->n_series && !judged; k++)
            if (r->series[k].source == source) put_measured(out, &r->series[k]);
        bn_html(out, "  </testsuite>\n");
    }
    bn_html(out, "</testsuites>\n");
    return bn_buf_check(out, err);
}

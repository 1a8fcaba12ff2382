/* SPDX-License-Identifier: MIT
 *
 * A report as one HTML page: the sentence that a reader wants, the parts with their plots, the samples, the
 * provenance. The page loads nothing and is readable without its script. Its size is bounded: after PLOTS_BYTES
 * of plots of single series the remaining plots are left out, and the page says so.
 */
#include <stdio.h>

#include "lab/report/page.h"
#include "tools/bench/report/report.h"

#define PLOTS_BYTES (400u << 10)
#define ROWS_MAX 600u

/* The colour of the verdict: of the worst comparison; without comparisons amber when there is something to
 * look at. */
static const char *kind_of(const struct bn_report *r)
{
    const struct bn_comparison *c = bn_comparisons_main(r->comparisons, r->n_comparisons);
    const char *kind = c != NULL              ? bn_comparison_kind(c)
                       : r->n_comparisons > 0 ? "warn"
                       : r->n_results > 0     ? "ok"
                                              : "plain";
    for (size_t i = 0; i < r->n_results; i++)
        if (!bn_json_text_is(r->results[i].json, "result", "agree")) kind = "bad";
    struct bn_table t;
    bn_report_fill_findings(&t, r);
    for (size_t i = 0; i < t.n_rows && strcmp(kind, "plain") == 0; i++)
        if (strcmp(t.kinds[i], "bad") == 0 || strcmp(t.kinds[i], "warn") == 0) kind = "warn";
    bn_table_release(&t);
    return kind;
}

static void put_verdict(struct bn_buf *out, const struct bn_report *r)
{
    struct bn_buf text = {.max = 1u << 16};
    bn_report_sentence(&text, r);
    bn_page_verdict(out, kind_of(r), "bn-bench report", bn_buf_text(&text));
    bn_buf_release(&text);
    for (size_t i = 0; i < r->n_sources; i++) {
        struct bn_buf origin = {.max = 1u << 16};
        bn_report_put_origin(&origin, &r->sources[i]);
        bn_html(out, "<p class=\"small\">%s</p>\n", bn_buf_text(&origin));
        bn_buf_release(&origin);
    }
    bn_buf_puts(out, "</div>\n");
}

static void put_part(struct bn_buf *out, const struct bn_report *r, const struct bn_report_part *part)
{
    struct bn_table t;
    part->fill(&t, r);
    if (t.n_rows > 0 || t.failed) {
        bn_html(out, "<h2 id=\"%s\">%s</h2>\n<p class=\"what\">%s</p>\n", part->id, part->title, part->what);
        bn_html(out, "<div class=\"plots\">\n");
        if (part->plot != NULL) part->plot(out, r);
        bn_html(out, "</div>\n");
        bn_table_put_html(out, &t, t.n_rows > 10 ? "sortable" : "", ROWS_MAX);
    }
    bn_table_release(&t);
}

static void put_samples(struct bn_buf *out, const struct bn_report *r)
{
    size_t start, i = 0;
    if (r->n_series > 0) bn_html(out, "<h2 id=\"samples\">Samples</h2>\n");
    for (start = out->len; i < r->n_series && out->len - start < PLOTS_BYTES; i++) {
        const struct bn_report_series *s = &r->series[i];
        char name[BN_TEST_ROOM];
        if (s->s->exact || s->s->neutral) continue;
        bn_page_details(out, bn_test_name(name, s->s->test), s->s->metric);
        bn_report_plot_time(out, s);
        bn_buf_puts(out, "</details>\n");
    }
    if (i < r->n_series)
        bn_html(out,
                "<p class=\"what\">Plots of the first %zu of %zu series. Report fewer files to see the "
                "others.</p>\n",
                i, r->n_series);
}

static void put_fact(struct bn_buf *out, const char *name, const bn_json *value)
{
    struct bn_buf text = {.max = 1u << 16};
    const char *string = "";
    if (!bn_json_string(value, &string) && bn_json_kind(value) != BN_JSON_NULL &&
        bn_json_write(value, true, &text, NULL) == BN_OK)
        string = bn_buf_text(&text);
    bn_page_fact(out, name, string);
    bn_buf_release(&text);
}

/* What the documents say of themselves; members of objects are facts of their own. */
static void put_provenance(struct bn_buf *out, const struct bn_report *r)
{
    bn_html(out, "<h2 id=\"provenance\">Provenance</h2>\n");
    for (size_t i = 0; i < r->n_sources; i++) {
        const struct bn_report_source *s = &r->sources[i];
        bn_page_details(out, s->label, "");
        bn_buf_puts(out, "<table class=\"facts\"><tbody>\n");
        bn_page_fact(out, "sha256", s->sha256);
        for (const char *const *origin = bn_report_origins; *origin != NULL; origin++) {
            const bn_json *part = bn_json_get(s->doc, *origin);
            if (part != NULL && bn_json_kind(part) != BN_JSON_OBJECT) put_fact(out, *origin, part);
            if (bn_json_kind(part) != BN_JSON_OBJECT) continue;
            for (const bn_json *m = bn_json_first(part); m != NULL; m = bn_json_next(m)) {
                char name[100];
                snprintf(name, sizeof name, "%s %s", *origin, bn_json_name(m));
                if (strcmp(bn_json_name(m), "unavailable") != 0) put_fact(out, name, m);
            }
        }
        bn_buf_puts(out, "</tbody></table>\n</details>\n");
    }
}

bn_status bn_report_html(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    static const char *const WORDS[][2] = {
        {"95 % interval",
         "contains the true median with 95 % confidence, for any distribution of independent samples; "
         "needs 6 samples"},
        {"MAD",
         "median absolute deviation: the median distance from the median, as a percentage of the median"},
        {"outliers",
         "samples more than 1.5 quartile distances outside the quartiles. Every number includes them"},
        {"change", "B divided by A, minus 1. The verdict says whether that is better or worse"},
        {"band", "how much A differed from itself in the same session"},
        {"MDE", "minimum detectable effect: the smallest change that is detected with 80 % power"}};
    struct bn_buf title = {.max = 1000};
    bn_buf_puts(&title, "bn-bench: ");
    bn_report_headline(&title, r);
    bn_page_begin(out, bn_buf_text(&title), true);
    bn_buf_release(&title);
    put_verdict(out, r);
    for (size_t i = 0; i < BN_REPORT_PARTS; i++)
        put_part(out, r, &bn_report_parts[i]);
    put_samples(out, r);
    put_provenance(out, r);
    bn_page_words(out, WORDS, BN_ARRAY_LEN(WORDS));
    bn_page_end(out);
    return bn_buf_check(out, err);
}

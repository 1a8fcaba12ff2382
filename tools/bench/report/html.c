/* SPDX-License-Identifier: MIT
 *
 * A report as one HTML page: the sentence that a reader wants, a chart, the tables and plots, the findings,
 * the provenance. The page loads nothing and is readable without its script. Its size is bounded: after
 * PLOTS_BYTES of plots of single series the remaining plots are left out, and the page says so.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/report/page.h"
#include "lab/report/plot.h"
#include "lab/report/units.h"
#include "tools/bench/report/report.h"

#define PLOTS_BYTES (400u << 10)
#define ROWS_MAX 600u
#define BARS_MAX 24u

static void put_table(struct bn_buf *out, const struct bn_report *r, unsigned part, const char *class_name)
{
    struct bn_table t;
    bn_report_parts[part].fill(&t, r);
    bn_table_put_html(out, &t, class_name, ROWS_MAX);
    bn_table_release(&t);
}

/* ---- the verdict ---- */

static size_t count_findings(const struct bn_report *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_findings; i++)
        n += strcmp(r->findings[i].kind, "ok") != 0 ? 1 + r->findings[i].n_more : 0;
    return n;
}

/* The colour of the verdict: of the worst comparison; without comparisons amber when there is something to
 * look at. */
static const char *kind_of(const struct bn_report *r)
{
    const char *kind = r->n_comparisons > 0 ? "ok" : count_findings(r) > 0 ? "warn" : "plain";
    for (size_t i = 0; i < r->n_comparisons; i++) {
        const char *one = bn_comparison_kind(&r->comparisons[i].c);
        if (strcmp(one, "ok") != 0 && strcmp(kind, "bad") != 0) kind = one;
    }
    return kind;
}

static void put_verdict(struct bn_buf *out, const struct bn_report *r)
{
    struct bn_buf text = {.max = 1u << 16};
    size_t n = count_findings(r);
    bn_report_sentence(&text, r);
    bn_page_verdict(out, kind_of(r), "bn-bench report", text.data != NULL ? text.data : "");
    bn_buf_release(&text);
    for (size_t i = 0; i < r->n_sources; i++) {
        struct bn_buf origin = {.max = 1u << 16};
        bn_report_put_origin(&origin, &r->sources[i]);
        bn_html(out, "<p class=\"small\">%s</p>\n", origin.data != NULL ? origin.data : "");
        bn_buf_release(&origin);
    }
    if (n > 0)
        bn_html(out, "<p class=\"small\">%zu <a href=\"#findings\">finding%s</a> to look at</p>\n", n,
                n == 1 ? "" : "s");
    bn_page_verdict_end(out);
}

static void put_findings(struct bn_buf *out, const struct bn_report *r)
{
    char summary[80];
    if (r->n_findings == 0) return;
    snprintf(summary, sizeof summary, "%zu to look at", count_findings(r));
    bn_html(out, "<h2 id=\"findings\">Findings</h2>\n");
    bn_page_details(out, false, summary, "");
    bn_html(out, "<ul class=\"findings\">\n");
    for (size_t i = 0; i < r->n_findings; i++) {
        const struct bn_report_finding *f = &r->findings[i];
        bn_html(out, "<li class=\"finding %s\">", f->kind);
        bn_page_mark(out, f->kind);
        bn_html(out, "<span><b>%s</b> <span class=\"small\">%s <span class=\"rule\">rule %s</span></span>",
                f->text, f->evidence, f->rule);
        if (f->n_more > 0) bn_html(out, "<span class=\"small\">and %zu more like it</span>", f->n_more);
        bn_html(out, "</span></li>\n");
    }
    bn_html(out, "</ul>\n");
    bn_page_details_end(out);
}

/* ---- measurements ---- */

/* A bar with the rate in tok/s of a series of times per token, else with its median. */
static struct bn_plot_bar bar_of(const struct bn_report_series *s, bool speed)
{
    const double *f = s->figure, median = f[BN_FIGURE_MEDIAN];
    struct bn_plot_bar bar = {s->s->test, median, f[BN_FIGURE_LOW], f[BN_FIGURE_HIGH], "", false};
    if (speed)
        bar = (struct bn_plot_bar){s->s->test, 1e9 / median, 1e9 / f[BN_FIGURE_HIGH], 1e9 / f[BN_FIGURE_LOW],
                                   "",         false};
    bn_units_text(bar.text, bar.value, speed ? "tok/s" : s->s->unit);
    return bar;
}

/* The rates of all tests whose names begin with the word. False: there are none. */
static bool put_speeds(struct bn_buf *out, const struct bn_report *r, const char *word, const char *title)
{
    struct bn_plot_bar bars[BARS_MAX];
    char names[BARS_MAX][96];
    size_t n = 0;
    for (size_t i = 0; i < r->n_series && n < BARS_MAX; i++) {
        const struct bn_report_series *s = &r->series[i];
        if (!bn_report_is_speed(s, word)) continue;
        bars[n] = bar_of(s, true);
        snprintf(names[n], sizeof names[n], "%.50s: %.40s", s->source->label, s->s->test);
        if (r->n_models > 1) bars[n].name = names[n];
        n++;
    }
    if (n == 0) return false;
    bn_plot_figure(out, "", title, "Median rate; the line is its 95 % interval.");
    bn_plot_bars(out, title, bars, n);
    bn_plot_figure_end(out);
    return true;
}

/* Of measurements without rates, the medians of the series that share the first one's metric. */
static void put_medians(struct bn_buf *out, const struct bn_report *r)
{
    struct bn_plot_bar bars[BARS_MAX];
    const struct bn_series *first = r->series[0].s;
    size_t n = 0;
    for (size_t i = 0; i < r->n_series && n < BARS_MAX; i++)
        if (strcmp(r->series[i].s->metric, first->metric) == 0 &&
            strcmp(r->series[i].s->unit, first->unit) == 0)
            bars[n++] = bar_of(&r->series[i], false);
    bn_plot_figure(out, "", first->metric, "Medians; the line is the 95 % interval.");
    bn_plot_bars(out, "medians", bars, n);
    bn_plot_figure_end(out);
}

static void put_chart(struct bn_buf *out, const struct bn_report *r)
{
    if (r->n_comparisons > 0) {
        bn_html(out, "<h2 id=\"comparisons\">Comparisons</h2>\n");
        bn_report_plot_forest(out, r);
        put_table(out, r, BN_PART_COMPARISONS, "");
    } else if (r->n_series > 0) {
        bn_html(out, "<div class=\"plots\">\n");
        bool decode = put_speeds(out, r, "decode", "Decoding"),
             prompt = put_speeds(out, r, "prompt", "Prompts");
        if (!decode && !prompt) put_medians(out, r);
        bn_html(out, "</div>\n");
    }
}

/* A table of its own section; nothing without rows. */
static void put_section(struct bn_buf *out, const struct bn_report *r, unsigned part, const char *id,
                        const char *what)
{
    struct bn_table t;
    bn_report_parts[part].fill(&t, r);
    if (t.n_rows > 0 || t.failed) {
        bn_html(out, "<h2 id=\"%s\">%s</h2>\n<p class=\"what\">%s</p>\n", id, bn_report_parts[part].title,
                what);
        bn_table_put_html(out, &t, part == BN_PART_MEDIANS ? "sortable" : "", ROWS_MAX);
    }
    bn_table_release(&t);
}

static void put_measurements(struct bn_buf *out, const struct bn_report *r)
{
    size_t start, i = 0;
    if (r->n_series == 0) return;
    bn_html(out, "<h2 id=\"measurements\">Measurements</h2>\n<p class=\"what\">Point at a number to see it "
                 "exactly.</p>\n");
    put_table(out, r, BN_PART_SERIES, "sortable");
    bn_html(out, "<h3>Samples</h3>\n");
    for (start = out->len; i < r->n_series && out->len - start < PLOTS_BYTES; i++) {
        const struct bn_report_series *s = &r->series[i];
        if (s->s->exact || s->s->neutral) continue;
        bn_page_details(out, false, s->s->test, s->s->metric);
        bn_report_plot_time(out, s);
        bn_page_details_end(out);
    }
    if (i < r->n_series)
        bn_html(out,
                "<p class=\"what\">Plots of the first %zu of %zu series. Report fewer files to see the "
                "others.</p>\n",
                i, r->n_series);
}

/* ---- the other sections ---- */

static void put_kernels(struct bn_buf *out, const struct bn_report *r)
{
    if (r->n_points == 0) return;
    bn_html(out, "<h2 id=\"kernels\">Kernels and their limits</h2>\n");
    for (size_t i = 0; i < r->n_points; i++) {
        const struct bn_report_point *p = &r->points[i];
        bool first = true;
        for (size_t k = 0; k < i && first; k++)
            first = r->points[k].source != p->source || r->points[k].threads != p->threads;
        if (first) bn_report_plot_roofline(out, r, p->threads, p->source);
    }
    put_table(out, r, BN_PART_POINTS, "");
}

static void put_bricks(struct bn_buf *out, const struct bn_report *r)
{
    if (r->n_bricks == 0) return;
    bn_html(out, "<h2 id=\"bricks\">Bricks</h2>\n<div class=\"plots\">\n");
    for (size_t i = 0; i < r->n_sources; i++)
        bn_report_plot_bricks(out, r, &r->sources[i]);
    bn_html(out, "<div>\n");
    put_table(out, r, BN_PART_BRICKS, "");
    bn_html(out, "</div></div>\n");
}

static void put_trends(struct bn_buf *out, const struct bn_report *r)
{
    if (r->n_trends == 0) return;
    bn_html(out, "<h2 id=\"trends\">Over time</h2>\n<div class=\"plots\">\n");
    for (size_t i = 0, start = out->len; i < r->n_trends && out->len - start < PLOTS_BYTES; i++)
        bn_report_plot_trend(out, &r->trends[i]);
    bn_html(out, "</div>\n");
    put_table(out, r, BN_PART_TRENDS, "");
}

/* ---- provenance ---- */

static void put_fact(struct bn_buf *out, const char *name, const bn_json *value)
{
    struct bn_buf text = {.max = 4096};
    const char *string = "";
    if (value == NULL) return;
    if (!bn_json_string(value, &string) && bn_json_kind(value) != BN_JSON_NULL &&
        bn_json_write(value, true, &text, NULL) == BN_OK)
        string = text.data;
    bn_page_fact(out, name, string);
    bn_buf_release(&text);
}

static void put_provenance(struct bn_buf *out, const struct bn_report *r)
{
    static const char *const MEMBERS[] = {"schema", "command", "created"};
    static const char *const PARTS[] = {"program", "git", "model", "machine", "settings"};
    bn_html(out, "<h2 id=\"provenance\">Provenance</h2>\n");
    for (size_t i = 0; i < r->n_sources; i++) {
        const struct bn_report_source *s = &r->sources[i];
        bn_page_details(out, false, s->label, "");
        bn_page_facts(out, "");
        bn_page_fact(out, "sha256", s->sha256);
        for (size_t k = 0; k < BN_ARRAY_LEN(MEMBERS); k++)
            put_fact(out, MEMBERS[k], bn_json_get(s->doc, MEMBERS[k]));
        for (size_t k = 0; k < BN_ARRAY_LEN(PARTS); k++) {
            const bn_json *part = bn_json_get(s->doc, PARTS[k]);
            for (const bn_json *m = bn_json_first(part); m != NULL; m = bn_json_next(m)) {
                char name[100];
                if (bn_json_name(m) == NULL || strcmp(bn_json_name(m), "unavailable") == 0) continue;
                snprintf(name, sizeof name, "%s %s", PARTS[k], bn_json_name(m));
                put_fact(out, name, m);
            }
        }
        bn_page_facts_end(out);
        bn_page_details_end(out);
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
         "samples more than 1.5 quartile distances outside the quartiles, severe ones more than 3. They are "
         "labelled; every number includes them"},
        {"change", "B divided by A, minus 1. The verdict says whether that is better or worse"},
        {"band", "how much A differed from itself in the same session"},
        {"MDE", "minimum detectable effect: the smallest change that is detected with 80 % power"}};
    struct bn_buf title = {.max = 1000};
    bn_buf_puts(&title, "bn-bench: ");
    bn_report_headline(&title, r);
    bn_page_begin(out, title.data != NULL ? title.data : "bn-bench", "", true);
    bn_buf_release(&title);
    put_verdict(out, r);
    put_chart(out, r);
    put_section(out, r, BN_PART_MODELS, "models", "The fastest decode and prompt test of each model.");
    put_section(
        out, r, BN_PART_MODEL_MEMORY, "model-memory",
        "Peak memory is that of the process. The last column is the percentage of the bandwidth that was "
        "measured in the same rounds.");
    put_section(out, r, BN_PART_MACHINES, "machines", "The documents come from these machines.");
    put_section(out, r, BN_PART_MEDIANS, "medians",
                "Medians, a column for each machine: a difference between columns is not a change of the "
                "program.");
    put_kernels(out, r);
    put_bricks(out, r);
    put_trends(out, r);
    put_measurements(out, r);
    put_findings(out, r);
    put_provenance(out, r);
    bn_page_words(out, WORDS, r->n_comparisons > 0 ? BN_ARRAY_LEN(WORDS) : 3);
    bn_page_end(out);
    return bn_buf_check(out, err);
}

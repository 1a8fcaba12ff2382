/* SPDX-License-Identifier: MIT
 *
 * A report as one page: what was found, the tables, the plots, where the figures come from. It loads nothing,
 * is readable without its script (which sorts and filters the table of measurements), and its size is
 * bounded: plots of further series are left out, and the page says so, when there are PLOTS_BYTES of them.
 */
#include <stdio.h>

#include "base/error.h"
#include "lab/report/html.h"
#include "tools/bench/report/report.h"
#include "tools/cli/page.h"

#define PLOTS_BYTES (400u << 10) /* of plots of single series */
#define ROWS_MAX 600u            /* of the table of measurements */
#define OPEN_MAX 3u              /* of so many series the plots are unfolded */

/* Carried by the program: tools/bench/report/report.css and report.js. */
extern const char bn_bench_style[], bn_bench_script[];
extern const uint64_t bn_bench_style_bytes;

/* ---- tables ---- */

static void put_mark(struct bn_buf *out, const char *kind)
{
    static const char *const MARKS[][2] = {{"ok", "\xE2\x9C\x93"}, {"bad", "\xE2\x9C\x95"}, {"warn", "!"}};
    for (size_t i = 0; i < BN_ARRAY_LEN(MARKS); i++)
        if (strcmp(MARKS[i][0], kind) == 0)
            bn_html(out, "<span class=\"mark %s\">%s</span> ", kind, MARKS[i][1]);
}

static void put_cell(struct bn_buf *out, const struct bn_report_table *t, size_t row, size_t column)
{
    const struct bn_report_cell *cell = &t->cells[row * t->n_cols + column];
    const char *tag = column == 0 ? "th" : "td";
    bn_html(out, "<%s", tag);
    if (column == 0) bn_html(out, " scope=\"row\"");
    if (t->align[column] == 'l' && column > 0) bn_html(out, " class=\"left\"");
    if (cell->exact != NULL) bn_html(out, " title=\"%s\"", cell->exact);
    bn_html(out, ">");
    if (column == 0) put_mark(out, t->kinds[row]);
    bn_html(out, "%s</%s>", cell->text, tag);
}

static void put_row(struct bn_buf *out, const struct bn_report_table *t, size_t row, bool wordy)
{
    const char *broken = strcmp(t->kinds[row], "bad") == 0 ? "broken" : "";
    size_t n = t->n_cols - wordy;
    bn_html(out, "<tr class=\"%s\">", broken);
    for (size_t c = 0; c < n; c++)
        put_cell(out, t, row, c);
    bn_html(out, "</tr>\n");
    if (wordy)
        bn_html(out, "<tr class=\"why %s\"><td colspan=\"%zu\"><div>%s</div></td></tr>\n", broken, n,
                t->cells[row * t->n_cols + n].text);
}

/* Of a wordy table the last column is sentences: they stand under their rows, which would be too wide. */
static bn_status put_table(struct bn_buf *out, const struct bn_report *r,
                           void (*make)(struct bn_report_table *t, const struct bn_report *r),
                           const char *name, bn_error *err)
{
    struct bn_report_table t;
    make(&t, r);
    if (t.failed) {
        bn_report_table_release(&t);
        return bn_nomem(err);
    }
    bool wordy = strcmp(name, "wordy") == 0;
    size_t n = bn_min_size(t.n_rows, ROWS_MAX);
    bn_html(out, "<div class=\"scroll\" tabindex=\"0\"><table class=\"figures %s\"><thead><tr>", name);
    for (size_t c = 0; c < t.n_cols - wordy; c++)
        bn_html(out, "<th scope=\"col\" class=\"%s\">%s</th>", t.align[c] == 'l' ? "left" : "", t.heads[c]);
    bn_html(out, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < n; i++)
        put_row(out, &t, i, wordy);
    bn_html(out, "</tbody></table></div>\n");
    if (n < t.n_rows)
        bn_html(out, "<p class=\"what\">The first %zu of %zu rows; --format csv has them all.</p>\n", n,
                t.n_rows);
    bn_report_table_release(&t);
    return BN_OK;
}

/* Folded or not; the summary follows. */
static void begin_details(struct bn_buf *out, bool open)
{
    bn_buf_puts(out, open ? "<details open=\"open\"><summary>" : "<details><summary>");
}

/* ---- the verdict ---- */

/* The class of the headline: "" is red, with a cross. Verdicts decide where there are some; else findings. */
static const char *kind_of_verdict(const struct bn_report *r)
{
    bool bad = false, warn = false;
    for (size_t i = 0; i < r->n_comparisons; i++) {
        bad = bad || r->comparisons[i].c.j.outcome == BN_OUTCOME_REGRESSED;
        warn = warn || r->comparisons[i].c.j.outcome == BN_OUTCOME_INCONCLUSIVE;
    }
    for (size_t i = 0; i < r->n_findings && r->n_comparisons == 0; i++) {
        bad = bad || strcmp(r->findings[i].kind, "bad") == 0;
        warn = warn || strcmp(r->findings[i].kind, "warn") == 0;
    }
    return bad ? "" : warn ? "warn" : r->n_comparisons > 0 ? "ok" : "plain";
}

static void put_verdict(struct bn_buf *out, const struct bn_report *r)
{
    struct bn_buf text = {.max = 1000};
    const char *kind = kind_of_verdict(r);
    size_t n = 0;
    for (size_t i = 0; i < r->n_findings; i++)
        n += strcmp(r->findings[i].kind, "ok") != 0 ? 1 + r->findings[i].n_more : 0;
    bn_report_headline(&text, r);
    bn_html(out, "<div class=\"verdict %s\"><p class=\"kicker\">bn-bench report</p>\n<h1>%s</h1>\n", kind,
            text.data != NULL ? text.data : "");
    bn_buf_release(&text);
    if (n > 0)
        bn_html(out, "<p class=\"lead\"><a href=\"#findings\">%zu finding%s</a> to look at.</p>\n", n,
                n == 1 ? "" : "s");
    for (size_t i = 0; i < r->n_sources; i++) {
        struct bn_buf origin = {.max = 1u << 16};
        bn_report_put_origin(&origin, &r->sources[i]);
        bn_html(out, "<p class=\"small\">%s</p>\n", origin.data != NULL ? origin.data : "");
        bn_buf_release(&origin);
    }
    bn_html(out, "</div>\n");
}

static void put_findings(struct bn_buf *out, const struct bn_report *r)
{
    if (r->n_findings == 0) return;
    bn_html(out, "<h2 id=\"findings\">What the figures say</h2>\n<ul class=\"findings\">\n");
    for (size_t i = 0; i < r->n_findings; i++) {
        const struct bn_report_finding *f = &r->findings[i];
        bn_html(out, "<li class=\"finding %s\">", f->kind);
        put_mark(out, f->kind);
        bn_html(out, "<span><b>%s</b> <span class=\"small\">%s <span class=\"rule\">rule %s</span></span>",
                f->text, f->evidence, f->rule);
        if (f->n_more > 0) bn_html(out, "<span class=\"small\">and %zu more like it</span>", f->n_more);
        bn_html(out, "</span></li>\n");
    }
    bn_html(out, "</ul>\n");
}

/* ---- each series ---- */

static void put_details(struct bn_buf *out, const struct bn_report *r)
{
    size_t start = out->len, i = 0, n = 0;
    for (; i < r->n_series && out->len - start < PLOTS_BYTES; i++) {
        const struct bn_report_series *s = &r->series[i];
        if (s->s->exact) continue;
        begin_details(out, n++ < OPEN_MAX);
        bn_html(out, "<b id=\"series-%zu\">%s</b> %s", i + 1, s->s->test, s->s->metric);
        if (r->series[0].source != r->series[r->n_series - 1].source)
            bn_html(out, " <span class=\"small\">%s</span>", s->source->label);
        bn_html(out, "</summary>\n<div class=\"plots\">\n");
        bn_report_plot_distribution(out, s);
        bn_report_plot_time(out, s);
        bn_html(out, "</div></details>\n");
    }
    if (i < r->n_series)
        bn_html(out,
                "<p class=\"what\">Plots of the first %zu of %zu series; a report of fewer files has the "
                "rest.</p>\n",
                i, r->n_series);
}

static bn_status put_measurements(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    if (r->n_series == 0) return BN_OK;
    bn_html(out, "<h2 id=\"measurements\">Measurements</h2>\n<p>The median stands for the samples, its 95 %% "
                 "interval for how "
                 "sure it is, the MAD (the median of the distances from the median, as a share of it) for "
                 "their spread. "
                 "Pointing at a figure shows it exactly.</p>\n");
    BN_TRY(put_table(out, r, bn_report_table_series, "sortable", err));
    bn_html(out, "<h3>Sample by sample</h3>\n");
    put_details(out, r);
    return BN_OK;
}

/* ---- the other sections ---- */

static bn_status put_kernels(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    if (r->n_points == 0) return BN_OK;
    bn_html(out, "<h2 id=\"kernels\">Kernels and their limits</h2>\n");
    for (size_t i = 0; i < r->n_points; i++) {
        const struct bn_report_point *p = &r->points[i];
        bool first = true;
        for (size_t k = 0; k < i && first; k++)
            first = r->points[k].source != p->source || r->points[k].threads != p->threads;
        if (first) bn_report_plot_roofline(out, r, p->threads, p->source);
    }
    return put_table(out, r, bn_report_table_points, "", err);
}

static bn_status put_bricks(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    if (r->n_bricks == 0) return BN_OK;
    bn_html(out, "<h2 id=\"bricks\">Bricks</h2>\n<div class=\"plots\">\n");
    for (size_t i = 0; i < r->n_sources; i++)
        bn_report_plot_bricks(out, r, &r->sources[i]);
    bn_html(out, "<div>\n");
    BN_TRY(put_table(out, r, bn_report_table_bricks, "", err));
    bn_html(out, "</div></div>\n");
    return BN_OK;
}

static bn_status put_trends(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    if (r->n_trends == 0) return BN_OK;
    bn_html(out, "<h2 id=\"trends\">Over time</h2>\n<div class=\"plots\">\n");
    for (size_t i = 0, start = out->len; i < r->n_trends && out->len - start < PLOTS_BYTES; i++)
        bn_report_plot_trend(out, &r->trends[i]);
    bn_html(out, "</div>\n");
    return put_table(out, r, bn_report_table_trends, "", err);
}

/* ---- provenance ---- */

static void put_fact(struct bn_buf *out, const char *name, const bn_json *value)
{
    struct bn_buf text = {.max = 4096};
    const char *string = NULL;
    if (value == NULL) return;
    bn_html(out, "<tr><th scope=\"row\">%s</th><td>", name);
    if (bn_json_string(value, &string))
        bn_html(out, "%s", string);
    else if (bn_json_kind(value) == BN_JSON_NULL)
        bn_html(out, "not known");
    else if (bn_json_write(value, true, &text, NULL) == BN_OK)
        bn_html(out, "%s", text.data);
    bn_html(out, "</td></tr>\n");
    bn_buf_release(&text);
}

/* Every member of a part, but not why some are missing. */
static void put_part(struct bn_buf *out, const bn_json *doc, const char *part)
{
    const bn_json *object = bn_json_get(doc, part);
    for (const bn_json *m = bn_json_first(object); m != NULL; m = bn_json_next(m)) {
        char name[100];
        if (bn_json_name(m) == NULL || strcmp(bn_json_name(m), "unavailable") == 0) continue;
        snprintf(name, sizeof name, "%s %s", part, bn_json_name(m));
        put_fact(out, name, m);
    }
}

static void put_provenance(struct bn_buf *out, const struct bn_report *r)
{
    static const char *const PARTS[] = {"program", "git", "model", "machine", "settings"};
    bn_html(out, "<h2 id=\"provenance\">Where the figures come from</h2>\n");
    for (size_t i = 0; i < r->n_sources; i++) {
        const struct bn_report_source *s = &r->sources[i];
        begin_details(out, r->n_sources == 1);
        bn_html(out, "<b>%s</b></summary>\n<table class=\"facts\"><tbody>\n", s->label);
        bn_html(out, "<tr><th scope=\"row\">sha256</th><td><code>%s</code></td></tr>\n", s->sha256);
        put_fact(out, "schema", bn_json_get(s->doc, "schema"));
        put_fact(out, "command", bn_json_get(s->doc, "command"));
        put_fact(out, "created", bn_json_get(s->doc, "created"));
        for (size_t k = 0; k < BN_ARRAY_LEN(PARTS); k++)
            put_part(out, s->doc, PARTS[k]);
        bn_html(out, "</tbody></table></details>\n");
    }
}

static void put_words(struct bn_buf *out, const struct bn_report *r)
{
    static const char *const WORDS[][2] = {
        {"95 % interval", "of the median, by order statistics: whatever the distribution is, it holds the "
                          "true median 95 times "
                          "of 100. It needs 6 samples, and samples that do not depend on each other"},
        {"outliers", "beyond 1.5 quartile distances from the quartiles; severe beyond 3. Labels only: every "
                     "figure is of all "
                     "samples"},
        {"change of cost", "cost of B over cost of A, less one; of rates the cost is the reciprocal, so that "
                           "+ is always worse"},
        {"A/A band", "how much A differed from itself in the same session"},
        {"MDE", "the smallest change detectable with 80 % power"}};
    size_t from = 0, to = r->n_comparisons > 0 ? BN_ARRAY_LEN(WORDS) : 2;
    bn_html(out, "<h2 id=\"words\">Words</h2><dl>\n");
    for (size_t i = from; i < to; i++)
        bn_html(out, "<dt>%s</dt><dd>%s</dd>\n", WORDS[i][0], WORDS[i][1]);
    bn_html(out, "</dl>\n");
}

/* ---- the page ---- */

bn_status bn_report_html(struct bn_buf *out, const struct bn_report *r, bn_error *err)
{
    struct bn_buf title = {.max = 1000};
    bn_buf_puts(&title, "bn-bench: ");
    bn_report_headline(&title, r);
    bn_page_begin(out, title.data != NULL ? title.data : "bn-bench", bn_bench_style, bn_bench_style_bytes,
                  bn_bench_script);
    bn_buf_release(&title);
    put_verdict(out, r);
    if (r->n_comparisons > 0) {
        bn_html(out, "<h2 id=\"comparisons\">Comparisons</h2>\n");
        bn_report_plot_forest(out, r);
        BN_TRY(put_table(out, r, bn_report_table_comparisons, "wordy", err));
    }
    put_findings(out, r);
    BN_TRY(put_measurements(out, r, err));
    BN_TRY(put_kernels(out, r, err));
    BN_TRY(put_bricks(out, r, err));
    BN_TRY(put_trends(out, r, err));
    put_provenance(out, r);
    put_words(out, r);
    bn_page_end(out);
    return bn_buf_check(out, err);
}

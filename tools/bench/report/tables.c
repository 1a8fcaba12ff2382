/* SPDX-License-Identifier: MIT
 *
 * The tables of a report, filled cell by cell, and its sentences. Text, Markdown and HTML show the same
 * cells.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "lab/report/units.h"
#include "tools/bench/report/report.h"

/* The first cell of a row: where a table has rows of several documents, the document is named. */
static void put_name(struct bn_table *t, bool several, const struct bn_report_source *source,
                     const char *name)
{
    bn_table_printf(t, "%s%s%s", several ? source->label : "", several ? ": " : "", name);
}

#define SEVERAL(r, list) ((r)->n_##list > 0 && (r)->list[0].source != (r)->list[(r)->n_##list - 1].source)

static void fill_series(struct bn_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {
        "test", "metric", "median", "95 % interval", "MAD",  "n",   "outliers", "min \xE2\x80\x93 max",
        "unit", "better", "exact",  "low",           "high", "min", "max",      "mad",
        "p5",   "q1",     "q3",     "p95",           "p99"};
    static const enum bn_figure FIGURES[] = {BN_FIGURE_LOW, BN_FIGURE_HIGH, BN_FIGURE_MIN, BN_FIGURE_MAX,
                                             BN_FIGURE_MAD, BN_FIGURE_P5,   BN_FIGURE_Q1,  BN_FIGURE_Q3,
                                             BN_FIGURE_P95, BN_FIGURE_P99};
    bn_table_begin(t, HEADS, "llrhhrrhccccccccccccc");
    for (size_t i = 0; i < r->n_series; i++) {
        const struct bn_report_series *s = &r->series[i];
        const double *f = s->figure, median = f[BN_FIGURE_MEDIAN];
        const char *unit = bn_units_of(s->s->metric, s->s->unit);
        bn_table_row(t, "");
        put_name(t, SEVERAL(r, series), s->source, s->s->test);
        bn_table_text(t, s->s->metric);
        bn_table_value(t, median, unit);
        bn_table_range(t, f[BN_FIGURE_LOW], f[BN_FIGURE_HIGH], median, unit);
        bn_table_percent(t, median > 0 ? f[BN_FIGURE_MAD] / median : (double)NAN, false);
        bn_table_count(t, s->s->n);
        bn_table_count(t, s->n_outliers);
        bn_table_range(t, f[BN_FIGURE_MIN], f[BN_FIGURE_MAX], median, unit);
        bn_table_text(t, unit);
        bn_table_text(t, s->s->higher ? "higher" : "lower");
        bn_table_text(t, s->s->exact ? "true" : "false");
        for (size_t k = 0; k < BN_ARRAY_LEN(FIGURES); k++)
            bn_table_number(t, f[FIGURES[k]]);
    }
}

static void fill_comparisons(struct bn_table *t, const struct bn_report *r)
{
    bn_comparisons_begin(t);
    for (size_t i = 0; i < r->n_comparisons; i++)
        bn_comparison_row(t, &r->comparisons[i].c,
                          SEVERAL(r, comparisons) ? r->comparisons[i].source->label : "");
}

static void fill_points(struct bn_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"no",       "kernel",        "shape",        "per call", "threads",
                                        "of limit", "95 % interval", "MAC per byte", "rate",     "limit"};
    bn_table_begin(t, HEADS, "rllrrrhrrl");
    for (size_t i = 0; i < r->n_points; i++) {
        const struct bn_report_point *p = &r->points[i];
        bn_table_row(t, "");
        bn_table_count(t, i + 1);
        put_name(t, SEVERAL(r, points), p->source, p->kernel);
        bn_table_text(t, p->shape);
        bn_table_value(t, p->ns, "ns");
        bn_table_count(t, p->threads);
        bn_table_percent(t, p->share, false);
        bn_table_range(t, p->low, p->high, p->ns, "ns");
        bn_table_value(t, p->bytes > 0 ? p->macs / p->bytes : (double)NAN, "1");
        bn_table_value(t, p->macs > 0 ? p->macs * 1e9 / p->ns : (double)NAN, "MAC/s");
        bn_table_text(t, p->limit);
    }
}

static void fill_bricks(struct bn_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"brick", "category", "exclusive", "share", "count"};
    bn_table_begin(t, HEADS, "llrrr");
    for (size_t i = 0; i < r->n_bricks; i++) {
        const struct bn_report_brick *b = &r->bricks[i];
        bn_table_row(t, "");
        put_name(t, SEVERAL(r, bricks), b->source, b->name);
        bn_table_text(t, b->category);
        bn_table_value(t, b->ns, "ns");
        bn_table_percent(t, b->share, false);
        if (b->rest)
            bn_table_text(t, "-");
        else
            bn_table_count(t, b->count);
    }
}

/* The first and the last entry of each series, and where its level changed. */
static void fill_trends(struct bn_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"test", "metric", "last", "first", "entries", "changes", "runs"};
    bn_table_begin(t, HEADS, "llrrrln");
    for (size_t i = 0; i < r->n_trends; i++) {
        const struct bn_report_trend *h = &r->trends[i];
        struct bn_buf changes = {.max = 1u << 16};
        char percent[BN_UNITS_ROOM];
        for (size_t k = 0; k < h->n_changes; k++)
            bn_buf_printf(&changes, "%s%s at %.10s", k > 0 ? ", " : "",
                          bn_units_percent_text(percent, h->changes[k].change, true),
                          h->moments[h->changes[k].at].commit);
        bn_table_row(t, "");
        put_name(t, SEVERAL(r, trends), h->source, h->test);
        bn_table_text(t, h->metric);
        bn_table_value(t, h->moments[h->n - 1].median, bn_units_of(h->metric, h->unit));
        bn_table_value(t, h->moments[0].median, bn_units_of(h->metric, h->unit));
        bn_table_count(t, h->n);
        bn_table_text(t, changes.len > 0 ? changes.data : "none found");
        bn_table_text(t, h->runs);
        bn_buf_release(&changes);
    }
}

const struct bn_report_part bn_report_parts[BN_REPORT_PARTS] = {
    [BN_PART_COMPARISONS] = {"Comparisons", fill_comparisons},
    [BN_PART_MODELS] = {"Models by size", bn_report_fill_models},
    [BN_PART_MODEL_MEMORY] = {"Memory by model size", bn_report_fill_model_memory},
    [BN_PART_MACHINES] = {"Machines", bn_report_fill_machines},
    [BN_PART_MEDIANS] = {"Machines side by side", bn_report_fill_medians},
    [BN_PART_SERIES] = {"Measurements", fill_series},
    [BN_PART_POINTS] = {"Kernels and their limits", fill_points},
    [BN_PART_BRICKS] = {"Bricks", fill_bricks},
    [BN_PART_TRENDS] = {"Over time", fill_trends},
};

/* ---- sentences ---- */

void bn_report_headline(struct bn_buf *out, const struct bn_report *r)
{
    static const enum bn_outcome ORDER[] = {BN_OUTCOME_REGRESSED, BN_OUTCOME_IMPROVED, BN_OUTCOME_STABLE,
                                            BN_OUTCOME_SAME, BN_OUTCOME_INCONCLUSIVE};
    size_t n[BN_OUTCOMES] = {0}, changes = 0, bricks = 0;
    const char *comma = "";
    for (size_t i = 0; i < r->n_comparisons; i++)
        n[r->comparisons[i].c.j.outcome]++;
    for (size_t i = 0; i < BN_ARRAY_LEN(ORDER); i++) {
        if (n[ORDER[i]] == 0) continue;
        bn_buf_printf(out, "%s%zu %s", comma, n[ORDER[i]], bn_outcome_name(ORDER[i]));
        comma = ", ";
    }
    if (r->n_comparisons > 0) return; /* verdicts before anything else */
    for (size_t i = 0; i < r->n_trends; i++)
        changes += r->trends[i].n_changes;
    for (size_t i = 0; i < r->n_bricks; i++)
        bricks += !r->bricks[i].rest;
    if (r->n_series > 0) {
        bn_buf_printf(out, "%zu series measured", r->n_series);
        comma = ", ";
    }
    if (r->n_trends > 0) {
        bn_buf_printf(out, "%s%zu series over time, ", comma, r->n_trends);
        bn_units_count(out, changes, "change");
        comma = ", ";
    }
    if (bricks > 0) bn_buf_printf(out, "%s%zu bricks profiled", comma, bricks);
}

bool bn_report_is_speed(const struct bn_report_series *s, const char *word)
{
    return strcmp(s->s->metric, "ns_per_token") == 0 && strncmp(s->s->test, word, strlen(word)) == 0 &&
           s->figure[BN_FIGURE_MEDIAN] > 0;
}

bool bn_report_is_busy(const struct bn_report_series *s)
{
    return strstr(s->s->test, " busy=") != NULL;
}

size_t bn_report_threads(const struct bn_report_series *s)
{
    const bn_json *list = bn_json_get(s->source->doc, "tests");
    return bn_json_count_of(bn_json_find(list, "name", s->s->test), "threads");
}

static void put_speed(struct bn_buf *out, const struct bn_report_series *s, const char *word, bool threads)
{
    const double *f = s->figure, spread = (f[BN_FIGURE_HIGH] - f[BN_FIGURE_LOW]) / 2 / f[BN_FIGURE_MEDIAN];
    bn_buf_printf(out, "%s%s ", out->len > 0 ? ", " : "", word);
    bn_units_value(out, 1e9 / f[BN_FIGURE_MEDIAN], "tok/s");
    if (isfinite(spread))
        bn_buf_printf(out, spread < 0.1 ? " \xC2\xB1 %.2g %%" : " \xC2\xB1 %.0f %%", 100 * spread);
    if (!threads || bn_report_threads(s) == 0) return;
    bn_buf_puts(out, " with ");
    bn_units_count(out, bn_report_threads(s), "thread");
}

bool bn_report_put_speeds(struct bn_buf *out, const struct bn_report *r)
{
    const struct bn_report_source *source = r->n_series > 0 ? r->series[0].source : NULL;
    const struct bn_report_series *decode = bn_report_fastest(r, source, "decode", false);
    const struct bn_report_series *prompt = bn_report_fastest(r, source, "prompt", false);
    const struct bn_report_series *either = decode != NULL ? decode : prompt;
    if (either == NULL) return false;
    bool differ = decode != NULL && prompt != NULL && bn_report_threads(decode) != bn_report_threads(prompt);
    if (decode != NULL) put_speed(out, decode, "decode", differ);
    if (prompt != NULL) put_speed(out, prompt, "prompt", differ);
    if (!differ && bn_report_threads(either) > 0) {
        bn_buf_puts(out, ", ");
        bn_units_count(out, bn_report_threads(either), "thread");
    }
    static const char *const PATHS[] = {"model.name", "machine.cpu_model"};
    for (size_t i = 0; i < BN_ARRAY_LEN(PATHS); i++) {
        const char *text = bn_json_text_of(either->source->doc, PATHS[i]);
        if (text[0] != '\0') bn_buf_printf(out, ", %s", text);
    }
    return true;
}

/* The largest change of the outcome that matters most. */
static bool put_change(struct bn_buf *out, const struct bn_report *r)
{
    const struct bn_comparison *worst = NULL;
    char percent[BN_UNITS_ROOM];
    for (size_t i = 0; i < r->n_comparisons; i++) {
        const struct bn_comparison *c = &r->comparisons[i].c;
        int rank = worst != NULL ? bn_outcome_rank(c->j.outcome) - bn_outcome_rank(worst->j.outcome) : 1;
        if (rank > 0 || (rank == 0 && fabs(c->j.change) > fabs(worst->j.change))) worst = c;
    }
    if (worst == NULL) return false;
    bn_buf_printf(out, "%s: %s of %s", bn_outcome_name(worst->j.outcome), worst->metric, worst->test);
    if (isfinite(worst->j.change))
        bn_buf_printf(out, ", %s",
                      bn_units_percent_text(percent, bn_judge_turn(worst->j.change, worst->higher), true));
    if (r->n_comparisons == 1) return true;
    bn_buf_puts(out, " (");
    bn_report_headline(out, r);
    bn_buf_puts(out, ")");
    return true;
}

void bn_report_sentence(struct bn_buf *out, const struct bn_report *r)
{
    if (!put_change(out, r) && !bn_report_put_speeds(out, r)) bn_report_headline(out, r);
}

void bn_report_put_origin(struct bn_buf *out, const struct bn_report_source *source)
{
    const bn_json *doc = source->doc;
    const char *command = bn_json_text_of(doc, "command"), *commit = bn_json_text_of(doc, "program.commit"),
               *cpu = bn_json_text_of(doc, "machine.cpu_model"), *created = bn_json_text_of(doc, "created");
    bool dirty = bn_json_flag_of(doc, "program.dirty");
    bn_buf_printf(out, "%s: %s", source->label,
                  command[0] != '\0' ? command : bn_json_text_of(doc, "schema"));
    if (created[0] != '\0') bn_buf_printf(out, ", %s", created);
    if (commit[0] != '\0')
        bn_buf_printf(out, ", commit %.10s%s", commit, dirty ? " with uncommitted changes" : "");
    if (cpu[0] != '\0') bn_buf_printf(out, ", %s", cpu);
}

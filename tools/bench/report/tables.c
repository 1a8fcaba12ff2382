/* SPDX-License-Identifier: MIT
 *
 * The tables of a report, cell by cell: text, Markdown and HTML show the same cells.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "tools/bench/report/report.h"

#define MAX_CELL (1u << 16)

/* ---- rows and cells ---- */

static void start(struct bn_report_table *t, const char *const *heads, const char *align)
{
    *t = (struct bn_report_table){.heads = heads, .align = align, .n_cols = strlen(align)};
}

/* The cells of a new row, NULL without memory. */
static struct bn_report_cell *add_row(struct bn_report_table *t, const char *kind)
{
    if (t->n_rows == t->room) {
        size_t room = t->room * 2 + 16;
        struct bn_report_cell *cells = bn_realloc(t->cells, room * t->n_cols, sizeof *cells);
        if (cells != NULL) t->cells = cells;
        const char **kinds = bn_realloc(t->kinds, room, sizeof *kinds);
        if (kinds != NULL) t->kinds = kinds;
        t->failed = t->failed || cells == NULL || kinds == NULL;
        if (!t->failed) t->room = room;
    }
    if (t->failed) return NULL;
    struct bn_report_cell *row = t->cells + t->n_rows * t->n_cols;
    memset(row, 0, t->n_cols * sizeof *row);
    t->kinds[t->n_rows++] = kind;
    return row;
}

static void take(struct bn_report_table *t, struct bn_report_cell *cell, struct bn_buf *text)
{
    cell->text = bn_strndup(text->data != NULL ? text->data : "", text->len);
    t->failed = t->failed || cell->text == NULL || text->failed;
    bn_buf_release(text);
}

static void put_text(struct bn_report_table *t, struct bn_report_cell *cell, const char *text)
{
    struct bn_buf b = {.max = MAX_CELL};
    bn_buf_puts(&b, text);
    take(t, cell, &b);
}

static void put_count(struct bn_report_table *t, struct bn_report_cell *cell, size_t n)
{
    struct bn_buf b = {.max = MAX_CELL};
    bn_buf_printf(&b, "%zu", n);
    take(t, cell, &b);
}

static void put_exact(struct bn_report_table *t, struct bn_report_cell *cell, double value, const char *unit)
{
    struct bn_buf b = {.max = MAX_CELL};
    if (!isfinite(value)) return;
    bn_json_write_number(&b, value);
    if (strcmp(unit, "1") != 0) bn_buf_printf(&b, " %s", unit);
    cell->exact = b.data != NULL ? bn_strndup(b.data, b.len) : NULL;
    t->failed = t->failed || cell->exact == NULL || b.failed;
    bn_buf_release(&b);
}

/* "5.343 ms" */
static void put_value(struct bn_report_table *t, struct bn_report_cell *cell, double value, const char *unit)
{
    struct bn_report_scale scale = bn_report_scale(unit, value);
    struct bn_buf b = {.max = MAX_CELL};
    bn_report_put(&b, value, &scale);
    if (isfinite(value) && scale.unit[0] != '\0')
        bn_buf_printf(&b, "%s%s", scale.unit[0] == '/' ? "" : " ", scale.unit);
    take(t, cell, &b);
    put_exact(t, cell, value, unit);
}

/* "5.301 - 5.402", in the unit that `of` is shown in. */
static void put_range(struct bn_report_table *t, struct bn_report_cell *cell, double low, double high,
                      double of, const char *unit)
{
    struct bn_report_scale scale = bn_report_scale(unit, of);
    struct bn_buf b = {.max = MAX_CELL};
    bn_report_put(&b, low, &scale);
    if (isfinite(low) && isfinite(high)) {
        bn_buf_puts(&b, " \xE2\x80\x93 ");
        bn_report_put(&b, high, &scale);
    }
    take(t, cell, &b);
}

static void put_percent(struct bn_report_table *t, struct bn_report_cell *cell, double share, bool sign)
{
    struct bn_buf b = {.max = MAX_CELL};
    bn_report_put_percent(&b, share, sign);
    take(t, cell, &b);
    put_exact(t, cell, share, "1");
}

/* Never 0: a test cannot show that. */
static void put_chance(struct bn_report_table *t, struct bn_report_cell *cell, double p)
{
    struct bn_buf b = {.max = MAX_CELL};
    if (!isfinite(p))
        bn_buf_puts(&b, "-");
    else if (p < 1e-4)
        bn_buf_puts(&b, "<1e-4");
    else
        bn_buf_printf(&b, p < 0.001 ? "%.4f" : p < 0.1 ? "%.3f" : "%.2f", p);
    take(t, cell, &b);
    put_exact(t, cell, p, "1");
}

void bn_report_table_release(struct bn_report_table *t)
{
    for (size_t i = 0; i < t->n_rows * t->n_cols; i++) {
        bn_free(t->cells[i].text);
        bn_free(t->cells[i].exact);
    }
    bn_free(t->cells);
    bn_free(t->kinds);
    *t = (struct bn_report_table){0};
}

/* Where the rows of a table are of several documents, each says which one. */
static void put_test(struct bn_report_table *t, struct bn_report_cell *cell, bool several,
                     const struct bn_report_source *source, const char *test)
{
    struct bn_buf b = {.max = MAX_CELL};
    if (several) bn_buf_printf(&b, "%s: ", source->label);
    bn_buf_puts(&b, test);
    take(t, cell, &b);
}

/* ---- the tables ---- */

void bn_report_table_series(struct bn_report_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"test", "metric", "median",  "95 % interval", "min \xE2\x80\x93 max",
                                        "MAD",  "n",      "outliers"};
    start(t, HEADS, "llrrrrrr");
    bool several = r->n_series > 0 && r->series[0].source != r->series[r->n_series - 1].source;
    for (size_t i = 0; i < r->n_series; i++) {
        const struct bn_report_series *s = &r->series[i];
        const double *f = s->figure;
        struct bn_report_cell *row = add_row(t, "");
        if (row == NULL) return;
        put_test(t, &row[0], several, s->source, s->s->test);
        put_text(t, &row[1], s->s->metric);
        put_value(t, &row[2], f[BN_FIGURE_MEDIAN], s->s->unit);
        put_range(t, &row[3], f[BN_FIGURE_LOW], f[BN_FIGURE_HIGH], f[BN_FIGURE_MEDIAN], s->s->unit);
        put_range(t, &row[4], f[BN_FIGURE_MIN], f[BN_FIGURE_MAX], f[BN_FIGURE_MEDIAN], s->s->unit);
        put_percent(t, &row[5],
                    f[BN_FIGURE_MEDIAN] > 0 ? f[BN_FIGURE_MAD] / f[BN_FIGURE_MEDIAN] : (double)NAN, false);
        put_count(t, &row[6], s->s->n);
        put_count(t, &row[7], s->n_outliers);
    }
}

static const char *kind_of(const struct bn_comparison *c)
{
    return c->j.outcome == BN_OUTCOME_REGRESSED      ? "bad"
           : c->j.outcome == BN_OUTCOME_INCONCLUSIVE ? "warn"
                                                     : "ok";
}

void bn_report_table_comparisons(struct bn_report_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"verdict", "test",           "metric",        "A",
                                        "B",       "change of cost", "95 % interval", "p",
                                        "n",       "A/A band",       "MDE",           "why"};
    start(t, HEADS, "lllrrrrrrrrl");
    bool several =
        r->n_comparisons > 0 && r->comparisons[0].source != r->comparisons[r->n_comparisons - 1].source;
    for (size_t i = 0; i < r->n_comparisons; i++) {
        const struct bn_comparison *c = &r->comparisons[i].c;
        struct bn_buf range = {.max = MAX_CELL};
        double a, b;
        bn_comparison_sides(c, &a, &b);
        struct bn_report_cell *row = add_row(t, kind_of(c));
        if (row == NULL) return;
        put_text(t, &row[0], bn_outcome_name(c->j.outcome));
        put_test(t, &row[1], several, r->comparisons[i].source, c->test);
        put_text(t, &row[2], c->metric);
        put_value(t, &row[3], a, c->unit);
        put_value(t, &row[4], b, c->unit);
        put_percent(t, &row[5], c->j.change, true);
        bn_report_put_percent(&range, c->j.low, true);
        if (isfinite(c->j.low) && isfinite(c->j.high)) {
            bn_buf_puts(&range, " to ");
            bn_report_put_percent(&range, c->j.high, true);
        }
        take(t, &row[6], &range);
        put_chance(t, &row[7], c->j.p);
        put_count(t, &row[8], c->j.n);
        put_percent(t, &row[9], c->j.band > 0 ? c->j.band : (double)NAN, false);
        put_percent(t, &row[10], c->j.mde, false);
        put_text(t, &row[11], c->j.reason);
    }
}

void bn_report_table_points(struct bn_report_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"no",
                                        "kernel",
                                        "shape",
                                        "threads",
                                        "per call",
                                        "95 % interval",
                                        "multiply-adds per byte",
                                        "multiply-adds",
                                        "share of the limit"};
    start(t, HEADS, "rllrrrrrl");
    bool several = r->n_points > 0 && r->points[0].source != r->points[r->n_points - 1].source;
    for (size_t i = 0; i < r->n_points; i++) {
        const struct bn_report_point *p = &r->points[i];
        struct bn_buf share = {.max = MAX_CELL};
        struct bn_report_cell *row = add_row(t, "");
        if (row == NULL) return;
        put_count(t, &row[0], i + 1);
        put_test(t, &row[1], several, p->source, p->kernel);
        put_text(t, &row[2], p->shape);
        put_count(t, &row[3], p->threads);
        put_value(t, &row[4], p->ns, "ns");
        put_range(t, &row[5], p->low, p->high, p->ns, "ns");
        put_value(t, &row[6], p->bytes > 0 ? p->macs / p->bytes : (double)NAN, "1");
        put_value(t, &row[7], p->macs > 0 ? p->macs * 1e9 / p->ns : (double)NAN, "1/s");
        if (isfinite(p->share))
            bn_buf_printf(&share, "%.3g %% of %s", 100 * p->share, p->limit);
        else
            bn_buf_puts(&share, "-");
        take(t, &row[8], &share);
        put_exact(t, &row[8], p->share, "1");
    }
}

void bn_report_table_bricks(struct bn_report_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"brick", "category", "exclusive", "share", "count"};
    start(t, HEADS, "llrrr");
    bool several = r->n_bricks > 0 && r->bricks[0].source != r->bricks[r->n_bricks - 1].source;
    for (size_t i = 0; i < r->n_bricks; i++) {
        const struct bn_report_brick *b = &r->bricks[i];
        struct bn_report_cell *row = add_row(t, "");
        if (row == NULL) return;
        put_test(t, &row[0], several, b->source, b->name);
        put_text(t, &row[1], b->category);
        put_value(t, &row[2], b->ns, "ns");
        put_percent(t, &row[3], b->share, false);
        if (b->rest)
            put_text(t, &row[4], "-");
        else
            put_count(t, &row[4], b->count);
    }
}

/* The last moment of each series, and where it changed. */
void bn_report_table_trends(struct bn_report_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"test", "metric", "entries", "first", "last", "changes of cost"};
    start(t, HEADS, "llrrrl");
    bool several = r->n_trends > 0 && r->trends[0].source != r->trends[r->n_trends - 1].source;
    for (size_t i = 0; i < r->n_trends; i++) {
        const struct bn_report_trend *h = &r->trends[i];
        struct bn_buf changes = {.max = MAX_CELL};
        struct bn_report_cell *row = add_row(t, "");
        if (row == NULL) return;
        put_test(t, &row[0], several, h->source, h->test);
        put_text(t, &row[1], h->metric);
        put_count(t, &row[2], h->n);
        put_value(t, &row[3], h->moments[0].median, h->unit);
        put_value(t, &row[4], h->moments[h->n - 1].median, h->unit);
        for (size_t k = 0; k < h->n_changes; k++) {
            if (k > 0) bn_buf_puts(&changes, ", ");
            bn_report_put_percent(&changes, h->changes[k].change, true);
            bn_buf_printf(&changes, " at %.10s", h->moments[h->changes[k].at].commit);
        }
        if (h->n_changes == 0) bn_buf_puts(&changes, "none found");
        take(t, &row[5], &changes);
    }
}

/* ---- sentences ---- */

void bn_report_headline(struct bn_buf *out, const struct bn_report *r)
{
    static const enum bn_outcome ORDER[] = {BN_OUTCOME_REGRESSED, BN_OUTCOME_IMPROVED, BN_OUTCOME_STABLE,
                                            BN_OUTCOME_SAME, BN_OUTCOME_INCONCLUSIVE};
    size_t n[BN_OUTCOMES] = {0};
    const char *comma = "";
    for (size_t i = 0; i < r->n_comparisons; i++)
        n[r->comparisons[i].c.j.outcome]++;
    for (size_t i = 0; i < BN_ARRAY_LEN(ORDER); i++) {
        enum bn_outcome o = ORDER[i];
        if (n[o] == 0) continue;
        bn_buf_printf(out, "%s%zu %s", comma, n[o], bn_outcome_name(o));
        comma = ", ";
    }
    if (r->n_comparisons > 0) return; /* verdicts before anything else */
    if (r->n_series > 0) {
        bn_buf_printf(out, "%s%zu series measured", comma, r->n_series);
        comma = ", ";
    }
    size_t changes = 0, bricks = 0;
    for (size_t i = 0; i < r->n_trends; i++)
        changes += r->trends[i].n_changes;
    for (size_t i = 0; i < r->n_bricks; i++)
        bricks += !r->bricks[i].rest;
    if (r->n_trends > 0) {
        bn_buf_printf(out, "%s%zu series over time, ", comma, r->n_trends);
        bn_buf_printf(out, "%zu change%s", changes, changes == 1 ? "" : "s");
        comma = ", ";
    }
    if (bricks > 0) bn_buf_printf(out, "%s%zu bricks profiled", comma, bricks);
}

void bn_report_put_origin(struct bn_buf *out, const struct bn_report_source *source)
{
    const bn_json *doc = source->doc;
    bool dirty = false;
    const char *command = bn_json_text_of(doc, "command"), *commit = bn_json_text_of(doc, "program.commit"),
               *cpu = bn_json_text_of(doc, "machine.cpu_model"), *created = bn_json_text_of(doc, "created");
    (void)bn_json_bool(bn_json_path(doc, "program.dirty"), &dirty);
    bn_buf_printf(out, "%s: ", source->label);
    bn_buf_puts(out, command[0] != '\0' ? command : bn_json_text_of(doc, "schema"));
    if (created[0] != '\0') bn_buf_printf(out, ", %s", created);
    if (commit[0] != '\0')
        bn_buf_printf(out, ", commit %.10s%s", commit, dirty ? " with changes that are in no commit" : "");
    if (cpu[0] != '\0') bn_buf_printf(out, ", %s", cpu);
}

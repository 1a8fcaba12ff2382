/* SPDX-License-Identifier: MIT
 *
 * A result for people, drawn from the document of --json: a line for each rung, tables of the limits, the layers and
 * the operations, and one sentence for each reference that does not agree.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "lab/report/table.h"
#include "lab/report/units.h"
#include "tools/crossval/crossval.h"

#define MAX_VIEW (64u << 20)
#define AROUND 3.0 /* operations shown before and from the first one out of tolerance */

struct view {
    struct bn_buf *out;
    bool quiet; /* of the limits only those that are exceeded */
    bool all;   /* every operation, not only those around the first one out of tolerance */
};

/* ---- lines and tables ---- */

static void put_heading(const struct view *v, const char *text)
{
    bn_text_put(v->out, text);
    bn_buf_putc(v->out, '\n');
}

/* Releases the text. */
static void put_line(const struct view *v, const char *status, const char *name, struct bn_buf *text)
{
    static const struct {
        const char *status, *word, *color;
    } STATES[] = {{"pass", "pass", "\033[32m"},
                  {"fail", "FAIL", "\033[31m"},
                  {"skip", "skip", "\033[2m"},
                  {"error", "ERROR", "\033[31m"}};
    size_t i = bn_find_text(STATES, BN_ARRAY_LEN(STATES) - 1, sizeof *STATES, status); /* else "error" */
    bool color = bn_report_color(stdout);
    bn_buf_printf(v->out, "  %s%-5s%s %-11s ", color ? STATES[i].color : "", STATES[i].word,
                  color ? "\033[0m" : "", name);
    put_heading(v, bn_buf_text(text));
    v->out->failed = v->out->failed || text->failed;
    bn_buf_release(text);
}

/* What follows a line; nothing when the text is "". */
static void put_more(const struct view *v, const char *fmt, ...) BN_PRINTF(2, 3);
static void put_more(const struct view *v, const char *fmt, ...)
{
    char text[1000];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (text[0] == '\0') return;
    bn_buf_puts(v->out, "        ");
    put_heading(v, text);
}

/* Releases the table; one without rows is not drawn. */
static void put_table(const struct view *v, struct bn_table *t)
{
    if (t->n_rows > 0) bn_table_put_text(v->out, t);
    bn_table_release(t);
}

/* ---- rungs ---- */

static void put_rung(const struct view *v, const bn_json *rung)
{
    const char *name = bn_json_text_of(rung, "rung"), *status = bn_json_text_of(rung, "status"),
               *reason = bn_json_text_of(rung, "reason");
    size_t n = bn_json_count_of(rung, "compared"), rows = bn_json_count_of(rung, "rows");
    bool pass = strcmp(status, "pass") == 0, decode = strcmp(name, "decode") == 0;
    struct bn_buf text = {.max = 4096};
    if (!pass) {
        bn_buf_printf(&text, "%.2000s", reason);
    } else if (rows > 0 && !decode) {
        bn_units_count(&text, rows, "row");
        bn_buf_printf(&text, ", %zu logits, %zu rows equal to the bit", n,
                      bn_json_count_of(rung, "rows_same_bits"));
    } else {
        bn_units_count(&text, n, decode ? "greedy step" : "token");
        if (strcmp(name, "tokens") == 0) bn_buf_puts(&text, ", all equal");
    }
    put_line(v, status, name, &text);
    if (pass) put_more(v, "%s", reason);
    if (bn_json_get(rung, "here") != NULL) {
        put_more(v, "here      %s", bn_json_text_of(rung, "here"));
        put_more(v, "there     %s", bn_json_text_of(rung, "there"));
    }
    put_more(v, "%s", bn_json_text_of(rung, "hint"));
    if (bn_json_get(rung, "steps") != NULL && (!pass || !v->quiet))
        put_more(v, "agree     %zu of %zu, ties %zu", bn_json_count_of(rung, "agree"),
                 bn_json_count_of(rung, "steps"), bn_json_count_of(rung, "ties"));
    if (bn_json_get(rung, "nll_here") != NULL && (!pass || !v->quiet))
        put_more(v, "nll       here %.5f, there %.5f", bn_json_number_of(rung, "nll_here"),
                 bn_json_number_of(rung, "nll_there"));
}

static void put_limits(const struct view *v, const bn_json *rungs)
{
    static const char *const HEADS[] = {"limits of", "measure", "of",       "value",
                                        "limit",     "margin",  "position", "exceeded"};
    struct bn_table t;
    bn_table_begin(&t, HEADS, "lllrrrrl");
    for (const bn_json *r = bn_json_first(rungs); r != NULL; r = bn_json_next(r)) {
        const bn_json *limits = bn_json_get(r, "limits");
        for (const bn_json *l = bn_json_first(limits); l != NULL; l = bn_json_next(l)) {
            bool holds = bn_json_flag_of(l, "holds"), is_min = bn_json_get(l, "min") != NULL;
            double bound = bn_json_number_of(l, is_min ? "min" : "max");
            if (holds && v->quiet) continue;
            bn_table_row(&t, holds ? "" : "bad");
            bn_table_text(&t, bn_json_text_of(r, "rung"));
            bn_table_text(&t, bn_json_text_of(l, "metric"));
            bn_table_text(&t, bn_json_text_of(l, "of"));
            bn_table_rounded(&t, bn_json_get(l, "value"));
            bn_table_printf(&t, "%s %.6g", is_min ? ">=" : "<=", bound);
            bn_table_exact(&t, bound, "1");
            bn_table_rounded(&t, bn_json_get(l, "margin"));
            bn_table_rounded(&t, bn_json_get(l, "position"));
            bn_table_text(&t, holds ? "no" : bn_json_text_is(r, "status", "pass") ? "explained" : "BROKEN");
        }
    }
    put_table(v, &t);
}

/* ---- operations ---- */

static void put_layer_number(struct bn_table *t, const bn_json *op)
{
    double layer = bn_json_number_of(op, "layer");
    bn_table_printf(t, layer >= 0 ? "%.0f" : "-", layer);
}

/* Of one layer: the last operation, the first out of tolerance, the one that is closest to its tolerance. */
struct layer {
    const bn_json *end, *bad, *near;
    double excess;
};

static void add_operation(struct layer *l, const bn_json *op)
{
    double error = bn_json_number_of(op, "error"), allowed = bn_json_number_of(op, "allowed");
    double excess = allowed > 0 ? error / allowed : error > 0 ? HUGE_VAL : 0;
    if (bn_json_text_is(op, "found", "absent")) return;
    if (l->bad == NULL && !bn_json_text_is(op, "found", "within")) l->bad = op;
    l->end = op;
    if (l->near != NULL && !(excess > l->excess)) return;
    l->near = op;
    l->excess = excess;
}

static void put_layer(struct bn_table *t, const struct layer *l)
{
    if (l->end == NULL) return;
    bn_table_row(t, l->bad != NULL ? "bad" : "");
    put_layer_number(t, l->end);
    bn_table_rounded(t, bn_json_get(l->end, "cosine"));
    bn_table_rounded(t, bn_json_get(l->end, "nrmse"));
    bn_table_text(t, bn_json_text_of(l->near, "op"));
    bn_table_percent(t, l->excess, false);
    bn_table_text(t, l->bad != NULL ? bn_json_text_of(l->bad, "op") : "none");
}

/* A row for each layer: the difference of the residual stream after it, and the wrong operation in it. */
static void put_layers(const struct view *v, const bn_json *list)
{
    static const char *const HEADS[] = {"layer",        "cosine",         "nrmse", "closest to limit",
                                        "of its limit", "first beyond it"};
    struct layer inside = {0}, outside = {0};
    double number = -1;
    struct bn_table t;
    bn_table_begin(&t, HEADS, "lrrlrl");
    for (const bn_json *o = bn_json_first(list); o != NULL; o = bn_json_next(o)) {
        double layer = bn_json_number_of(o, "layer");
        if (layer >= 0 && layer != number) {
            put_layer(&t, &inside);
            inside = (struct layer){0};
            number = layer;
        }
        add_operation(layer >= 0 ? &inside : &outside, o);
    }
    put_layer(&t, &inside);
    put_layer(&t, &outside);
    put_table(v, &t);
}

static void put_operations(const struct view *v, const bn_json *trace)
{
    static const char *const HEADS[] = {"layer",   "operation", "input off", "output off",
                                        "allowed", "position",  "found"};
    static const char *const NUMBERS[] = {"handed", "error", "allowed", "position"};
    const bn_json *list = bn_json_get(trace, "operations");
    double first = bn_json_number_of(trace, "first.index"), i = 0;
    struct bn_table t;
    bn_table_begin(&t, HEADS, "llrrrrl");
    for (const bn_json *o = bn_json_first(list); o != NULL; o = bn_json_next(o), i++) {
        if (!v->all && !(i >= first - AROUND && i < first + AROUND)) continue;
        bn_table_row(&t, bn_json_text_is(o, "found", "within") ? "" : "bad");
        put_layer_number(&t, o);
        bn_table_text(&t, bn_json_text_of(o, "op"));
        for (size_t k = 0; k < BN_ARRAY_LEN(NUMBERS); k++)
            bn_table_rounded(&t, bn_json_get(o, NUMBERS[k]));
        bn_table_text(&t, bn_json_flag_of(o, "same_bits") ? "same bits" : bn_json_text_of(o, "found"));
    }
    put_table(v, &t);
}

static void put_trace(const struct view *v, const bn_json *trace)
{
    bool pass = bn_json_text_is(trace, "status", "pass");
    struct bn_buf text = {.max = 4096};
    if (pass) {
        bn_buf_printf(&text, "%zu records of ", bn_json_count_of(trace, "records"));
        bn_units_count(&text, bn_json_count_of(trace, "tokens"), "token");
        bn_buf_printf(&text, ", %zu values, %zu records equal to the bit", bn_json_count_of(trace, "values"),
                      bn_json_count_of(trace, "same_bits"));
    } else {
        bn_buf_printf(&text, "%.2000s", bn_json_text_of(trace, "reason"));
    }
    put_line(v, bn_json_text_of(trace, "status"), "trace", &text);
    if (v->quiet && pass) return;
    if (bn_json_count_of(trace, "absent") > 0)
        put_more(v, "%zu records that the reference did not send", bn_json_count_of(trace, "absent"));
    put_layers(v, bn_json_get(trace, "operations"));
    put_operations(v, trace);
}

/* ---- references ---- */

static void put_reference(const struct view *v, const bn_json *ref)
{
    const bn_json *rungs = bn_json_get(ref, "rungs"), *trace = bn_json_get(ref, "trace");
    const char *commit = bn_json_text_of(ref, "commit");
    char title[700];
    bool failed = false;
    if (!bn_json_flag_of(ref, "started")) return; /* the summary says why */
    snprintf(title, sizeof title, "reference %.400s: %s %s%s%s", bn_json_text_of(ref, "reference"),
             bn_json_text_of(ref, "name"), bn_json_text_of(ref, "version"), commit[0] != '\0' ? " " : "",
             commit);
    put_heading(v, title);
    for (const bn_json *r = bn_json_first(rungs); r != NULL; r = bn_json_next(r)) {
        /* After a failure of the reference every rung has its reason. */
        bool error = bn_json_text_is(r, "status", "error");
        if (!error || !failed) put_rung(v, r);
        failed = failed || error;
    }
    if (trace != NULL && !(failed && bn_json_text_is(trace, "status", "error"))) put_trace(v, trace);
    put_limits(v, rungs);
}

static void put_pairs(const struct view *v, const bn_json *pairs)
{
    static const char *const HEADS[] = {"engine", "compared with", "mean nrmse", "result"};
    struct bn_table t;
    if (pairs == NULL) return;
    put_heading(v, "Pairs of engines");
    bn_table_begin(&t, HEADS, "llrl");
    for (const bn_json *p = bn_json_first(pairs); p != NULL; p = bn_json_next(p)) {
        bool agree = bn_json_flag_of(p, "agree");
        bn_table_row(&t, agree ? "ok" : "bad");
        bn_table_text(&t, bn_json_text_of(p, "a"));
        bn_table_text(&t, bn_json_text_of(p, "b"));
        bn_table_rounded(&t, bn_json_get(p, "nrmse_mean"));
        bn_table_text(&t, agree ? "agree" : "DIFFER");
    }
    put_table(v, &t);
}

/* ---- the verdict ---- */

static const bn_json *references(const bn_json *doc)
{
    return bn_json_get(doc, "references");
}

bool bn_crossval_put_sentence(struct bn_buf *out, const bn_json *ref)
{
    const char *parted = bn_json_text_of(ref, "parted_at"), *where = bn_json_text_of(ref, "failure.where"),
               *hint = bn_json_text_of(ref, "failure.hint"), *last = bn_json_text_of(ref, "failure.stderr");
    if (bn_json_text_is(ref, "result", "agree")) return false;
    bn_buf_printf(out, "%.200s: ", bn_json_text_of(ref, "reference"));
    if (bn_json_text_is(ref, "result", "failed"))
        bn_buf_printf(out, "FAILED, no agreement: %s%s%s%s%s", where, where[0] != '\0' ? ": " : "",
                      bn_json_text_of(ref, "failure.message"),
                      hint[0] != '\0'   ? "; "
                      : last[0] != '\0' ? "; its last words: "
                                        : "",
                      hint[0] != '\0' ? hint : last);
    else if (bn_json_text_is(ref, "result", "no_data"))
        bn_buf_puts(out, "NOTHING was compared");
    else
        bn_buf_printf(out, "DIFFERS%s%s%s", parted[0] != '\0' ? " from rung " : "", parted,
                      parted[0] != '\0' ? " on" : "");
    if (bn_json_text_is(ref, "result", "differ") && bn_json_text_is(ref, "trace.status", "fail"))
        bn_buf_printf(out, "; %s", bn_json_text_of(ref, "trace.reason"));
    return true;
}

/* Whether all of them say so. */
static bool all_agree(const bn_json *list)
{
    const bn_json *e = bn_json_first(list);
    while (e != NULL && (bn_json_flag_of(e, "agree") || bn_json_text_is(e, "result", "agree")))
        e = bn_json_next(e);
    return e == NULL && bn_json_size(list) > 0;
}

/* Line i of the summary: the odd one out, one line for each reference that does not agree, the agreement.
 * False when there is nothing to say. */
static bool put_summary(struct bn_buf *out, const bn_json *doc, size_t i)
{
    const bn_json *between = bn_json_get(doc, "between"), *list = references(doc);
    size_t n = bn_json_size(list);
    const char *odd = bn_json_text_of(between, "odd_one_out");
    if (i == 0 && (between == NULL || all_agree(bn_json_get(between, "pairs")))) return false;
    if (i == 0) bn_buf_printf(out, "odd one out: %s", odd[0] != '\0' ? odd : "none, no majority agrees");
    if (i == 0) return true;
    if (i <= n) return bn_crossval_put_sentence(out, bn_json_at(list, i - 1));
    if (!all_agree(list)) return false;
    bn_buf_puts(out, "agree: ");
    bn_units_count(out, bn_json_size(bn_json_get(doc, "tokens")), "token");
    bn_buf_puts(out, ", ");
    bn_units_count(out, n, "reference");
    return true;
}

/* The model and the prompt. */
static void put_subject(struct bn_buf *out, const bn_json *doc)
{
    bn_buf_printf(out, "%s: %s, ", bn_json_text_of(doc, "model.name"), bn_json_text_of(doc, "model.arch"));
    bn_units_count(out, bn_json_count_of(doc, "model.layers"), "layer");
    bn_buf_printf(out, ", vocabulary %zu; ", bn_json_count_of(doc, "model.vocabulary"));
    bn_units_count(out, bn_json_size(bn_json_get(doc, "tokens")), "token");
    bn_buf_printf(out, ", %zu decoded", bn_json_size(bn_json_get(doc, "decoded")));
}

bn_status bn_crossval_print(const struct bn_args *args, const bn_json *doc, bn_error *err)
{
    struct bn_buf out = {.max = MAX_VIEW}, line = {.max = 1u << 20};
    struct view v = {&out, args->quiet, args->verbose > 0};
    put_subject(&line, doc);
    if (!args->quiet) put_heading(&v, bn_buf_text(&line));
    for (const bn_json *r = bn_json_first(references(doc)); r != NULL; r = bn_json_next(r))
        put_reference(&v, r);
    put_pairs(&v, bn_json_path(doc, "between.pairs"));
    for (size_t i = 0; i <= bn_json_size(references(doc)) + 1; i++) {
        line.len = 0;
        if (put_summary(&line, doc, i)) put_heading(&v, bn_buf_text(&line));
    }
    out.failed = out.failed || line.failed;
    bn_buf_release(&line);
    return bn_cli_print_text(&out, err);
}

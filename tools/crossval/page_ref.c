/* SPDX-License-Identifier: MIT
 *
 * The section of one reference: plots, the operations, the rungs with their limits.
 */
#include <math.h>
#include <stdio.h>

#include "lab/report/page.h"
#include "lab/report/table.h"
#include "lab/report/units.h"
#include "tools/crossval/crossval.h"

#define AROUND 4u /* operations shown before and from the first one out of tolerance */

static void put_table(struct bn_buf *out, struct bn_table *t)
{
    bn_table_put_html(out, t, "", SIZE_MAX);
    bn_table_release(t);
}

static void put_meter(struct bn_table *t, double share, bool exceeded)
{
    char percent[BN_UNITS_ROOM], text[2 * BN_UNITS_ROOM];
    snprintf(text, sizeof text, "%s%s", bn_units_percent_text(percent, share, false),
             exceeded ? ", exceeded" : "");
    bn_table_meter(t, share, text);
}

/* ---- rungs ---- */

/* How much of a limit is used: 1 is all of it. Measures whose best value is 1 count from 1. */
static double used(const bn_json *limit)
{
    double value = bn_json_number_of(limit, "value"), max = bn_json_number_of(limit, "max"),
           min = bn_json_number_of(limit, "min");
    bool from_one = isfinite(min) || bn_json_text_is(limit, "metric", "rms_ratio");
    double bound = isfinite(min) ? 1 - min : from_one ? max - 1 : max;
    double away = isfinite(min) ? 1 - value : from_one ? value - 1 : value;
    if (!(away > 0)) return 0;
    return bound > 0 ? away / bound : 10;
}

static void put_limits(struct bn_buf *out, const bn_json *limits)
{
    static const char *const HEADS[] = {"measure", "value", "limit", "margin", "used", "position"};
    struct bn_table t;
    bn_table_begin(&t, HEADS, "lrrrrr");
    for (const bn_json *l = bn_json_first(limits); l != NULL; l = bn_json_next(l)) {
        bool holds = bn_json_flag_of(l, "holds"), is_min = bn_json_get(l, "min") != NULL;
        double bound = bn_json_number_of(l, is_min ? "min" : "max");
        bn_table_row(&t, holds ? "" : "bad");
        bn_table_printf(&t, "%s, %s", bn_json_text_of(l, "metric"), bn_json_text_of(l, "of"));
        bn_table_rounded(&t, bn_json_get(l, "value"));
        bn_table_printf(&t, "%s %.7g", is_min ? "\xE2\x89\xA5" : "\xE2\x89\xA4", bound);
        bn_table_exact(&t, bound, "1");
        bn_table_rounded(&t, bn_json_get(l, "margin"));
        put_meter(&t, used(l), !holds);
        if (bn_json_get(l, "position") != NULL) bn_table_rounded(&t, bn_json_get(l, "position"));
    }
    if (t.n_rows > 0) put_table(out, &t);
}

/* What a rung reports apart from its limits. */
static void put_facts(struct bn_buf *out, const bn_json *rung)
{
    if (bn_json_get(rung, "here") != NULL)
        bn_html(out,
                "<div class=\"scroll\" tabindex=\"0\"><pre>here   %s\nthere  %s</pre></div><p>The bracket "
                "marks the first difference.</p>\n",
                bn_json_text_of(rung, "here"), bn_json_text_of(rung, "there"));
    if (bn_json_get(rung, "hint") != NULL)
        bn_html(out, "<p class=\"hint\">%s</p>\n", bn_json_text_of(rung, "hint"));
    if (bn_json_get(rung, "steps") != NULL)
        bn_html(out, "<p>%zu of %zu greedy steps agree, %zu are ties.</p>\n", bn_json_count_of(rung, "agree"),
                bn_json_count_of(rung, "steps"), bn_json_count_of(rung, "ties"));
    if (bn_json_get(rung, "nll_here") == NULL) return;
    bn_html(out, "<p>Mean negative log likelihood: this engine ");
    bn_html_number(out, bn_json_get(rung, "nll_here"));
    bn_html(out, ", the reference ");
    bn_html_number(out, bn_json_get(rung, "nll_there"));
    bn_html(out, ", difference %g, limit ",
            fabs(bn_json_number_of(rung, "nll_here") - bn_json_number_of(rung, "nll_there")));
    bn_html_number(out, bn_json_get(rung, "delta_max"));
    bn_html(out, ".</p>\n");
}

static void put_rung(struct bn_buf *out, const bn_json *rung)
{
    const bn_json *limits = bn_json_get(rung, "limits");
    const char *status = bn_json_text_of(rung, "status");
    bn_html(out, "<div class=\"rung\"><h4>");
    bn_page_mark(out, bn_crossval_kind(status));
    bn_html(out, "%s <span class=\"small\">%s</span></h4>\n", bn_json_text_of(rung, "rung"), status);
    if (bn_json_get(rung, "reason") != NULL) bn_html(out, "<p>%s</p>\n", bn_json_text_of(rung, "reason"));
    if (strcmp(status, "pass") == 0 && bn_json_text_is(rung, "rung", "tokens"))
        bn_html(out, "<p>%zu tokens, all equal.</p>\n", bn_json_count_of(rung, "compared"));
    if (strcmp(status, "pass") == 0 && bn_json_size(limits) > 0)
        bn_html(out, "<p>Compared: %zu logits. Rows: %zu, equal to the bit: %zu.</p>\n",
                bn_json_count_of(rung, "compared"), bn_json_count_of(rung, "rows"),
                bn_json_count_of(rung, "rows_same_bits"));
    put_facts(out, rung);
    put_limits(out, limits);
    bn_html(out, "</div>\n");
}

/* ---- operations ---- */

struct layer {
    double number; /* -1: the operations outside of layers */
    const bn_json *end, *bad, *near;
    double excess;
};

static double excess_of(const bn_json *op)
{
    double error = bn_json_number_of(op, "error"), allowed = bn_json_number_of(op, "allowed");
    return isfinite(error) && allowed > 0 ? error / allowed : error > 0 ? HUGE_VAL : 0;
}

static void put_layer(struct bn_table *t, const struct layer *l)
{
    if (l->end == NULL && l->bad == NULL) return;
    bn_table_row(t, l->bad != NULL ? "bad" : "");
    if (l->number >= 0)
        bn_table_printf(t, "%.0f", l->number);
    else
        bn_table_text(t, "outside");
    bn_table_rounded(t, bn_json_get(l->end, "cosine"));
    bn_table_rounded(t, bn_json_get(l->end, "nrmse"));
    bn_table_text(t, bn_json_text_of(l->near, "op"));
    put_meter(t, l->excess, l->excess > 1);
    bn_table_text(t, l->bad != NULL ? bn_json_text_of(l->bad, "op") : "none");
}

static void add_operation(struct layer *l, const bn_json *op)
{
    if (bn_json_text_is(op, "found", "absent")) return;
    if (l->bad == NULL && !bn_json_text_is(op, "found", "within")) l->bad = op;
    if (bn_json_get(op, "error") == NULL) return;
    l->end = op;
    if (l->near != NULL && !(excess_of(op) > l->excess)) return;
    l->near = op;
    l->excess = excess_of(op);
}

static void put_layers(struct bn_buf *out, const bn_json *list)
{
    static const char *const HEADS[] = {"layer",           "cosine at its end", "nrmse",
                                        "worst operation", "of its tolerance",  "first out of tolerance"};
    struct layer l = {.number = 0}, outside = {.number = -1};
    struct bn_table t;
    bn_table_begin(&t, HEADS, "lrrlrl");
    for (const bn_json *o = bn_json_first(list); o != NULL; o = bn_json_next(o)) {
        double number = bn_json_number_of(o, "layer");
        if (number >= 0 && number != l.number) {
            put_layer(&t, &l);
            l = (struct layer){.number = number};
        }
        add_operation(number < 0 ? &outside : &l, o);
    }
    put_layer(&t, &l);
    put_layer(&t, &outside);
    bn_html(out, "<h4>Layers</h4>\n");
    put_table(out, &t);
}

/* The operations around the first one out of tolerance. */
static void put_around(struct bn_buf *out, const bn_json *trace)
{
    static const char *const HEADS[] = {"operation",           "error",    "allowed",
                                        "error of its inputs", "position", "found"};
    static const char *const NUMBERS[] = {"error", "allowed", "handed", "position"};
    const bn_json *first = bn_json_get(trace, "first"), *list = bn_json_get(trace, "operations");
    size_t at = 0, i = 0;
    struct bn_table t;
    if (first == NULL) return;
    for (const bn_json *o = bn_json_first(list); o != NULL; o = bn_json_next(o), at++)
        if (bn_json_text_is(o, "op", bn_json_text_of(first, "op")) &&
            bn_json_number_of(o, "layer") == bn_json_number_of(first, "layer"))
            break;
    bn_table_begin(&t, HEADS, "lrrrrl");
    for (const bn_json *o = bn_json_first(list); o != NULL; o = bn_json_next(o), i++) {
        if (i + AROUND < at || i >= at + AROUND) continue;
        bn_table_row(&t, bn_json_text_is(o, "found", "within") ? "" : "bad");
        if (bn_json_number_of(o, "layer") >= 0)
            bn_table_printf(&t, "%.0f %s", bn_json_number_of(o, "layer"), bn_json_text_of(o, "op"));
        else
            bn_table_text(&t, bn_json_text_of(o, "op"));
        for (size_t k = 0; k < BN_ARRAY_LEN(NUMBERS); k++)
            bn_table_rounded(&t, bn_json_get(o, NUMBERS[k]));
        bn_table_text(&t, bn_json_flag_of(o, "same_bits") ? "same bits" : bn_json_text_of(o, "found"));
    }
    bn_html(out, "<h4>Around the first operation out of tolerance</h4>\n");
    put_table(out, &t);
}

static void put_trace(struct bn_buf *out, const bn_json *ref)
{
    const bn_json *trace = bn_json_get(ref, "trace");
    if (trace == NULL) return;
    bn_html(out, "<h3>");
    bn_page_mark(out, bn_crossval_kind(bn_json_text_of(trace, "status")));
    bn_html(out, "Operations</h3>\n");
    if (bn_json_get(trace, "reason") != NULL) bn_html(out, "<p>%s</p>\n", bn_json_text_of(trace, "reason"));
    if (bn_json_count_of(trace, "records") > 0)
        bn_html(out,
                "<p>Compared: %zu records of %zu values. Tokens: %zu. Equal to the bit: %zu. Not sent: "
                "%zu.</p>\n",
                bn_json_count_of(trace, "records"), bn_json_count_of(trace, "values"),
                bn_json_count_of(trace, "tokens"), bn_json_count_of(trace, "same_bits"),
                bn_json_count_of(trace, "absent"));
    bn_crossval_plot_path(out, ref);
    put_around(out, trace);
    if (bn_json_size(bn_json_get(trace, "operations")) > 0) put_layers(out, bn_json_get(trace, "operations"));
}

/* ---- the section ---- */

static void put_failure(struct bn_buf *out, const bn_json *ref)
{
    const bn_json *failure = bn_json_get(ref, "failure");
    if (failure == NULL) return;
    bn_html(out, "<div class=\"callout\"><p><b>The reference failed.</b> %s%s%s</p>",
            bn_json_text_of(failure, "where"), bn_json_get(failure, "where") != NULL ? ": " : "",
            bn_json_text_of(failure, "message"));
    if (bn_json_text_of(failure, "stderr")[0] != '\0')
        bn_html(out, "<p>Its last messages:</p><div class=\"scroll\" tabindex=\"0\"><pre>%s</pre></div>",
                bn_json_text_of(failure, "stderr"));
    bn_html(out, "</div>\n");
}

void bn_crossval_put_reference(struct bn_buf *out, const bn_json *ref, size_t index)
{
    const bn_json *rungs = bn_json_get(ref, "rungs");
    bn_html(out, "<h2 id=\"ref-%zu\"><span class=\"small\">compared with</span> %s</h2>\n", index,
            bn_json_text_of(ref, "reference"));
    put_failure(out, ref);
    bn_html(out, "<div class=\"plots\">\n");
    bn_crossval_plot_positions(out, ref);
    bn_crossval_plot_scatter(out, ref);
    bn_crossval_plot_layers(out, ref);
    bn_html(out, "</div>\n");
    put_trace(out, ref);
    if (bn_json_size(rungs) > 0) bn_html(out, "<h3>Rungs</h3>\n");
    for (const bn_json *r = bn_json_first(rungs); r != NULL; r = bn_json_next(r))
        put_rung(out, r);
}

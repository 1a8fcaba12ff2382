/* SPDX-License-Identifier: MIT
 *
 * The section of one reference: its rungs with their limits, its plots, the table of the layers, what it is.
 */
#include <math.h>
#include <stdio.h>

#include "tools/crossval/page.h"

/* ---- rungs ---- */

/* How much of what a limit allows is used: 1 is all of it. For measures whose best is 1 that is counted from
 * 1. */
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

static void put_limit(struct bn_buf *out, const bn_json *limit)
{
    bool holds = bn_json_flag_of(limit, "holds"), is_min = bn_json_get(limit, "min") != NULL;
    double share = used(limit);
    bn_html(out, "<tr class=\"%s\"><th scope=\"row\">%s <small>%s</small></th><td>", holds ? "" : "broken",
            bn_json_text_of(limit, "metric"), bn_json_text_of(limit, "of"));
    bn_html_number(out, bn_json_get(limit, "value"));
    bn_html(out, "</td><td><small>%s</small> ", is_min ? "\xE2\x89\xA5" : "\xE2\x89\xA4");
    bn_html_number(out, bn_json_get(limit, is_min ? "min" : "max"));
    bn_html(out, "</td><td>");
    bn_html_number(out, bn_json_get(limit, "margin"));
    bn_html(out, "</td><td class=\"used\"><span class=\"meter\"><i style=\"width:%.1f%%\"></i></span> ",
            fmin(share, 1) * 100);
    if (holds)
        bn_html(out, "%.2g%%", share * 100);
    else
        bn_html(out, "\xE2\x9C\x95 broken");
    bn_html(out, "</td><td class=\"at\">");
    if (bn_json_get(limit, "position") != NULL) bn_html_number(out, bn_json_get(limit, "position"));
    bn_html(out, "</td></tr>\n");
}

/* What a rung says besides limits. */
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
    bn_html(out, "<p>Mean negative log likelihood ");
    bn_html_number(out, bn_json_get(rung, "nll_here"));
    bn_html(out, " here, ");
    bn_html_number(out, bn_json_get(rung, "nll_there"));
    bn_html(out, " there: %g apart, limit ",
            fabs(bn_json_number_of(rung, "nll_here") - bn_json_number_of(rung, "nll_there")));
    bn_html_number(out, bn_json_get(rung, "delta_max"));
    bn_html(out, ".</p>\n");
}

static void put_rung(struct bn_buf *out, const bn_json *rung)
{
    const bn_json *limits = bn_json_get(rung, "limits");
    bn_html(out, "<div class=\"rung\"><h4>");
    bn_crossval_put_state(out, bn_json_text_of(rung, "status"));
    bn_html(out, " %s <span class=\"word\">%s</span></h4>\n", bn_json_text_of(rung, "rung"),
            bn_json_text_of(rung, "status"));
    if (bn_json_get(rung, "reason") != NULL) bn_html(out, "<p>%s</p>\n", bn_json_text_of(rung, "reason"));
    if (bn_json_text_is(rung, "status", "pass") && bn_json_text_is(rung, "rung", "tokens"))
        bn_html(out, "<p>%zu tokens, all equal.</p>\n", bn_json_count_of(rung, "compared"));
    if (bn_json_text_is(rung, "status", "pass") && bn_json_size(limits) > 0)
        bn_html(out, "<p>%zu logits in %zu row%s, of which %zu equal to the bit.</p>\n",
                bn_json_count_of(rung, "compared"), bn_json_count_of(rung, "rows"),
                bn_json_count_of(rung, "rows") == 1 ? "" : "s", bn_json_count_of(rung, "rows_same_bits"));
    put_facts(out, rung);
    if (bn_json_size(limits) > 0) {
        bn_html(out, "<div class=\"scroll\" tabindex=\"0\"><table class=\"limits\"><thead><tr><th "
                     "scope=\"col\">measure</th><th scope=\"col\">value</th><th scope=\"col\">limit</th><th "
                     "scope=\"col\">margin</th><th class=\"used\" scope=\"col\">of the limit</th><th "
                     "scope=\"col\">position</th></tr></thead><tbody>\n");
        for (const bn_json *l = bn_json_first(limits); l != NULL; l = bn_json_next(l))
            put_limit(out, l);
        bn_html(out, "</tbody></table></div>\n");
    }
    bn_html(out, "</div>\n");
}

/* ---- trace ---- */

struct layer {
    double number;
    const bn_json *end, *bad, *near;
    double excess;
};

static double excess_of(const bn_json *op)
{
    double error = bn_json_number_of(op, "error"), allowed = bn_json_number_of(op, "allowed");
    return isfinite(error) && allowed > 0 ? error / allowed : error > 0 ? HUGE_VAL : 0;
}

static void put_layer(struct bn_buf *out, const struct layer *l)
{
    if (l->end == NULL && l->bad == NULL) return;
    bn_html(out, "<tr class=\"%s\"><th scope=\"row\">", l->bad != NULL ? "broken" : "");
    if (l->number >= 0)
        bn_html(out, "%g", l->number);
    else
        bn_html(out, "outside");
    bn_html(out, "</th><td>");
    bn_html_number(out, bn_json_get(l->end, "cosine"));
    bn_html(out, "</td><td>");
    bn_html_number(out, bn_json_get(l->end, "nrmse"));
    bn_html(out,
            "</td><td class=\"op\">%s</td><td class=\"used\"><span class=\"meter\"><i "
            "style=\"width:%.1f%%\"></i></span> %.3g</td><td class=\"op\">%s</td></tr>\n",
            bn_json_text_of(l->near, "op"), fmin(l->excess, 1) * 100, l->excess,
            l->bad != NULL ? bn_json_text_of(l->bad, "op") : "none");
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
    struct layer l = {.number = 0}, outside = {.number = -1};
    bn_html(out, "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">layer</th><th "
                 "scope=\"col\">cosine behind it</th><th scope=\"col\">nrmse</th><th class=\"op\" "
                 "scope=\"col\">nearest to its bound</th><th class=\"used\" scope=\"col\">times the "
                 "bound</th><th class=\"op\" scope=\"col\">out of "
                 "tolerance</th></tr></thead><tbody>\n");
    for (const bn_json *o = bn_json_first(list); o != NULL; o = bn_json_next(o)) {
        double number = bn_json_number_of(o, "layer");
        if (number < 0) {
            add_operation(&outside, o);
            continue;
        }
        if (number != l.number) {
            put_layer(out, &l);
            l = (struct layer){.number = number};
        }
        add_operation(&l, o);
    }
    put_layer(out, &l);
    put_layer(out, &outside);
    bn_html(out, "</tbody></table></div>\n");
}

static void put_operation(struct bn_buf *out, const bn_json *op)
{
    static const char *const NAMES[] = {"handed", "error", "allowed", "position"};
    bool within = bn_json_text_is(op, "found", "within");
    bn_html(out, "<tr class=\"%s\"><th scope=\"row\" class=\"op\">", within ? "" : "broken");
    if (bn_json_number_of(op, "layer") >= 0) bn_html(out, "%g ", bn_json_number_of(op, "layer"));
    bn_html(out, "%s</th>", bn_json_text_of(op, "op"));
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++) {
        bn_html(out, "<td>");
        bn_html_number(out, bn_json_get(op, NAMES[i]));
        bn_html(out, "</td>");
    }
    bn_html(out, "<td>%s</td></tr>\n",
            bn_json_flag_of(op, "same_bits") ? "same bits" : bn_json_text_of(op, "found"));
}

/* The operations around the first that is out of tolerance. */
static void put_around(struct bn_buf *out, const bn_json *trace)
{
    const bn_json *first = bn_json_get(trace, "first"), *list = bn_json_get(trace, "operations");
    const bn_json *before[4] = {0}, *o = bn_json_first(list);
    if (first == NULL) return;
    for (; o != NULL; o = bn_json_next(o)) {
        if (bn_json_text_is(o, "op", bn_json_text_of(first, "op")) &&
            bn_json_number_of(o, "layer") == bn_json_number_of(first, "layer"))
            break;
        for (size_t i = 1; i < BN_ARRAY_LEN(before); i++)
            before[i - 1] = before[i];
        before[BN_ARRAY_LEN(before) - 1] = o;
    }
    bn_html(out, "<h4>Around the first operation out of tolerance</h4><div class=\"scroll\" "
                 "tabindex=\"0\"><table><thead><tr><th scope=\"col\">operation</th><th scope=\"col\">error "
                 "handed to it</th><th scope=\"col\">off by</th><th scope=\"col\">allowed</th><th "
                 "scope=\"col\">position</th><th scope=\"col\">found</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < BN_ARRAY_LEN(before); i++)
        if (before[i] != NULL) put_operation(out, before[i]);
    for (size_t i = 0; i < 4 && o != NULL; i++, o = bn_json_next(o))
        put_operation(out, o);
    bn_html(out, "</tbody></table></div>\n");
}

static void put_trace(struct bn_buf *out, const bn_json *ref)
{
    const bn_json *trace = bn_json_get(ref, "trace");
    if (trace == NULL) return;
    bn_html(out, "<div class=\"trace\"><h3>");
    bn_crossval_put_state(out, bn_json_text_of(trace, "status"));
    bn_html(out, " Operations</h3>\n");
    if (bn_json_get(trace, "reason") != NULL) bn_html(out, "<p>%s</p>\n", bn_json_text_of(trace, "reason"));
    if (bn_json_count_of(trace, "records") > 0)
        bn_html(out,
                "<p>Records compared: %zu, of %zu values and %zu token%s; equal to the bit: %zu; not sent: "
                "%zu.</p>\n",
                bn_json_count_of(trace, "records"), bn_json_count_of(trace, "values"),
                bn_json_count_of(trace, "tokens"), bn_json_count_of(trace, "tokens") == 1 ? "" : "s",
                bn_json_count_of(trace, "same_bits"), bn_json_count_of(trace, "absent"));
    bn_crossval_plot_path(out, ref);
    put_around(out, trace);
    if (bn_json_size(bn_json_get(trace, "operations")) > 0) {
        bn_html(out, "<h4>Layer by layer</h4>\n");
        put_layers(out, bn_json_get(trace, "operations"));
    }
    bn_html(out, "</div>\n");
}

/* ---- the section ---- */

static void put_failure(struct bn_buf *out, const bn_json *ref)
{
    const bn_json *failure = bn_json_get(ref, "failure");
    if (failure == NULL) return;
    bn_html(out, "<div class=\"callout bad\"><p><strong>The reference failed.</strong> %s%s%s</p>",
            bn_json_text_of(failure, "where"), bn_json_get(failure, "where") != NULL ? ": " : "",
            bn_json_text_of(failure, "message"));
    if (bn_json_text_of(failure, "stderr")[0] != '\0')
        bn_html(out, "<p>Its last words:</p><div class=\"scroll\" tabindex=\"0\"><pre>%s</pre></div>",
                bn_json_text_of(failure, "stderr"));
    bn_html(out, "</div>\n");
}

void bn_report_reference(struct bn_buf *out, const bn_json *ref, size_t index)
{
    const bn_json *rungs = bn_json_get(ref, "rungs");
    bn_html(out, "<div class=\"reference\" id=\"ref-%zu\"><h2><span class=\"small\">against</span> %s</h2>\n",
            index, bn_json_text_of(ref, "reference"));
    put_failure(out, ref);
    if (bn_json_get(ref, "positions") != NULL || bn_json_get(ref, "scatter") != NULL ||
        bn_json_path(ref, "trace.operations") != NULL) {
        bn_html(out, "<h3>Errors</h3><div class=\"plots\">\n");
        bn_crossval_plot_positions(out, ref);
        bn_crossval_plot_scatter(out, ref);
        bn_crossval_plot_layers(out, ref);
        bn_html(out, "</div>\n");
    }
    put_trace(out, ref);
    if (bn_json_size(rungs) > 0) bn_html(out, "<h3>Rungs</h3><div class=\"rungs\">\n");
    for (const bn_json *r = bn_json_first(rungs); r != NULL; r = bn_json_next(r))
        put_rung(out, r);
    bn_html(out, bn_json_size(rungs) > 0 ? "</div></div>\n" : "</div>\n");
}

/* SPDX-License-Identifier: MIT
 *
 * Chooses the rows of a comparison and its verdict; writes both as text and as a document.
 */
#include "tools/flamegraph/diff_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "lab/report/units.h"
#include "tools/flamegraph/flamegraph.h"

static const struct bn_diff_value *value_of(const struct bn_diff_report *r, bool total, uint32_t frame)
{
    return total ? &r->diff->total[frame] : &r->diff->self[frame];
}

static const char *name_of(const struct bn_diff_report *r, uint32_t frame)
{
    return r->diff->tree->frames[frame].name;
}

/* Of the whole after, in shares of that before. */
static double gain_of_whole(const struct bn_stacks_diff *d)
{
    return d->weight[1] / d->weight[0] - 1;
}

static const char *state_of(const struct bn_diff_report *r, uint32_t frame)
{
    const struct bn_diff_value *total = value_of(r, true, frame);
    return total->before > 0 ? total->after > 0 ? "both" : "gone" : "new";
}

/* ---- rows ---- */

struct row {
    double size, share;
    const struct bn_frame *frame;
    uint32_t number;
    bool significant;
};

static int by_size(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->significant != y->significant) return x->significant ? -1 : 1;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    if (x->share != y->share) return x->share > y->share ? -1 : 1;
    int names = strcmp(x->frame->name, y->frame->name);
    return names != 0 ? names : (int)x->frame->kind - (int)y->frame->kind;
}

/* The smallest change that would have been detected; NaN when no possible gain would. */
static double detectable(const struct bn_diff_report *r, const struct bn_diff_value *v)
{
    double most = r->diff->same_work ? 1 : 1 - v->before;
    double least = isnan(v->p) ? (double)NAN : bn_stacks_diff_detectable(r->diff, v);
    return v->significant || least <= most ? least : (double)NAN;
}

static void count(struct bn_diff_report *r, uint32_t frame)
{
    const struct bn_diff_value *v = value_of(r, r->by_total, frame);
    double gain = v->after - v->before;
    if (!isnan(detectable(r, v))) r->n_judged++;
    if (!v->significant) return;
    r->n_more += gain > 0;
    r->n_less += gain < 0;
    if (gain <= r->worst_gain) return;
    r->worst_gain = gain;
    r->worst = frame;
}

static void judge_gate(struct bn_diff_report *r)
{
    const struct bn_diff_value *whole = &r->diff->paths[BN_STACKS_ROOT];
    r->whole_judged = r->diff->same_work && !isnan(whole->p);
    if (isnan(r->fail_above)) return;
    r->gate_failed = (r->n_judged == 0 && !r->whole_judged) || r->worst_gain > r->fail_above ||
                     (whole->significant && gain_of_whole(r->diff) > r->fail_above) ||
                     (r->strict && r->misses > r->fail_above);
}

bn_status bn_diff_report_make(struct bn_diff_report *r, bn_error *err)
{
    size_t n = r->diff->tree->n_frames;
    struct row *rows = bn_alloc(n, sizeof *rows);
    r->worst = BN_STACKS_NONE;
    r->finds = r->misses = (double)NAN;
    r->functions = bn_alloc(n, sizeof *r->functions);
    bn_status status = rows != NULL && r->functions != NULL ? BN_OK : bn_nomem(err);
    for (uint32_t i = 0; status == BN_OK && i < n; i++) {
        const struct bn_diff_value *v = value_of(r, r->by_total, i);
        bool changed = v->significant || value_of(r, !r->by_total, i)->significant;
        count(r, i);
        if (!changed && fmax(v->before, v->after) < r->min) continue;
        rows[r->n_functions++] = (struct row){fabs(v->after - v->before), fmax(v->before, v->after),
                                              &r->diff->tree->frames[i], i, changed};
        r->finds = fmin(r->finds, detectable(r, v)); /* of NaN and a number the number */
        r->misses = fmax(r->misses, detectable(r, v));
    }
    if (status == BN_OK) qsort(rows, r->n_functions, sizeof *rows, by_size);
    for (size_t i = 0; i < r->n_functions; i++)
        r->functions[i] = rows[i].number;
    bn_free(rows);
    if (status == BN_OK) judge_gate(r);
    return status;
}

void bn_diff_report_release(struct bn_diff_report *report)
{
    bn_free(report->functions);
    *report = (struct bn_diff_report){0};
}

/* ---- text ---- */

static const char *unit_of(const struct bn_diff_report *r)
{
    return r->diff->same_work ? "% of the weight before" : "points";
}

void bn_diff_report_verdict(struct bn_buf *out, const struct bn_diff_report *r)
{
    double limit = 100 * r->fail_above, gain = gain_of_whole(r->diff);
    bool gate = !isnan(r->fail_above);
    if (r->n_judged == 0 && !r->whole_judged) {
        bn_buf_printf(out, "%s: nothing could be judged: %s", gate ? "FAILED" : "NOT JUDGED",
                      r->diff->same_work && !r->diff->by_runs ? "weights need two runs or more on each side"
                                                              : "too few samples, or runs that do not vary");
    } else if (!gate) {
        bn_buf_puts(out, r->n_more + r->n_less > 0 ? "CHANGED" : "NO CHANGE FOUND");
    } else if (r->worst_gain > r->fail_above) {
        bn_buf_printf(out, "FAILED: %s gained %.2f %s, more than %g", name_of(r, r->worst),
                      100 * r->worst_gain, unit_of(r), limit);
    } else if (r->diff->paths[BN_STACKS_ROOT].significant && gain > r->fail_above) {
        bn_buf_printf(out, "FAILED: the total gained %.2f %%, more than %g", 100 * gain, limit);
    } else {
        bool blind = r->misses > r->fail_above; /* a gain over the limit may have been missed */
        bn_buf_printf(out, "%s: no significant gain over %g %s",
                      !blind      ? "PASSED"
                      : r->strict ? "FAILED"
                                  : "UNDECIDED",
                      limit, unit_of(r));
        if (blind) bn_buf_printf(out, ", but changes under %.2f are not detectable", 100 * r->misses);
    }
}

static void put_side(struct bn_buf *out, const struct bn_diff_report *r, bool after)
{
    const struct bn_stacks_diff *d = r->diff;
    size_t n = after ? d->n_after : d->n_before;
    bn_buf_printf(out, "%-8s %s: ", after ? "after" : "before", after ? r->after : r->before);
    bn_units_count(out, n, "run");
    if (d->samples[after] > 0) {
        bn_buf_puts(out, ", ");
        bn_units_count(out, d->samples[after], "sample");
    }
    if (strcmp(d->tree->unit, "samples") != 0) {
        bn_buf_puts(out, ", ");
        bn_units_value(out, d->weight[after], d->tree->unit);
        if (r->generations || n > 1) bn_buf_puts(out, r->generations ? " a generation" : " each");
    }
    bn_buf_putc(out, '\n');
}

void bn_diff_report_whole(struct bn_buf *out, const struct bn_diff_report *r)
{
    const struct bn_diff_value *whole = &r->diff->paths[BN_STACKS_ROOT];
    bn_buf_printf(out, "%+.2f %%%s", 100 * gain_of_whole(r->diff), whole->significant ? "*" : "");
    if (!isnan(whole->low))
        bn_buf_printf(out, " (95 %%: %+.2f to %+.2f)", 100 * whole->low, 100 * whole->high);
    else
        bn_buf_printf(out, " (no interval: %s)",
                      r->diff->same_work ? "needs two runs on each side" : "needs --same-work");
}

static void put_row(struct bn_buf *out, const struct bn_diff_report *r, uint32_t frame, bool colour)
{
    static const char RED[] = "\x1b[31m", BLUE[] = "\x1b[34m", PLAIN[] = "\x1b[0m";
    const struct bn_diff_value *v = value_of(r, r->by_total, frame);
    const char *state = state_of(r, frame);
    char interval[64] = "-", least[32] = "-";
    bool mark = colour && v->significant;
    if (!isnan(v->low)) snprintf(interval, sizeof interval, "%+.2f..%+.2f", 100 * v->low, 100 * v->high);
    if (!isnan(detectable(r, v))) snprintf(least, sizeof least, "%.2f", 100 * detectable(r, v));
    bn_buf_printf(out, "%8.2f %8.2f %s%+8.2f%s%s %16s %7s  %-4s  %s\n", 100 * v->before, 100 * v->after,
                  !mark                  ? ""
                  : v->after > v->before ? RED
                                         : BLUE,
                  100 * (v->after - v->before), v->significant ? "*" : " ", mark ? PLAIN : "", interval,
                  least, strcmp(state, "both") == 0 ? "" : state, name_of(r, frame));
}

void bn_diff_report_text(struct bn_buf *out, const struct bn_diff_report *r, bool colour)
{
    const struct bn_stacks_diff *d = r->diff;
    size_t n = r->top > 0 ? bn_min_size(r->top, r->n_functions) : r->n_functions;
    put_side(out, r, false);
    put_side(out, r, true);
    bn_buf_puts(out, "total    ");
    bn_diff_report_whole(out, r);
    bn_buf_puts(out, "\n");
    for (size_t i = 0; i < r->n_functions && i < 3; i++) {
        const struct bn_diff_value *v = value_of(r, r->by_total, r->functions[i]);
        bn_buf_printf(out, "%-8s %+.2f%s %s\n", i == 0 ? "top 3" : "", 100 * (v->after - v->before),
                      v->significant ? "*" : "", name_of(r, r->functions[i]));
    }
    bn_buf_printf(out, "judged   %s\n\n%s, %s\n", d->method, r->by_total ? "total" : "self",
                  d->same_work ? unit_of(r) : "% of the time");
    bn_buf_printf(out, "%8s %8s %8s  %16s %7s        function\n", "before", "after", "change", "interval",
                  "MDE");
    for (size_t i = 0; i < n; i++)
        put_row(out, r, r->functions[i], colour);
    if (n < r->n_functions)
        bn_buf_printf(out, "and %zu more (--top %zu shows all)\n", r->n_functions - n, r->n_functions);
    bn_buf_printf(out,
                  "\nchange   after - before, in points of %s\n"
                  "*        significant at %g, corrected for %zu tests\n"
                  "interval of the change, at 95 %%\n"
                  "MDE      smallest detectable change, with 80 %% power\n",
                  d->same_work ? "the weight before" : "share", d->level, d->n_judged);
    bn_buf_printf(out, "%zu of %zu functions judged: %zu with significantly more %s, %zu with less\n",
                  r->n_judged, d->tree->n_frames, r->n_more, r->by_total ? "in total" : "self", r->n_less);
    if (!isnan(r->finds))
        bn_buf_printf(out, "smallest detectable changes: %.2f to %.2f %s\n", 100 * r->finds, 100 * r->misses,
                      unit_of(r));
    bn_diff_report_verdict(out, r);
    bn_buf_putc(out, '\n');
}

/* ---- document ---- */

static void put_value(bn_json *parent, const char *name, const struct bn_diff_report *r,
                      const struct bn_diff_value *v)
{
    bn_json *o = bn_json_put_object(parent, name);
    bn_json_put_number(o, "before", v->before);
    bn_json_put_number(o, "after", v->after);
    bn_json_put_number(o, "difference", v->after - v->before);
    if (isnan(v->p)) {
        bn_json_put_unavailable(o, "p", "not judged: too few samples or runs, or a share under min_share");
        return;
    }
    bn_json *interval = bn_json_put_array(o, "interval");
    bn_json_add_number(interval, v->low);
    bn_json_add_number(interval, v->high);
    bn_json_put_number(o, "p", v->p);
    bn_json_put_number(o, "q", v->q);
    bn_json_put_bool(o, "significant", v->significant);
    bn_json_put_number(o, "detectable", bn_stacks_diff_detectable(r->diff, v));
}

static void put_functions(bn_json *doc, const struct bn_diff_report *r)
{
    bn_json *list = bn_json_put_array(doc, "functions");
    for (size_t i = 0; i < r->n_functions; i++) {
        uint32_t frame = r->functions[i];
        bn_json *o = bn_json_add_object(list);
        bn_json_put_string(o, "name", name_of(r, frame));
        bn_json_put_string(o, "kind", bn_frame_kind_name(r->diff->tree->frames[frame].kind));
        bn_json_put_string(o, "state", state_of(r, frame));
        put_value(o, "self", r, value_of(r, false, frame));
        put_value(o, "total", r, value_of(r, true, frame));
    }
}

bn_status bn_diff_report_json(struct bn_buf *out, const struct bn_diff_report *r, bn_error *err)
{
    const struct bn_stacks_diff *d = r->diff;
    struct bn_buf verdict = {.max = 2 * BN_STACKS_MAX_NAME};
    bn_json *doc = bn_json_new_object();
    bn_diff_report_verdict(&verdict, r);
    bn_json_put_string(doc, "schema", "bn.stacks-diff/1");
    bn_json_put_string(doc, "unit", d->tree->unit);
    bn_json_put_string(doc, "what", d->tree->what);
    bn_json_put_u64(doc, "runs_before", d->n_before);
    bn_json_put_u64(doc, "runs_after", d->n_after);
    bn_json_put_number(doc, "weight_before", d->weight[0]);
    bn_json_put_number(doc, "weight_after", d->weight[1]);
    bn_json_put_string(doc, "weights_of", r->generations ? "generation" : "run");
    bn_json_put_string(doc, "method", d->method);
    bn_json_put_number(doc, "level", d->level);
    bn_json_put_bool(doc, "same_work", d->same_work);
    bn_json_put_copy(doc, "differ_in", r->differ); /* machine, model, prompt, ... */
    bn_json_put_string(doc, "by", r->by_total ? "total" : "self");
    bn_json_put_number(doc, "min_share", r->min);
    bn_json_put_u64(doc, "judged_functions", d->n_judged);
    put_value(doc, "whole", r, &d->paths[BN_STACKS_ROOT]);
    put_functions(doc, r);
    bn_json_put_u64(doc, "more", r->n_more);
    bn_json_put_u64(doc, "less", r->n_less);
    bn_json_put_string(doc, "verdict", verdict.data);
    if (!isnan(r->fail_above)) {
        bn_json *gate = bn_json_put_object(doc, "gate");
        bn_json_put_number(gate, "fail_above", r->fail_above);
        bn_json_put_bool(gate, "failed", r->gate_failed);
    }
    bn_status status = bn_flamegraph_put_document(out, doc, err);
    bn_buf_release(&verdict);
    bn_json_free(doc);
    return status;
}

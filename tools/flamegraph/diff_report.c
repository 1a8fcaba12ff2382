/* SPDX-License-Identifier: MIT
 *
 * Chooses the rows of a comparison and its verdict; writes both as text, and the paths as folded text.
 */
#include "tools/flamegraph/diff_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "lab/formats/document.h"
#include "lab/report/units.h"
#include "tools/flamegraph/flamegraph.h"

/* ---- values ---- */

/* The value that is compared: a share of the whole, with same_work of the whole before. */
static struct bn_diff_value compared_value(const struct bn_stacks_diff *diff,
                                           const struct bn_diff_entry *entry)
{
    if (!diff->same_work) return entry->share;
    struct bn_diff_value v = entry->weight;
    double whole = diff->whole.before;
    v.before /= whole;
    v.after /= whole;
    v.low /= whole;
    v.high /= whole;
    v.error /= whole;
    return v;
}

static struct bn_diff_value value_of(const struct bn_diff_report *r, bool total, uint32_t frame)
{
    return compared_value(r->diff,
                          total ? &r->diff->functions_total[frame] : &r->diff->functions_self[frame]);
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

/* Whether a possible gain would have been detected. */
static bool could_be_found(const struct bn_diff_report *r, const struct bn_diff_value *v)
{
    double most = r->diff->same_work ? 1 : 1 - v->before;
    if (isnan(v->p)) return false;
    return v->significant ||
           bn_stacks_diff_detectable(v, r->diff->level, r->diff->n_judged_functions) <= most;
}

static void count(struct bn_diff_report *r, uint32_t frame)
{
    struct bn_diff_value v = value_of(r, r->by_total, frame);
    double gain = v.after - v.before;
    if (could_be_found(r, &v)) r->n_judged++;
    if (!v.significant) return;
    r->n_more += gain > 0;
    r->n_less += gain < 0;
    if (gain <= r->worst_gain) return;
    r->worst_gain = gain;
    r->worst = frame;
}

static void note_detectable(struct bn_diff_report *r, const struct bn_diff_value *v)
{
    if (!could_be_found(r, v)) return;
    double finds = bn_stacks_diff_detectable(v, r->diff->level, r->diff->n_judged_functions);
    r->finds = fmin(r->finds, finds); /* of NaN and a number the number */
    r->misses = fmax(r->misses, finds);
}

static void judge_gate(struct bn_diff_report *r)
{
    const struct bn_diff_value *whole = &r->diff->whole;
    double gain = whole->after / whole->before - 1;
    r->gate = !isnan(r->fail_above);
    r->whole_judged = r->diff->same_work && !isnan(whole->p);
    if (!r->gate) return;
    r->gate_failed = (r->n_judged == 0 && !r->whole_judged) || r->worst_gain > r->fail_above;
    if (r->diff->same_work && whole->significant && gain > r->fail_above) r->gate_failed = true;
    if (r->strict && r->misses > r->fail_above) r->gate_failed = true;
}

bn_status bn_diff_report_make(struct bn_diff_report *out, const struct bn_stacks_diff *diff, bool by_total,
                              size_t top, double min, double fail_above, bool strict, bn_error *err)
{
    *out = (struct bn_diff_report){.diff = diff,
                                   .by_total = by_total,
                                   .min = min,
                                   .fail_above = fail_above,
                                   .strict = strict,
                                   .worst = BN_STACKS_NONE,
                                   .finds = (double)NAN,
                                   .misses = (double)NAN};
    size_t n = diff->tree->n_frames;
    struct row *rows = bn_alloc(n, sizeof *rows);
    out->functions = bn_alloc(n, sizeof *out->functions);
    bn_status status = rows != NULL && out->functions != NULL ? BN_OK : bn_nomem(err);
    for (uint32_t i = 0; status == BN_OK && i < n; i++) {
        struct bn_diff_value v = value_of(out, by_total, i), other = value_of(out, !by_total, i);
        count(out, i);
        bool changed = v.significant || other.significant;
        if (!changed && fmax(v.before, v.after) < min) continue;
        rows[out->n_functions++] = (struct row){fabs(v.after - v.before), fmax(v.before, v.after),
                                                &diff->tree->frames[i], i, changed};
        note_detectable(out, &v);
    }
    if (status == BN_OK) qsort(rows, out->n_functions, sizeof *rows, by_size);
    for (size_t i = 0; i < out->n_functions; i++)
        out->functions[i] = rows[i].number;
    out->n_shown = top > 0 ? bn_min_size(top, out->n_functions) : out->n_functions;
    bn_free(rows);
    if (status == BN_OK) judge_gate(out);
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
    const struct bn_diff_value *whole = &r->diff->whole;
    double limit = 100 * r->fail_above, gain = 100 * (whole->after / whole->before - 1);
    if (r->n_judged == 0 && !r->whole_judged) {
        bn_buf_printf(out, "%s: nothing could be judged: %s", r->gate ? "FAILED" : "NOT JUDGED",
                      r->diff->same_work && !r->diff->by_runs ? "weights need two runs or more on each side"
                                                              : "too few samples, or runs that do not vary");
        return;
    }
    if (!r->gate) {
        bn_buf_puts(out, r->n_more + r->n_less > 0 ? "CHANGED" : "NO CHANGE FOUND");
    } else if (r->gate_failed && r->worst_gain > r->fail_above) {
        bn_buf_printf(out, "FAILED: %s gained %.2f %s, more than %g", r->diff->tree->frames[r->worst].name,
                      100 * r->worst_gain, unit_of(r), limit);
    } else if (r->gate_failed && whole->significant && gain > limit) {
        bn_buf_printf(out, "FAILED: the total gained %.2f %%, more than %g", gain, limit);
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
    uint64_t samples = 0;
    for (size_t i = 0; i < d->tree->n_nodes; i++)
        samples += after ? d->self[i].after_samples : d->self[i].before_samples;
    bn_buf_printf(out, "%-8s %s: ", after ? "after" : "before", after ? r->after : r->before);
    bn_units_count(out, n, "run");
    if (samples > 0) {
        bn_buf_puts(out, ", ");
        bn_units_count(out, samples, "sample");
    }
    if (strcmp(d->tree->unit, "samples") != 0) {
        bn_buf_puts(out, ", ");
        bn_units_value(out, after ? d->whole.after : d->whole.before, d->tree->unit);
        if (r->generations || n > 1) bn_buf_puts(out, r->generations ? " a generation" : " each");
    }
    bn_buf_putc(out, '\n');
}

static void put_total(struct bn_buf *out, const struct bn_diff_report *r)
{
    const struct bn_diff_value *whole = &r->diff->whole;
    double scale = 100 / whole->before;
    bn_buf_printf(out, "%+.2f %%%s", 100 * (whole->after / whole->before - 1), whole->significant ? "*" : "");
    if (!isnan(whole->low))
        bn_buf_printf(out, " (95 %%: %+.2f to %+.2f)", scale * whole->low, scale * whole->high);
    else
        bn_buf_printf(out, " (no interval: %s)",
                      r->diff->same_work ? "needs two runs on each side" : "needs --same-work");
}

void bn_diff_report_head(struct bn_buf *out, const struct bn_diff_report *r)
{
    bn_buf_printf(out, "%zu vs %zu runs, total ", r->diff->n_after, r->diff->n_before);
    put_total(out, r);
}

/* The functions that changed most. */
static void put_top(struct bn_buf *out, const struct bn_diff_report *r)
{
    for (size_t i = 0; i < r->n_functions && i < 3; i++) {
        struct bn_diff_value v = value_of(r, r->by_total, r->functions[i]);
        bn_buf_printf(out, "%-8s %+.2f%s %s\n", i == 0 ? "top 3" : "", 100 * (v.after - v.before),
                      v.significant ? "*" : "", r->diff->tree->frames[r->functions[i]].name);
    }
}

static void put_interval(struct bn_buf *out, const struct bn_diff_value *v)
{
    char text[64] = "-";
    if (!isnan(v->low)) snprintf(text, sizeof text, "%+.2f..%+.2f", 100 * v->low, 100 * v->high);
    bn_buf_printf(out, " %16s", text);
}

static void put_value(struct bn_buf *out, const struct bn_diff_value *v, bool colour)
{
    static const char RED[] = "\x1b[31m", BLUE[] = "\x1b[34m", PLAIN[] = "\x1b[0m";
    bool mark = colour && v->significant;
    bn_buf_printf(out, "%8.2f %8.2f ", 100 * v->before, 100 * v->after);
    if (mark) bn_buf_puts(out, v->after > v->before ? RED : BLUE);
    bn_buf_printf(out, "%+8.2f%s", 100 * (v->after - v->before), v->significant ? "*" : " ");
    if (mark) bn_buf_puts(out, PLAIN);
}

static void put_row(struct bn_buf *out, const struct bn_diff_report *r, uint32_t frame, bool colour)
{
    struct bn_diff_value total = value_of(r, true, frame), v = value_of(r, r->by_total, frame);
    put_value(out, &v, colour);
    put_interval(out, &v);
    if (could_be_found(r, &v))
        bn_buf_printf(out, " %7.2f",
                      100 * bn_stacks_diff_detectable(&v, r->diff->level, r->diff->n_judged_functions));
    else
        bn_buf_printf(out, " %7s", "-");
    const char *state = total.before > 0 ? total.after > 0 ? "" : "gone" : "new";
    bn_buf_printf(out, "  %-4s  %s\n", state, r->diff->tree->frames[frame].name);
}

static void put_summary(struct bn_buf *out, const struct bn_diff_report *r)
{
    const struct bn_stacks_diff *d = r->diff;
    bn_buf_printf(out, "%zu of %zu functions judged: %zu with significantly more %s, %zu with less\n",
                  r->n_judged, d->tree->n_frames, r->n_more, r->by_total ? "in total" : "self", r->n_less);
    if (!isnan(r->finds))
        bn_buf_printf(out, "smallest detectable changes: %.2f to %.2f %s\n", 100 * r->finds, 100 * r->misses,
                      unit_of(r));
    bn_diff_report_verdict(out, r);
    bn_buf_putc(out, '\n');
}

void bn_diff_report_text(struct bn_buf *out, const struct bn_diff_report *r, bool colour)
{
    const struct bn_stacks_diff *d = r->diff;
    put_side(out, r, false);
    put_side(out, r, true);
    bn_buf_puts(out, "total    ");
    put_total(out, r);
    bn_buf_putc(out, '\n');
    put_top(out, r);
    bn_buf_printf(out, "judged   %s\n\n", d->method);
    bn_buf_printf(out, "%s, %s\n", r->by_total ? "total" : "self",
                  d->same_work ? "% of the weight before" : "% of the time");
    bn_buf_printf(out, "%8s %8s %8s  %16s %7s        function\n", "before", "after", "change", "interval",
                  "MDE");
    for (size_t i = 0; i < r->n_shown; i++)
        put_row(out, r, r->functions[i], colour);
    if (r->n_shown < r->n_functions)
        bn_buf_printf(out, "and %zu more (--top %zu shows all)\n", r->n_functions - r->n_shown,
                      r->n_functions);
    bn_buf_printf(out,
                  "\nchange   after - before, in points of %s\n"
                  "*        significant at %g, corrected for %zu tests\n"
                  "interval of the change, at 95 %%\n"
                  "MDE      smallest detectable change, with 80 %% power\n",
                  d->same_work ? "the weight before" : "share", d->level, d->n_judged_functions);
    put_summary(out, r);
}

/* ---- folded ---- */

void bn_diff_report_folded(struct bn_buf *out, const struct bn_stacks_diff *diff)
{
    const bn_stacks *tree = diff->tree;
    for (uint32_t i = 1; i < tree->n_nodes; i++) {
        const struct bn_diff_entry *e = &diff->self[i];
        if (!(e->before > 0 || e->after > 0)) continue;
        bn_stacks_put_path(out, tree, i);
        bn_json_write_number(out, e->before);
        bn_buf_putc(out, ' ');
        bn_json_write_number(out, e->after);
        bn_buf_putc(out, '\n');
    }
}

/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph diff: compares two sets of recordings, tests the changes for significance, and writes the result as
 * text or as a picture.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/report/units.h"
#include "tools/flamegraph/flamegraph.h"

const struct bn_option bn_flamegraph_diff_options[] = {
    BN_OPTION("vs", "separates the files: before on the left, after on the right",
              BN_TO_PLACE(struct bn_flamegraph_options, diff.vs)),
    BN_RARE("same-work", "all runs did the same work: compare amounts, not shares",
            BN_TO_BOOL(struct bn_flamegraph_options, diff.same_work)),
    BN_OPTION("by", "order and judge by self or total time", .arg = "self|total", .preset = "self",
              BN_TO_CHOICE(struct bn_flamegraph_options, order)),
    BN_OPTION("top", "number of rows of text; 0: all", .preset = "30",
              BN_TO_U32(struct bn_flamegraph_options, top, 0, UINT32_MAX)),
    BN_OPTION("min", "leave out and do not judge smaller functions", .arg = "PERCENT", .preset = "0.1",
              BN_TO_F64(struct bn_flamegraph_options, min, 0, 100)),
    BN_OPTION("fail-above", "exit 1 if a function grew by more (percentage points)", .arg = "PERCENT",
              .group = "Gate", BN_TO_F64(struct bn_flamegraph_options, diff.fail_above, 0, 1e6)),
    BN_OPTION("strict", "also exit 1 if such growth was not detectable",
              BN_TO_BOOL(struct bn_flamegraph_options, diff.strict)),
    BN_RARE("level", "significance level, corrected for all functions", .arg = "P", .preset = "0.05",
            BN_TO_F64(struct bn_flamegraph_options, diff.level, 1e-9, 0.5)),
    {0},
};

/* A function of the list. */
struct row {
    double size, share;
    const struct bn_frame *frame;
    uint32_t number;
    bool significant;
};

struct comparison {
    const struct bn_args *args;
    const struct bn_flamegraph_options *o;
    bn_stacks *sides[2];
    char names[2][256];
    bn_json *first;   /* what the first file is about, with --same-work; NULL while none was read */
    bool generations; /* weights are of one generation of a model, not of a run */
    struct bn_stacks_diff diff;
    bool by_total;     /* order, --min and the gate look at totals, not at selves */
    double fail_above; /* a gate: most that a function may significantly gain, in shares; NaN: none */
    struct row *rows;  /* those that changed first, then by the size of the difference */
    size_t n_rows;
    /* Of all functions, shown or not. */
    size_t n_judged;       /* in which a gain that is possible would have been found */
    bool whole_judged;     /* with --same-work */
    size_t n_more, n_less; /* significantly */
    uint32_t worst;        /* the function that gained most, significantly */
    double worst_gain;     /* its share; 0 */
    double finds, misses;  /* the least and the greatest detectable change of those listed; NaN */
    bool gate_failed;      /* also when there is a gate and nothing was judged */
};

/* ---- the same work, over and over ---- */

static void scale(bn_stacks *stacks, size_t run, double factor)
{
    for (size_t i = 0; i < stacks->n_nodes; i++)
        stacks->runs[run].self[i] *= factor;
}

/* A run of a model lasts for a time, so runs have different numbers of generations: weights become
 * those of one generation. Numbers of samples stay: they say how exact that is. */
static bn_status weigh_generations(bn_stacks *stacks, const char *path, bn_error *err)
{
    const bn_json *list = bn_json_path(stacks->about, "workload.repetitions");
    if (bn_json_get(stacks->about, "workload") == NULL) return BN_OK;
    for (size_t run = 0; run < stacks->n_runs; run++) {
        uint64_t n = 0;
        if (bn_json_size(list) != stacks->n_runs || !bn_json_u64(bn_json_at(list, run), &n) || n == 0)
            return bn_fail(err, BN_ERR_ARG, "--same-work: %.120s lacks the number of generations of its runs",
                           path);
        scale(stacks, run, 1 / (double)n);
        if (stacks->measured != NULL && run < stacks->measured->n_runs)
            scale(stacks->measured, run, 1 / (double)n);
    }
    return BN_OK;
}

/* Whether two recordings are of the same generation; of programs nothing is known, and --same-work is
 * believed. */
static bn_status check_work(const bn_json *first, const bn_json *about, const char *path, bn_error *err)
{
    static const char *const FACTS[] = {"prompt", "number of tokens", "token ids"};
    const bn_json *a = bn_json_get(first, "workload"), *b = bn_json_get(about, "workload");
    if ((a == NULL) != (b == NULL))
        return bn_fail(err, BN_ERR_ARG, "--same-work: %.120s is %s, other files are not", path,
                       b != NULL ? "a recording of a model" : "not a recording of a model");
    bn_json *names = bn_json_new_array();
    bn_fingerprint_differences(names, first, about, false);
    bn_status status = BN_OK;
    for (size_t i = 0; i < BN_ARRAY_LEN(FACTS) && status == BN_OK; i++)
        if (bn_json_has_text(names, FACTS[i]))
            status = bn_fail(err, BN_ERR_ARG, "--same-work: %.120s differs from the first file in its %s",
                             path, FACTS[i]);
    bn_json_free(names);
    return status;
}

/* ---- reading ---- */

static bn_status read_file(struct comparison *r, bn_stacks **out, const char *path, bn_error *err)
{
    BN_TRY(bn_flamegraph_read(out, &path, 1, err));
    if (!r->o->diff.same_work) return BN_OK;
    if (r->first == NULL) {
        r->first = bn_json_new_object();
        const bn_json *workload = bn_json_get((*out)->about, "workload");
        r->generations = workload != NULL;
        if (workload != NULL) bn_json_put_copy(r->first, "workload", workload);
    }
    bn_status status = check_work(r->first, (*out)->about, path, err);
    if (status == BN_OK) status = weigh_generations(*out, path, err);
    return bn_stacks_keep(out, status);
}

/* Shares of different things may differ for that reason alone. program: they should be of the same one, too. */
static void warn_of_differences(const bn_stacks *one, const bn_stacks *other, bool program,
                                const char *before, const char *after)
{
    struct bn_buf list = {.max = 4096};
    bn_json *names = bn_json_new_array();
    bn_fingerprint_differences(names, one->about, other->about, program);
    const char *name;
    for (const bn_json *e = bn_json_first(names); e != NULL; e = bn_json_next(e))
        if (bn_json_string(e, &name)) bn_buf_printf(&list, "%s%s", list.len > 0 ? ", " : "", name);
    if (list.len > 0 && bn_buf_check(&list, NULL) == BN_OK)
        bn_report_warning("%s and %s are not recordings of the same thing; they differ in: %s", before, after,
                          list.data);
    bn_buf_release(&list);
    bn_json_free(names);
}

/* "old1.json and 4 more": without folders, which mean nothing to others. */
static void name_side(char out[256], const char *path, size_t n)
{
    const char *slash = strrchr(path, '/');
    char more[40] = "";
    if (n > 1) snprintf(more, sizeof more, " and %zu more", n - 1);
    snprintf(out, 256, "%.200s%s", slash != NULL ? slash + 1 : path, more);
}

static bn_status read_side(struct comparison *r, bn_stacks **out, size_t from, size_t n, bn_error *err)
{
    bn_stacks *stacks = NULL;
    BN_TRY(read_file(r, &stacks, r->args->operands[from], err));
    bn_status status = BN_OK;
    for (size_t i = 1; i < n && status == BN_OK; i++) {
        bn_stacks *more = NULL;
        status = read_file(r, &more, r->args->operands[from + i], err);
        if (status == BN_OK)
            warn_of_differences(stacks, more, true, r->args->operands[from], r->args->operands[from + i]);
        if (status == BN_OK) status = bn_stacks_append(stacks, more, err);
        bn_stacks_close(more);
    }
    if (status == BN_OK) status = bn_flamegraph_view(out, stacks, r->args, false, err);
    bn_stacks_close(stacks);
    return status;
}

static bn_status read_sides(struct comparison *r, bn_error *err)
{
    const struct bn_args *args = r->args;
    size_t at = bn_args_given(args, &r->o->diff.vs) ? r->o->diff.vs : args->n_operands == 2, n_inputs = 0;
    if (at == 0 || at == args->n_operands)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "two sides are required"), err,
                       "bn-flamegraph diff BEFORE AFTER, or of several files BEFORE... --vs AFTER...");
    for (size_t i = 0; i < args->n_operands; i++)
        n_inputs += strcmp(args->operands[i], "-") == 0;
    if (n_inputs > 1) return bn_fail(err, BN_ERR_ARG, "standard input can be read only once");
    name_side(r->names[0], args->operands[0], at);
    name_side(r->names[1], args->operands[at], args->n_operands - at);
    BN_TRY(read_side(r, &r->sides[0], 0, at, err));
    BN_TRY(read_side(r, &r->sides[1], at, args->n_operands - at, err));
    warn_of_differences(r->sides[0], r->sides[1], false, "before", "after");
    return BN_OK;
}

static const struct bn_diff_value *value_of(const struct comparison *r, bool total, uint32_t frame)
{
    return total ? &r->diff.total[frame] : &r->diff.self[frame];
}

static const char *name_of(const struct comparison *r, uint32_t frame)
{
    return r->diff.tree->frames[frame].name;
}

/* Of the whole after, in shares of that before. */
static double gain_of_whole(const struct bn_stacks_diff *d)
{
    return d->weight[1] / d->weight[0] - 1;
}

static const char *state_of(const struct comparison *r, uint32_t frame)
{
    const struct bn_diff_value *total = value_of(r, true, frame);
    return total->before > 0 ? total->after > 0 ? "both" : "gone" : "new";
}

/* ---- rows ---- */

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
static double detectable(const struct comparison *r, const struct bn_diff_value *v)
{
    double most = r->diff.same_work ? 1 : 1 - v->before;
    double least = isnan(v->p) ? (double)NAN : bn_stacks_diff_detectable(&r->diff, v);
    return v->significant || least <= most ? least : (double)NAN;
}

static void count(struct comparison *r, uint32_t frame)
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

static void judge_gate(struct comparison *r)
{
    const struct bn_diff_value *whole = &r->diff.paths[BN_STACKS_ROOT];
    r->whole_judged = r->diff.same_work && !isnan(whole->p);
    if (isnan(r->fail_above)) return;
    r->gate_failed = (r->n_judged == 0 && !r->whole_judged) || r->worst_gain > r->fail_above ||
                     (whole->significant && gain_of_whole(&r->diff) > r->fail_above) ||
                     (r->o->diff.strict && r->misses > r->fail_above);
}

static bn_status choose_rows(struct comparison *r, bn_error *err)
{
    size_t n = r->diff.tree->n_frames;
    r->finds = r->misses = (double)NAN;
    bn_status status = BN_NEW(r->rows, n, err);
    for (uint32_t i = 0; status == BN_OK && i < n; i++) {
        const struct bn_diff_value *v = value_of(r, r->by_total, i);
        bool changed = v->significant || value_of(r, !r->by_total, i)->significant;
        count(r, i);
        if (!changed && fmax(v->before, v->after) < r->o->min / 100) continue;
        r->rows[r->n_rows++] = (struct row){fabs(v->after - v->before), fmax(v->before, v->after),
                                            &r->diff.tree->frames[i], i, changed};
        r->finds = fmin(r->finds, detectable(r, v)); /* of NaN and a number the number */
        r->misses = fmax(r->misses, detectable(r, v));
    }
    if (status == BN_OK) qsort(r->rows, r->n_rows, sizeof *r->rows, by_size);
    if (status == BN_OK) judge_gate(r);
    return status;
}

/* ---- text ---- */

static const char *unit_of(const struct comparison *r)
{
    return r->diff.same_work ? "% of the weight before" : "points";
}

static void put_verdict(struct bn_buf *out, const struct comparison *r)
{
    double limit = 100 * r->fail_above, gain = gain_of_whole(&r->diff);
    bool gate = !isnan(r->fail_above);
    if (r->n_judged == 0 && !r->whole_judged) {
        bn_buf_printf(out, "%s: nothing could be judged: %s", gate ? "FAILED" : "NOT JUDGED",
                      r->diff.same_work && !r->diff.by_runs ? "weights need two runs or more on each side"
                                                            : "too few samples, or runs that do not vary");
    } else if (!gate) {
        bn_buf_puts(out, r->n_more + r->n_less > 0 ? "CHANGED" : "NO CHANGE FOUND");
    } else if (r->worst_gain > r->fail_above) {
        bn_buf_printf(out, "FAILED: %s gained %.2f %s, more than %g", name_of(r, r->worst),
                      100 * r->worst_gain, unit_of(r), limit);
    } else if (r->diff.paths[BN_STACKS_ROOT].significant && gain > r->fail_above) {
        bn_buf_printf(out, "FAILED: the total gained %.2f %%, more than %g", 100 * gain, limit);
    } else {
        bool blind = r->misses > r->fail_above; /* a gain over the limit may have been missed */
        bn_buf_printf(out, "%s: no significant gain over %g %s",
                      !blind              ? "PASSED"
                      : r->o->diff.strict ? "FAILED"
                                          : "UNDECIDED",
                      limit, unit_of(r));
        if (blind) bn_buf_printf(out, ", but changes under %.2f are not detectable", 100 * r->misses);
    }
}

static void put_side(struct bn_buf *out, const struct comparison *r, bool after)
{
    const struct bn_stacks_diff *d = &r->diff;
    size_t n = after ? d->n_after : d->n_before;
    bn_buf_printf(out, "%-8s %s: ", after ? "after" : "before", r->names[after]);
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

static void put_whole(struct bn_buf *out, const struct comparison *r)
{
    const struct bn_diff_value *whole = &r->diff.paths[BN_STACKS_ROOT];
    bn_buf_printf(out, "%+.2f %%%s", 100 * gain_of_whole(&r->diff), whole->significant ? "*" : "");
    if (!isnan(whole->low))
        bn_buf_printf(out, " (95 %%: %+.2f to %+.2f)", 100 * whole->low, 100 * whole->high);
    else
        bn_buf_printf(out, " (no interval: %s)",
                      r->diff.same_work ? "needs two runs on each side" : "needs --same-work");
}

static void put_row(struct bn_buf *out, const struct comparison *r, uint32_t frame, bool colour)
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

static void put_text(struct bn_buf *out, const struct comparison *r, bool colour)
{
    const struct bn_stacks_diff *d = &r->diff;
    size_t n = r->o->top > 0 ? bn_min_size(r->o->top, r->n_rows) : r->n_rows;
    put_side(out, r, false);
    put_side(out, r, true);
    bn_buf_puts(out, "total    ");
    put_whole(out, r);
    bn_buf_puts(out, "\n");
    for (size_t i = 0; i < r->n_rows && i < 3; i++) {
        const struct bn_diff_value *v = value_of(r, r->by_total, r->rows[i].number);
        bn_buf_printf(out, "%-8s %+.2f%s %s\n", i == 0 ? "top 3" : "", 100 * (v->after - v->before),
                      v->significant ? "*" : "", name_of(r, r->rows[i].number));
    }
    bn_buf_printf(out, "judged   %s\n\n%s, %s\n", d->method, r->by_total ? "total" : "self",
                  d->same_work ? unit_of(r) : "% of the time");
    bn_buf_printf(out, "%8s %8s %8s  %16s %7s        function\n", "before", "after", "change", "interval",
                  "MDE");
    for (size_t i = 0; i < n; i++)
        put_row(out, r, r->rows[i].number, colour);
    if (n < r->n_rows) bn_buf_printf(out, "and %zu more (--top %zu shows all)\n", r->n_rows - n, r->n_rows);
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
    put_verdict(out, r);
    bn_buf_putc(out, '\n');
}

/* ---- picture ---- */

/* The model and prompt of both sides, or of each. */
static void put_work(struct bn_buf *out, const struct comparison *r)
{
    struct bn_buf before = {.max = 65536}, after = {.max = 65536};
    bn_flamegraph_put_title(&before, r->sides[0]->about);
    bn_flamegraph_put_title(&after, r->sides[1]->about);
    if (bn_buf_check(&before, NULL) == BN_OK && bn_buf_check(&after, NULL) == BN_OK) {
        bn_buf_puts(out, before.data);
        if (strcmp(before.data, after.data) != 0) bn_buf_printf(out, " | %s", after.data);
    }
    bn_buf_release(&before);
    bn_buf_release(&after);
}

static bn_status draw(struct bn_buf *out, const struct comparison *r, const char *verdict, bn_error *err)
{
    struct bn_svg_options options = r->o->picture;
    struct bn_buf title = {.max = 2 * BN_STACKS_MAX_NAME}, subtitle = {.max = 4 * 65536};
    bn_buf_printf(&title, "%s vs %s", r->names[1], r->names[0]);
    bn_buf_printf(&subtitle, "%s; %zu vs %zu runs, total ", verdict, r->diff.n_after, r->diff.n_before);
    put_whole(&subtitle, r);
    bn_buf_puts(&subtitle, "; ");
    put_work(&subtitle, r);
    if (options.title == NULL) options.title = title.failed ? "Comparison" : title.data;
    options.subtitle = subtitle.failed ? verdict : subtitle.data;
    if (options.notes == NULL) options.notes = r->diff.method;
    bn_status status = bn_svg(out, r->diff.tree, &r->diff, &options, err);
    bn_buf_release(&title);
    bn_buf_release(&subtitle);
    return status;
}

static bn_status write_result(const struct comparison *r, enum bn_stacks_format format, bn_error *err)
{
    struct bn_buf out = {.max = BN_FLAMEGRAPH_MAX_BYTES}, verdict = {.max = 2 * BN_STACKS_MAX_NAME};
    const char *path = r->o->output;
    bool to_file = path != NULL && strcmp(path, "-") != 0;
    put_verdict(&verdict, r);
    bn_status status = bn_buf_check(&verdict, err);
    if (status == BN_OK && format == BN_STACKS_TEXT)
        put_text(&out, r, !to_file && bn_report_color(stdout));
    else if (status == BN_OK)
        status = draw(&out, r, verdict.data, err);
    if (status == BN_OK) status = bn_cli_write(path, &out, err);
    if (status == BN_OK && (format != BN_STACKS_TEXT || to_file)) bn_report_note(0, "%s", verdict.data);
    bn_buf_release(&out);
    bn_buf_release(&verdict);
    return status;
}

bn_status bn_flamegraph_diff(struct bn_args *args, bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields;
    struct comparison r = {.args = args,
                           .o = o,
                           .by_total = o->order == ORDER_TOTAL,
                           .fail_above = bn_args_given(args, &o->diff.fail_above) ? o->diff.fail_above / 100
                                                                                  : (double)NAN};
    const struct bn_stacks_diff_options options = {
        .same_work = o->diff.same_work, .level = o->diff.level, .min_share = o->min / 100};
    bool drawn = o->output != NULL && bn_stacks_format_by_name(o->output) == BN_STACKS_SVG;
    enum bn_stacks_format format = drawn ? BN_STACKS_SVG : BN_STACKS_TEXT;
    bn_status status = bn_flamegraph_check_name(args, format, err);
    if (status == BN_OK) status = read_sides(&r, err);
    if (status == BN_OK) status = bn_stacks_diff(&r.diff, r.sides[0], r.sides[1], &options, err);
    if (status == BN_OK) status = choose_rows(&r, err);
    if (status == BN_OK) status = write_result(&r, format, err);
    if (status == BN_OK && r.gate_failed) args->exit_code = BN_EXIT_NEGATIVE;
    bn_stacks_diff_release(&r.diff);
    bn_stacks_close(r.sides[0]);
    bn_stacks_close(r.sides[1]);
    bn_free(r.rows);
    bn_json_free(r.first);
    return status;
}

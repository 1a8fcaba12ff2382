/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph diff: compares two sets of recordings and tests the changes for significance.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "lab/stacks/fingerprint.h"
#include "lab/stacks/svg.h"
#include "tools/cli/report.h"
#include "tools/flamegraph/diff_report.h"
#include "tools/flamegraph/flamegraph.h"

#define MAX_BYTES (512u << 20)

const struct bn_option bn_flamegraph_diff_options[] = {
    BN_OPTION("vs", "separates the files: before on the left, after on the right",
              BN_TO_PLACE(struct bn_flamegraph_options, diff.vs)),
    BN_OPTION("same-work", "all runs did the same work: compare amounts, not shares", .rare = true,
              BN_TO_BOOL(struct bn_flamegraph_options, diff.same_work)),
    BN_OPTION("by", "order and judge by self or total time", .arg = "self|total", .preset = "self",
              BN_TO_CHOICE(struct bn_flamegraph_options, order)),
    BN_OPTION("top", "number of rows of text; 0: all", .arg = "N", .preset = "30",
              BN_TO_U32(struct bn_flamegraph_options, top, 0, UINT32_MAX)),
    BN_OPTION("min", "leave out and do not judge smaller functions", .arg = "PERCENT", .preset = "0.1",
              BN_TO_F64(struct bn_flamegraph_options, min, 0, 100)),
    BN_OPTION("fail-above", "exit 1 if a function grew by more (percentage points)", .arg = "PERCENT",
              .group = "Gate", BN_TO_F64(struct bn_flamegraph_options, diff.fail_above, 0, 1e6)),
    BN_OPTION("strict", "also exit 1 if such growth was not detectable", .group = "Gate",
              BN_TO_BOOL(struct bn_flamegraph_options, diff.strict)),
    BN_OPTION("level", "significance level, corrected for all functions", .rare = true, .arg = "P",
              .group = "Gate", .preset = "0.05",
              BN_TO_F64(struct bn_flamegraph_options, diff.level, 1e-9, 0.5)),
    {0},
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

struct sides {
    const struct bn_args *args;
    const struct bn_flamegraph_options *o;
    bn_stacks *before, *after;
    bn_json *first;  /* what the first file is about, with --same-work; NULL while none was read */
    bn_json *differ; /* names of the facts in which the sides differ, and should not */
    bool generations;
};

static bn_status read_file(struct sides *s, bn_stacks **out, const char *path, bn_error *err)
{
    BN_TRY(bn_flamegraph_read(out, &path, 1, err));
    if (!s->o->diff.same_work) return BN_OK;
    if (s->first == NULL) {
        s->first = bn_json_new_object();
        const bn_json *workload = bn_json_get((*out)->about, "workload");
        s->generations = workload != NULL;
        if (workload != NULL) bn_json_put_copy(s->first, "workload", workload);
    }
    bn_status status = check_work(s->first, (*out)->about, path, err);
    if (status == BN_OK) status = weigh_generations(*out, path, err);
    return bn_stacks_keep(out, status);
}

/* Shares of different things may differ for that reason alone. */
static void warn_of_differences(const bn_json *names, const char *before, const char *after)
{
    struct bn_buf list = {.max = 4096};
    for (const bn_json *e = bn_json_first(names); e != NULL; e = bn_json_next(e)) {
        const char *name = "";
        (void)bn_json_string(e, &name);
        bn_buf_printf(&list, "%s%s", list.len > 0 ? ", " : "", name);
    }
    if (list.len > 0 && bn_buf_check(&list, NULL) == BN_OK)
        bn_report_warning("%s and %s are not recordings of the same thing; they differ in: %s", before, after,
                          list.data);
    bn_buf_release(&list);
}

/* Runs of one side are of the same program, too. */
static void check_side(const struct sides *s, const bn_stacks *first, const bn_stacks *other, size_t from,
                       size_t at)
{
    bn_json *names = bn_json_new_array();
    bn_fingerprint_differences(names, first->about, other->about, true);
    warn_of_differences(names, s->args->operands[from], s->args->operands[at]);
    bn_json_free(names);
}

static bn_status read_side(struct sides *s, bn_stacks **out, size_t from, size_t n, bn_error *err)
{
    bn_stacks *stacks = NULL;
    BN_TRY(read_file(s, &stacks, s->args->operands[from], err));
    bn_status status = BN_OK;
    for (size_t i = 1; i < n && status == BN_OK; i++) {
        bn_stacks *more = NULL;
        status = read_file(s, &more, s->args->operands[from + i], err);
        if (status == BN_OK) check_side(s, stacks, more, from, from + i);
        if (status == BN_OK) status = bn_stacks_append(stacks, more, err);
        bn_stacks_close(more);
    }
    if (status == BN_OK) status = bn_flamegraph_view(out, stacks, s->args, false, err);
    bn_stacks_close(stacks);
    return status;
}

static bn_status read_sides(struct sides *s, bn_error *err)
{
    const struct bn_args *args = s->args;
    size_t at = s->o->diff.vs, n_inputs = 0;
    if (at == 0 || at == args->n_operands) {
        bn_fail(err, BN_ERR_ARG, "two sides are required");
        bn_error_hint(err, "bn-flamegraph diff BEFORE... --vs AFTER... [options]");
        return BN_ERR_ARG;
    }
    for (size_t i = 0; i < args->n_operands; i++)
        n_inputs += strcmp(args->operands[i], "-") == 0;
    if (n_inputs > 1) return bn_fail(err, BN_ERR_ARG, "standard input can be read only once");
    BN_TRY(read_side(s, &s->before, 0, at, err));
    BN_TRY(read_side(s, &s->after, at, args->n_operands - at, err));
    bn_fingerprint_differences(s->differ, s->before->about, s->after->about, false);
    warn_of_differences(s->differ, "before", "after");
    return BN_OK;
}

/* "old1.json and 4 more": without folders, which mean nothing to others. */
static void put_side(char *out, size_t room, const struct bn_args *args, size_t from, size_t n)
{
    const char *path = args->operands[from], *slash = strrchr(path, '/');
    char more[40] = "";
    if (n > 1) snprintf(more, sizeof more, " and %zu more", n - 1);
    snprintf(out, room, "%.200s%s", slash != NULL ? slash + 1 : path, more);
}

/* The model and prompt of both sides, or of each. */
static void put_work(struct bn_buf *out, const struct sides *s)
{
    struct bn_buf before = {.max = 65536}, after = {.max = 65536};
    bn_flamegraph_put_title(&before, s->before->about);
    bn_flamegraph_put_title(&after, s->after->about);
    if (bn_buf_check(&before, NULL) == BN_OK && bn_buf_check(&after, NULL) == BN_OK) {
        bn_buf_puts(out, before.data);
        if (strcmp(before.data, after.data) != 0) bn_buf_printf(out, " | %s", after.data);
    }
    bn_buf_release(&before);
    bn_buf_release(&after);
}

static bn_status draw(struct bn_buf *out, const struct sides *s, const struct bn_diff_report *report,
                      const char *verdict, bn_error *err)
{
    struct bn_svg_options options = s->o->picture;
    struct bn_buf title = {.max = 2 * BN_STACKS_MAX_NAME}, subtitle = {.max = 4 * 65536};
    bn_buf_printf(&title, "%s vs %s", report->after, report->before);
    bn_buf_printf(&subtitle, "%s; ", verdict);
    bn_buf_printf(&subtitle, "%zu vs %zu runs, total ", report->diff->n_after, report->diff->n_before);
    bn_diff_report_whole(&subtitle, report);
    bn_buf_puts(&subtitle, "; ");
    put_work(&subtitle, s);
    if (options.title == NULL) options.title = title.failed ? "Comparison" : title.data;
    options.subtitle = subtitle.failed ? verdict : subtitle.data;
    if (options.notes == NULL) options.notes = report->diff->method;
    bn_status status = bn_svg(out, report->diff->tree, report->diff, &options, err);
    bn_buf_release(&title);
    bn_buf_release(&subtitle);
    return status;
}

static bn_status write_report(const struct sides *s, enum bn_stacks_format format,
                              const struct bn_diff_report *report, bn_error *err)
{
    struct bn_buf out = {.max = MAX_BYTES}, verdict = {.max = 2 * BN_STACKS_MAX_NAME};
    const char *path = s->o->output;
    bool to_file = path != NULL && strcmp(path, "-") != 0;
    bn_diff_report_verdict(&verdict, report);
    bn_status status = bn_buf_check(&verdict, err);
    if (status == BN_OK && format == BN_STACKS_TEXT)
        bn_diff_report_text(&out, report, !to_file && bn_report_color(stdout));
    else if (status == BN_OK && format == BN_STACKS_DOCUMENT)
        status = bn_diff_report_json(&out, report, err);
    else if (status == BN_OK)
        status = draw(&out, s, report, verdict.data, err);
    if (status == BN_OK) status = bn_flamegraph_write(path, &out, err);
    if (status == BN_OK && (format != BN_STACKS_TEXT || to_file)) bn_report_note(0, "%s", verdict.data);
    bn_buf_release(&out);
    bn_buf_release(&verdict);
    return status;
}

static bn_status report(struct bn_args *args, const struct sides *s, enum bn_stacks_format format,
                        const struct bn_stacks_diff *diff, bn_error *err)
{
    const struct bn_flamegraph_options *o = s->o;
    char before[256], after[256];
    struct bn_diff_report r = {
        .diff = diff,
        .before = before,
        .after = after,
        .differ = s->differ,
        .by_total = o->order == ORDER_TOTAL,
        .generations = s->generations,
        .strict = o->diff.strict,
        .min = o->min / 100,
        .fail_above = bn_args_given(args, &o->diff.fail_above) ? o->diff.fail_above / 100 : (double)NAN,
        .top = o->top};
    put_side(before, sizeof before, args, 0, o->diff.vs);
    put_side(after, sizeof after, args, o->diff.vs, args->n_operands - o->diff.vs);
    bn_status status = bn_diff_report_make(&r, err);
    if (status == BN_OK) status = write_report(s, format, &r, err);
    if (status == BN_OK && r.gate_failed) args->exit_code = BN_EXIT_NEGATIVE;
    bn_diff_report_release(&r);
    return status;
}

bn_status bn_flamegraph_diff(struct bn_args *args, bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields;
    struct sides sides = {.args = args, .o = o, .differ = bn_json_new_array()};
    struct bn_stacks_diff diff = {0};
    struct bn_stacks_diff_options options = {
        .same_work = o->diff.same_work, .level = o->diff.level, .min_share = o->min / 100};
    enum bn_stacks_format format =
        o->output != NULL ? bn_stacks_format_by_name(o->output) : BN_STACKS_NO_FORMAT;
    if (format != BN_STACKS_SVG && format != BN_STACKS_DOCUMENT)
        format = args->json ? BN_STACKS_DOCUMENT : BN_STACKS_TEXT;
    bn_status status = bn_flamegraph_check_name(args, format, err);
    if (status == BN_OK) status = read_sides(&sides, err);
    if (status == BN_OK) status = bn_stacks_diff(&diff, sides.before, sides.after, &options, err);
    if (status == BN_OK) status = report(args, &sides, format, &diff, err);
    bn_stacks_diff_release(&diff);
    bn_stacks_close(sides.before);
    bn_stacks_close(sides.after);
    bn_json_free(sides.first);
    bn_json_free(sides.differ);
    return status;
}

/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph bricks: prints what the profiler measured, and whether the samples agree.
 */
#include <math.h>

#include "base/error.h"
#include "tools/flamegraph/flamegraph.h"

const struct bn_option bn_flamegraph_bricks_options[] = {
    BN_OPTION("check", "exit 1 unless samples and measured times agree", .group = "Check",
              BN_TO_BOOL(struct bn_flamegraph_options, check)),
    {0},
};

static void put_row(struct bn_buf *out, const struct bn_agreement_row *r, bool verdict)
{
    bn_buf_printf(out, "%8.2f %9.2f %9llu", 100 * r->measured, 100 * r->sampled,
                  (unsigned long long)r->samples);
    if (r->compared)
        bn_buf_printf(out, "  %6.2f to %6.2f  %-7s", 100 * r->low, 100 * r->high,
                      !verdict    ? "-"
                      : r->agrees ? "agrees"
                                  : "DIFFERS");
    else
        bn_buf_printf(out, "  %16s  %-7s", "", "-");
    bn_buf_printf(out, "  %s%s", r->name, r->kind == BN_FRAME_SLOT ? " (by its function)" : "");
    bn_buf_putc(out, '\n');
}

static void put_agreement(struct bn_buf *out, const struct bn_agreement *a)
{
    bool waits = false;
    bn_buf_puts(out, "\nshares of the compared time in %\n");
    bn_buf_printf(out, "%8s %9s %9s  %16s\n", "measured", "sampled", "samples", "95 %, all rows");
    for (size_t i = 0; i < a->n; i++) {
        put_row(out, &a->rows[i], a->why[0] == '\0');
        waits = waits || !a->rows[i].compared;
    }
    if (waits) bn_buf_puts(out, "-: waiting, which samples of processor time may miss, or too few samples\n");
    if (a->both > 0)
        bn_buf_printf(out, "kernels: in %llu of %llu samples the profiler names another function\n",
                      (unsigned long long)a->other, (unsigned long long)a->both);
    if (a->busy_runs > 0 && a->why[0] == '\0')
        bn_buf_printf(out, "ignored: %zu runs on a busy machine\n", a->busy_runs);
    if (a->why[0] != '\0')
        bn_buf_printf(out, "not compared: %s\n", a->why);
    else
        bn_buf_printf(out, "%s: %llu samples in bricks, runs vary %.1f times as much as samples explain\n",
                      a->agrees ? "they agree" : "they do not agree", (unsigned long long)a->samples,
                      a->dispersion);
}

/* ---- the command ---- */

/* The measured times of stacks with samples, or the stacks themselves when they are measured. */
static bn_status find_measured(const bn_stacks **measured, const bn_stacks *stacks, bn_error *err)
{
    bool itself = strcmp(stacks->what, "bricks") == 0;
    *measured = itself ? stacks : stacks->measured;
    if (*measured != NULL) return BN_OK;
    bn_fail(err, BN_ERR_NOT_FOUND, "the recording has no measured times");
    bn_error_hint(err, "bn-flamegraph record without a program, or bn-run --profile, measures them");
    return BN_ERR_NOT_FOUND;
}

/* The measured times as a tree, and the comparison. */
static bn_status show(struct bn_args *args, const bn_stacks *measured, const struct bn_agreement *agreement,
                      bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields, tree = {.tree = true};
    const struct bn_stacks_view how = {.drop = BN_FRAME_FUNCTIONS | BN_FRAME_BIT(BN_FRAME_PROCESS) |
                                               BN_FRAME_BIT(BN_FRAME_LAYER) | BN_FRAME_BIT(BN_FRAME_THREAD)};
    struct bn_buf out = {.max = 1u << 28};
    bn_stacks *view = NULL;
    bn_json *document = args->json ? bn_json_new_object() : NULL;
    bn_status status = bn_stacks_copy(&view, measured, &how, err);
    if (status == BN_OK) status = bn_flamegraph_list(&out, document, view, &tree, err);
    if (status == BN_OK && agreement != NULL && args->json) bn_agreement_put(document, agreement);
    if (status == BN_OK && agreement != NULL && !args->json) put_agreement(&out, agreement);
    if (status == BN_OK && args->json) status = bn_flamegraph_put_document(&out, document, err);
    if (status == BN_OK) status = bn_flamegraph_write(o->output, &out, err);
    bn_json_free(document);
    bn_stacks_close(view);
    bn_buf_release(&out);
    return status;
}

static bn_status report(struct bn_args *args, const bn_stacks *stacks, bn_error *err)
{
    const bn_stacks *measured = NULL;
    struct bn_agreement agreement = {0};
    BN_TRY(find_measured(&measured, stacks, err));
    bool sampled = measured != stacks, agrees = false;
    bn_status status = sampled ? bn_agreement(&agreement, stacks, measured, err) : BN_OK;
    if (status == BN_OK) status = show(args, measured, sampled ? &agreement : NULL, err);
    /* A difference is a negative result; so is, with --check, that nothing could be compared. */
    agrees = sampled && agreement.agrees;
    bool differs = sampled && agreement.why[0] == '\0' && !agreement.agrees;
    if (differs || (((const struct bn_flamegraph_options *)args->fields)->check && !agrees))
        args->exit_code = BN_EXIT_NEGATIVE;
    bn_agreement_release(&agreement);
    return status;
}

bn_status bn_flamegraph_bricks(struct bn_args *args, bn_error *err)
{
    bn_stacks *stacks = NULL;
    BN_TRY(bn_flamegraph_read_operands(&stacks, args, err));
    bn_status status = report(args, stacks, err);
    bn_stacks_close(stacks);
    return status;
}

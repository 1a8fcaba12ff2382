/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph bricks: prints what the profiler measured, and whether the samples agree.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "lab/kit/order.h"
#include "tools/cli/print_json.h"
#include "tools/flamegraph/flamegraph.h"

const struct bn_option bn_flamegraph_bricks_options[] = {
    BN_OPTION("check", "exit 1 unless samples and measured times agree", .group = "Check",
              BN_TO_BOOL(struct bn_flamegraph_options, bricks.check)),
    BN_OPTION("layers", "list layers separately", .group = "View",
              BN_TO_BOOL(struct bn_flamegraph_options, bricks.layers)),
    BN_OPTION("threads-apart", "list threads separately", .group = "View",
              BN_TO_BOOL(struct bn_flamegraph_options, bricks.threads)),
    {0},
};

/* ---- the table ---- */

/* Nodes in the order of the table: siblings by their totals. */
struct line {
    uint32_t parent, node;
    double total;
};

static int by_parent(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    if (x->parent != y->parent) return x->parent < y->parent ? -1 : 1;
    if (x->total < y->total || x->total > y->total) return x->total > y->total ? -1 : 1;
    return x->node < y->node ? -1 : 1;
}

/* The lines of a parent's children begin here. */
static size_t first_line(const struct line *lines, size_t n, uint32_t parent)
{
    size_t at;
    BN_SEARCH(at, n, lines[at].parent < parent);
    return at;
}

static void put_below(struct bn_buf *out, const bn_stacks *view, const struct line *lines, uint32_t parent,
                      double whole)
{
    size_t n = view->n_nodes - 1;
    for (size_t i = first_line(lines, n, parent); i < n && lines[i].parent == parent; i++) {
        uint32_t node = lines[i].node;
        bn_buf_printf(out, "%14.3f %14.3f %7.2f  %*s%s\n", lines[i].total / 1e6,
                      bn_stacks_self(view, node, 0) / 1e6, whole > 0 ? 100 * lines[i].total / whole : 0,
                      2 * ((int)view->nodes[node].depth - 1), "", bn_stacks_frame(view, node)->name);
        put_below(out, view, lines, node, whole);
    }
}

/* A node's own time, and with that of its kernels and the bricks in it. */
static bn_status put_tree(struct bn_buf *out, const bn_stacks *view, const double *totals, bn_error *err)
{
    struct line *lines = bn_alloc(view->n_nodes, sizeof *lines);
    if (lines == NULL) return bn_nomem(err);
    for (uint32_t i = 1; i < view->n_nodes; i++)
        lines[i - 1] = (struct line){view->nodes[i].parent, i, totals[i]};
    qsort(lines, view->n_nodes - 1, sizeof *lines, by_parent);
    bn_buf_printf(out, "%14s %14s %7s\n", "total (ms)", "self (ms)", "% wall");
    put_below(out, view, lines, BN_STACKS_ROOT, totals[0]);
    bn_free(lines);
    return BN_OK;
}

static bn_status print_tree(struct bn_buf *out, const bn_stacks *measured, bool layers, bool threads,
                            bn_error *err)
{
    bn_stacks *view = NULL;
    unsigned drop = BN_FRAME_BIT(BN_FRAME_PROCESS) | BN_FRAME_FUNCTIONS;
    if (!layers) drop |= BN_FRAME_BIT(BN_FRAME_LAYER);
    if (!threads) drop |= BN_FRAME_BIT(BN_FRAME_THREAD);
    struct bn_stacks_view how = {.drop = drop, .merge_runs = true};
    BN_TRY(bn_stacks_copy(&view, measured, &how, err));
    double *totals = bn_alloc(view->n_nodes, sizeof *totals);
    bn_status status = totals != NULL ? BN_OK : bn_nomem(err);
    if (status == BN_OK) {
        bn_stacks_totals(view, 0, totals);
        status = put_tree(out, view, totals, err);
    }
    bn_free(totals);
    bn_stacks_close(view);
    return status;
}

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
    if (r->compared && !r->agrees && r->besides > 0)
        bn_buf_printf(out, "; %llu samples between its stamps ran something else",
                      (unsigned long long)r->besides);
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
        bn_buf_printf(
            out, "%s: %llu samples in bricks, p = %.3g, runs vary %.1f times as much as samples explain\n",
            a->agrees ? "they agree" : "they do not agree", (unsigned long long)a->samples, a->p,
            a->dispersion);
}

/* ---- the document ---- */

static void put_nodes(bn_json *array, const bn_stacks *view, const double *totals)
{
    for (uint32_t i = 1; i < view->n_nodes; i++) {
        const struct bn_frame *f = bn_stacks_frame(view, i);
        bn_json *o = bn_json_add_object(array);
        bn_json_put_string(o, "name", f->name);
        bn_json_put_string(o, "kind", bn_frame_kind_name(f->kind));
        bn_json_put_u64(o, "depth", view->nodes[i].depth);
        bn_json_put_number(o, "total_ns", totals[i]);
        bn_json_put_number(o, "self_ns", bn_stacks_self(view, i, 0));
    }
}

static bn_status print_document(const bn_stacks *measured, const struct bn_agreement *agreement,
                                bn_error *err)
{
    bn_stacks *view = NULL;
    struct bn_stacks_view how = {.merge_runs = true};
    BN_TRY(bn_stacks_copy(&view, measured, &how, err));
    double *totals = bn_alloc(view->n_nodes, sizeof *totals);
    bn_json *doc = bn_json_new_object();
    bn_status status = totals != NULL ? BN_OK : bn_nomem(err);
    if (status == BN_OK) {
        bn_stacks_totals(view, 0, totals);
        bn_json_put_string(doc, "schema", "bn.bricks/1");
        bn_json_put_u64(doc, "runs", measured->n_runs);
        bn_json_put_number(doc, "total_ns", totals[0]);
        put_nodes(bn_json_put_array(doc, "nodes"), view, totals);
        if (agreement != NULL)
            bn_agreement_put(doc, agreement);
        else
            bn_json_put_unavailable(doc, "agreement", "nothing was sampled");
        status = bn_cli_print_json(doc, err);
    }
    bn_json_free(doc);
    bn_free(totals);
    bn_stacks_close(view);
    return status;
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

static bn_status show(struct bn_args *args, const bn_stacks *measured, const struct bn_agreement *agreement,
                      bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields;
    struct bn_buf text = {.max = 1u << 28};
    if (args->json) return print_document(measured, agreement, err);
    bn_status status = print_tree(&text, measured, o->bricks.layers, o->bricks.threads, err);
    if (status == BN_OK && agreement != NULL) put_agreement(&text, agreement);
    if (status == BN_OK) status = bn_flamegraph_write(o->output, &text, err);
    bn_buf_release(&text);
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
    /* A difference is a negative result; so is, with --check, that nothing could be compared.
     */
    agrees = sampled && agreement.agrees;
    bool differs = sampled && agreement.why[0] == '\0' && !agreement.agrees;
    if (differs || (((const struct bn_flamegraph_options *)args->fields)->bricks.check && !agrees))
        args->exit_code = BN_EXIT_NEGATIVE;
    bn_agreement_release(&agreement);
    return status;
}

/* Options of recording do nothing to files. */
static bn_status check_options(const struct bn_args *args, bn_error *err)
{
    const struct bn_option *const TABLES[] = {bn_flamegraph_record_options, bn_flamegraph_workload_options};
    for (size_t i = 0; i < args->n_values && args->n_operands > 0; i++)
        for (size_t t = 0; t < BN_ARRAY_LEN(TABLES); t++)
            for (const struct bn_option *o = TABLES[t]; o->name != NULL; o++)
                if (args->values[i].option == o && args->values[i].env == NULL)
                    return bn_fail(err, BN_ERR_ARG, "--%s only applies when recording, not to existing files",
                                   o->name);
    return BN_OK;
}

bn_status bn_flamegraph_bricks(struct bn_args *args, bn_error *err)
{
    struct bn_flamegraph_recorded recorded = {0};
    const struct bn_flamegraph_options *o = args->fields;
    BN_TRY(check_options(args, err));
    if (args->n_operands > 0) {
        BN_TRY(bn_flamegraph_read(&recorded.stacks, args->operands, args->n_operands, err));
    } else {
        if (o->work.level == BN_PROF_OFF) return bn_fail(err, BN_ERR_ARG, "--level off records no bricks");
        BN_TRY(bn_flamegraph_record_model(&recorded, args, &o->work, err));
    }
    bn_status status = report(args, recorded.stacks, err);
    bn_flamegraph_recorded_release(&recorded);
    return status;
}

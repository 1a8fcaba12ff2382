/* SPDX-License-Identifier: MIT
 *
 * bn-bench top: shows where the time of a running program goes, or that of a recorded profile went. On a terminal
 * it is a screen that refreshes; elsewhere, and on terminals that cannot move the cursor, one frame of text follows
 * the other.
 */
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "lab/kit/put_counts.h"
#include "lab/profile/document.h"
#include "tools/bench/top/top.h"

const struct bn_option bn_bench_top_options[] = {
    BN_OPTION("once", "print one frame as text, and end", .group = "Output",
              BN_TO_BOOL(struct bn_bench_options, once)),
    BN_OPTION("interval", "milliseconds between two refreshes", .letter = 'i', .arg = "MS", .group = "Output",
              .preset = "1000", BN_TO_U32(struct bn_bench_options, interval_ms, 50, 3600000)),
    BN_OPTION("pass", "begin with the tree of the last pass", .group = "Output",
              BN_TO_BOOL(struct bn_bench_options, of_pass)),
    BN_OPTION("budget", "compare with a document of bn-bench profile", .arg = "FILE", .group = "Output",
              BN_TO_TEXT(struct bn_bench_options, budget)),
    BN_OPTION("list", "list the programs that publish their profile", .group = "Output",
              BN_TO_BOOL(struct bn_bench_options, list_live)),
    {0},
};

/* ---- --list ---- */

static void list_one(struct bn_table *table, uint32_t pid)
{
    struct bn_live_reader *reader = NULL;
    struct bn_live_snapshot snapshot;
    char path[BN_LIVE_PATH], name[16];
    snprintf(name, sizeof name, "%u", pid);
    if (bn_live_path(path, name, false, NULL) != BN_OK || bn_live_attach(&reader, path, NULL) != BN_OK)
        return; /* it ended meanwhile */
    if (bn_live_read(&snapshot, reader, NULL) == BN_OK) {
        bn_table_row(table, "");
        bn_table_printf(table, "%u", pid);
        bn_table_text(table, snapshot.head.program);
        bn_table_text(table, snapshot.head.model);
        bn_table_count(table, snapshot.head.n_threads);
        bn_table_count(table, snapshot.sums.n_passes);
        bn_live_release(&snapshot);
    }
    bn_live_detach(reader);
}

static bn_status print_list(bn_error *err)
{
    static const char *const HEADS[] = {"pid", "program", "model", "threads", "passes"};
    struct bn_table table;
    uint32_t *list = NULL;
    size_t n = 0;
    BN_TRY(bn_live_list(&list, &n, err));
    bn_table_begin(&table, HEADS, "lllrr");
    for (size_t i = 0; i < n; i++)
        list_one(&table, list[i]);
    bn_free(list);
    return bn_cli_print_table(&table, err);
}

/* ---- documents, bn.profile/1: sums since the start, those of the last refresh, and the critical path ---- */

static void put_bricks(bn_json *bricks, const struct bn_top *top, const struct bn_live_sums *w)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++)
        sum += w->bricks[i].exclusive_ns;
    for (unsigned i = 0; i < BN_BRICK_KNOWN; i++) {
        const struct bn_brick_stats *b = &w->bricks[i];
        double budget = top->budget.ns[i] > 0 ? top->budget.ns[i] : (double)NAN;
        if (b->count == 0) continue;
        bn_json *o = bn_prof_put_brick(bricks, bn_brick_name(i), bn_brick_category(i), b, sum);
        bn_json_put_u64(o, "ops", b->ops);
        if (top->budget.given)
            bn_json_put_finite(o, "of_budget", (double)b->inclusive_ns / (double)b->count / budget,
                               "the document has no such brick");
    }
}

static void put_window(bn_json *o, const struct bn_top *top, const struct bn_top_window *window)
{
    const struct bn_live_sums *w = &window->sums;
    bn_json_put_number(o, "seconds", window->seconds);
    BN_PUT_COUNTS(o, {"passes", w->n_passes}, {"measured_passes", w->n_measured}, {"tokens", w->n_tokens},
                  {"output_tokens", w->n_logits}, {"passes_ns", w->passes_ns}, {"bricks_ns", w->bricks_ns},
                  {"barrier_wait_ns", w->wait_ns});
    put_bricks(bn_json_put_array(o, "bricks"), top, w);
    if (top->now->head.level != BN_PROF_KERNEL) return;
    bn_json *kernels = bn_json_put_array(o, "kernels");
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++)
        if (w->kernels[k].count > 0) bn_prof_put_kernel(kernels, top->now->kernel_names[k], &w->kernels[k]);
}

static void put_load(bn_json *doc, const struct bn_live_load *load)
{
    if (load->n_sequences == 0) {
        bn_json_put_unavailable(doc, "load", "the program has one sequence");
        return;
    }
    bn_json *o = bn_json_put_object(doc, "load");
    BN_PUT_COUNTS(o, {"sequences", load->n_sequences}, {"running", load->n_running},
                  {"waiting", load->n_waiting}, {"answers", load->n_answers});
}

static bn_json *make_document(const struct bn_top *top)
{
    const struct bn_live_snapshot *s = top->now;
    struct bn_top_window all;
    bn_top_window(&all, s, NULL);
    bn_json *doc = bn_json_new_object();
    BN_PUT(doc, BN_STRING("schema", "bn.profile/1"), BN_TIME("created", bn_clock_utc()));
    if (s->head.pid != 0) bn_json_put_u64(doc, "pid", s->head.pid);
    BN_PUT_STRINGS(doc, {"program", s->head.program}, {"model", s->head.model}, {"isa", s->head.isa},
                   {"level", bn_prof_level_name((enum bn_prof_level)s->head.level)});
    BN_PUT(doc, BN_U64("n_threads", s->head.n_threads),
           BN_TIME(top->state == BN_TOP_RECORDED ? "recorded" : "started", s->head.started_utc),
           BN_STRING("state", bn_top_state_names[top->state]), BN_U64("dropped", s->sums.dropped));
    put_load(doc, &s->load);
    put_window(bn_json_put_object(doc, "total"), top, &all);
    put_window(bn_json_put_object(doc, "refresh"), top, &top->window);
    if (!top->pass.known) {
        bn_json_put_unavailable(doc, "pass", top->pass.why.msg);
        return doc;
    }
    bn_json *pass = bn_json_put_object(doc, "pass");
    bn_json_put_u64(pass, "number", s->pass_number);
    bn_json_put_u64(pass, "tokens", s->pass->passes[s->pass->n_passes - 1].n_tokens);
    bn_schedule_put_rows(pass, &top->pass.schedule);
    return doc;
}

/* ---- text ---- */

static bn_status print_frame(const struct bn_top *top, bn_error *err)
{
    struct bn_buf text = {.max = (size_t)1 << 22};
    struct bn_top_line line;
    for (size_t i = 0; i < BN_TOP_HEAD_LINES + top->rows.n; i++) {
        bn_top_put_line(&line, top, i);
        bn_buf_printf(&text, "%s\n", line.text);
    }
    return bn_cli_print_text(&text, err);
}

/* Frames or documents until the process ends; of all passes of a recorded profile. */
static bn_status print_all(struct bn_top *top, bn_error *err)
{
    const struct bn_bench_options *o = top->o;
    const struct timespec pause = {o->interval_ms / 1000, (long)(o->interval_ms % 1000) * 1000000};
    if (!o->once) BN_TRY(bn_top_move(top, -LONG_MAX, err));
    for (bool first = true; bn_cli_interrupted() == 0; first = false) {
        if (!first && !top->args->json) puts("");
        BN_TRY(top->args->json ? bn_cli_flush_json(make_document(top), !o->once, err)
                               : print_frame(top, err));
        if (fflush(stdout) != 0 || ferror(stdout)) return BN_OK; /* the exit code tells */
        if (o->once || top->state == BN_TOP_ENDED) return BN_OK;
        if (top->state == BN_TOP_RECORDED) {
            if (top->replay.at == top->replay.n_passes) return BN_OK;
            BN_TRY(bn_top_move(top, 1, err));
        } else {
            if (bn_cli_interrupted() == 0) nanosleep(&pause, NULL);
            BN_TRY(bn_top_refresh(top, err));
        }
    }
    return BN_OK;
}

/* ---- the command ---- */

bn_status bn_bench_top(struct bn_args *args, bn_error *err)
{
    struct bn_top top = {.args = args, .o = args->fields, .columns = 79};
    if (top.o->list_live && args->json) return bn_fail(err, BN_ERR_ARG, "--list is not a form of --json");
    if (top.o->list_live) return print_list(err);
    setlocale(LC_CTYPE, ""); /* names of models may have any characters; numbers stay as they are */
    top.view.since_start = top.o->once;
    top.view.of_pass = top.o->of_pass;
    bn_cli_catch_interrupt();
    bool shown = false;
    bn_status status = bn_top_open(&top, err);
    if (status == BN_OK && !top.o->once && !args->json) status = bn_top_screen(&top, &shown, err);
    if (status == BN_OK && !shown) status = print_all(&top, err);
    bn_top_close(&top);
    if (status == BN_OK && bn_cli_interrupted() != 0) args->exit_code = 128 + bn_cli_interrupted();
    return status;
}

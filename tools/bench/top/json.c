/* SPDX-License-Identifier: MIT
 *
 * A refresh as a document, bn.live/1: sums since the start, those of the last refresh, and the critical path of
 * the pass that was copied.
 */
#include <math.h>

#include "base/clock.h"
#include "tools/bench/top/top.h"

#define SCHEMA "bn.live/1"

static void put_bricks(bn_json *object, const struct bn_top *top, const struct bn_top_window *w)
{
    bn_json *bricks = bn_json_put_array(object, "bricks");
    uint64_t sum = 0;
    for (unsigned i = 0; i < top->now->n_bricks; i++)
        sum += w->bricks[i].exclusive_ns;
    for (unsigned i = 0; i < top->now->n_bricks; i++) {
        const struct bn_brick_stats *b = &w->bricks[i];
        if (b->count == 0) continue;
        bn_json *o = bn_json_add_object(bricks);
        bn_json_put_string(o, "name", top->now->names[i]);
        bn_json_put_string(o, "category", bn_brick_category_name(top->now->categories[i]));
        bn_json_put_u64(o, "count", b->count);
        bn_json_put_u64(o, "inclusive_ns", b->inclusive_ns);
        bn_json_put_u64(o, "exclusive_ns", b->exclusive_ns);
        bn_json_put_u64(o, "bytes", b->bytes);
        bn_json_put_u64(o, "ops", b->ops);
        bn_json_put_finite(o, "share_of_sum", sum > 0 ? (double)b->exclusive_ns / (double)sum : 0, "");
        double budget = top->budget.ns[i];
        if (top->budget.given)
            bn_json_put_finite(o, "of_budget",
                               budget > 0 ? (double)b->inclusive_ns / (double)b->count / budget
                                          : BN_TOP_UNKNOWN,
                               "the document has no such brick");
    }
}

static void put_kernels(bn_json *object, const struct bn_top *top, const struct bn_top_window *w)
{
    bn_json *kernels = bn_json_put_array(object, "kernels");
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++) {
        const struct bn_prof_kernel_stats *s = &w->kernels[k];
        if (s->count == 0) continue;
        bn_json *o = bn_json_add_object(kernels);
        bn_json_put_string(o, "name", top->now->kernel_names[k]);
        bn_json_put_u64(o, "count", s->count);
        bn_json_put_u64(o, "ns", s->ns);
        bn_json_put_u64(o, "bytes", s->bytes);
        bn_json_put_u64(o, "ops", s->ops);
    }
}

static void put_window(bn_json *doc, const char *name, const struct bn_top *top,
                       const struct bn_top_window *w)
{
    bn_json *o = bn_json_put_object(doc, name);
    bn_json_put_number(o, "seconds", w->seconds);
    bn_json_put_u64(o, "passes", w->counts.n_passes);
    bn_json_put_u64(o, "measured_passes", w->counts.n_measured);
    bn_json_put_u64(o, "tokens", w->counts.n_tokens);
    bn_json_put_u64(o, "output_tokens", w->counts.n_logits);
    bn_json_put_u64(o, "passes_ns", w->counts.passes_ns);
    bn_json_put_u64(o, "bricks_ns", w->bricks_ns);
    bn_json_put_u64(o, "barrier_wait_ns", w->wait_ns);
    put_bricks(o, top, w);
    if (top->now->level == BN_PROF_KERNEL) put_kernels(o, top, w);
}

static void put_pass(bn_json *doc, const struct bn_top *top)
{
    if (!top->pass.known) {
        bn_json_put_unavailable(doc, "pass", top->pass.why.msg);
        return;
    }
    const struct bn_schedule *s = &top->pass.schedule;
    bn_json *o = bn_json_put_object(doc, "pass");
    bn_json_put_u64(o, "number", top->now->pass_number);
    bn_json_put_u64(o, "tokens", top->now->pass->passes[0].n_tokens);
    bn_json_put_u64(o, "path_ns", s->path_ns);
    bn_json_put_u64(o, "work_ns", s->work_ns);
    bn_json_put_number(o, "parallelism", bn_schedule_parallelism(s));
    bn_json *bricks = bn_json_put_array(o, "bricks");
    for (size_t i = 0; i < top->pass.table.n; i++) {
        const struct bn_schedule_row *r = &top->pass.table.rows[i];
        bn_json *brick = bn_json_add_object(bricks);
        bn_json_put_string(brick, "name", r->name);
        bn_json_put_u64(brick, "path_ns", r->path_ns);
        bn_json_put_u64(brick, "work_ns", r->work_ns);
        bn_json_put_u64(brick, "most_slack_ns", r->slack_ns);
    }
}

static void put_load(bn_json *doc, const struct bn_live_load *load)
{
    if (load->n_sequences == 0) {
        bn_json_put_unavailable(doc, "load", "the program has one sequence");
        return;
    }
    bn_json *o = bn_json_put_object(doc, "load");
    bn_json_put_u64(o, "sequences", load->n_sequences);
    bn_json_put_u64(o, "running", load->n_running);
    bn_json_put_u64(o, "waiting", load->n_waiting);
    bn_json_put_u64(o, "answers", load->n_answers);
}

bn_json *bn_top_document(const struct bn_top *top)
{
    const struct bn_live_snapshot *s = top->now;
    struct bn_top_window all;
    char started[21], created[21];
    bn_clock_format(s->started_utc, started);
    bn_clock_format(bn_clock_utc(), created);
    bn_top_window(&all, s, NULL);
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", SCHEMA);
    bn_json_put_string(doc, "created", created);
    bn_json_put_u64(doc, "pid", s->pid);
    bn_json_put_string(doc, "program", s->program);
    bn_json_put_string(doc, "model", s->model);
    bn_json_put_string(doc, "isa", s->isa);
    bn_json_put_string(doc, "level", bn_prof_level_name(s->level));
    bn_json_put_u64(doc, "n_threads", s->n_threads);
    bn_json_put_string(doc, "started", started);
    bn_json_put_string(doc, "state", bn_top_state_names[top->state]);
    bn_json_put_u64(doc, "dropped", s->counts.dropped);
    put_load(doc, &s->load);
    put_window(doc, "total", top, &all);
    put_window(doc, "refresh", top, &top->window);
    put_pass(doc, top);
    return doc;
}

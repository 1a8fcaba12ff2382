/* SPDX-License-Identifier: MIT
 *
 * A refresh as a document, bn.live/1: sums since the start, those of the last refresh, and the critical path of
 * the pass that was copied.
 */
#include "base/clock.h"
#include "lab/kit/put_counts.h"
#include "lab/profile/document.h"
#include "tools/bench/top/top.h"

static void put_bricks(bn_json *bricks, const struct bn_top *top, const struct bn_live_sums *w)
{
    const struct bn_live_head *head = &top->now->head;
    uint64_t sum = 0;
    for (unsigned i = 0; i < head->n_bricks; i++)
        sum += w->bricks[i].exclusive_ns;
    for (unsigned i = 0; i < head->n_bricks; i++) {
        const struct bn_brick_stats *b = &w->bricks[i];
        double budget = top->budget.ns[i] > 0 ? top->budget.ns[i] : (double)NAN;
        if (b->count == 0) continue;
        bn_json *o =
            bn_prof_put_brick(bricks, head->bricks[i], (enum bn_brick_category)head->categories[i], b, sum);
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
        if (w->kernels[k].count > 0) bn_prof_put_kernel(kernels, top->now->head.kernels[k], &w->kernels[k]);
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

bn_json *bn_top_document(const struct bn_top *top)
{
    const struct bn_live_snapshot *s = top->now;
    struct bn_top_window all;
    char started[21], created[21];
    bn_clock_format(s->head.started_utc, started);
    bn_clock_format(bn_clock_utc(), created);
    bn_top_window(&all, s, NULL);
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", "bn.live/1");
    bn_json_put_string(doc, "created", created);
    bn_json_put_u64(doc, "pid", s->head.pid);
    bn_json_put_string(doc, "program", s->head.program);
    bn_json_put_string(doc, "model", s->head.model);
    bn_json_put_string(doc, "isa", s->head.isa);
    bn_json_put_string(doc, "level", bn_prof_level_name((enum bn_prof_level)s->head.level));
    bn_json_put_u64(doc, "n_threads", s->head.n_threads);
    bn_json_put_string(doc, "started", started);
    bn_json_put_string(doc, "state", bn_top_state_names[top->state]);
    bn_json_put_u64(doc, "dropped", s->sums.dropped);
    put_load(doc, &s->load);
    put_window(bn_json_put_object(doc, "total"), top, &all);
    put_window(bn_json_put_object(doc, "refresh"), top, &top->window);
    if (!top->pass.known) {
        bn_json_put_unavailable(doc, "pass", top->pass.why.msg);
        return doc;
    }
    bn_json *pass = bn_json_put_object(doc, "pass");
    bn_json_put_u64(pass, "number", s->pass_number);
    bn_json_put_u64(pass, "tokens", s->pass->passes[0].n_tokens);
    bn_schedule_put_rows(pass, &top->pass.schedule);
    return doc;
}

/* SPDX-License-Identifier: MIT
 *
 * The numbers of a refresh: differences of two snapshots, the graph of a pass, and the times of a document to
 * compare with.
 */
#include "base/error.h"
#include "lab/profile/document.h"
#include "tools/bench/top/top.h"

/* A sum cannot fall; in a damaged file it may. */
static uint64_t rise(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

static void subtract_brick(struct bn_brick_stats *b, const struct bn_brick_stats *past)
{
    b->count = rise(b->count, past->count);
    b->inclusive_ns = rise(b->inclusive_ns, past->inclusive_ns);
    b->exclusive_ns = rise(b->exclusive_ns, past->exclusive_ns);
    b->elements = rise(b->elements, past->elements);
    b->bytes = rise(b->bytes, past->bytes);
    b->ops = rise(b->ops, past->ops);
}

static void subtract(struct bn_top_window *w, const struct bn_live_snapshot *past)
{
    struct bn_live_counts *c = &w->counts;
    c->wall_ns = rise(c->wall_ns, past->counts.wall_ns);
    c->n_passes = rise(c->n_passes, past->counts.n_passes);
    c->n_tokens = rise(c->n_tokens, past->counts.n_tokens);
    c->n_measured = rise(c->n_measured, past->counts.n_measured);
    c->n_parts = rise(c->n_parts, past->counts.n_parts);
    c->n_logits = rise(c->n_logits, past->counts.n_logits);
    c->passes_ns = rise(c->passes_ns, past->counts.passes_ns);
    w->bricks_ns = rise(w->bricks_ns, past->bricks_ns);
    w->wait_ns = rise(w->wait_ns, past->wait_ns);
    for (unsigned i = 0; i < BN_BRICK_MAX; i++)
        subtract_brick(&w->bricks[i], &past->bricks[i]);
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++) {
        struct bn_prof_kernel_stats *s = &w->kernels[k];
        s->count = rise(s->count, past->kernels[k].count);
        s->ns = rise(s->ns, past->kernels[k].ns);
        s->bytes = rise(s->bytes, past->kernels[k].bytes);
        s->ops = rise(s->ops, past->kernels[k].ops);
    }
}

/* From the first refresh to the second one, but at least what the passes took: a long pass began earlier. The
 * time of a process that has ended stops with its last pass. */
static uint64_t length_of(const struct bn_live_snapshot *now, const struct bn_live_snapshot *before,
                          uint64_t passes_ns)
{
    uint64_t end = now->has_ended ? now->counts.updated_ns : now->read_ns;
    if (before == NULL) return rise(end, now->started_ns);
    uint64_t between = rise(now->counts.updated_ns, before->counts.updated_ns);
    uint64_t refresh = rise(now->read_ns, before->read_ns);
    if (between < refresh) refresh = between;
    return refresh > passes_ns ? refresh : passes_ns;
}

void bn_top_window(struct bn_top_window *out, const struct bn_live_snapshot *now,
                   const struct bn_live_snapshot *before)
{
    *out =
        (struct bn_top_window){.counts = now->counts, .bricks_ns = now->bricks_ns, .wait_ns = now->wait_ns};
    memcpy(out->bricks, now->bricks, sizeof out->bricks);
    memcpy(out->kernels, now->kernels, sizeof out->kernels);
    if (before != NULL) subtract(out, before);
    out->seconds = (double)length_of(now, before, out->counts.passes_ns) / 1e9;
}

static bn_status make_pass(struct bn_top_pass *out, const struct bn_live_snapshot *snapshot, bn_error *err)
{
    if (snapshot->pass == NULL)
        return bn_fail(err, BN_ERR_NOT_FOUND,
                       snapshot->counts.n_passes == 0 ? "no pass has run" : "no pass was small enough");
    BN_TRY(bn_graph_add_profile(&out->graph, snapshot->pass, NULL, 0, 1, err));
    BN_TRY(bn_graph_finish(&out->graph, err));
    if (out->graph.truncated) return bn_fail(err, BN_ERR_LIMIT, "the pass has too many events");
    BN_TRY(bn_schedule_open(&out->schedule, &out->graph, NULL, err));
    out->on_path = bn_alloc(out->graph.n_nodes, sizeof *out->on_path);
    if (out->on_path == NULL) return bn_nomem(err);
    for (uint32_t i = 0; i < out->schedule.n_path; i++)
        out->on_path[out->schedule.path[i]] = true;
    return bn_schedule_table_open(&out->table, &out->schedule, &out->graph, err);
}

void bn_top_pass_open(struct bn_top_pass *out, const struct bn_live_snapshot *snapshot)
{
    *out = (struct bn_top_pass){0};
    bn_graph_open(&out->graph, 0);
    out->known = make_pass(out, snapshot, &out->why) == BN_OK;
}

void bn_top_pass_close(struct bn_top_pass *pass)
{
    bn_schedule_table_close(&pass->table);
    bn_schedule_close(&pass->schedule);
    bn_graph_close(&pass->graph);
    bn_free(pass->on_path);
    *pass = (struct bn_top_pass){0};
}

bn_status bn_top_budget_read(struct bn_top_budget *out, const char *path, bn_error *err)
{
    struct bn_prof_network network;
    bn_json *document = NULL;
    bn_prof *prof = NULL;
    bn_status status = bn_json_read_file(&document, path, err);
    if (status == BN_OK) {
        status = bn_prof_read(&prof, &network, document, err);
        if (status != BN_OK) bn_error_name(err, path);
    }
    for (unsigned i = 0; status == BN_OK && i < prof->n_bricks; i++) {
        struct bn_brick_stats b = bn_prof_stats_for(prof, i, BN_PROF_ALL_THREADS);
        if (b.count > 0) out->ns[i] = (double)b.inclusive_ns / (double)b.count;
    }
    out->given = status == BN_OK;
    bn_prof_close(prof);
    bn_json_free(document);
    return status;
}

/* SPDX-License-Identifier: MIT
 *
 * Sessions: opening (all memory is taken here), evaluating tokens in batches, and what can be asked about it.
 */
#include "infer/session.h"

#include "base/error.h"
#include "base/team.h"
#include "infer/exchange.h"

#define DEFAULT_CTX 4096u
#define DEFAULT_BATCH 128u
#define MAX_BATCH 4096u
#define MAX_THREADS 1024u

/* All scratch memory is one block, so that huge pages fit: rows of activations lie pages apart, and a batch
 * touches them in turn. The first of two rounds only counts. */
struct arena {
    unsigned char *base; /* NULL while counting */
    uint64_t used;
    bool ok;
};

/* Sets *p to n x times x each zeroed bytes. */
static void take(struct arena *a, void *p, size_t n, size_t times, size_t each)
{
    uint64_t bytes;
    void *block = a->base != NULL ? a->base + a->used : NULL;
    memcpy(p, &block, sizeof block);
    a->ok = a->ok && bn_mul_ok(n, times, &bytes) && bn_mul_ok(bytes, each, &bytes) &&
            bn_round_up_ok(bytes, BN_ALIGNMENT, &bytes) && bn_add_ok(a->used, bytes, &a->used);
}

#define TILES_BYTES ((size_t)1 << 20) /* of a second-level cache or the next one, for each thread */

static size_t wanted_tiles(const struct bn_linear *lin)
{
    const struct bn_ternary *w = &lin->w;
    if (lin->w.rows == 0 || w->codes != NULL) return 0;
    size_t all = bn_tiles_bytes(w, w->rows), one = bn_tiles_bytes(w, 1);
    return all < TILES_BYTES ? all : one > TILES_BYTES ? one : TILES_BYTES;
}

/* The most that a product needs which reads the rows of the file, all of them or those picked. */
static size_t tile_bytes(const struct bn_model *m)
{
    size_t most = wanted_tiles(&m->head_linear);
    if (m->repacking.columns && m->layers[0].up.w.k * BN_TILE_ROWS / 4 > most)
        most = bn_tiles_bytes(&m->layers[0].up.w, BN_TILE_ROWS);
    for (size_t i = 0; i < bn_model_n_linears(m); i++) {
        size_t wanted = wanted_tiles(bn_model_linear(m, i));
        if (wanted > most) most = wanted;
    }
    return (most + BN_ALIGNMENT - 1) / BN_ALIGNMENT * BN_ALIGNMENT;
}

static void lay_out_experts(struct bn_session *s, struct arena *a, size_t n_rows)
{
    const struct bn_experts *experts = &s->model->hp.experts;
    size_t n_pairs = (size_t)n_rows * experts->n_used;
    if (experts->n == 0) return;
    take(a, &s->router, experts->n, s->n_batch, sizeof *s->router);
    take(a, &s->probabilities, experts->n, n_rows, sizeof *s->probabilities);
    take(a, &s->pair_weights, 1, n_pairs, sizeof *s->pair_weights);
    take(a, &s->pair_experts, 1, n_pairs, sizeof *s->pair_experts);
    take(a, &s->expert_y, s->model->hp.n_embd, s->n_batch, sizeof *s->expert_y);
    take(a, &s->routes, 1, s->n_threads, sizeof *s->routes);
    for (uint32_t t = 0; t < s->n_threads; t++) {
        struct bn_route route = {0};
        take(a, &route.first, 1, (size_t)experts->n + 1, sizeof *route.first);
        take(a, &route.tokens, s->n_batch, experts->n_used, sizeof *route.tokens);
        take(a, &route.weights, s->n_batch, experts->n_used, sizeof *route.weights);
        take(a, &route.act, 1, s->n_batch, sizeof *route.act);
        if (a->base != NULL) s->routes[t] = route;
    }
}

/* The link to other ranks is at the arena's end while that is counted. */
static void lay_out_link(struct bn_session *s, struct arena *a, size_t widest)
{
    struct bn_link scratch = {0};
    size_t n_ranks = s->model->ranks->count;
    take(a, &s->link, 1, 1, sizeof *s->link);
    struct bn_link *link = a->base != NULL ? s->link : &scratch;
    take(a, &link->edges, n_ranks + 1, 1, sizeof *link->edges);
    take(a, &link->wire, widest, s->n_batch, sizeof *link->wire);
    take(a, &link->tallies, n_ranks, 1, sizeof *link->tallies);
    take(a, &link->heads, n_ranks, 1 + BN_CANDIDATES_MAX, sizeof *link->heads);
    take(a, &link->orders, s->n_batch, sizeof(struct bn_order_row) + sizeof(uint32_t), 1);
}

static void lay_out_recurrent(struct bn_session *s, struct arena *a)
{
    const struct bn_recurrence *r = &s->model->hp.recurrence;
    take(a, &s->conv, bn_hparams_mixed(&s->model->hp), s->n_batch, sizeof *s->conv);
    take(a, &s->z, bn_hparams_inner(&s->model->hp), s->n_batch, sizeof *s->z);
    take(a, &s->decay, r->n_value_heads, s->n_batch, sizeof *s->decay);
    take(a, &s->beta, r->n_value_heads, s->n_batch, sizeof *s->beta);
    take(a, &s->tried, (size_t)r->head_dim * r->head_dim, s->n_threads, sizeof *s->tried);
}

static void lay_out_screen(struct bn_session *s, struct arena *a)
{
    size_t n_vectors = s->n_threads > BN_SCREEN_VECTORS ? s->n_threads : BN_SCREEN_VECTORS;
    size_t n_best = (size_t)(BN_SCREEN_VECTORS + 1) * BN_SCREEN_MAX;
    take(a, &s->screen_vectors, 1, n_vectors, sizeof *s->screen_vectors);
    take(a, &s->screen_x, (size_t)2 * s->model->hp.n_embd, n_vectors, 1);
    take(a, &s->screen_best, n_best, s->n_threads, sizeof *s->screen_best);
}

static void lay_out(struct bn_session *s, struct arena *a)
{
    const bn_hparams *hp = &s->model->hp;
    size_t q_dim = (size_t)hp->n_head * hp->head_dim, kv_dim = (size_t)hp->n_head_kv * hp->head_dim;
    size_t widest = hp->n_embd > hp->n_ff ? hp->n_embd : hp->n_ff;
    size_t inner = bn_hparams_inner(hp), mixed = bn_hparams_mixed(hp);
    size_t out = q_dim > inner ? q_dim : inner;
    if (out > widest) widest = out;
    size_t n_rows = s->n_batch > s->n_threads ? s->n_batch : s->n_threads;
    size_t hidden = bn_hparams_hidden(hp), per_row = hidden / hp->n_ff;
    /* A row of activations has the widest input, or the inputs of down of all experts of a token. */
    size_t padded = bn_act_padded(widest);
    if (bn_act_padded(hp->n_ff) * per_row > padded) padded = bn_act_padded(hp->n_ff) * per_row;
    take(a, &s->counters, 1, s->n_threads, sizeof *s->counters);
    take(a, &s->rope_cos, hp->n_rot / 2, s->n_ctx, sizeof *s->rope_cos);
    take(a, &s->rope_sin, hp->n_rot / 2, s->n_ctx, sizeof *s->rope_sin);
    if (hp->window != 0) {
        take(a, &s->local_cos, hp->n_rot / 2, s->n_ctx, sizeof *s->local_cos);
        take(a, &s->local_sin, hp->n_rot / 2, s->n_ctx, sizeof *s->local_sin);
    }
    take(a, &s->x, hp->n_embd, s->n_batch, sizeof *s->x);
    take(a, &s->norm, widest, n_rows, sizeof *s->norm);
    if (hp->input_norms) take(a, &s->norm_in, hp->n_embd, n_rows, sizeof *s->norm_in);
    take(a, &s->q, q_dim, s->n_batch, sizeof *s->q);
    take(a, &s->k, kv_dim, s->n_batch, sizeof *s->k);
    take(a, &s->v, kv_dim, s->n_batch, sizeof *s->v);
    take(a, &s->att, out, s->n_batch, sizeof *s->att);
    if (hp->gated_heads) take(a, &s->mix, 2 * q_dim > mixed ? 2 * q_dim : mixed, s->n_batch, sizeof *s->mix);
    if (inner > 0) lay_out_recurrent(s, a);
    take(a, &s->gate, hidden, s->n_batch, sizeof *s->gate);
    take(a, &s->up, hidden, s->n_batch, sizeof *s->up);
    take(a, &s->y, hp->n_embd, s->n_batch, sizeof *s->y);
    take(a, &s->act_q, padded, n_rows, 1);
    take(a, &s->act, per_row, n_rows, sizeof *s->act);
    if (s->model->group != 0 || s->model->head_linear.rows != 0) {
        take(a, &s->act_low, padded, n_rows, 1);
        take(a, &s->act_step, padded / BN_MIN_GROUP, n_rows, sizeof *s->act_step);
        take(a, &s->act_sum, padded / BN_MIN_GROUP, n_rows, sizeof *s->act_sum);
    }
    s->tile_bytes = tile_bytes(s->model);
    if (s->tile_bytes > 0) take(a, &s->tiles, s->tile_bytes, s->n_threads, 1);
    if (s->model->repacking.columns) take(a, &s->used, hp->n_ff, s->n_threads, sizeof *s->used);
    lay_out_experts(s, a, n_rows);
    take(a, &s->scores, bn_score_row(s) * BN_QUERIES, s->n_threads, sizeof *s->scores);
    take(a, &s->queries, (size_t)hp->head_dim * 2 * BN_QUERIES, s->n_threads, sizeof *s->queries);
    take(a, &s->head_row, hp->n_embd, s->n_threads, sizeof *s->head_row);
    take(a, &s->hidden, hp->n_embd, s->n_batch, sizeof *s->hidden);
    take(a, &s->rows, 1, s->n_batch, sizeof *s->rows);
    take(a, &s->wanted, 1, s->n_batch, sizeof *s->wanted);
    if (s->model->hadamard.block != 0)
        take(a, &s->rotated, bn_act_padded(widest), s->n_threads, sizeof *s->rotated);
    if (s->model->ranks != NULL) lay_out_link(s, a, widest);
    if (s->model->repacking.head) lay_out_screen(s, a);
}

/* Without the threads. UINT64_MAX: more than can be counted. */
static struct bn_session_memory memory_of(struct bn_session *s)
{
    struct arena arena = {NULL, 0, true};
    lay_out(s, &arena);
    uint64_t one = bn_model_state_bytes(s->model),
             state = one + bn_snapshots_plan(s->snapshot_bytes, one / sizeof(float), s->n_ctx);
    return (struct bn_session_memory){
        .kv_bytes = bn_sequence_cache_bytes(s->model, s->n_ctx) + state,
        .state_bytes = state,
        .scratch_bytes = arena.ok ? arena.used + s->n_ctx * sizeof(int32_t) : UINT64_MAX,
    };
}

/* The KV cache and snapshots stay outside: most of them may never be touched. */
static bool take_all(struct bn_session *s)
{
    struct arena arena = {NULL, 0, true};
    lay_out(s, &arena);
    if (!arena.ok) return false;
    s->arena = bn_alloc_aligned((size_t)arena.used, 1);
    if (s->arena == NULL || !bn_sequence_take(&s->own, s, s->n_ctx) ||
        !bn_snapshots_open(&s->snapshots, s->snapshot_bytes, s->own.n_state, s->n_ctx))
        return false;
    bn_mem_advise_huge(s->arena, (size_t)arena.used);
    arena = (struct arena){s->arena, 0, true};
    lay_out(s, &arena);
    return true;
}

static uint32_t choose(uint32_t wanted, uint32_t fallback, uint32_t most)
{
    uint32_t n = wanted != 0 ? wanted : fallback;
    return n < most ? n : most;
}

static void choose_sizes(struct bn_session *s, const bn_model *model, const bn_session_options *options)
{
    uint32_t cores = bn_team_cores(); /* more threads only wait for each other */
    s->model = model;
    s->n_ctx = choose(options->n_ctx, choose(model->hp.n_ctx, 1, DEFAULT_CTX), model->hp.n_ctx);
    s->n_batch = choose(options->n_batch, choose(s->n_ctx, 1, DEFAULT_BATCH), MAX_BATCH);
    s->n_threads = choose(options->n_threads, cores, options->exact_threads ? MAX_THREADS : cores);
    s->snapshot_bytes = options->snapshot_bytes;
}

struct bn_session_memory bn_session_plan(const bn_model *model, const bn_session_options *options,
                                         uint32_t *n_ctx)
{
    struct bn_session s = {0};
    choose_sizes(&s, model, options);
    *n_ctx = s.n_ctx;
    return memory_of(&s);
}

/* Before anything is taken: else the system may find out when the memory is touched, and end the process. */
static bn_status check_room(struct bn_session *s, bn_error *err)
{
    struct bn_session_memory need = memory_of(s);
    uint64_t left = bn_mem_available(), all = UINT64_MAX;
    if (bn_add_ok(need.kv_bytes, need.scratch_bytes, &all) && all <= left) return BN_OK;
    return bn_hint(
        bn_fail(
            err, BN_ERR_NOMEM,
            "no memory for a context of %u tokens: the cache takes %.1f MiB, the scratch memory %.1f MiB, and "
            "%.1f MiB are available",
            s->n_ctx, (double)need.kv_bytes / 0x1p20, (double)need.scratch_bytes / 0x1p20,
            (double)left / 0x1p20),
        err, "use a smaller context (--ctx) or batch (--batch), or end other programs");
}

bn_status bn_session_open(bn_session **out, const bn_model *model, const bn_session_options *given,
                          bn_error *err)
{
    bn_session_options known = {0}, *options = &known;
    *out = NULL;
    BN_TRY(bn_take_options(&known, sizeof known, given, err));
    if (model->no_weights) return bn_fail(err, BN_ERR_ARG, "the model was opened without its weights");
    if (options->n_ctx > model->hp.n_ctx)
        return bn_fail(err, BN_ERR_LIMIT, "a context of %u tokens is too large, the model's is %u",
                       options->n_ctx, model->hp.n_ctx);
    struct bn_session *s = bn_alloc_aligned(1, sizeof *s);
    if (s == NULL) return bn_nomem(err);
    choose_sizes(s, model, options);
    bn_status room = check_room(s, err);
    if (room != BN_OK) {
        bn_free(s);
        return room;
    }
    s->team = take_all(s) ? bn_team_open(s->n_threads, options->exact_threads) : NULL;
    if (s->team == NULL) {
        bn_fail(err, BN_ERR_NOMEM, "no memory for a context of %u tokens", s->n_ctx);
        bn_session_close(s);
        return BN_ERR_NOMEM;
    }
    s->n_threads = bn_team_size(s->team); /* the system may refuse some */
    s->is_exact = options->exact_threads;
    bn_tick_clock_open(&s->counters[0].clock);
    bn_rope_table(s->rope_cos, s->rope_sin, s->n_ctx, &model->hp, model->rope_factors);
    if (model->hp.window != 0) {
        bn_hparams local = model->hp;
        local.rope_base = local.local_rope_base;
        local.rope_scale = 1.0f;
        local.yarn.factor = 0.0f;
        bn_rope_table(s->local_cos, s->local_sin, s->n_ctx, &local, NULL);
    }
    bn_status placed = model->device != NULL ? bn_device_session_open(&s->on_device, s, err) : BN_OK;
    if (placed != BN_OK) {
        bn_session_close(s);
        return placed;
    }
    *out = s;
    return BN_OK;
}

void bn_session_close(bn_session *s)
{
    if (s == NULL) return;
    bn_record_close(s);
    bn_lead_end(s);
    bn_team_close(s->team);
    bn_sequence_release(&s->own);
    bn_device_session_close(s->on_device);
    if (s->link != NULL && s->link->sequences != NULL)
        for (uint32_t i = 0; i < s->link->n_sequences; i++)
            bn_sequence_close(s->link->sequences[i]);
    if (s->link != NULL) bn_free(s->link->sequences);
    bn_snapshots_close(&s->snapshots);
    bn_free(s->arena);
    bn_free(s);
}

struct bn_session_memory bn_session_memory(const bn_session *s)
{
    uint64_t state = bn_mem_size(s->own.state) + bn_snapshots_bytes(&s->snapshots);
    return (struct bn_session_memory){.kv_bytes =
                                          bn_mem_size(s->own.k_cache) + bn_mem_size(s->own.v_cache) + state,
                                      .state_bytes = state,
                                      .scratch_bytes = bn_mem_size(s->arena) + bn_mem_size(s->own.tokens),
                                      .handle_bytes = bn_mem_size(s) + bn_team_bytes(s->team)};
}

bn_status bn_session_check_tokens(const struct bn_session *s, const struct bn_sequence *sequence,
                                  const int32_t *tokens, size_t n, bn_error *err)
{
    if (n == 0) return bn_fail(err, BN_ERR_ARG, "no tokens to evaluate");
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= s->model->hp.n_vocab)
            return bn_fail(err, BN_ERR_ARG, "token %zu is %d; the vocabulary has ids 0 to %u", i,
                           (int)tokens[i], s->model->hp.n_vocab - 1);
    if (n > sequence->n_ctx - sequence->position) {
        if (sequence->position == 0)
            bn_fail(err, BN_ERR_LIMIT, "prompt too long: %zu tokens, the context holds %u", n,
                    sequence->n_ctx);
        else
            bn_fail(err, BN_ERR_LIMIT, "context full: %zu tokens after %u, the context holds %u", n,
                    sequence->position, sequence->n_ctx);
        if (sequence->n_ctx < s->model->hp.n_ctx)
            bn_error_hint(err, "use a shorter text, or a larger context (--ctx, at most %u)",
                          s->model->hp.n_ctx);
        else
            bn_error_hint(err, "use a shorter text; this is the model's largest context");
        return BN_ERR_LIMIT;
    }
    return BN_OK;
}

static bn_status eval(bn_session *s, const int32_t *tokens, size_t n, bn_logits which, size_t n_best,
                      float *logits, bn_error *err)
{
    BN_TRY(bn_session_check_tokens(s, &s->own, tokens, n, err));
    uint32_t before = s->own.position;
    uint64_t start = bn_clock_ns();
    s->timing = (bn_eval_timing){0};
    s->n_hidden = 0;
    if (n > s->n_batch && s->cancel != NULL) bn_sequence_mark(&s->own, before);
    for (size_t done = 0; done < n;) {
        size_t batch = bn_min_size(n - done, s->n_batch);
        bool last = done + batch == n;
        size_t head_at = which == BN_LOGITS_ALL ? 0 : which == BN_LOGITS_LAST && last ? batch - 1 : batch;
        bn_batch_start(s);
        bn_batch_add(s, &s->own, tokens + done, batch, head_at);
        bn_status status = s->cancel != NULL && s->cancel(s->cancel_user)
                               ? bn_fail(err, BN_ERR_CANCELLED, "cancelled")
                               : bn_forward(s, n_best, logits, err);
        if (status != BN_OK) {
            bn_sequence_rewind(&s->own, before);
            return status;
        }
        if (which == BN_LOGITS_ALL) logits += batch * s->model->hp.n_vocab;
        done += batch;
    }
    s->timing.total_ns = bn_clock_ns() - start;
    return BN_OK;
}

bn_status bn_session_eval(bn_session *s, const int32_t *tokens, size_t n, bn_logits which, float *logits,
                          bn_error *err)
{
    return eval(s, tokens, n, which, 0, logits, err);
}

bn_status bn_session_eval_best(bn_session *s, const int32_t *tokens, size_t n, size_t n_best, float *logits,
                               bn_error *err)
{
    return eval(s, tokens, n, BN_LOGITS_LAST, n_best, logits, err);
}

bn_screen_stat bn_session_screen_stat(const bn_session *s)
{
    bn_screen_stat stat = s->screen;
    if (s->link != NULL) stat.rows += s->link->others.screen_rows;
    return stat;
}

bn_status bn_session_truncate(bn_session *s, uint32_t n_tokens, bn_error *err)
{
    s->n_hidden = 0;
    return bn_sequence_truncate(&s->own, n_tokens, err);
}

uint32_t bn_session_keep(bn_session *s, const int32_t *tokens, size_t n_tokens)
{
    s->n_hidden = 0;
    return bn_sequence_keep(&s->own, tokens, n_tokens);
}

uint32_t bn_session_known(const bn_session *s, uint32_t n_tokens)
{
    return bn_sequence_known(&s->own, n_tokens);
}

uint32_t bn_session_position(const bn_session *s)
{
    return s->own.position;
}

uint32_t bn_session_n_ctx(const bn_session *s)
{
    return s->n_ctx;
}

uint32_t bn_session_n_batch(const bn_session *s)
{
    return s->n_batch;
}

uint32_t bn_session_n_threads(const bn_session *s)
{
    return s->n_threads;
}

const float *bn_session_hidden(const bn_session *s)
{
    return s->n_hidden > 0 ? bn_session_hidden_row(s, s->n_hidden - 1) : NULL;
}

const float *bn_session_hidden_row(const bn_session *s, size_t i)
{
    return i < s->n_hidden ? s->hidden + i * s->model->hp.n_embd : NULL;
}

void bn_session_set_trace(bn_session *s, bn_trace_fn fn, void *user)
{
    s->trace = fn;
    s->trace_user = user;
}

void bn_session_set_cancel(bn_session *s, bn_cancel_fn fn, void *user)
{
    s->cancel = fn;
    s->cancel_user = user;
}

/* Those of a device, but for what stays on the CPU. */
static bn_status name_kernels(bn_prof *prof, const bn_session *s, bn_error *err)
{
    prof->kernel_names = s->model->kernels->name;
    if (s->on_device == NULL) return BN_OK;
    bn_free(prof->own_kernel_names);
    BN_TRY(BN_NEW(prof->own_kernel_names, BN_KERNEL_COUNT, err));
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++) {
        const char *there = bn_device_kernel_name(s, (enum bn_kernel)k);
        prof->own_kernel_names[k] = there != NULL ? there : prof->kernel_names[k];
    }
    prof->kernel_names = prof->own_kernel_names;
    return BN_OK;
}

bn_status bn_session_set_profile(bn_session *s, bn_prof *prof, bn_error *err)
{
    if (prof != NULL && prof->n_threads < s->n_threads)
        return bn_fail(err, BN_ERR_ARG, "the profile is of %u threads, the session has %u", prof->n_threads,
                       s->n_threads);
    if (prof != NULL) BN_TRY(name_kernels(prof, s, err));
    s->prof = prof;
    /* A profile that is kept has every thread in every pass. */
    bn_team_set_exact(s->team, s->is_exact || (prof != NULL && prof->watch == NULL));
    return BN_OK;
}

struct bn_counter bn_session_counter(const struct bn_session *s, enum bn_kernel k)
{
    struct bn_counter sum = bn_counters_sum(s->counters, s->n_threads, k);
    if (s->link != NULL) bn_counter_join(&sum, &s->link->others.kernel[k]);
    return sum;
}

bn_rank_stat bn_session_rank_stat(const struct bn_session *s)
{
    bn_rank_stat stat = {0};
    if (s->link == NULL) return stat;
    stat = s->link->stat;
    stat.ranks = s->model->ranks->count;
    return stat;
}

bool bn_session_kernel_since(const struct bn_session *s, const struct bn_counter *before, enum bn_kernel k,
                             bn_kernel_stat *out)
{
    struct bn_counter sum = bn_session_counter(s, k),
                      past = before != NULL ? before[k] : (struct bn_counter){0};
    uint64_t ns = (uint64_t)((double)(sum.ticks - past.ticks) * s->counters[0].clock.ns_per_tick);
    const char *name = s->on_device != NULL ? bn_device_kernel_name(s, k) : NULL;
    *out = (bn_kernel_stat){name != NULL ? name : s->model->kernels->name[k], sum.calls - past.calls, ns,
                            sum.bytes - past.bytes, sum.ops - past.ops};
    return out->calls > 0;
}

bool bn_session_kernel_stat(const bn_session *s, size_t i, bn_kernel_stat *out)
{
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++)
        if (bn_session_kernel_since(s, NULL, (enum bn_kernel)k, out) && i-- == 0) return true;
    return false;
}

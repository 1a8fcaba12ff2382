/* SPDX-License-Identifier: MIT
 *
 * One generation: tokens are chosen one after the other until something stops it, each step is timed and hashed into the
 * chain. All memory is taken before the first token.
 */
#include <string.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/elementary.h"
#include "base/error.h"
#include "generate/generator.h"
#include "grammar/grammar.h"

#define BN_TOP_MAX 1000u
#define NEAR 16u /* tokens; evaluating this many again takes little */

/* The length of the timeline when all but the newest token are evaluated. */
static uint32_t position(const struct bn_generator *g)
{
    return g->base + (uint32_t)g->n_evaluated;
}

/* The most tokens that the timeline may have. */
static uint32_t limit_of(const bn_generation *gen, const bn_sequence *sequence)
{
    return gen->n_ctx != 0 && gen->n_ctx < sequence->n_ctx ? gen->n_ctx : sequence->n_ctx;
}

/* ---- the chain of digests ---- */

static void put_u32(struct bn_sha256 *sha, uint32_t v)
{
    bn_sha256_update(sha, &v, sizeof v); /* every target is little endian */
}

static void chain_step(struct bn_generator *g, const float *logits, const float *hidden, int32_t token)
{
    const bn_hparams *hp = bn_model_hparams(g->session->model);
    bn_candidate top[BN_CHAIN_TOP];
    size_t n_top = bn_best_logits(logits, hp->n_vocab, top, BN_CHAIN_TOP);
    bn_sha256_update(&g->sha, g->link, sizeof g->link);
    put_u32(&g->sha, position(g) - 1);
    bn_sha256_update(&g->sha, hidden, hp->n_embd * sizeof *hidden);
    bn_sha256_update(&g->sha, top, n_top * sizeof *top);
    put_u32(&g->sha, (uint32_t)token);
    bn_sha256_take(&g->sha, g->link);
}

static void keep_top(struct bn_generator *g, const float *logits)
{
    bn_generation *gen = g->gen;
    bn_candidate *row = gen->top + gen->n_ids * gen->n_top;
    size_t n = bn_best_logits(logits, bn_model_hparams(g->session->model)->n_vocab, row, gen->n_top);
    for (; n < gen->n_top; n++)
        row[n] = (bn_candidate){-1, 0.0f};
}

/* The logarithm of the sum of exp(logit): exp by the kernel, the sum in binary64 in the order of tokens, the logarithm
 * without libm. So it has the same bits on every machine. */
static double log_sum_of(struct bn_generator *g, const float *logits)
{
    size_t n_vocab = g->session->model->hp.n_vocab;
    float most = logits[0];
    double sum = 0.0;
    for (size_t i = 1; i < n_vocab; i++)
        if (logits[i] > most) most = logits[i];
    for (size_t i = 0; i < n_vocab; i++)
        g->weights[i] = logits[i] - most;
    g->session->model->kernels->exp(g->weights, g->weights, n_vocab);
    for (size_t i = 0; i < n_vocab; i++)
        sum += (double)g->weights[i];
    return sum > 0.0 ? (double)most + bn_log(sum) : (double)most; /* it is at least 1 */
}

/* ---- text and stop texts ---- */

static bool show(struct bn_generator *g, int32_t id, size_t n)
{
    bool go_on = g->gen->on_token == NULL || g->gen->on_token(g->gen->user, id, g->held, n);
    memmove(g->held, g->held + n, g->n_held - n);
    g->n_held -= n;
    return go_on;
}

/* Where the first stop text begins in the held text, SIZE_MAX for nowhere. */
static size_t find_stop(const struct bn_generator *g)
{
    size_t found = SIZE_MAX;
    for (size_t k = 0; k < g->gen->n_stops; k++) {
        size_t n = strlen(g->gen->stops[k]);
        for (size_t i = 0; n > 0 && i + n <= g->n_held && i < found; i++)
            if (memcmp(g->held + i, g->gen->stops[k], n) == 0) found = i;
    }
    return found;
}

/* Bytes at the end of the held text that could be the beginning of a stop text. */
static size_t open_stop(const struct bn_generator *g)
{
    size_t longest = 0;
    for (size_t k = 0; k < g->gen->n_stops; k++) {
        size_t n = strlen(g->gen->stops[k]);
        for (size_t i = bn_min_size(n > 0 ? n - 1 : 0, g->n_held); i > longest; i--)
            if (memcmp(g->held + g->n_held - i, g->gen->stops[k], i) == 0) longest = i;
    }
    return longest;
}

/* Takes a token's text; false when generation is to stop, with the reason set. */
static bool take_text(struct bn_generator *g, int32_t id)
{
    const char *bytes = NULL;
    size_t n = g->tok != NULL && !bn_token_is_control(g->tok, id) ? bn_token_bytes(g->tok, id, &bytes) : 0;
    n = bn_utf8_stream_push(&g->utf8, bytes, n, g->fresh);
    memcpy(g->held + g->n_held, g->fresh, n);
    g->n_held += n;
    size_t stop = find_stop(g);
    if (stop != SIZE_MAX) {
        g->gen->reason = BN_STOP_STRING;
        g->n_held = stop;
        (void)show(g, id, stop);
        return false;
    }
    if (show(g, id, g->n_held - open_stop(g))) return true;
    g->gen->reason = BN_STOP_CALLER;
    return false;
}

static void flush_text(struct bn_generator *g, int32_t id)
{
    if (g->gen->reason == BN_STOP_STRING || g->gen->reason == BN_STOP_CALLER) return;
    size_t n = bn_utf8_stream_flush(&g->utf8, g->fresh);
    memcpy(g->held + g->n_held, g->fresh, n);
    g->n_held += n;
    if (g->n_held > 0) (void)show(g, id, g->n_held);
}

/* ---- the loop ---- */

static bool stops_at_id(struct bn_generator *g, int32_t id)
{
    for (size_t i = 0; i < g->gen->n_stop_ids; i++)
        if (g->gen->stop_ids[i] == id) {
            g->gen->reason = BN_STOP_ID;
            return true;
        }
    if (!g->gen->ignore_end && g->tok != NULL && bn_token_is_end(g->tok, id)) {
        g->gen->reason = BN_STOP_END;
        return true;
    }
    return false;
}

/* Passes a token to the caller; false when it is the last. */
static bool emit(struct bn_generator *g, int32_t id)
{
    bn_generation *gen = g->gen;
    if (stops_at_id(g, id) || !take_text(g, id)) return false;
    if (g->constraint != NULL && bn_constraint_is_complete(g->constraint)) {
        gen->reason = BN_STOP_GRAMMAR;
        return false;
    }
    if (gen->n_ids == gen->n_predict) {
        gen->reason = BN_STOP_LENGTH;
        return false;
    }
    if (position(g) == limit_of(gen, g->sequence)) {
        gen->reason = BN_STOP_CONTEXT;
        return false;
    }
    return true;
}

/* Keeps what a choice needs until the generation may make more steps. */
static void keep_choice(struct bn_generator *g, const float *logits, const float *hidden)
{
    const bn_hparams *hp = bn_model_hparams(g->session->model);
    g->waits = true;
    if (logits == g->kept) return;
    memcpy(g->kept, logits, hp->n_vocab * sizeof *logits);
    memcpy(g->kept + hp->n_vocab, hidden, hp->n_embd * sizeof *hidden);
}

/* Chooses a token from the logits and records it; false when it is the last. It may wait instead. */
static bool choose(struct bn_generator *g, const float *logits, const float *hidden)
{
    bn_generation *gen = g->gen;
    uint64_t start = bn_clock_ns();
    struct bn_brick_timer sampling = bn_prof_start(bn_prof_trail(g->session->prof, 0), BN_BRICK_SAMPLING);
    int32_t id = g->constraint != NULL ? bn_constraint_choose(g->constraint, g->sampler, logits, hidden,
                                                              g->n_best, g->history, g->n_history)
                                       : bn_sampler_next(g->sampler, logits, g->history, g->n_history);
    bn_prof_stop(sampling, id != BN_CHOICE_WAITS);
    g->waits = false;
    if (id == BN_CHOICE_WAITS) {
        keep_choice(g, logits, hidden);
        return true;
    }
    if (id < 0) {
        gen->reason = BN_STOP_STUCK;
        gen->stuck = bn_constraint_status(g->constraint);
        return false;
    }
    uint64_t done = bn_clock_ns();
    struct bn_brick_timer rest = bn_prof_start(bn_prof_trail(g->session->prof, 0), BN_BRICK_EMIT);
    if (gen->want_chain) chain_step(g, logits, hidden, id);
    if (gen->n_top > 0) keep_top(g, logits);
    if (gen->want_logprobs) {
        gen->log_sums[gen->n_ids] = log_sum_of(g, logits);
        gen->logprobs[gen->n_ids] = (double)logits[id] - gen->log_sums[gen->n_ids];
    }
    g->history[g->n_history++] = id;
    gen->ids[gen->n_ids] = id;
    gen->steps[gen->n_ids] =
        (bn_step_timing){g->timing.embed_ns, g->timing.layers_ns, g->timing.head_ns, done - start};
    gen->token_ns[gen->n_ids] = done - g->since;
    gen->n_ids++;
    g->timing = (bn_eval_timing){0};
    bool go_on = emit(g, id);
    bn_prof_stop(rest, 1);
    g->since = bn_clock_ns();
    return go_on;
}

/* ---- what the header declares ---- */

/* Drafts at most n tokens after the newest, no more than the context and the request have room for. */
static size_t draft(struct bn_generator *g, size_t n)
{
    const bn_generation *gen = g->gen;
    n = bn_min_size(n, bn_draft_pace_length(&g->pace));
    n = bn_min_size(n, limit_of(gen, g->sequence) - position(g) - 1);
    n = bn_min_size(n, gen->n_predict - gen->n_ids - 1);
    return bn_drafter_draft(g->drafter, g->history, g->n_history, n, g->sampler);
}

bn_batch_part bn_generator_next(struct bn_generator *g, size_t n, size_t most_drafts)
{
    size_t pending = g->n_history - g->n_evaluated, n_drafted = 0;
    g->pass_start = bn_clock_thread_cpu_ns();
    if (g->drafter != NULL && g->gen->n_ids > 0) n_drafted = draft(g, bn_min_size(n - pending, most_drafts));
    g->sequence->trial = n_drafted > 0 ? g->trial : NULL;
    return (bn_batch_part){g->sequence, g->history + g->n_evaluated, bn_min_size(pending, n) + n_drafted,
                           pending > n     ? BN_LOGITS_NONE
                           : n_drafted > 0 ? BN_LOGITS_ALL
                                           : BN_LOGITS_LAST};
}

/* The members of a struct of 64-bit counters, less what they were. */
static void subtract(void *out, const void *now, const void *then, size_t n_bytes)
{
    uint64_t *counters = out;
    for (size_t i = 0; i < n_bytes / sizeof *counters; i++)
        counters[i] = ((const uint64_t *)now)[i] - ((const uint64_t *)then)[i];
}

/* What the session did since the generation began. */
static void put_work(struct bn_generator *g)
{
    bn_generation *gen = g->gen;
    const struct bn_session *s = g->session;
    bn_work work = s->work;
    bn_session_tally(g->session);
    bn_screen_stat screen = bn_session_screen_stat(s);
    bn_rank_stat ranks = bn_session_rank_stat(s);
    gen->ranks = (bn_rank_stat){.ranks = ranks.ranks,
                                .exchanges = ranks.exchanges - g->ranks.exchanges,
                                .bytes = ranks.bytes - g->ranks.bytes,
                                .ns = ranks.ns - g->ranks.ns};
    subtract(&gen->work, &work, &g->work, sizeof work);
    subtract(&gen->screen, &screen, &g->screen, sizeof screen);
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++)
        gen->n_kernels +=
            bn_session_kernel_since(s, g->counters, (enum bn_kernel)k, &gen->kernels[gen->n_kernels]);
}

static void end(struct bn_generator *g)
{
    bn_generation *gen = g->gen;
    g->ended = true;
    if (gen->n_ids > 0) flush_text(g, gen->ids[gen->n_ids - 1]);
    gen->total_ns = bn_clock_ns() - g->start;
    gen->decode_ns = gen->total_ns - gen->prefill_ns;
    gen->grammar_cost = g->constraint != NULL ? bn_constraint_cost(g->constraint) : 0;
    put_work(g);
    if (gen->want_chain) bn_hex(gen->chain, g->link, sizeof g->link);
}

void bn_generator_cancel(struct bn_generator *g)
{
    if (g->ended) return;
    g->gen->reason = BN_STOP_CALLER;
    end(g);
}

/* After a pass of one token and n_drafted others, of which n_accepted were chosen. */
static void account_drafts(struct bn_generator *g, size_t n_drafted, size_t n_accepted)
{
    bn_draft_stat *stat = &g->gen->drafts;
    stat->passes += n_drafted > 0;
    stat->drafted += n_drafted;
    stat->accepted += n_accepted;
    bn_draft_pace_account(&g->pace, n_drafted, n_accepted + 1, bn_clock_thread_cpu_ns() - g->pass_start);
}

size_t bn_generator_take(struct bn_generator *g, const bn_batch_part *part, const float *logits,
                         const float *hidden)
{
    const bn_hparams *hp = bn_model_hparams(g->session->model);
    bn_eval_timing timing = g->session->timing;
    size_t n_rows = part->which == BN_LOGITS_ALL ? part->n_tokens : logits != NULL, row = 0;
    bool is_prompt = g->gen->n_ids == 0, go_on = true, right = true;
    g->n_evaluated += part->n_tokens - n_rows;
    g->timing.embed_ns += timing.embed_ns;
    g->timing.layers_ns += timing.layers_ns;
    g->timing.head_ns += timing.head_ns;
    if (logits != NULL && is_prompt) g->gen->prefill_ns = bn_clock_ns() - g->start;
    for (; row < n_rows && go_on && right; row++) {
        int32_t drafted = row + 1 < n_rows ? part->tokens[row + 1] : -1; /* where the choice is written */
        g->n_evaluated++;
        go_on = choose(g, logits + row * hp->n_vocab, hidden + row * hp->n_embd);
        right = !g->waits && g->history[g->n_history - 1] == drafted;
    }
    bn_sequence_settle(g->sequence, position(g));
    if (row > 0 && !is_prompt) account_drafts(g, n_rows - 1, row - 1);
    if (!go_on) end(g);
    return row;
}

void bn_generator_prepare(struct bn_generator *g, size_t n)
{
    if (g->constraint == NULL || g->ended) return;
    g->owes = !bn_constraint_grant(g->constraint, n);
    if (!g->waits || g->owes) return;
    if (!choose(g, g->kept, g->kept + bn_model_hparams(g->session->model)->n_vocab)) end(g);
}

/* Memory for log-probabilities, when they are wanted. */
static bool take_logprobs(struct bn_generator *g)
{
    bn_generation *gen = g->gen;
    if (!gen->want_logprobs) return true;
    gen->logprobs = bn_alloc(gen->n_predict, sizeof *gen->logprobs);
    gen->log_sums = bn_alloc(gen->n_predict, sizeof *gen->log_sums);
    g->weights = bn_alloc_aligned(g->session->model->hp.n_vocab, sizeof *g->weights);
    return gen->logprobs != NULL && gen->log_sums != NULL && g->weights != NULL;
}

static bn_status prepare(struct bn_generator *g, bn_error *err)
{
    bn_generation *gen = g->gen;
    size_t n_vocab = bn_model_hparams(g->session->model)->n_vocab, longest = 1;
    for (size_t i = 0; g->tok != NULL && i < n_vocab; i++) {
        const char *bytes;
        size_t n = bn_token_bytes(g->tok, (int32_t)i, &bytes);
        if (n > longest) longest = n;
    }
    g->held_room = longest + 8;
    for (size_t k = 0; k < gen->n_stops; k++)
        g->held_room += strlen(gen->stops[k]);
    g->history = bn_alloc(gen->n_prompt + gen->n_predict + bn_draft_most(&gen->draft), sizeof *g->history);
    g->held = bn_alloc(g->held_room, 1);
    g->fresh = bn_alloc(longest + 8, 1);
    gen->ids = bn_alloc(gen->n_predict, sizeof *gen->ids);
    gen->token_ns = bn_alloc(gen->n_predict, sizeof *gen->token_ns);
    gen->steps = bn_alloc(gen->n_predict, sizeof *gen->steps);
    gen->kernels = bn_alloc(BN_KERNEL_COUNT, sizeof *gen->kernels);
    if (gen->n_top > 0) gen->top = bn_alloc((size_t)gen->n_predict * gen->n_top, sizeof *gen->top);
    if (g->history == NULL || g->held == NULL || g->fresh == NULL || gen->ids == NULL ||
        gen->token_ns == NULL || gen->steps == NULL || gen->kernels == NULL || !take_logprobs(g) ||
        (gen->n_top > 0 && gen->top == NULL))
        return bn_nomem(err);
    memcpy(g->history, gen->prompt, gen->n_prompt * sizeof *g->history);
    g->n_history = gen->n_prompt;
    gen->sampling.n_prompt = gen->n_prompt;
    BN_TRY(bn_sampler_open(&g->sampler, &gen->sampling, n_vocab, err));
    BN_TRY(bn_constraint_open(&g->constraint, gen, g->session, g->tok, err));
    if (g->constraint != NULL) g->kept = bn_alloc(n_vocab + g->session->model->hp.n_embd, sizeof *g->kept);
    if (g->constraint != NULL && g->kept == NULL) return bn_nomem(err);
    uint32_t most = bn_draft_most(&gen->draft);
    BN_TRY(bn_drafter_open(&g->drafter, gen, g->session->model, err));
    if (most > 0) BN_TRY(bn_trial_open(&g->trial, &g->session->model->hp, (size_t)most + 1, err));
    g->pace =
        (struct bn_draft_pace){.always = gen->draft.always, .most = most, .length = most < 2 ? most : 2};
    g->n_best = gen->want_logprobs ? SIZE_MAX : bn_sampler_reach(g->sampler);
    if (gen->want_chain && g->n_best < BN_CHAIN_TOP) g->n_best = BN_CHAIN_TOP;
    if (g->n_best < gen->n_top) g->n_best = gen->n_top;
    if (!gen->want_chain) return BN_OK;
    bn_sha256_begin(&g->sha);
    bn_sha256_update(&g->sha, "bn.chain/1", 10);
    if (gen->grammar != NULL) {
        const char *kind = bn_grammar_kind_name(gen->grammar->kind);
        bn_sha256_update(&g->sha, kind, strlen(kind));
        bn_sha256_update(&g->sha, gen->grammar->sha256, strlen(gen->grammar->sha256));
    }
    bn_sha256_take(&g->sha, g->link);
    return BN_OK;
}

static bn_status check_request(const bn_generation *gen, const bn_sequence *sequence, bn_error *err)
{
    if (gen->n_prompt == 0) {
        return bn_hint(bn_fail(err, BN_ERR_ARG, "the prompt has no tokens"), err,
                       "give some text, or a model whose file asks for a begin-of-sequence token");
    }
    size_t n = gen->n_cached;
    if (n >= gen->n_prompt || n > sequence->position ||
        memcmp(sequence->tokens + sequence->position - n, gen->prompt, n * sizeof *gen->prompt) != 0)
        return bn_fail(err, BN_ERR_ARG, "the timeline does not end with the first %zu of %zu prompt tokens",
                       gen->n_cached, gen->n_prompt);
    if (gen->n_ctx != 0 && gen->n_prompt - gen->n_cached + sequence->position > gen->n_ctx)
        return bn_fail(err, BN_ERR_LIMIT, "prompt too long: %zu tokens after %u, at most %u are wanted",
                       gen->n_prompt - gen->n_cached, sequence->position, gen->n_ctx);
    if (gen->n_predict == 0 || gen->n_predict > 1u << 24)
        return bn_fail(err, BN_ERR_ARG, "cannot generate %u tokens", gen->n_predict);
    if (gen->n_top > BN_TOP_MAX)
        return bn_fail(err, BN_ERR_ARG, "cannot keep the best %u tokens of a step", gen->n_top);
    return BN_OK;
}

/* Where the next prompt may leave this one: after messages, and before the last token. A template puts some tokens after the
 * last message, so that both are near each other; then one is enough. */
static void mark_places(const struct bn_generator *g)
{
    const bn_generation *gen = g->gen;
    size_t last = 0;
    for (size_t i = gen->n_prompt - 1; i > 0 && g->tok != NULL; i--) {
        if (!bn_token_is_end(g->tok, gen->prompt[i - 1])) continue;
        if (last == 0) last = i;
        if (i >= gen->n_cached) bn_sequence_mark(g->sequence, g->base + (uint32_t)i);
    }
    if (last + NEAR < gen->n_prompt) bn_sequence_mark(g->sequence, g->base + (uint32_t)gen->n_prompt - 1);
}

bn_status bn_generator_open(struct bn_generator **out, bn_session *session, bn_sequence *sequence,
                            const bn_tokenizer *tok, bn_generation *gen, bn_error *err)
{
    *out = NULL;
    BN_TRY(check_request(gen, sequence, err));
    BN_TRY(bn_session_check_tokens(session, sequence, gen->prompt + gen->n_cached,
                                   gen->n_prompt - gen->n_cached, err));
    struct bn_generator *g = bn_alloc(1, sizeof *g);
    if (g == NULL) return bn_nomem(err);
    bn_session_tally(session);
    *g = (struct bn_generator){.session = session,
                               .sequence = sequence,
                               .tok = tok,
                               .gen = gen,
                               .n_evaluated = gen->n_cached,
                               .base = sequence->position - (uint32_t)gen->n_cached,
                               .work = session->work,
                               .screen = bn_session_screen_stat(session),
                               .ranks = bn_session_rank_stat(session)};
    for (unsigned k = 0; k < BN_KERNEL_COUNT; k++)
        g->counters[k] = bn_session_counter(session, (enum bn_kernel)k);
    bn_status status = prepare(g, err);
    if (status != BN_OK) {
        bn_generator_close(g);
        bn_generation_release(gen);
        return status;
    }
    mark_places(g);
    gen->n_before = g->base;
    gen->n_ids = gen->n_kernels = 0;
    gen->n_together = 0;
    gen->stuck = BN_OK;
    g->start = g->since = bn_clock_ns();
    *out = g;
    return BN_OK;
}

void bn_generator_close(struct bn_generator *g)
{
    if (g == NULL) return;
    g->sequence->trial = NULL;
    bn_trial_close(g->trial);
    bn_sampler_close(g->sampler);
    bn_constraint_close(g->constraint);
    bn_drafter_close(g->drafter);
    bn_free(g->history);
    bn_free(g->kept);
    bn_free(g->weights);
    bn_free(g->held);
    bn_free(g->fresh);
    bn_free(g);
}

void bn_generation_release(bn_generation *gen)
{
    bn_free(gen->ids);
    bn_free(gen->token_ns);
    bn_free(gen->steps);
    bn_free(gen->top);
    bn_free(gen->kernels);
    bn_free(gen->logprobs);
    bn_free(gen->log_sums);
    gen->logprobs = gen->log_sums = NULL;
    gen->kernels = NULL;
    gen->n_kernels = 0;
    gen->top = NULL;
    gen->ids = NULL;
    gen->token_ns = NULL;
    gen->steps = NULL;
    gen->n_ids = 0;
}

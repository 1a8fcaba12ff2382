/* SPDX-License-Identifier: MIT
 *
 * Generation (bn_generate): the prompt is evaluated, tokens are chosen one after the other until something
 * stops it, each step is timed and hashed into the chain. All memory is allocated before the first token.
 */
#include <string.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "infer/chain.h"
#include "infer/session.h"

#define BN_TOP_MAX 1000u

struct loop {
    bn_session *session;
    const bn_tokenizer *tok;
    bn_generation *gen;
    bn_sampler *sampler;
    size_t n_best; /* logits that the sampler and the chain use */
    float *logits;
    int32_t *history; /* prompt and generated tokens */
    size_t n_history;
    struct bn_sha256 *sha;
    unsigned char link[BN_SHA256_BYTES];

    /* Text that is held back because a stop text might begin in it. */
    bn_utf8_stream utf8;
    char *held, *fresh;
    size_t n_held, held_room;
};

const char *bn_stop_reason_name(bn_stop_reason reason)
{
    static const char *const NAMES[BN_STOP_REASON_COUNT] = {
        [BN_STOP_LENGTH] = "length", [BN_STOP_ID] = "stop_id",      [BN_STOP_END] = "end",
        [BN_STOP_STRING] = "stop",   [BN_STOP_CONTEXT] = "context", [BN_STOP_CALLER] = "cancelled",
    };
    return (unsigned)reason < BN_STOP_REASON_COUNT ? NAMES[reason] : "unknown";
}

/* ---- the chain of digests ---- */

static void put_u32(struct bn_sha256 *sha, uint32_t v)
{
    unsigned char bytes[4] = {(unsigned char)v, (unsigned char)(v >> 8), (unsigned char)(v >> 16),
                              (unsigned char)(v >> 24)};
    bn_sha256_update(sha, bytes, sizeof bytes);
}

static void put_f32(struct bn_sha256 *sha, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_u32(sha, bits);
}

/* Fills top with the best logits, best first, ties by id; returns how many there are: at most "most". */
static size_t best_logits(const float *logits, size_t n_vocab, bn_candidate *top, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i < n_vocab; i++) {
        if (n == most && !(logits[i] > top[n - 1].logit)) continue;
        if (n < most) n++;
        size_t at = n - 1;
        for (; at > 0 && logits[i] > top[at - 1].logit; at--)
            top[at] = top[at - 1];
        top[at] = (bn_candidate){(int32_t)i, logits[i]};
    }
    return n;
}

static void chain_step(struct loop *l, int32_t token)
{
    const bn_hparams *hp = bn_model_hparams(l->session->model);
    const float *hidden = bn_session_hidden(l->session);
    bn_candidate top[BN_CHAIN_TOP];
    size_t n_top = best_logits(l->logits, hp->n_vocab, top, BN_CHAIN_TOP);
    bn_sha256_update(l->sha, l->link, sizeof l->link);
    put_u32(l->sha, bn_session_position(l->session) - 1);
    bn_sha256_update(l->sha, hidden, hp->n_embd * sizeof *hidden); /* every target is little endian */
    for (size_t i = 0; i < n_top; i++) {
        put_u32(l->sha, (uint32_t)top[i].id);
        put_f32(l->sha, top[i].logit);
    }
    put_u32(l->sha, (uint32_t)token);
    bn_sha256_take(l->sha, l->link);
}

static void keep_top(struct loop *l)
{
    bn_generation *gen = l->gen;
    bn_candidate *row = gen->top + gen->n_ids * gen->n_top;
    size_t n = best_logits(l->logits, bn_model_hparams(l->session->model)->n_vocab, row, gen->n_top);
    for (; n < gen->n_top; n++)
        row[n] = (bn_candidate){-1, 0.0f};
}

/* ---- text and stop texts ---- */

static bool show(struct loop *l, int32_t id, size_t n)
{
    bool go_on = l->gen->on_token == NULL || l->gen->on_token(l->gen->user, id, l->held, n);
    memmove(l->held, l->held + n, l->n_held - n);
    l->n_held -= n;
    return go_on;
}

/* Where the first stop text begins in the held text, SIZE_MAX for nowhere. */
static size_t find_stop(const struct loop *l)
{
    size_t found = SIZE_MAX;
    for (size_t k = 0; k < l->gen->n_stops; k++) {
        size_t n = strlen(l->gen->stops[k]);
        for (size_t i = 0; n > 0 && i + n <= l->n_held && i < found; i++)
            if (memcmp(l->held + i, l->gen->stops[k], n) == 0) found = i;
    }
    return found;
}

/* Bytes at the end of the held text that could be the beginning of a stop text. */
static size_t open_stop(const struct loop *l)
{
    size_t longest = 0;
    for (size_t k = 0; k < l->gen->n_stops; k++) {
        size_t n = strlen(l->gen->stops[k]);
        for (size_t i = bn_min_size(n > 0 ? n - 1 : 0, l->n_held); i > longest; i--)
            if (memcmp(l->held + l->n_held - i, l->gen->stops[k], i) == 0) longest = i;
    }
    return longest;
}

/* Takes a token's text; false when generation is to stop, with the reason set. */
static bool take_text(struct loop *l, int32_t id)
{
    const char *bytes = NULL;
    size_t n = l->tok != NULL && !bn_token_is_control(l->tok, id) ? bn_token_bytes(l->tok, id, &bytes) : 0;
    n = bn_utf8_stream_push(&l->utf8, bytes, n, l->fresh);
    memcpy(l->held + l->n_held, l->fresh, n);
    l->n_held += n;
    size_t stop = find_stop(l);
    if (stop != SIZE_MAX) {
        l->gen->reason = BN_STOP_STRING;
        l->n_held = stop;
        (void)show(l, id, stop);
        return false;
    }
    if (show(l, id, l->n_held - open_stop(l))) return true;
    l->gen->reason = BN_STOP_CALLER;
    return false;
}

static void flush_text(struct loop *l, int32_t id)
{
    if (l->gen->reason == BN_STOP_STRING || l->gen->reason == BN_STOP_CALLER) return;
    size_t n = bn_utf8_stream_flush(&l->utf8, l->fresh);
    memcpy(l->held + l->n_held, l->fresh, n);
    l->n_held += n;
    if (l->n_held > 0) (void)show(l, id, l->n_held);
}

/* ---- the loop ---- */

static bool stops_at_id(struct loop *l, int32_t id)
{
    for (size_t i = 0; i < l->gen->n_stop_ids; i++)
        if (l->gen->stop_ids[i] == id) {
            l->gen->reason = BN_STOP_ID;
            return true;
        }
    if (!l->gen->ignore_end && l->tok != NULL && bn_token_is_end(l->tok, id)) {
        l->gen->reason = BN_STOP_END;
        return true;
    }
    return false;
}

/* Passes a token to the caller; false when it is the last. */
static bool emit(struct loop *l, int32_t id)
{
    bn_generation *gen = l->gen;
    if (stops_at_id(l, id) || !take_text(l, id)) return false;
    if (gen->n_ids == gen->n_predict) {
        gen->reason = BN_STOP_LENGTH;
        return false;
    }
    if (bn_session_position(l->session) == bn_session_n_ctx(l->session)) {
        gen->reason = BN_STOP_CONTEXT;
        return false;
    }
    return true;
}

/* Chooses a token from the logits and records it; false when it is the last. */
static bool choose(struct loop *l, uint64_t since)
{
    bn_generation *gen = l->gen;
    bn_eval_timing timing = bn_session_timing(l->session);
    uint64_t start = bn_clock_ns();
    struct bn_brick_timer sampling = bn_prof_start_brick(l->session->prof, BN_BRICK_SAMPLING);
    int32_t id = bn_sampler_next(l->sampler, l->logits, l->history, l->n_history);
    bn_prof_stop_brick(sampling, 1);
    uint64_t done = bn_clock_ns();
    struct bn_brick_timer rest = bn_prof_start_brick(l->session->prof, BN_BRICK_EMIT);
    if (gen->want_chain) chain_step(l, id);
    if (gen->n_top > 0) keep_top(l);
    l->history[l->n_history++] = id;
    gen->ids[gen->n_ids] = id;
    gen->steps[gen->n_ids] =
        (bn_step_timing){timing.embed_ns, timing.layers_ns, timing.head_ns, done - start};
    gen->token_ns[gen->n_ids] = done - since;
    gen->n_ids++;
    bool go_on = emit(l, id);
    bn_prof_stop_brick(rest, 1);
    return go_on;
}

static bn_status run(struct loop *l, bn_error *err)
{
    bn_generation *gen = l->gen;
    uint64_t start = bn_clock_ns(), since = start;
    BN_TRY(bn_session_eval_best(l->session, gen->prompt, gen->n_prompt, l->n_best, l->logits, err));
    gen->prefill_ns = bn_clock_ns() - start;
    while (choose(l, since)) {
        since = bn_clock_ns();
        BN_TRY(bn_session_eval_best(l->session, &gen->ids[gen->n_ids - 1], 1, l->n_best, l->logits, err));
    }
    uint64_t end = bn_clock_ns();
    flush_text(l, gen->ids[gen->n_ids - 1]);
    gen->total_ns = end - start;
    gen->decode_ns = gen->total_ns - gen->prefill_ns;
    return BN_OK;
}

static bn_status prepare(struct loop *l, bn_error *err)
{
    bn_generation *gen = l->gen;
    size_t n_vocab = bn_model_hparams(l->session->model)->n_vocab, longest = 1;
    for (size_t i = 0; l->tok != NULL && i < n_vocab; i++) {
        const char *bytes;
        size_t n = bn_token_bytes(l->tok, (int32_t)i, &bytes);
        if (n > longest) longest = n;
    }
    l->held_room = longest + 8;
    for (size_t k = 0; k < gen->n_stops; k++)
        l->held_room += strlen(gen->stops[k]);
    l->logits = bn_alloc_aligned(n_vocab, sizeof *l->logits);
    l->history = bn_alloc(gen->n_prompt + gen->n_predict, sizeof *l->history);
    l->held = bn_alloc(l->held_room, 1);
    l->fresh = bn_alloc(longest + 8, 1);
    gen->ids = bn_alloc(gen->n_predict, sizeof *gen->ids);
    gen->token_ns = bn_alloc(gen->n_predict, sizeof *gen->token_ns);
    gen->steps = bn_alloc(gen->n_predict, sizeof *gen->steps);
    if (gen->n_top > 0) gen->top = bn_alloc((size_t)gen->n_predict * gen->n_top, sizeof *gen->top);
    if (l->logits == NULL || l->history == NULL || l->held == NULL || l->fresh == NULL || gen->ids == NULL ||
        gen->token_ns == NULL || gen->steps == NULL || (gen->n_top > 0 && gen->top == NULL))
        return bn_nomem(err);
    memcpy(l->history, gen->prompt, gen->n_prompt * sizeof *l->history);
    l->n_history = gen->n_prompt;
    BN_TRY(bn_sampler_open(&l->sampler, &gen->sampling, n_vocab, err));
    l->n_best = bn_sampler_reach(l->sampler);
    if (gen->want_chain && l->n_best < BN_CHAIN_TOP) l->n_best = BN_CHAIN_TOP;
    if (l->n_best < gen->n_top) l->n_best = gen->n_top;
    if (!gen->want_chain) return BN_OK;
    BN_TRY(bn_sha256_open(&l->sha, err));
    bn_sha256_update(l->sha, "bn.chain/1", 10);
    bn_sha256_take(l->sha, l->link);
    return BN_OK;
}

bn_status bn_generate(bn_session *session, const bn_tokenizer *tok, bn_generation *gen, bn_error *err)
{
    if (gen->n_prompt == 0) {
        bn_fail(err, BN_ERR_ARG, "the prompt has no tokens");
        bn_error_hint(err, "give some text, or a model whose file asks for a begin-of-sequence token");
        return BN_ERR_ARG;
    }
    if (gen->n_predict == 0 || gen->n_predict > 1u << 24)
        return bn_fail(err, BN_ERR_ARG, "cannot generate %u tokens", gen->n_predict);
    if (gen->n_top > BN_TOP_MAX)
        return bn_fail(err, BN_ERR_ARG, "cannot keep the best %u tokens of a step", gen->n_top);
    struct loop l = {.session = session, .tok = tok, .gen = gen};
    bn_status status = prepare(&l, err);
    if (status == BN_OK) status = run(&l, err);
    if (status == BN_OK && gen->want_chain) bn_hex(gen->chain, l.link, sizeof l.link);
    bn_sha256_close(l.sha);
    bn_sampler_close(l.sampler);
    bn_free(l.logits);
    bn_free(l.history);
    bn_free(l.held);
    bn_free(l.fresh);
    if (status != BN_OK) bn_generation_release(gen);
    return status;
}

void bn_generation_release(bn_generation *gen)
{
    bn_free(gen->ids);
    bn_free(gen->token_ns);
    bn_free(gen->steps);
    bn_free(gen->top);
    gen->top = NULL;
    gen->ids = NULL;
    gen->token_ns = NULL;
    gen->steps = NULL;
    gen->n_ids = 0;
}

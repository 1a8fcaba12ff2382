/* SPDX-License-Identifier: MIT
 *
 * Sequences: timelines of tokens with a KV cache of their own, and the evaluation of several in one pass.
 */
#include "base/error.h"
#include "infer/exchange.h"

bool bn_sequence_take(struct bn_sequence *sequence, const bn_model *model, uint32_t n_ctx)
{
    const bn_hparams *hp = &model->hp;
    uint32_t n_recurrent = bn_hparams_n_recurrent(hp, hp->n_layer);
    uint64_t n_cache, per_position = (uint64_t)bn_own_kv_heads(model) * hp->head_dim;
    *sequence = (struct bn_sequence){.n_ctx = n_ctx, .kept_at = BN_NOWHERE, .keep_at = BN_NOWHERE};
    if (!bn_mul_ok(per_position, bn_cache_rows(n_ctx), &n_cache)) return false;
    sequence->k_cache = bn_alloc_aligned((size_t)n_cache, sizeof *sequence->k_cache);
    sequence->v_cache = bn_alloc_aligned((size_t)n_cache, sizeof *sequence->v_cache);
    sequence->tokens = bn_alloc_aligned(n_ctx, sizeof *sequence->tokens);
    if (sequence->k_cache == NULL || sequence->v_cache == NULL || sequence->tokens == NULL) return false;
    if (n_recurrent == 0) return true;
    sequence->n_state = n_recurrent * bn_layer_state(hp);
    sequence->state = bn_alloc_aligned(sequence->n_state, sizeof *sequence->state);
    sequence->kept = bn_alloc_aligned(sequence->n_state, sizeof *sequence->kept);
    return sequence->state != NULL && sequence->kept != NULL;
}

void bn_sequence_release(struct bn_sequence *sequence)
{
    bn_free(sequence->k_cache);
    bn_free(sequence->v_cache);
    bn_free(sequence->tokens);
    bn_free(sequence->state);
    bn_free(sequence->kept);
}

static bool is_recurrent(const struct bn_sequence *sequence)
{
    return sequence->state != NULL;
}

uint32_t bn_sequence_rewind(struct bn_sequence *sequence, uint32_t n_tokens)
{
    if (n_tokens >= sequence->position) return sequence->position;
    if (n_tokens < sequence->kept_at) sequence->kept_at = BN_NOWHERE;
    sequence->keep_at = BN_NOWHERE;
    sequence->position = n_tokens;
    if (!is_recurrent(sequence)) return n_tokens;
    sequence->position = sequence->kept_at != BN_NOWHERE ? sequence->kept_at : 0;
    if (sequence->position > 0)
        memcpy(sequence->state, sequence->kept, sequence->n_state * sizeof *sequence->state);
    else
        memset(sequence->state, 0, sequence->n_state * sizeof *sequence->state);
    return sequence->position;
}

void bn_sequence_spoil(struct bn_sequence *sequence)
{
    if (!is_recurrent(sequence)) return;
    sequence->position++; /* the state is of some token more */
    bn_sequence_rewind(sequence, sequence->position - 1);
}

void bn_sequence_mark(struct bn_sequence *sequence, uint32_t n_tokens)
{
    if (!is_recurrent(sequence) || n_tokens == sequence->kept_at) return;
    sequence->keep_at = n_tokens;
    if (n_tokens != sequence->position) return;
    memcpy(sequence->kept, sequence->state, sequence->n_state * sizeof *sequence->state);
    sequence->kept_at = n_tokens;
    sequence->keep_at = BN_NOWHERE;
}

bn_status bn_sequence_open(bn_sequence **out, const bn_session *session, uint32_t n_ctx, bn_error *err)
{
    *out = NULL;
    if (n_ctx == 0) n_ctx = session->n_ctx;
    if (n_ctx > session->n_ctx)
        return bn_fail(err, BN_ERR_LIMIT, "a sequence of %u tokens is too long, the session allows %u", n_ctx,
                       session->n_ctx);
    struct bn_sequence *sequence = bn_alloc(1, sizeof *sequence);
    if (sequence == NULL) return bn_nomem(err);
    if (!bn_sequence_take(sequence, session->model, n_ctx)) {
        bn_sequence_close(sequence);
        return bn_fail(err, BN_ERR_NOMEM, "no memory for a sequence of %u tokens", n_ctx);
    }
    sequence->number = bn_lead_sequence(session, n_ctx);
    *out = sequence;
    return BN_OK;
}

void bn_sequence_close(bn_sequence *sequence)
{
    if (sequence == NULL) return;
    bn_sequence_release(sequence);
    bn_free(sequence);
}

bn_sequence *bn_session_sequence(bn_session *session)
{
    return &session->own;
}

uint32_t bn_sequence_position(const bn_sequence *sequence)
{
    return sequence->position;
}

uint32_t bn_sequence_n_ctx(const bn_sequence *sequence)
{
    return sequence->n_ctx;
}

bn_status bn_sequence_truncate(bn_sequence *sequence, uint32_t n_tokens, bn_error *err)
{
    if (n_tokens > sequence->position)
        return bn_fail(err, BN_ERR_ARG, "the timeline has %u tokens, not %u", sequence->position, n_tokens);
    bool known = n_tokens == sequence->position || n_tokens == sequence->kept_at || n_tokens == 0;
    if (is_recurrent(sequence) && !known)
        return bn_fail(err, BN_ERR_UNSUPPORTED,
                       "a model with recurrent layers cannot go back from token %u to token %u",
                       sequence->position, n_tokens);
    bn_sequence_rewind(sequence, n_tokens);
    return BN_OK;
}

uint32_t bn_sequence_shared(const bn_sequence *sequence, const int32_t *tokens, size_t n_tokens)
{
    uint32_t most = (uint32_t)bn_min_size(n_tokens, sequence->position), n = 0;
    while (n < most && tokens[n] == sequence->tokens[n])
        n++;
    return n;
}

uint32_t bn_sequence_keep(bn_sequence *sequence, const int32_t *tokens, size_t n_tokens)
{
    return bn_sequence_rewind(sequence, bn_sequence_shared(sequence, tokens, n_tokens));
}

void bn_sequence_copy(const bn_session *session, struct bn_sequence *to, const struct bn_sequence *from,
                      size_t first, size_t end)
{
    size_t d = session->model->hp.head_dim, n_heads = bn_own_kv_heads(session->model);
    bn_lead_copy(session, to, from, first, end);
    /* Whole tiles of keys: the positions before are the same in both, those after are not in use. */
    size_t tile = first / BN_KEY_TILE * BN_KEY_TILE, tiles_end = bn_cache_rows((uint32_t)end);
    for (size_t i = 0; i < n_heads; i++) {
        size_t at = i * bn_cache_rows(to->n_ctx) * d, other = i * bn_cache_rows(from->n_ctx) * d;
        memcpy(to->k_cache + at + tile * d, from->k_cache + other + tile * d,
               (tiles_end - tile) * d * sizeof *to->k_cache);
        memcpy(to->v_cache + at + first * d, from->v_cache + other + first * d,
               (end - first) * d * sizeof *to->v_cache);
    }
    memcpy(to->tokens + first, from->tokens + first, (end - first) * sizeof *to->tokens);
}

uint32_t bn_sequence_share(const bn_session *session, bn_sequence *to, const bn_sequence *from,
                           const int32_t *tokens, size_t n_tokens)
{
    uint32_t own = bn_sequence_keep(to, tokens, n_tokens);
    uint32_t n = bn_sequence_shared(from, tokens, bn_min_size(n_tokens, to->n_ctx));
    bool now = n == from->position;
    if (is_recurrent(from) && !now) n = n >= from->kept_at ? from->kept_at : 0;
    if (n <= own) return own;
    bn_sequence_copy(session, to, from, own, n);
    if (is_recurrent(from))
        memcpy(to->state, now ? from->state : from->kept, to->n_state * sizeof *to->state);
    to->position = n;
    return n;
}

static bn_status check_parts(const struct bn_session *s, const bn_batch_part *parts, size_t n_parts,
                             bn_error *err)
{
    size_t n_tokens = 0;
    for (size_t i = 0; i < n_parts; i++) {
        const bn_batch_part *part = &parts[i];
        BN_TRY(bn_session_check_tokens(s, part->sequence, part->tokens, part->n_tokens, err));
        for (size_t k = 0; k < i; k++)
            if (parts[k].sequence == part->sequence)
                return bn_fail(err, BN_ERR_ARG, "parts %zu and %zu are of the same sequence", k, i);
        if (part->n_tokens > s->n_batch - n_tokens)
            return bn_fail(err, BN_ERR_LIMIT, "the parts have more than %u tokens, which the batch holds",
                           s->n_batch);
        n_tokens += part->n_tokens;
    }
    return n_tokens > 0 ? BN_OK : bn_fail(err, BN_ERR_ARG, "no tokens to evaluate");
}

bn_status bn_session_eval_parts(bn_session *s, const bn_batch_part *parts, size_t n_parts, size_t n_best,
                                float *logits, bn_embedding *e, size_t n, bn_error *err)
{
    if (e == NULL || n_parts > 0) BN_TRY(check_parts(s, parts, n_parts, err));
    uint64_t start = bn_clock_ns();
    s->timing = (bn_eval_timing){0};
    bn_batch_start(s);
    for (size_t i = 0; i < n_parts; i++) {
        const bn_batch_part *part = &parts[i];
        size_t first = part->which == BN_LOGITS_ALL    ? 0
                       : part->which == BN_LOGITS_LAST ? part->n_tokens - 1
                                                       : part->n_tokens;
        bn_batch_add(s, part->sequence, part->tokens, part->n_tokens, first);
    }
    if (e != NULL) (void)bn_embedding_join(e, n);
    BN_TRY(bn_forward(s, n_best, logits, err));
    if (e != NULL) bn_embedding_take(e);
    s->timing.total_ns = bn_clock_ns() - start;
    return BN_OK;
}

bn_status bn_session_eval_batch(bn_session *s, const bn_batch_part *parts, size_t n_parts, size_t n_best,
                                float *logits, bn_error *err)
{
    return bn_session_eval_parts(s, parts, n_parts, n_best, logits, NULL, 0, err);
}

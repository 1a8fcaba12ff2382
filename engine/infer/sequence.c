/* SPDX-License-Identifier: MIT
 *
 * Sequences: timelines of tokens with a KV cache of their own and the state of recurrent layers, and the evaluation of
 * several in one pass.
 */
#include "base/error.h"
#include "infer/exchange.h"

uint64_t bn_sequence_cache_bytes(const bn_model *model, uint32_t n_ctx)
{
    if (model->device != NULL) return 0; /* the device has it */
    return (uint64_t)bn_own_kv_heads(model) * model->hp.head_dim * bn_cache_rows(n_ctx) * 2 *
           sizeof(uint16_t);
}

uint64_t bn_model_state_bytes(const bn_model *model)
{
    return bn_hparams_n_recurrent(&model->hp, model->hp.n_layer) * bn_layer_state(&model->hp) * sizeof(float);
}

bool bn_sequence_take(struct bn_sequence *sequence, struct bn_session *session, uint32_t n_ctx)
{
    const bn_hparams *hp = &session->model->hp;
    uint64_t n_cache, per_position = (uint64_t)bn_own_kv_heads(session->model) * hp->head_dim;
    *sequence = (struct bn_sequence){
        .session = session, .n_ctx = n_ctx, .n_state = bn_model_state_bytes(session->model) / sizeof(float)};
    if (!bn_mul_ok(per_position, bn_cache_rows(n_ctx), &n_cache)) return false;
    sequence->tokens = bn_alloc_aligned(n_ctx, sizeof *sequence->tokens);
    if (sequence->tokens == NULL) return false;
    if (session->model->device == NULL) {
        sequence->k_cache = bn_alloc_aligned((size_t)n_cache, sizeof *sequence->k_cache);
        sequence->v_cache = bn_alloc_aligned((size_t)n_cache, sizeof *sequence->v_cache);
        if (sequence->k_cache == NULL || sequence->v_cache == NULL) return false;
    }
    if (sequence->n_state == 0) return true;
    sequence->lineage = ++session->n_lineages;
    sequence->state = bn_alloc_aligned(sequence->n_state, sizeof *sequence->state);
    return sequence->state != NULL;
}

void bn_sequence_release(struct bn_sequence *sequence)
{
    bn_device_release(sequence);
    bn_free(sequence->k_cache);
    bn_free(sequence->v_cache);
    bn_free(sequence->tokens);
    bn_free(sequence->state);
}

/* ---- the state of recurrent layers ---- */

/* The state of a sequence on a device comes to the CPU before it is read there. */
static void fetch_state(const struct bn_sequence *sequence)
{
    if (sequence->session->on_device != NULL)
        (void)!bn_device_read_state(sequence, NULL); /* the next pass repeats an error */
}

static void copy_state(float *to, const float *from, const struct bn_sequence *sequence)
{
    memcpy(to, from, sequence->n_state * sizeof *to);
}

uint32_t bn_sequence_known(const bn_sequence *sequence, uint32_t n_tokens)
{
    if (n_tokens >= sequence->position) return sequence->position;
    if (!bn_sequence_is_recurrent(sequence)) return n_tokens;
    const struct bn_snapshot *s =
        bn_snapshots_find(&sequence->session->snapshots, sequence, BN_LONGEST, n_tokens);
    return s != NULL ? s->n_tokens : 0;
}

/* The state after the first n_tokens, which is known; NULL: zeros. */
static const float *known_state(const struct bn_sequence *sequence, uint32_t n_tokens)
{
    struct bn_snapshots *pool = &sequence->session->snapshots;
    if (n_tokens == sequence->position) {
        fetch_state(sequence);
        return sequence->state;
    }
    struct bn_snapshot *s = bn_snapshots_find(pool, sequence, BN_LONGEST, n_tokens);
    if (s == NULL) return NULL;
    s->last_use = ++pool->clock;
    return s->state;
}

uint32_t bn_sequence_rewind(struct bn_sequence *sequence, uint32_t n_tokens)
{
    if (n_tokens >= sequence->position) return sequence->position;
    n_tokens = bn_sequence_known(sequence, n_tokens);
    const float *state = bn_sequence_is_recurrent(sequence) ? known_state(sequence, n_tokens) : NULL;
    sequence->n_marks = 0;
    sequence->position = n_tokens;
    if (!bn_sequence_is_recurrent(sequence)) return n_tokens;
    if (state != NULL)
        copy_state(sequence->state, state, sequence);
    else
        memset(sequence->state, 0, sequence->n_state * sizeof *sequence->state);
    bn_sequence_wrote_state(sequence);
    if (n_tokens == 0) sequence->lineage = ++sequence->session->n_lineages;
    return n_tokens;
}

void bn_sequence_mark(bn_sequence *sequence, uint32_t n_tokens)
{
    struct bn_snapshots *pool = &sequence->session->snapshots;
    size_t n = sequence->n_marks, at = 0;
    if (pool->n == 0 || n_tokens < sequence->position || n_tokens == 0) return;
    if (n_tokens == sequence->position) {
        struct bn_snapshot *s = bn_snapshots_find(pool, sequence, BN_LONGEST, n_tokens);
        if (s != NULL && s->n_tokens == n_tokens) return;
        s = bn_snapshots_reserve(pool, n_tokens);
        fetch_state(sequence);
        copy_state(s->state, sequence->state, sequence);
        bn_snapshots_fill(pool, s, sequence);
        return;
    }
    while (at < n && sequence->marks[at] < n_tokens)
        at++;
    if (n == BN_MARKS || (at < n && sequence->marks[at] == n_tokens)) return;
    memmove(&sequence->marks[at + 1], &sequence->marks[at], (n - at) * sizeof *sequence->marks);
    sequence->marks[at] = n_tokens;
    sequence->n_marks++;
}

/* The last place comes first, since there may be fewer snapshots than places. */
void bn_sequence_begin_pass(struct bn_sequence *sequence, uint32_t n)
{
    struct bn_snapshots *pool = &sequence->session->snapshots;
    uint32_t end = sequence->position + n, every = n > 1 ? end / BN_SNAPSHOT_EVERY * BN_SNAPSHOT_EVERY : 0;
    sequence->n_taken = 0;
    if (sequence->trial != NULL) sequence->trial->position = sequence->position;
    if (sequence->trial != NULL || pool->n == 0) return;
    if (every > sequence->position) bn_sequence_mark(sequence, every);
    for (size_t i = sequence->n_marks; i-- > 0;) {
        if (sequence->marks[i] > end) continue;
        struct bn_snapshot *s = bn_snapshots_reserve(pool, sequence->marks[i]);
        if (s == NULL) break;
        memmove(&sequence->taken[1], sequence->taken, sequence->n_taken * sizeof(struct bn_snapshot *));
        sequence->taken[0] = s;
        sequence->n_taken++;
    }
}

static void pass_marks(struct bn_sequence *sequence)
{
    size_t n = 0;
    while (n < sequence->n_marks && sequence->marks[n] <= sequence->position)
        n++;
    sequence->n_marks -= n;
    memmove(sequence->marks, &sequence->marks[n], sequence->n_marks * sizeof *sequence->marks);
}

void bn_sequence_end_pass(struct bn_sequence *sequence, uint32_t n)
{
    (void)n; /* the timeline has them now */
    for (size_t i = 0; i < sequence->n_taken; i++)
        bn_snapshots_fill(&sequence->session->snapshots, sequence->taken[i], sequence);
    sequence->n_taken = 0;
    pass_marks(sequence);
}

/* The state is not that of the timeline, unless the pass was a trial. */
void bn_sequence_fail_pass(struct bn_sequence *sequence, uint32_t n)
{
    (void)n;
    for (size_t i = 0; i < sequence->n_taken; i++) {
        sequence->taken[i]->is_reserved = false;
        sequence->taken[i]->lineage = 0;
    }
    sequence->n_taken = 0;
    if (sequence->trial != NULL && sequence->place.n > 0) bn_device_restore_state(sequence);
    if (!bn_sequence_is_recurrent(sequence) || sequence->trial != NULL) return;
    sequence->position++; /* the state is of some token more */
    bn_sequence_rewind(sequence, sequence->position - 1);
}

/* ---- sequences ---- */

bn_status bn_sequence_open(bn_sequence **out, bn_session *session, uint32_t n_ctx, bn_error *err)
{
    *out = NULL;
    if (n_ctx == 0) n_ctx = session->n_ctx;
    if (n_ctx > session->n_ctx)
        return bn_fail(err, BN_ERR_LIMIT, "a sequence of %u tokens is too long, the session allows %u", n_ctx,
                       session->n_ctx);
    uint64_t need = bn_sequence_cache_bytes(session->model, n_ctx) + bn_model_state_bytes(session->model);
    uint64_t left = bn_mem_available();
    if (need > left)
        return bn_fail(err, BN_ERR_NOMEM,
                       "no memory for a sequence of %u tokens: it takes %.1f MiB, and %.1f MiB are available",
                       n_ctx, (double)need / 0x1p20, (double)left / 0x1p20);
    struct bn_sequence *sequence = bn_alloc(1, sizeof *sequence);
    if (sequence == NULL) return bn_nomem(err);
    if (!bn_sequence_take(sequence, session, n_ctx)) {
        bn_sequence_close(sequence);
        return bn_fail(err, BN_ERR_NOMEM, "no memory for a sequence of %u tokens", n_ctx);
    }
    bn_status status = session->model->device != NULL ? bn_device_take(sequence, err) : BN_OK;
    if (status != BN_OK) {
        bn_sequence_close(sequence);
        return status;
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

/* Evaluates tokens again that the timeline had, up to n_tokens. */
static bn_status evaluate_again(struct bn_sequence *sequence, uint32_t n_tokens, bn_error *err)
{
    struct bn_session *s = sequence->session;
    while (sequence->position < n_tokens) {
        size_t n = bn_min_size(n_tokens - sequence->position, s->n_batch);
        if (s->cancel != NULL && s->cancel(s->cancel_user))
            return bn_fail(err, BN_ERR_CANCELLED, "cancelled");
        bn_batch_start(s);
        bn_batch_add(s, sequence, sequence->tokens + sequence->position, n, n);
        BN_TRY(bn_forward(s, 0, NULL, err));
    }
    return BN_OK;
}

bn_status bn_sequence_truncate(bn_sequence *sequence, uint32_t n_tokens, bn_error *err)
{
    if (n_tokens > sequence->position)
        return bn_fail(err, BN_ERR_ARG, "the timeline has %u tokens, not %u", sequence->position, n_tokens);
    if (bn_sequence_rewind(sequence, n_tokens) == n_tokens) return BN_OK;
    bn_sequence_mark(sequence, n_tokens); /* it may be wanted again */
    return evaluate_again(sequence, n_tokens, err);
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
    memcpy(to->tokens + first, from->tokens + first, (end - first) * sizeof *to->tokens);
    if (session->model->device != NULL) {
        bn_device_copy(to, from, first, end);
        return;
    }
    /* Whole tiles of keys: the positions before are the same in both, those after are not in use. */
    size_t tile = first / BN_KEY_TILE * BN_KEY_TILE, tiles_end = bn_cache_rows((uint32_t)end);
    for (size_t i = 0; i < n_heads; i++) {
        size_t at = i * bn_cache_rows(to->n_ctx) * d, other = i * bn_cache_rows(from->n_ctx) * d;
        memcpy(to->k_cache + at + tile * d, from->k_cache + other + tile * d,
               (tiles_end - tile) * d * sizeof *to->k_cache);
        memcpy(to->v_cache + at + first * d, from->v_cache + other + first * d,
               (end - first) * d * sizeof *to->v_cache);
    }
}

uint32_t bn_sequence_share(const bn_session *session, bn_sequence *to, const bn_sequence *from,
                           const int32_t *tokens, size_t n_tokens)
{
    uint32_t own = bn_sequence_keep(to, tokens, n_tokens);
    uint32_t n = bn_sequence_shared(from, tokens, bn_min_size(n_tokens, to->n_ctx));
    n = bn_sequence_known(from, n);
    if (n <= own) return own;
    bn_sequence_copy(session, to, from, own, n);
    to->position = n;
    if (!bn_sequence_is_recurrent(from)) return n;
    copy_state(to->state, known_state(from, n), to);
    bn_sequence_wrote_state(to);
    to->lineage = from->lineage;
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

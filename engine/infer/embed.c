/* SPDX-License-Identifier: MIT
 *
 * Embeddings: one vector of a text from its hidden states after the final norm. Sums are in binary64, a mean in the
 * order of positions and a length in the order of elements, so that neither batches nor threads change a bit.
 */
#include <math.h>

#include "base/error.h"
#include "infer/session.h"

/* x = values, divided by their length unless as_is; a vector of zeros stays one. */
static void put_vector(float *x, const double *values, size_t n, bool as_is)
{
    double length = 0.0;
    for (size_t i = 0; i < n; i++)
        length += values[i] * values[i];
    length = as_is || length == 0.0 ? 1.0 : sqrt(length);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(values[i] / length);
}

struct bn_embedding {
    bn_session *session;
    struct bn_sequence *sequence;
    const int32_t *tokens;
    size_t n_tokens, n_done;
    size_t n_joined; /* tokens in the batch in flight */
    bn_pooling kind;
    bool as_is;
    size_t n_embd;
    double *sum; /* n_embd */
    float *out;
};

/* The rows of hidden states of `n` tokens from position `first` on. */
static void pool(struct bn_embedding *e, const float *rows, size_t first, size_t n)
{
    for (size_t j = 0; j < n; j++, rows += e->n_embd) {
        bool none = e->kind == BN_POOLING_NONE, mean = e->kind == BN_POOLING_MEAN;
        size_t wanted = e->kind == BN_POOLING_FIRST ? 0 : e->n_tokens - 1;
        if (!none && !mean && first + j != wanted) continue;
        for (size_t i = 0; i < e->n_embd; i++)
            e->sum[i] = (double)rows[i] + (mean ? e->sum[i] : 0.0);
        if (none) put_vector(e->out + (first + j) * e->n_embd, e->sum, e->n_embd, e->as_is);
    }
}

/* Tokens of the batch in flight before the first whose hidden state is wanted. */
static size_t first_wanted(const struct bn_embedding *e)
{
    if (e->kind != BN_POOLING_LAST) return 0;
    return e->n_done + e->n_joined == e->n_tokens ? e->n_joined - 1 : e->n_joined;
}

size_t bn_embedding_join(bn_embedding *e, size_t n)
{
    struct bn_session *s = e->session;
    size_t n_heads = s->run.n_heads;
    e->n_joined = bn_min_size(n, e->n_tokens - e->n_done);
    if (e->n_joined == 0) return 0;
    bn_batch_add(s, e->sequence, e->tokens + e->n_done, e->n_joined, first_wanted(e));
    s->run.n_heads = n_heads;
    return e->n_joined;
}

void bn_embedding_take(bn_embedding *e)
{
    struct bn_session *s = e->session;
    size_t first = first_wanted(e), n = e->n_joined - first;
    if (e->n_joined == 0) return;
    pool(e, s->hidden + (s->run.n_wanted - n) * e->n_embd, e->n_done + first, n);
    e->n_done += e->n_joined;
    e->n_joined = 0;
    if (!bn_embedding_is_done(e) || e->kind == BN_POOLING_NONE) return;
    for (size_t i = 0; e->kind == BN_POOLING_MEAN && i < e->n_embd; i++)
        e->sum[i] /= (double)e->n_tokens;
    put_vector(e->out, e->sum, e->n_embd, e->as_is);
}

bool bn_embedding_is_done(const bn_embedding *e)
{
    return e->n_done == e->n_tokens;
}

static bn_status choose_pooling(bn_pooling *kind, const bn_hparams *hp, bn_error *err)
{
    if (*kind == BN_POOLING_FILE) *kind = hp->pooling;
    if (*kind != BN_POOLING_FILE) return BN_OK;
    return bn_hint(bn_fail(err, BN_ERR_UNSUPPORTED,
                           "the model's file names no pooling: %s.pooling_type is not there or unknown",
                           hp->arch),
                   err, "choose one, for example --pooling mean or --pooling last");
}

bn_status bn_embedding_open(bn_embedding **out, bn_session *s, bn_sequence *sequence, const int32_t *tokens,
                            size_t n_tokens, const bn_embed_options *given, float *vector, bn_error *err)
{
    bn_embed_options options = {0};
    const bn_hparams *hp = &s->model->hp;
    *out = NULL;
    BN_TRY(bn_take_options(&options, sizeof options, given, err));
    bn_pooling kind = options.pooling;
    BN_TRY(choose_pooling(&kind, hp, err));
    /* The whole text, so that the timeline stays as it is after an error. */
    BN_TRY(
        bn_session_check_tokens(s, &(struct bn_sequence){.n_ctx = sequence->n_ctx}, tokens, n_tokens, err));
    /* The other poolings read the hidden state of every token, or of the first. */
    size_t shared = kind == BN_POOLING_LAST ? n_tokens - 1 : 0;
    struct bn_embedding *e = bn_alloc(1, sizeof *e);
    if (e == NULL) return bn_nomem(err);
    *e = (struct bn_embedding){.session = s,
                               .sequence = sequence,
                               .tokens = tokens,
                               .n_tokens = n_tokens,
                               .kind = kind,
                               .as_is = options.as_is,
                               .n_embd = hp->n_embd,
                               .sum = bn_alloc(hp->n_embd, sizeof *e->sum),
                               .out = vector};
    if (e->sum == NULL) {
        bn_embedding_close(e);
        return bn_nomem(err);
    }
    e->n_done = bn_sequence_keep(sequence, tokens, shared);
    *out = e;
    return BN_OK;
}

void bn_embedding_close(bn_embedding *e)
{
    if (e == NULL) return;
    bn_free(e->sum);
    bn_free(e);
}

bn_status bn_session_embed(bn_session *s, const int32_t *tokens, size_t n_tokens,
                           const bn_embed_options *options, float *out, bn_error *err)
{
    bn_embedding *e = NULL;
    bn_status status = BN_OK;
    s->n_hidden = 0;
    BN_TRY(bn_embedding_open(&e, s, &s->own, tokens, n_tokens, options, out, err));
    while (status == BN_OK && !bn_embedding_is_done(e))
        status = s->cancel != NULL && s->cancel(s->cancel_user)
                     ? bn_fail(err, BN_ERR_CANCELLED, "cancelled")
                     : bn_session_eval_parts(s, NULL, 0, 0, NULL, e, s->n_batch, err);
    bn_embedding_close(e);
    if (status != BN_OK) bn_sequence_rewind(&s->own, 0);
    return status;
}

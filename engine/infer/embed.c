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

/* A text that is being pooled. */
struct pooling {
    bn_pooling kind;
    bool as_is;
    size_t n_embd, n_tokens;
    double *sum; /* n_embd */
    float *out;
};

/* The rows of hidden states of `n` tokens from position `first` on. */
static void pool(struct pooling *p, const float *rows, size_t first, size_t n)
{
    for (size_t j = 0; j < n; j++, rows += p->n_embd) {
        bool none = p->kind == BN_POOLING_NONE, mean = p->kind == BN_POOLING_MEAN;
        size_t wanted = p->kind == BN_POOLING_FIRST ? 0 : p->n_tokens - 1;
        if (!none && !mean && first + j != wanted) continue;
        for (size_t i = 0; i < p->n_embd; i++)
            p->sum[i] = (double)rows[i] + (mean ? p->sum[i] : 0.0);
        if (none) put_vector(p->out + (first + j) * p->n_embd, p->sum, p->n_embd, p->as_is);
    }
}

static void finish(struct pooling *p)
{
    if (p->kind == BN_POOLING_NONE) return;
    for (size_t i = 0; p->kind == BN_POOLING_MEAN && i < p->n_embd; i++)
        p->sum[i] /= (double)p->n_tokens;
    put_vector(p->out, p->sum, p->n_embd, p->as_is);
}

/* The tokens after the first `done`. */
static bn_status evaluate(struct bn_session *s, const int32_t *tokens, size_t done, struct pooling *p,
                          bn_error *err)
{
    while (done < p->n_tokens) {
        size_t batch = bn_min_size(p->n_tokens - done, s->n_batch);
        bool last = done + batch == p->n_tokens, only_last = p->kind == BN_POOLING_LAST;
        size_t first = !only_last ? 0 : last ? batch - 1 : batch;
        if (s->cancel != NULL && s->cancel(s->cancel_user))
            return bn_fail(err, BN_ERR_CANCELLED, "cancelled");
        bn_batch_start(s);
        bn_batch_add(s, &s->own, tokens + done, batch, first);
        BN_TRY(bn_forward(s, 0, NULL, err));
        pool(p, s->hidden, done + first, batch - first);
        done += batch;
    }
    finish(p);
    return BN_OK;
}

bn_status bn_session_embed(bn_session *s, const int32_t *tokens, size_t n_tokens,
                           const bn_embed_options *options, float *out, bn_error *err)
{
    static const bn_embed_options defaults = {0};
    const bn_hparams *hp = &s->model->hp;
    if (options == NULL) options = &defaults;
    struct pooling p = {options->pooling, options->as_is, hp->n_embd, n_tokens, NULL, out};
    if (p.kind == BN_POOLING_FILE) p.kind = hp->pooling;
    if (p.kind == BN_POOLING_FILE) {
        bn_fail(err, BN_ERR_UNSUPPORTED,
                "the model's file names no pooling: %s.pooling_type is not there or unknown", hp->arch);
        bn_error_hint(err, "choose one, for example --pooling mean or --pooling last");
        return BN_ERR_UNSUPPORTED;
    }
    /* The other poolings read the hidden state of every token, or of the first. */
    size_t shared = p.kind == BN_POOLING_LAST && n_tokens > 0 ? n_tokens - 1 : 0;
    size_t kept = bn_session_keep(s, tokens, shared);
    BN_TRY(bn_session_check_tokens(s, &s->own, tokens + kept, n_tokens - kept, err));
    p.sum = bn_alloc(hp->n_embd, sizeof *p.sum);
    if (p.sum == NULL) return bn_nomem(err);
    bn_status status = evaluate(s, tokens, kept, &p, err);
    bn_free(p.sum);
    if (status != BN_OK) s->own.position = 0;
    return status;
}

/* SPDX-License-Identifier: MIT
 *
 * Scores a text, window by window, in batches: only the logits of one batch are in memory.
 */
#include "lab/compare/metrics.h"

#include <math.h>

#include "base/error.h"

struct scoring {
    struct bn_score *score;
    bn_session *session;
    size_t n_vocab;
    float *logits; /* of one batch */
    bn_score_fn on_token;
    void *user;
};

/* False: stop. */
static bool count(const struct scoring *s, const float *logits, int32_t id)
{
    double logp = bn_log_softmax(logits, s->n_vocab, (size_t)id);
    s->score->n++;
    s->score->nll -= logp;
    s->score->nll2 += logp * logp;
    s->score->n_best += logits[id] >= logits[bn_argmax(logits, s->n_vocab)];
    return s->on_token == NULL || s->on_token(s->user, id, logp);
}

static bn_status score_window(const struct scoring *s, const int32_t *ids, size_t n_ids, bool *more,
                              bn_error *err)
{
    BN_TRY(bn_session_truncate(s->session, 0, err));
    for (size_t at = 0; at < n_ids && *more;) {
        size_t n = bn_min_size(n_ids - at, bn_session_n_batch(s->session));
        BN_TRY(bn_session_eval(s->session, ids + at, n, BN_LOGITS_ALL, s->logits, err));
        for (size_t i = 0; i < n && at + i + 1 < n_ids && *more; i++)
            *more = count(s, s->logits + i * s->n_vocab, ids[at + i + 1]);
        at += n;
    }
    return BN_OK;
}

bn_status bn_score_text(struct bn_score *out, bn_session *session, const bn_model *model, const int32_t *ids,
                        size_t n_ids, bn_score_fn on_token, void *user, bn_error *err)
{
    struct scoring s = {out, session, bn_model_hparams(model)->n_vocab, NULL, on_token, user};
    size_t window = bn_session_n_ctx(session);
    bool more = true;
    bn_status status = BN_OK;
    *out = (struct bn_score){0};
    s.logits = bn_alloc_aligned(bn_session_n_batch(session), s.n_vocab * sizeof *s.logits);
    if (s.logits == NULL) return bn_nomem(err);
    for (size_t at = 0; at < n_ids && more && status == BN_OK; at += window)
        status = score_window(&s, ids + at, bn_min_size(window, n_ids - at), &more, err);
    bn_free(s.logits);
    return status;
}

double bn_score_nll(const struct bn_score *score)
{
    return score->nll / (double)score->n;
}

double bn_score_nll_error(const struct bn_score *score)
{
    double n = (double)score->n, mean = bn_score_nll(score);
    double variance = score->n > 1 ? (score->nll2 - n * mean * mean) / (n - 1.0) : 0.0;
    return sqrt((variance > 0.0 ? variance : 0.0) / n);
}

double bn_score_perplexity(const struct bn_score *score)
{
    return exp(bn_score_nll(score));
}

double bn_score_accuracy(const struct bn_score *score)
{
    return (double)score->n_best / (double)score->n;
}

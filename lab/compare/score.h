/* SPDX-License-Identifier: MIT
 *
 * How well a model predicts a text: negative log likelihood, perplexity and accuracy. The tokens are cut into
 * windows of the context's length; in each window every token but the first is scored. Likelihoods are
 * natural logarithms, in binary64 from the exact logits.
 */
#ifndef BN_COMPARE_SCORE_H
#define BN_COMPARE_SCORE_H

#include "bn.h"

struct bn_score {
    size_t n;         /* tokens scored */
    size_t n_best;    /* those that were the most likely one */
    double nll, nll2; /* sums of negative log likelihoods and of their squares */
};

/* Called with each scored token and its log probability; false stops scoring. */
typedef bool (*bn_score_fn)(void *user, int32_t id, double logp);

/* Scores the tokens; the timeline of the session is lost. on_token may be NULL. */
BN_MUST_CHECK bn_status bn_score_text(struct bn_score *out, bn_session *session, const bn_model *model,
                                      const int32_t *ids, size_t n_ids, bn_score_fn on_token, void *user,
                                      bn_error *err);

/* Of a score with n > 0: the mean negative log likelihood in nats per token, its standard error, exp(mean),
 * and the share of tokens that were the most likely one. */
double bn_score_nll(const struct bn_score *score);
double bn_score_nll_error(const struct bn_score *score);
double bn_score_perplexity(const struct bn_score *score);
double bn_score_accuracy(const struct bn_score *score);

#endif

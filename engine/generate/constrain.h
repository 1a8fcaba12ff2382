/* SPDX-License-Identifier: MIT
 *
 * Chooses tokens under a grammar: the logits of those that cannot come next are minus infinity, then the sampler chooses
 * as it always does. The result is that of masking the whole vocabulary; the mask is made only when the best tokens are
 * not allowed, or when the sampler draws. Of a screened head, whose best logits alone are known, the rows that are
 * allowed are computed when the best ones do not suffice. So nothing depends on how the logits came about.
 */
#ifndef BN_GENERATE_CONSTRAIN_H
#define BN_GENERATE_CONSTRAIN_H

#include "infer/session.h"

struct bn_constraint;

/* NULL in *out when the request has no grammar. */
BN_MUST_CHECK bn_status bn_constraint_open(struct bn_constraint **out, const bn_generation *gen,
                                           bn_session *session, const bn_tokenizer *tok, bn_error *err);
void bn_constraint_close(struct bn_constraint *c);
#define BN_CHOICE_NONE (-1)  /* no token may come next, or it has failed */
#define BN_CHOICE_WAITS (-2) /* the steps that it may make are over: it goes on when it is asked again */

/* The token that comes next, which the text then has, or one of the above. logits: of all tokens, or the n_best best ones
 * and others, the rest -INFINITY; hidden: what they were computed from. Both are the same when it is asked again. */
int32_t bn_constraint_choose(struct bn_constraint *c, bn_sampler *sampler, const float *logits,
                             const float *hidden, size_t n_best, const int32_t *recent, size_t n_recent);
/* It may make as many steps as an n-th part of a token's work has; false: it owes them from the time before. */
bool bn_constraint_grant(struct bn_constraint *c, size_t n);
/* The work so far, in tokens; why it has failed, or BN_OK. */
uint64_t bn_constraint_cost(const struct bn_constraint *c);
bn_status bn_constraint_status(const struct bn_constraint *c);
/* The text is complete, and nothing can follow it. */
bool bn_constraint_is_complete(const struct bn_constraint *c);

#endif

/* SPDX-License-Identifier: MIT
 *
 * One generation as a state machine: it says which tokens are to be evaluated next, and takes the logits that come
 * back. So whoever evaluates may do that for one generation or for many in one pass (scheduler.c).
 */
#ifndef BN_GENERATE_GENERATOR_H
#define BN_GENERATE_GENERATOR_H

#include "infer/session.h"

struct bn_generator;

/* Takes all memory of a generation. Its prompt follows what the sequence holds. BN_ERR_ARG, BN_ERR_LIMIT for bad
 * requests; then gen holds nothing. All arguments outlive the generator. */
BN_MUST_CHECK bn_status bn_generator_open(struct bn_generator **out, bn_session *session,
                                          bn_sequence *sequence, const bn_tokenizer *tok, bn_generation *gen,
                                          bn_error *err);
/* What gen holds stays. NULL is accepted. */
void bn_generator_close(struct bn_generator *g);

bn_generation *bn_generator_generation(const struct bn_generator *g);
/* How many of the best logits it looks at; SIZE_MAX: all. */
size_t bn_generator_n_best(const struct bn_generator *g);
/* Whether the prompt has been evaluated. */
bool bn_generator_has_prompt(const struct bn_generator *g);
/* Whether something stopped it. */
bool bn_generator_has_ended(const struct bn_generator *g);

/* Before a pass: n generations with a grammar share the time for it. Goes on with a choice that waits. */
void bn_generator_prepare(struct bn_generator *g, size_t n);
bool bn_generator_has_grammar(const struct bn_generator *g);
/* Whether it takes no part in the next pass, since it owes work on its grammar or its choice waits. */
bool bn_generator_sits_out(const struct bn_generator *g);

/* It takes part in a pass with n generations. */
void bn_generator_join(struct bn_generator *g, size_t n);
/* The next tokens, at most n of them. The logits of the last one are wanted when it is the last that is pending; those
 * of all when the others are drafted ones, of which it takes most_drafts at most. */
bn_batch_part bn_generator_next(struct bn_generator *g, size_t n, size_t most_drafts);
/* These tokens were evaluated by the session's last pass; logits and hidden are the first row that was wanted, or NULL.
 * The sequence is shortened to what was right of a draft. */
void bn_generator_take(struct bn_generator *g, const bn_batch_part *part, const float *logits,
                       const float *hidden);

/* Ends it now, whatever is pending. */
void bn_generator_cancel(struct bn_generator *g);

#endif

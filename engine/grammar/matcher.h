/* SPDX-License-Identifier: MIT
 *
 * Follows a grammar through a text, and says which tokens may come next. A token may come when its bytes lead on from
 * what was generated; a token that ends the generation, when the text is complete.
 *
 * The network is made deterministic while it is used: a state is a set of places in the grammar, each with a stack of
 * the rules to return to; states, their successors and their masks over the vocabulary are kept. A mask is made by one
 * walk over the tree of tokens. All results are those of trying every token, which a test does.
 *
 * Limits keep a hostile grammar from taking memory and time. A byte that leads to too many places is forbidden. Over
 * the limits of states and stacks in memory, or of steps of one call, and without memory, a matcher has failed and
 * allows nothing.
 */
#ifndef BN_GRAMMAR_MATCHER_H
#define BN_GRAMMAR_MATCHER_H

#include "grammar/grammar.h"

#define BN_MATCHER_MAX_PLACES \
    32768u /* that are visited to make one state; a byte that leads to more is forbidden */

struct bn_matcher;

/* n_vocab: bits of a mask. ends: tokens that end a generation. The arguments outlive it, but for ends. BN_ERR_ARG for a
 * grammar of the empty text alone. */
BN_MUST_CHECK bn_status bn_matcher_open(struct bn_matcher **out, const bn_grammar *grammar,
                                        const bn_tokenizer *tok, size_t n_vocab, const int32_t *ends,
                                        size_t n_ends, bn_error *err);
void bn_matcher_close(struct bn_matcher *m);

/* Whether a token may come next. */
bool bn_matcher_allows(struct bn_matcher *m, int32_t id);
/* A bit for each token that may come next, until the next call of bn_matcher_take; NULL: it has failed. */
const uint64_t *bn_matcher_mask(struct bn_matcher *m);
/* The text goes on by a token that is allowed; false: it is not, and nothing changes. */
bool bn_matcher_take(struct bn_matcher *m, int32_t id);
/* The same by bytes. */
bool bn_matcher_take_bytes(struct bn_matcher *m, const char *bytes, size_t n);
/* The text matches the grammar; and nothing can follow it. */
bool bn_matcher_accepts(const struct bn_matcher *m);
bool bn_matcher_is_complete(const struct bn_matcher *m);
/* It is over a limit, or memory was short. */
bool bn_matcher_has_failed(const struct bn_matcher *m);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Follows a grammar through a text, and says which tokens may come next. A token may come when its bytes lead on from
 * what was generated; a token that ends the generation, when the text is complete.
 *
 * The network is made deterministic along the text: a state is a set of places in the grammar, each with a stack of
 * the rules to return to. States, their successors and their masks over the vocabulary are kept. A mask is made by one
 * walk over the tree of tokens. A walk that takes many steps follows each place alone from there on, so that texts which
 * can be read in many ways do not multiply states. All results are those of trying every token, which a test does.
 *
 * Limits keep a hostile grammar from taking memory and time. Over one of them, or without memory, a matcher has failed and
 * allows nothing. They count steps, not time: a text fails on all machines or on none.
 */
#ifndef BN_GRAMMAR_MATCHER_H
#define BN_GRAMMAR_MATCHER_H

#include "grammar/grammar.h"

#define BN_MATCHER_MAX_PLACES 32768u /* that are visited to make one state */

struct bn_matcher;

/* n_vocab: bits of a mask. ends: tokens that end a generation. The arguments outlive it, but for ends. BN_ERR_ARG for a
 * grammar of the empty text alone. */
BN_MUST_CHECK bn_status bn_matcher_open(struct bn_matcher **out, const bn_grammar *grammar,
                                        const bn_tokenizer *tok, size_t n_vocab, const int32_t *ends,
                                        size_t n_ends, bn_error *err);
void bn_matcher_close(struct bn_matcher *m);

/* Whether a token may come next. */
bool bn_matcher_allows(struct bn_matcher *m, int32_t id);
/* A bit for each token that may come next, until the next call of bn_matcher_take. NULL: it has failed, or has made
 * `until` steps since it was opened; then the next call goes on. */
const uint64_t *bn_matcher_mask(struct bn_matcher *m, uint64_t until);
/* The steps that it has made: places that were visited, and parts of the tree of tokens. */
uint64_t bn_matcher_n_steps(const struct bn_matcher *m);
/* The steps that count as one token of work: 4096, and one for each bit of a mask. A matcher may make 256 times as many,
 * and 4 times as many for each token that it takes. */
uint64_t bn_matcher_unit(const struct bn_matcher *m);
/* The text goes on by a token that is allowed; false: it is not, and nothing changes. */
bool bn_matcher_take(struct bn_matcher *m, int32_t id);
/* The same by bytes. */
bool bn_matcher_take_bytes(struct bn_matcher *m, const char *bytes, size_t n);
/* The text matches the grammar; and nothing can follow it. */
bool bn_matcher_accepts(const struct bn_matcher *m);
bool bn_matcher_is_complete(const struct bn_matcher *m);
/* BN_OK; BN_ERR_LIMIT or BN_ERR_NOMEM: it has failed. */
bn_status bn_matcher_status(const struct bn_matcher *m);

#endif

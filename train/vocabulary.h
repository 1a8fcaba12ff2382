/* SPDX-License-Identifier: MIT
 *
 * Learns a vocabulary by byte-pair encoding (Sennrich, Haddow, Birch, 2016) over bytes: text is split into pieces by
 * the rule of a tokenizer.ggml.pre, and the most frequent pair of neighbouring symbols in a piece becomes a token,
 * again and again. Of equally frequent pairs the one with the lower left id comes first, then the lower right id; so
 * the result depends on the texts alone, and not on their order.
 *
 * Ids: the 256 bytes, the merged pairs in the order of learning, the special tokens.
 */
#ifndef BN_TRAIN_VOCABULARY_H
#define BN_TRAIN_VOCABULARY_H

#include "base/buf.h"

struct bn_merge {
    uint32_t left, right;
    uint64_t count; /* of the pair when it was merged */
};

struct bn_learner;
/* rule: a value of tokenizer.ggml.pre. BN_ERR_ARG for an unknown one. */
BN_MUST_CHECK bn_status bn_learner_open(struct bn_learner **out, const char *rule, bn_error *err);
void bn_learner_close(struct bn_learner *l);
/* Counts the pieces of a text. */
BN_MUST_CHECK bn_status bn_learner_add(struct bn_learner *l, const char *text, size_t n_bytes, bn_error *err);
/* Learns at most n merges; it ends earlier when no pair occurs twice. progress may be NULL; false from it cancels
 * (BN_ERR_CANCELLED). */
typedef bool (*bn_learner_fn)(void *user, size_t n_merges);
BN_MUST_CHECK bn_status bn_learner_run(struct bn_learner *l, size_t n, bn_learner_fn progress, void *user,
                                       bn_error *err);
/* What was learned. */
const struct bn_merge *bn_learner_merges(const struct bn_learner *l, size_t *n);

/* A GGUF file without tensors: the vocabulary, then n special tokens, of which the first begins and ends texts. */
BN_MUST_CHECK bn_status bn_learner_gguf(struct bn_buf *out, const struct bn_learner *l, const char *name,
                                        const char *const *specials, size_t n, bn_error *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * What a model is trained on: the tokens of texts in order, cut into windows. A window is named by its number alone:
 * an epoch visits each window once, in an order that depends on seed and epoch. So a run goes on from any step without
 * a state.
 */
#ifndef BN_TRAIN_DATA_H
#define BN_TRAIN_DATA_H

#include "base/digest.h"
#include "bn.h"

struct bn_corpus {
    int32_t *ids;
    size_t n, room;
    uint64_t n_bytes;           /* of the texts */
    char sha256[BN_SHA256_HEX]; /* of the ids, as 32-bit little endian numbers; after bn_corpus_finish */
};

/* Appends the tokens of a text `times` times; `end` follows each when it is not -1. */
BN_MUST_CHECK bn_status bn_corpus_add(struct bn_corpus *c, const bn_tokenizer *tok, const char *text,
                                      size_t n_bytes, uint32_t times, int32_t end, bn_error *err);
/* Computes the digest. */
void bn_corpus_finish(struct bn_corpus *c);
void bn_corpus_release(struct bn_corpus *c);

/* Windows of n_tokens in an epoch; 0: the corpus is too short. */
size_t bn_corpus_windows(const struct bn_corpus *c, size_t n_tokens);
/* Window number `index` of the run: n_tokens tokens, and those that follow each. Where the windows of an epoch begin
 * differs between epochs by less than a window. */
void bn_corpus_window(const struct bn_corpus *c, size_t n_tokens, uint64_t seed, uint64_t index,
                      int32_t *tokens, int32_t *targets);
/* Where i is in an order of 0 ... n - 1 that key names. */
uint64_t bn_permute(uint64_t i, uint64_t n, uint64_t key);

#endif

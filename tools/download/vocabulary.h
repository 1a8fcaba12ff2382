/* SPDX-License-Identifier: MIT
 *
 * The vocabulary of tokenizer files (tokenizer.json, tokenizer_config.json, tokenizer.model) as far as it can
 * be compared with that of a GGUF model: number of tokens, their texts, the ids of special tokens.
 */
#ifndef BN_DOWNLOAD_VOCABULARY_H
#define BN_DOWNLOAD_VOCABULARY_H

#include "hub/files/vocab.h"

struct bn_vocabulary {
    struct bn_hub_vocab tokens; /* of tokenizer.json */
    bn_json *settings;          /* tokenizer_config.json; NULL */
    uint32_t n_tokens;          /* the largest id and 1; 0: no file says it */
    uint32_t n_special;
    bool plain; /* n_tokens is of a tokenizer.model, which has no special tokens */
};

/* Reads one file, by the end of its path. BN_ERR_FORMAT when it is not a tokenizer file. */
BN_MUST_CHECK bn_status bn_vocabulary_read(struct bn_vocabulary *v, const char *path, bn_error *err);
void bn_vocabulary_release(struct bn_vocabulary *v);

/* Compares it with the vocabulary of a GGUF file. Each difference is a text of the array; of different tokens
 * only the first is named. *n_model is the model's number of tokens. */
BN_MUST_CHECK bn_status bn_vocabulary_compare(const struct bn_vocabulary *v, const char *model,
                                              uint32_t *n_model, bn_json *differences, bn_error *err);

#endif

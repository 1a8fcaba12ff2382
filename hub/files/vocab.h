/* SPDX-License-Identifier: MIT
 *
 * The vocabulary of a tokenizer.json or a tokenizer.model: tokens by their ids, merges, and the small members of
 * tokenizer.json as trees.
 */
#ifndef BN_HUB_VOCAB_H
#define BN_HUB_VOCAB_H

#include "base/json.h"

enum bn_hub_token_type {
    BN_HUB_TOKEN_NONE,
    BN_HUB_TOKEN_NORMAL = 1,
    BN_HUB_TOKEN_CONTROL = 3,
    BN_HUB_TOKEN_USER = 4,
    BN_HUB_TOKEN_UNUSED = 5,
    BN_HUB_TOKEN_BYTE = 6
};

struct bn_hub_token {
    size_t at, len; /* in bn_hub_vocab.texts */
    enum bn_hub_token_type type;
    float score; /* SentencePiece: higher ones are merged earlier */
};

struct bn_hub_vocab {
    size_t max; /* ids must be below */
    struct bn_hub_token *tokens;
    size_t n, room; /* n: the largest id and 1; ids without a token are BN_HUB_TOKEN_NONE */
    struct bn_buf texts;
    struct bn_buf merges; /* as the elements of a GGUF array */
    uint64_t n_merges;
    bool has_vocab, has_merges;
    bn_json *added, *normalizer, *pre_tokenizer, *post_processor, *type, *byte_fallback; /* NULL: not there */
};

/* How a tokenizer.model prepares the text, and its kind. */
struct bn_hub_spm {
    uint64_t kind; /* 2: BPE */
    bool prefix;   /* a blank before the text */
    bool joins_blanks, replaces;
};

/* Reads the text of a tokenizer.json; v->max is set, the rest zero. Of a vocabulary with scores (Unigram) the tokens are
 * only counted. */
BN_MUST_CHECK bn_status bn_hub_vocab_read(struct bn_hub_vocab *v, const char *text, size_t n, bn_error *err);
/* Reads a tokenizer.model of SentencePiece instead, with its scores. */
BN_MUST_CHECK bn_status bn_hub_vocab_model(struct bn_hub_vocab *v, const void *data, size_t n,
                                           struct bn_hub_spm *spm, bn_error *err);
void bn_hub_vocab_release(struct bn_hub_vocab *v);
/* Sets a token that is in no list yet, or replaces its text and type. BN_ERR_FORMAT for an id that is too large. */
BN_MUST_CHECK bn_status bn_hub_vocab_put(struct bn_hub_vocab *v, uint64_t id, const char *text, size_t n,
                                         enum bn_hub_token_type type, bn_error *err);

#endif

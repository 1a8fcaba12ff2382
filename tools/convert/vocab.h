/* SPDX-License-Identifier: MIT
 *
 * A vocabulary while it is read: tokens by their ids, merges, and the small members of tokenizer.json as trees.
 */
#ifndef BN_CONVERT_VOCAB_H
#define BN_CONVERT_VOCAB_H

#include "base/json.h"
#include "gguf/gguf.h"

enum bn_cv_token_type {
    BN_CV_TOKEN_NONE,
    BN_CV_TOKEN_NORMAL = 1,
    BN_CV_TOKEN_UNKNOWN = 2,
    BN_CV_TOKEN_CONTROL = 3,
    BN_CV_TOKEN_USER = 4,
    BN_CV_TOKEN_UNUSED = 5,
    BN_CV_TOKEN_BYTE = 6
};

struct bn_cv_token {
    size_t at, len; /* in bn_cv_vocab.texts */
    enum bn_cv_token_type type;
    float score; /* SentencePiece: higher ones are merged earlier */
};

struct bn_cv_vocab {
    struct bn_cv_token *tokens; /* n of them, by id */
    size_t n;
    struct bn_buf texts;
    struct bn_buf merges; /* as the elements of a GGUF array */
    uint64_t n_merges;
    bn_json *added, *normalizer, *pre_tokenizer, *post_processor, *type, *byte_fallback; /* NULL: not there */
};

/* vocab_json.c: reads the text of a tokenizer.json; v->n is set, the rest zero. */
BN_MUST_CHECK bn_status bn_cv_vocab_read(struct bn_cv_vocab *v, const char *text, size_t n, bn_error *err);
/* Memory for the tokens of an empty vocabulary; the readers call it. */
BN_MUST_CHECK bn_status bn_cv_vocab_open(struct bn_cv_vocab *v, bn_error *err);
/* vocab_model.c: reads a tokenizer.model of SentencePiece instead, with its scores. *prefix as in bn_cv_vocab_spm.
 * BN_ERR_UNSUPPORTED for a model that is not BPE, and for one that changes the text before. */
BN_MUST_CHECK bn_status bn_cv_vocab_model(struct bn_cv_vocab *v, const void *data, size_t n, bool *prefix,
                                          bn_error *err);
/* vocab_spm.c, for a vocabulary of characters with byte tokens (SentencePiece BPE): the score of a token is minus the
 * number of the first merge that makes it; *prefix: a blank comes before the text. BN_ERR_UNSUPPORTED when the text
 * is prepared in another way. */
BN_MUST_CHECK bn_status bn_cv_vocab_spm(struct bn_cv_vocab *v, bool *prefix, bn_error *err);
void bn_cv_vocab_release(struct bn_cv_vocab *v);
/* Sets a token that is in no list yet, or replaces its text and type. BN_ERR_FORMAT for an id that is too large. */
BN_MUST_CHECK bn_status bn_cv_vocab_put(struct bn_cv_vocab *v, uint64_t id, const char *text, size_t n,
                                        enum bn_cv_token_type type, bn_error *err);

#endif

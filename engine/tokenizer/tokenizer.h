/* SPDX-License-Identifier: MIT
 *
 * The tokenizer's inner interface: making one from a GGUF file's keys or from a rank file. What callers of
 * the library use is in bn.h.
 */
#ifndef BN_MODEL_TOKENIZER_H
#define BN_MODEL_TOKENIZER_H

#include "gguf/gguf.h"

/* Builds from tokenizer.ggml.*; nothing that gguf points to is kept. BN_ERR_NOT_FOUND, with err untouched,
 * when the file has no vocabulary; BN_ERR_FORMAT with key and offset for a bad one, BN_ERR_UNSUPPORTED for a
 * kind or a splitting rule that is not known. arch decides the defaults of absent keys: a gpt2 vocabulary
 * whose tokenizer.ggml.pre is absent or "default" is split the llama-bpe way for the BitNet architectures,
 * and the gpt-2 way for others. */
BN_MUST_CHECK bn_status bn_tokenizer_open(bn_tokenizer **out, const struct bn_gguf *gguf, const char *arch,
                                          bn_error *err);
void bn_tokenizer_close(bn_tokenizer *tok);

/* The GPT-2 alphabet: printable Latin-1 characters are themselves, the 68 other bytes are U+0100.. in order.
 */
void bn_alphabet_encode(struct bn_buf *out, const char *bytes, size_t n);

/* The vocabulary of a tiktoken rank file ("base64 rank" lines), as GGUF keys want it. */
struct bn_rank_vocab {
    size_t n_tokens, n_merges;
    struct bn_buf
        tokens; /* n_tokens times u64 length + text in the GPT-2 alphabet: a GGUF string array's body */
    struct bn_buf merges; /* n_merges times u64 length + "left right" */
};

/* Reads a rank file and derives its merges: for each token in rank order, every split into two tokens of the
 * vocabulary, ordered by (rank of left, rank of right). BN_ERR_FORMAT for lines that are not base64 and a
 * rank, ranks out of order, equal tokens. */
BN_MUST_CHECK bn_status bn_rank_vocab_read(struct bn_rank_vocab *vocab, const char *text, size_t n_bytes,
                                           bn_error *err);
void bn_rank_vocab_release(struct bn_rank_vocab *vocab);

/* sha256 over the vocabulary as used: kind, splitting, tokens with types, merges or scores, special ids. For
 * receipts. hex has 64 digits and a NUL. */
BN_MUST_CHECK bn_status bn_tokenizer_digest(const bn_tokenizer *tok, char hex[65], bn_error *err);

#endif

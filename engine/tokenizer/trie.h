/* SPDX-License-Identifier: MIT
 *
 * The tokens of a vocabulary as a tree of bytes, in the order of a walk that visits parents before children. A token
 * that is not text is not in it: control tokens, tokens without bytes, and those of more than BN_TRIE_MAX_DEPTH bytes.
 */
#ifndef BN_TOKENIZER_TRIE_H
#define BN_TOKENIZER_TRIE_H

#include "bn.h"

#define BN_TRIE_MAX_DEPTH 256u

struct bn_trie_node {
    uint32_t skip; /* the first node after this one and all that begin with it */
    int32_t token; /* that ends here; -1: none */
    uint16_t depth;
    uint8_t byte;
};

struct bn_trie {
    struct bn_trie_node *nodes;
    size_t n_nodes;
    uint32_t depth; /* bytes of the longest token */
};

/* Made by the first call; it lives as long as the tokenizer. Any number of threads may call this. */
BN_MUST_CHECK bn_status bn_tokenizer_trie(const bn_tokenizer *tok, const struct bn_trie **out, bn_error *err);
/* Whether a token is in it: it is text of a length that is allowed. */
bool bn_trie_has(const bn_tokenizer *tok, int32_t id);
/* For bn_tokenizer_close. */
void bn_trie_close(struct bn_trie *trie);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Builds the tree of a vocabulary from its tokens, sorted by their bytes.
 */
#include "base/error.h"
#include "tokenizer/vocab.h"

bool bn_trie_has(const bn_tokenizer *tok, int32_t id)
{
    if (id < 0 || (size_t)id >= tok->n_vocab || bn_type_is_hidden(tok->type[id])) return false;
    size_t n = bn_vocab_bytes(tok, (uint32_t)id).len;
    return n > 0 && n <= BN_TRIE_MAX_DEPTH;
}

/* Adds the tokens in order. Those with the same bytes are neighbours without children, but for the last one. */
static bn_status add_tokens(struct bn_trie *trie, const struct bn_tokenizer *tok, const uint32_t *ids,
                            size_t n_ids, bn_error *err)
{
    size_t room = 0;
    uint32_t open[BN_TRIE_MAX_DEPTH + 1] = {0}; /* the node of each depth on the path */
    size_t n_open = 0;
    struct bn_str before = {"", 0};
    for (size_t i = 0; i < n_ids; i++) {
        struct bn_str text = bn_vocab_bytes(tok, ids[i]);
        size_t depth = 0;
        while (depth < before.len && depth < text.len && before.ptr[depth] == text.ptr[depth])
            depth++;
        if (depth == text.len) depth--; /* the same token again */
        while (n_open > depth)
            trie->nodes[open[--n_open]].skip = (uint32_t)trie->n_nodes;
        BN_TRY(
            bn_array_grow(&trie->nodes, &room, trie->n_nodes + text.len - depth, sizeof *trie->nodes, err));
        for (; depth < text.len; depth++) {
            open[n_open++] = (uint32_t)trie->n_nodes;
            trie->nodes[trie->n_nodes++] = (struct bn_trie_node){
                .token = -1, .depth = (uint16_t)depth, .byte = (unsigned char)text.ptr[depth]};
        }
        trie->nodes[trie->n_nodes - 1].token = (int32_t)ids[i];
        if (text.len > trie->depth) trie->depth = (uint32_t)text.len;
        before = text;
    }
    while (n_open > 0)
        trie->nodes[open[--n_open]].skip = (uint32_t)trie->n_nodes;
    return BN_OK;
}

static bn_status build(struct bn_trie **out, const struct bn_tokenizer *tok, bn_error *err)
{
    size_t n_ids = 0;
    uint32_t *ids = bn_alloc(tok->n_vocab, sizeof *ids);
    struct bn_trie *trie = bn_alloc(1, sizeof *trie);
    bn_status status = ids == NULL || trie == NULL ? bn_nomem(err) : BN_OK;
    if (status == BN_OK) {
        for (uint32_t id = 0; id < tok->n_vocab; id++)
            if (bn_trie_has(tok, (int32_t)id)) ids[n_ids++] = id;
        bn_vocab_sort(tok, ids, n_ids);
        status = add_tokens(trie, tok, ids, n_ids, err);
    }
    bn_free(ids);
    if (status != BN_OK) bn_trie_close(trie);
    *out = status == BN_OK ? trie : NULL;
    return status;
}

bn_status bn_tokenizer_trie(const bn_tokenizer *tok, const struct bn_trie **out, bn_error *err)
{
    struct bn_trie *trie = atomic_load(tok->trie), *mine = NULL;
    if (trie == NULL) {
        BN_TRY(build(&mine, tok, err));
        if (atomic_compare_exchange_strong(tok->trie, &trie, mine))
            trie = mine;
        else
            bn_trie_close(mine); /* another thread was faster */
    }
    *out = trie;
    return BN_OK;
}

void bn_trie_close(struct bn_trie *trie)
{
    if (trie == NULL) return;
    bn_free(trie->nodes);
    bn_free(trie);
}

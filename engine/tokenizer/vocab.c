/* SPDX-License-Identifier: MIT
 *
 * Finding tokens: ordinary ones by their bytes in an open-addressing table, special ones by walking a sorted
 * list byte by byte, which finds the longest that a text starts with.
 *
 * A file may be made to be slow, so probes are counted: building refuses a table that needs more than
 * BN_MAX_PROBE, and looking up never takes more than building did.
 */
#define _GNU_SOURCE /* qsort_r */
#include "tokenizer/vocab.h"

#include <stdlib.h>

#include "base/error.h"

/* ---- ordinary tokens ---- */

int32_t bn_vocab_find_hashed(const struct bn_tokenizer *tok, const char *bytes, size_t n, uint64_t hash)
{
    uint32_t mask = UINT32_MAX >> (tok->slot_shift - 32), at = (uint32_t)(hash >> tok->slot_shift);
    for (uint32_t probe = 0; probe <= tok->slot_probe; probe++, at = (at + 1) & mask) {
        struct bn_token_slot slot = tok->slots[at];
        if (slot.id1 == 0) return -1;
        if (slot.tag != (uint32_t)hash) continue;
        struct bn_str token = bn_vocab_bytes(tok, slot.id1 - 1);
        if (token.len == n && memcmp(token.ptr, bytes, n) == 0) return (int32_t)(slot.id1 - 1);
    }
    return -1;
}

uint64_t bn_vocab_prefetch(const struct bn_tokenizer *tok, const char *bytes, size_t n)
{
    uint64_t hash = bn_hash_bytes(bytes, n);
    __builtin_prefetch(&tok->slots[hash >> tok->slot_shift]);
    return hash;
}

int32_t bn_vocab_find(const struct bn_tokenizer *tok, const char *bytes, size_t n)
{
    return n > tok->max_token_bytes ? -1 : bn_vocab_find_hashed(tok, bytes, n, bn_hash_bytes(bytes, n));
}

/* False when the table is degenerate. */
static bool insert(struct bn_tokenizer *tok, uint32_t id)
{
    struct bn_str bytes = bn_vocab_bytes(tok, id);
    uint64_t hash = bn_hash_bytes(bytes.ptr, bytes.len);
    uint32_t mask = UINT32_MAX >> (tok->slot_shift - 32), at = (uint32_t)(hash >> tok->slot_shift);
    for (uint32_t probe = 0; probe < BN_MAX_PROBE; probe++, at = (at + 1) & mask) {
        struct bn_token_slot *slot = &tok->slots[at];
        if (slot->id1 == 0) {
            *slot = (struct bn_token_slot){(uint32_t)hash, id + 1};
            if (probe > tok->slot_probe) tok->slot_probe = probe;
            if (bytes.len > tok->max_token_bytes) tok->max_token_bytes = bytes.len;
            if (tok->kind == BN_VOCAB_GPT2 && bytes.len == 1)
                tok->byte_id[(unsigned char)bytes.ptr[0]] = (int32_t)id;
            return true;
        }
        if (slot->tag != (uint32_t)hash) continue;
        struct bn_str other = bn_vocab_bytes(tok, slot->id1 - 1);
        if (other.len == bytes.len && memcmp(other.ptr, bytes.ptr, bytes.len) == 0) {
            tok->has_duplicates = true;
            return true;
        }
    }
    return false;
}

bn_status bn_vocab_index(struct bn_tokenizer *tok, bn_error *err)
{
    uint32_t bits = 4;
    while (((uint64_t)3 << bits) < 4 * (uint64_t)tok->n_vocab)
        bits++;
    tok->slot_shift = 64 - bits;
    BN_TRY(BN_NEW(tok->slots, (size_t)1 << bits, err));
    /* Merges may lead to user-defined tokens; they come last, so that none hides an ordinary
     * one. SentencePiece matches them in the text and nowhere else. */
    for (int pass = 0; pass < (tok->kind == BN_VOCAB_SPM ? 1 : 2); pass++)
        for (uint32_t id = 0; id < tok->n_vocab; id++) {
            if (tok->type[id] == (pass == 0 ? BN_TOKEN_NORMAL : BN_TOKEN_USER) &&
                bn_vocab_bytes(tok, id).len > 0 && !insert(tok, id))
                return bn_fail(err, BN_ERR_LIMIT, "degenerate table of tokens at id %u", id);
        }
    return BN_OK;
}

/* ---- special tokens ---- */

static int by_bytes(const void *a, const void *b, void *user)
{
    const struct bn_tokenizer *tok = user;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = bn_str_compare(bn_vocab_bytes(tok, x), bn_vocab_bytes(tok, y));
    return order != 0 ? order : (x > y) - (x < y);
}

void bn_vocab_sort(const struct bn_tokenizer *tok, uint32_t *ids, size_t n)
{
    /* The comparison needs a context; it does not change it. */
    qsort_r(ids, n, sizeof *ids, by_bytes, (void *)(uintptr_t)tok);
}

static bool is_special(const struct bn_tokenizer *tok, uint32_t id)
{
    return (bn_type_is_hidden(tok->type[id]) || tok->type[id] == BN_TOKEN_USER) &&
           tok->bytes_at[id] != tok->bytes_at[id + 1];
}

bn_status bn_vocab_index_special(struct bn_tokenizer *tok, bn_error *err)
{
    size_t n = 0;
    for (uint32_t id = 0; id < tok->n_vocab; id++)
        n += is_special(tok, id);
    BN_TRY(BN_NEW(tok->special, n, err));
    for (uint32_t id = 0; id < tok->n_vocab; id++)
        if (is_special(tok, id)) tok->special[tok->n_special++] = id;
    bn_vocab_sort(tok, tok->special, n);
    for (uint32_t i = 0; i < n; i++) {
        unsigned char first = (unsigned char)bn_vocab_bytes(tok, tok->special[i]).ptr[0];
        tok->special_from[first + 1] = i + 1;
        if (tok->type[tok->special[i]] == BN_TOKEN_USER) tok->user_first[first] = true;
    }
    for (unsigned c = 1; c < 257; c++)
        if (tok->special_from[c] < tok->special_from[c - 1]) tok->special_from[c] = tok->special_from[c - 1];
    return BN_OK;
}

/* The first index in [from, to) whose token is not less than text. */
static size_t bound(const struct bn_tokenizer *tok, size_t from, size_t to, struct bn_str text)
{
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (bn_str_compare(bn_vocab_bytes(tok, tok->special[middle]), text) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

int32_t bn_vocab_find_special(const struct bn_tokenizer *tok, const char *bytes, size_t n)
{
    struct bn_str text = {bytes, n};
    size_t at = bound(tok, 0, tok->n_special, text);
    if (at == tok->n_special || bn_str_compare(bn_vocab_bytes(tok, tok->special[at]), text) != 0) return -1;
    return (int32_t)tok->special[at];
}

/* Narrows [*from, *to), whose tokens agree in depth bytes, to those that go on with the byte c. */
static void narrow(const struct bn_tokenizer *tok, size_t depth, unsigned char c, size_t *from, size_t *to)
{
    size_t ends[2];
    for (unsigned which = 0; which < 2; which++) {
        size_t low = *from, high = *to;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            struct bn_str token = bn_vocab_bytes(tok, tok->special[middle]);
            if (token.len <= depth || (unsigned)(unsigned char)token.ptr[depth] < c + which)
                low = middle + 1;
            else
                high = middle;
        }
        ends[which] = low;
    }
    *from = ends[0];
    *to = ends[1];
}

int32_t bn_vocab_match_special(const struct bn_tokenizer *tok, const char *text, size_t n, bool user_only,
                               size_t *n_matched)
{
    int32_t best = -1;
    if (n == 0) return -1;
    unsigned char first = (unsigned char)text[0];
    size_t from = tok->special_from[first], to = tok->special_from[first + 1];
    n = bn_min_size(n, BN_MAX_SPECIAL_BYTES);
    for (size_t depth = 1; from < to; depth++) {
        for (size_t i = from; i < to; i++) {
            if (bn_vocab_bytes(tok, tok->special[i]).len != depth) break;
            if (user_only && tok->type[tok->special[i]] != BN_TOKEN_USER) continue;
            best = (int32_t)tok->special[i];
            *n_matched = depth;
            break;
        }
        if (depth == n) break;
        narrow(tok, depth, (unsigned char)text[depth], &from, &to);
    }
    return best;
}

/* SPDX-License-Identifier: MIT
 *
 * Byte-level BPE (the "gpt2" vocabularies): the alphabet that spells bytes as printable characters, and the
 * table of merges.
 *
 * A merge is the text "left right" of two tokens whose concatenation is a token; its index is its rank. A
 * pair that comes twice keeps its first rank. A merge that would make a control token is left out, so that
 * ordinary text can never become one.
 */
#include <math.h>

#include "base/digest.h"
#include "base/error.h"
#include "tokenizer/vocab.h"

/* ---- the alphabet ---- */

static bool is_printable(unsigned c)
{
    return (c >= '!' && c <= '~') || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

void bn_alphabet_encode(struct bn_buf *out, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned c = (unsigned char)bytes[i];
        if (!is_printable(c)) c = 0x100 + (c <= 32 ? c : c <= 160 ? c - 94 : 67);
        char two[2] = {(char)(c < 0x80 ? c : 0xC0 | c >> 6), (char)(0x80 | (c & 0x3F))};
        bn_buf_append(out, two, c < 0x80 ? 1 : 2);
    }
}

bool bn_alphabet_decode(const char *text, size_t n, char *out, size_t *n_out)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + n;
    char *to = out;
    while (p < end) {
        unsigned c = *p++;
        if (c >= 0x80) {
            if (c < 0xC2 || c > 0xC5 || p == end || *p >> 6 != 2) return false;
            c = (c & 0x1F) << 6 | (*p++ & 0x3Fu);
        }
        if (c >= 0x100) {
            unsigned i = c - 0x100; /* the i-th byte that is not printable: 0..32, 127..160, 173 */
            if (i > 67) return false;
            *to++ = (char)(unsigned char)(i <= 32 ? i : i <= 66 ? i + 94 : 173);
        } else {
            if (!is_printable(c)) return false;
            *to++ = (char)c;
        }
    }
    *n_out = (size_t)(to - out);
    return true;
}

/* ---- the table of merges ---- */

static uint32_t merge_home(const struct bn_tokenizer *tok, uint32_t left, uint32_t right)
{
    return (uint32_t)(bn_hash_mix(bn_hash_mix(left) ^ right) * 0x9E3779B97F4A7C15u >> tok->merge_shift);
}

struct bn_merge_pair bn_bpe_pair(const struct bn_tokenizer *tok, int32_t left, int32_t right)
{
    struct bn_merge_pair none = {BN_NO_RANK, -1};
    if (left < 0 || right < 0) return none;
    uint32_t mask = UINT32_MAX >> (tok->merge_shift - 32),
             at = merge_home(tok, (uint32_t)left, (uint32_t)right);
    for (uint32_t probe = 0; probe <= tok->merge_probe; probe++, at = (at + 1) & mask) {
        const struct bn_merge_slot *slot = &tok->merges[at];
        if (slot->left1 == 0) return none;
        if (slot->left1 == (uint32_t)left + 1 && slot->right == (uint32_t)right)
            return (struct bn_merge_pair){slot->rank, (int32_t)slot->id};
    }
    return none;
}

/* False when the table is degenerate. */
static bool insert(struct bn_tokenizer *tok, struct bn_merge_slot merge)
{
    uint32_t mask = UINT32_MAX >> (tok->merge_shift - 32), at = merge_home(tok, merge.left1 - 1, merge.right);
    for (uint32_t probe = 0; probe < BN_MAX_PROBE; probe++, at = (at + 1) & mask) {
        struct bn_merge_slot *slot = &tok->merges[at];
        if (slot->left1 == 0) {
            *slot = merge;
            if (probe > tok->merge_probe) tok->merge_probe = probe;
            return true;
        }
        if (slot->left1 == merge.left1 && slot->right == merge.right) return true; /* the first one stays */
    }
    return false;
}

/* The token with these bytes, the result of a merge. In most files the merges make tokens in the order of
 * their ids, one or several merges each, so the last result and the next id are tried first. */
static int32_t find_result(const struct bn_tokenizer *tok, const char *bytes, size_t n, int32_t last)
{
    for (int32_t id = last; id >= 0 && id <= last + 1 && (size_t)id < tok->n_vocab && !tok->has_duplicates;
         id++) {
        struct bn_str token = bn_vocab_bytes(tok, (uint32_t)id);
        if (tok->type[id] == BN_TOKEN_NORMAL && token.len == n && memcmp(token.ptr, bytes, n) == 0) return id;
    }
    return bn_vocab_find(tok, bytes, n);
}

/* Merges are read in batches, so that the memory that several need can be on its way at once. */
#define BATCH 32u

struct merge {
    uint64_t offset; /* in the file */
    uint32_t rank;
    char *bytes; /* left and right, decoded, one after the other */
    size_t n_left, n;
    uint64_t hash_left, hash_right;
    struct bn_merge_slot slot;
};

static bool parse(const struct bn_tokenizer *tok, struct bn_str text, struct merge *m)
{
    const char *space = text.len >= 3 ? memchr(text.ptr + 1, ' ', text.len - 1) : NULL;
    if (space == NULL || text.len > 2 * tok->max_token_bytes + 1) return false;
    size_t n_left = (size_t)(space - text.ptr), n_right = 0;
    if (!bn_alphabet_decode(text.ptr, n_left, m->bytes, &m->n_left)) return false;
    if (!bn_alphabet_decode(space + 1, text.len - n_left - 1, m->bytes + m->n_left, &n_right)) return false;
    m->n = m->n_left + n_right;
    m->hash_left = bn_vocab_prefetch(tok, m->bytes, m->n_left);
    m->hash_right = bn_vocab_prefetch(tok, m->bytes + m->n_left, n_right);
    return n_right > 0;
}

/* Finds the three tokens; *last is the latest result. A merge that is to be left out gets left1 = 0. */
static bn_status resolve(const struct bn_tokenizer *tok, struct merge *m, int32_t *last, bn_error *err)
{
    int32_t left = bn_vocab_find_hashed(tok, m->bytes, m->n_left, m->hash_left);
    int32_t right = bn_vocab_find_hashed(tok, m->bytes + m->n_left, m->n - m->n_left, m->hash_right);
    int32_t result = find_result(tok, m->bytes, m->n, *last);
    m->slot = (struct bn_merge_slot){0};
    if (left >= 0 && right >= 0 && result < 0 && bn_vocab_find_special(tok, m->bytes, m->n) >= 0)
        return BN_OK;
    if (left < 0 || right < 0 || result < 0)
        return bn_fail_at(err, BN_ERR_FORMAT, m->offset, "key 'tokenizer.ggml.merges'",
                          "element %u: its %s is not in the vocabulary", m->rank,
                          left < 0    ? "left part"
                          : right < 0 ? "right part"
                                      : "result");
    *last = result;
    m->slot = (struct bn_merge_slot){(uint32_t)left + 1, (uint32_t)right, m->rank, (uint32_t)result};
    __builtin_prefetch(&tok->merges[merge_home(tok, (uint32_t)left, (uint32_t)right)], 1);
    return BN_OK;
}

static bn_status read_merges(struct bn_tokenizer *tok, const struct bn_gguf_kv *kv, char *scratch,
                             bn_error *err)
{
    struct merge batch[BATCH];
    const unsigned char *cursor = kv->value;
    int32_t last = -1;
    for (uint32_t rank = 0; rank < kv->n; rank += BATCH) {
        uint32_t n = (uint32_t)kv->n - rank < BATCH ? (uint32_t)kv->n - rank : BATCH;
        for (uint32_t i = 0; i < n; i++) {
            struct merge *m = &batch[i];
            m->rank = rank + i;
            m->bytes = scratch + i * (2 * tok->max_token_bytes + 2);
            m->offset = kv->offset + 8 + (uint64_t)(cursor - (const unsigned char *)kv->key.ptr);
            if (!parse(tok, bn_gguf_next_str(&cursor), m))
                return bn_fail_at(err, BN_ERR_FORMAT, m->offset, "key 'tokenizer.ggml.merges'",
                                  "element %u is not two tokens with a space between", m->rank);
        }
        for (uint32_t i = 0; i < n; i++)
            BN_TRY(resolve(tok, &batch[i], &last, err));
        for (uint32_t i = 0; i < n; i++)
            if (batch[i].slot.left1 != 0 && !insert(tok, batch[i].slot))
                return bn_fail_at(err, BN_ERR_LIMIT, batch[i].offset, "key 'tokenizer.ggml.merges'",
                                  "degenerate table of merges");
    }
    return BN_OK;
}

bn_status bn_bpe_open(struct bn_tokenizer *tok, const struct bn_gguf_kv *merges, bn_error *err)
{
    uint32_t bits = 4;
    while (((uint64_t)3 << bits) < 4 * merges->n)
        bits++;
    tok->n_merges = (size_t)merges->n;
    tok->merge_shift = 64 - bits;
    tok->merges = bn_alloc((size_t)1 << bits, sizeof *tok->merges);
    /* Texts of merges that name two tokens have at most two bytes per byte of those, and decode into fewer.
     */
    char *scratch = bn_alloc(BATCH, 2 * tok->max_token_bytes + 2);
    bn_status status =
        tok->merges == NULL || scratch == NULL ? bn_nomem(err) : read_merges(tok, merges, scratch, err);
    bn_free(scratch);
    return status;
}

/* ---- SentencePiece BPE (the "llama" vocabularies): neighbours merge when their concatenation is a token, the highest score
 * first; characters without a token become byte tokens. Spaces are spelled U+2581 in the file and are plain spaces here.
 * SentencePiece itself takes a U+2581 in the text for a space; here it goes through the byte tokens, so that decoding gives
 * back what was encoded. ---- */

void bn_spm_decode(const char *text, size_t n, char *out, size_t *n_out)
{
    size_t used = 0;
    for (size_t i = 0; i < n;) {
        if (n - i >= 3 && memcmp(text + i, "\xE2\x96\x81", 3) == 0) {
            out[used++] = ' ';
            i += 3;
        } else {
            out[used++] = text[i++];
        }
    }
    *n_out = used;
}

int bn_spm_byte(struct bn_str text)
{
    if (text.len != 6 || memcmp(text.ptr, "<0x", 3) != 0 || text.ptr[5] != '>') return -1;
    int high = bn_hex_digit(text.ptr[3]), low = bn_hex_digit(text.ptr[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Floats as integers in descending order; never BN_NO_RANK for finite ones. */
static uint32_t score_rank(float score)
{
    uint32_t bits;
    score += 0.0f; /* one zero */
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? bits : ~(bits | 0x80000000u);
}

bn_status bn_spm_open(struct bn_tokenizer *tok, const struct bn_gguf_kv *scores, bn_error *err)
{
    BN_TRY(BN_NEW(tok->score_rank, tok->n_vocab, err));
    tok->words_split = true;
    for (uint32_t id = 0; id < tok->n_vocab; id++) {
        float score;
        memcpy(&score, scores->value + 4 * (size_t)id, sizeof score);
        if (!isfinite(score))
            return bn_fail_at(err, BN_ERR_FORMAT, scores->offset, "key 'tokenizer.ggml.scores'",
                              "element %u is not finite", id);
        tok->score_rank[id] = score_rank(score);
        if (tok->type[id] != BN_TOKEN_NORMAL) continue;
        struct bn_str bytes = bn_vocab_bytes(tok, id);
        for (size_t i = 1; i < bytes.len; i++)
            if (bytes.ptr[i] == ' ' && bytes.ptr[i - 1] != ' ') tok->words_split = false;
    }
    return BN_OK;
}

struct bn_merge_pair bn_spm_pair(const struct bn_tokenizer *tok, const char *bytes, size_t n)
{
    int32_t id = bn_vocab_find(tok, bytes, n);
    return id < 0 ? (struct bn_merge_pair){BN_NO_RANK, -1} : (struct bn_merge_pair){tok->score_rank[id], id};
}

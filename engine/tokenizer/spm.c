/* SPDX-License-Identifier: MIT
 *
 * SentencePiece BPE (the "llama" vocabularies): neighbours merge when their concatenation is a token, the
 * highest score first; characters without a token become byte tokens.
 *
 * Spaces are spelled U+2581 in the file and are plain spaces here. SentencePiece itself takes a U+2581 in
 * the text for a space; here it goes through the byte tokens, so that decoding gives back what was encoded.
 */
#include <math.h>

#include "base/error.h"
#include "tokenizer/vocab.h"

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

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

int bn_spm_byte(struct bn_str text)
{
    if (text.len != 6 || memcmp(text.ptr, "<0x", 3) != 0 || text.ptr[5] != '>') return -1;
    int high = hex_digit(text.ptr[3]), low = hex_digit(text.ptr[4]);
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
    tok->score_rank = bn_alloc(tok->n_vocab, sizeof *tok->score_rank);
    if (tok->score_rank == NULL) return bn_nomem(err);
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

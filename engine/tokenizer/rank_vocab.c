/* SPDX-License-Identifier: MIT
 *
 * tiktoken rank files: one "base64 rank" line per token, ranks 0, 1, 2, ... in order. They hold no merges,
 * because their encoder merges whatever makes the lowest rank; the list derived here makes a merging encoder
 * do the same, and is what converters write: for each token in rank order every split into two tokens, by
 * rank of the left part, then of the right one.
 */
#include "base/digest.h"
#include "base/error.h"
#include "tokenizer/vocab.h"

#define MAX_TOKEN_BYTES 512u /* the longest in the known vocabularies has 128 */

/* Tokens in raw bytes while the file is read, in the shape that vocab.c looks tokens up in. */
struct reader {
    struct bn_tokenizer tok;
    struct bn_buf bytes;   /* all tokens, one after the other */
    struct bn_buf offsets; /* u32 each */
    bn_error *err;
};

/* The number that is all of text. */
static bool parse_rank(const char *text, const char *end, uint64_t *rank)
{
    *rank = 0;
    if (text == end || end - text > 10) return false;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9') return false;
        *rank = *rank * 10 + (uint64_t)(*text - '0');
    }
    return true;
}

static bn_status read_line(struct reader *r, const char *line, size_t n, uint64_t offset)
{
    const char *space = memchr(line, ' ', n);
    uint64_t rank;
    if (space == NULL || !parse_rank(space + 1, line + n, &rank))
        return bn_fail_at(r->err, BN_ERR_FORMAT, offset, NULL, "line %zu is not base64, a space and a rank",
                          r->tok.n_vocab + 1);
    if (rank != r->tok.n_vocab)
        return bn_fail_at(r->err, BN_ERR_FORMAT, offset, NULL, "rank %llu, expected rank %zu",
                          (unsigned long long)rank, r->tok.n_vocab);
    if (r->tok.n_vocab == BN_MAX_VOCAB)
        return bn_fail_at(r->err, BN_ERR_LIMIT, offset, NULL, "more than %u tokens", BN_MAX_VOCAB);
    uint32_t at = (uint32_t)r->bytes.len;
    bn_buf_append(&r->offsets, &at, sizeof at);
    bn_status status = bn_base64_decode(&r->bytes, line, (size_t)(space - line), NULL);
    BN_TRY(bn_buf_check(&r->bytes, r->err));
    if (status != BN_OK)
        return bn_fail_at(r->err, BN_ERR_FORMAT, offset, NULL, "rank %zu is not base64", r->tok.n_vocab);
    if (r->bytes.len == at || r->bytes.len - at > MAX_TOKEN_BYTES)
        return bn_fail_at(r->err, r->bytes.len == at ? BN_ERR_FORMAT : BN_ERR_LIMIT, offset, NULL,
                          "rank %zu has %zu bytes, from 1 to %u are allowed", r->tok.n_vocab,
                          r->bytes.len - at, MAX_TOKEN_BYTES);
    r->tok.n_vocab++;
    return BN_OK;
}

static bn_status read_lines(struct reader *r, const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t length = end != NULL ? (size_t)(end - text) - at : n - at;
        size_t kept = length > 0 && text[at + length - 1] == '\r' ? length - 1 : length;
        if (kept > 0) BN_TRY(read_line(r, text + at, kept, at));
        at += length + (end != NULL);
    }
    if (r->tok.n_vocab == 0) return bn_fail(r->err, BN_ERR_FORMAT, "the file has no ranks");
    return BN_OK;
}

static bn_status index_tokens(struct reader *r)
{
    struct bn_tokenizer *tok = &r->tok;
    uint32_t end = (uint32_t)r->bytes.len;
    bn_buf_append(&r->offsets, &end, sizeof end);
    BN_TRY(bn_buf_check(&r->bytes, r->err));
    BN_TRY(bn_buf_check(&r->offsets, r->err));
    tok->kind = BN_VOCAB_GPT2;
    tok->bytes = r->bytes.data;
    tok->bytes_at = (void *)r->offsets.data; /* bn_alloc's blocks are aligned for anything */
    BN_TRY(BN_NEW(tok->type, tok->n_vocab, r->err));
    memset(tok->type, BN_TOKEN_NORMAL, tok->n_vocab);
    BN_TRY(bn_vocab_index(tok, r->err));
    if (tok->has_duplicates) return bn_fail(r->err, BN_ERR_FORMAT, "two ranks have the same token");
    return BN_OK;
}

/* All splits of one token, by (left, right). */
static void put_merges(struct reader *r, uint32_t id, struct bn_rank_vocab *vocab)
{
    uint64_t splits[MAX_TOKEN_BYTES];
    size_t n = 0;
    struct bn_str token = bn_vocab_bytes(&r->tok, id);
    for (size_t cut = 1; cut < token.len; cut++) {
        int32_t left = bn_vocab_find(&r->tok, token.ptr, cut);
        int32_t right = left < 0 ? -1 : bn_vocab_find(&r->tok, token.ptr + cut, token.len - cut);
        if (right < 0) continue;
        uint64_t split = (uint64_t)left << 32 | (uint32_t)right;
        size_t at = n++;
        for (; at > 0 && splits[at - 1] > split; at--)
            splits[at] = splits[at - 1];
        splits[at] = split;
    }
    for (size_t i = 0; i < n; i++) {
        struct bn_str left = bn_vocab_bytes(&r->tok, (uint32_t)(splits[i] >> 32));
        char text[4 * MAX_TOKEN_BYTES + 2];
        struct bn_buf line = {.data = text, .room = sizeof text, .max = sizeof text - 1};
        bn_alphabet_encode(&line, token.ptr, left.len);
        bn_buf_putc(&line, ' ');
        bn_alphabet_encode(&line, token.ptr + left.len, token.len - left.len);
        bn_gguf_put_text(&vocab->merges, line.data, line.len);
    }
    vocab->n_merges += n;
}

static bn_status put_vocab(struct reader *r, struct bn_rank_vocab *vocab)
{
    for (uint32_t id = 0; id < r->tok.n_vocab; id++) {
        struct bn_str token = bn_vocab_bytes(&r->tok, id);
        char text[2 * MAX_TOKEN_BYTES + 1];
        struct bn_buf spelled = {.data = text, .room = sizeof text, .max = sizeof text - 1};
        bn_alphabet_encode(&spelled, token.ptr, token.len);
        bn_gguf_put_text(&vocab->tokens, spelled.data, spelled.len);
        put_merges(r, id, vocab);
        if (vocab->n_merges > BN_GGUF_MAX_ARRAY)
            return bn_fail(r->err, BN_ERR_LIMIT, "more than %u merges", BN_GGUF_MAX_ARRAY);
    }
    vocab->n_tokens = r->tok.n_vocab;
    BN_TRY(bn_buf_check(&vocab->tokens, r->err));
    return bn_buf_check(&vocab->merges, r->err);
}

bn_status bn_rank_vocab_read(struct bn_rank_vocab *vocab, const char *text, size_t n_bytes, bn_error *err)
{
    *vocab =
        (struct bn_rank_vocab){.tokens.max = BN_GGUF_MAX_META_BYTES, .merges.max = BN_GGUF_MAX_META_BYTES};
    struct reader r = {
        .bytes.max = BN_GGUF_MAX_META_BYTES, .offsets.max = 4 * (BN_MAX_VOCAB + 1), .err = err};
    bn_status status = read_lines(&r, text, n_bytes);
    if (status == BN_OK) status = index_tokens(&r);
    if (status == BN_OK) status = put_vocab(&r, vocab);
    bn_free(r.tok.slots);
    bn_free(r.tok.type);
    bn_buf_release(&r.bytes);
    bn_buf_release(&r.offsets);
    if (status != BN_OK) bn_rank_vocab_release(vocab);
    return status;
}

void bn_rank_vocab_release(struct bn_rank_vocab *vocab)
{
    bn_buf_release(&vocab->tokens);
    bn_buf_release(&vocab->merges);
    vocab->n_tokens = vocab->n_merges = 0;
}

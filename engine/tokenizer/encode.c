/* SPDX-License-Identifier: MIT
 *
 * Text to ids. Special tokens that may be matched cut the text into fragments; fragments are cut into pieces
 * by the splitting rule (SPM: into words where that changes nothing), and each piece is merged by itself.
 *
 * User-defined tokens are matched always, but for tags in messages; control and unknown tokens only with
 * BN_TOKENIZE_SPECIAL: without it no text whatever becomes a control token. The longest token at the leftmost place wins.
 */
#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/vocab.h"

struct encoder {
    const struct bn_tokenizer *tok;
    bool specials, message; /* special tokens are matched; tags are not */
    struct bn_split split;
    struct bn_merger merger;
    struct bn_ids *ids;
    bn_error *err;
};

/* ---- fragments ---- */

static bn_status put_piece(struct encoder *e, struct bn_str piece)
{
    const struct bn_tokenizer *tok = e->tok;
    e->merger.stats.n_pieces++;
    if (piece.len == 1 && tok->kind == BN_VOCAB_GPT2 && tok->byte_id[(unsigned char)piece.ptr[0]] >= 0)
        return bn_ids_push(e->ids, tok->byte_id[(unsigned char)piece.ptr[0]], e->err);
    if (tok->ignore_merges) {
        int32_t id = bn_vocab_find(tok, piece.ptr, piece.len);
        if (id >= 0) return bn_ids_push(e->ids, id, e->err);
    }
    return bn_merge_piece(&e->merger, piece.ptr, piece.len, e->ids, e->err);
}

static bn_status put_gpt2(struct encoder *e, const char *text, size_t n)
{
    bn_split_text(&e->split, text, n);
    for (;;) {
        struct bn_str piece;
        BN_TRY(bn_split_next(&e->split, &piece, e->err));
        if (piece.len == 0) return BN_OK;
        BN_TRY(put_piece(e, piece));
    }
}

static bn_status put_words(struct encoder *e, const char *text, size_t n)
{
    size_t from = 0;
    for (size_t i = 1; i < n && e->tok->words_split; i++) {
        if (text[i] != ' ' || text[i - 1] == ' ') continue;
        BN_TRY(put_piece(e, (struct bn_str){text + from, i - from}));
        from = i;
    }
    return put_piece(e, (struct bn_str){text + from, n - from});
}

static bn_status put_spm(struct encoder *e, const char *text, size_t n, bool prefix)
{
    if (!prefix || !e->tok->add_space_prefix) return put_words(e, text, n);
    /* The prefix changes only the first word. */
    size_t first = e->tok->words_split ? 1 : n;
    while (first < n && (text[first] != ' ' || text[first - 1] == ' '))
        first++;
    char *copy = bn_alloc(first + 1, 1);
    if (copy == NULL) return bn_nomem(e->err);
    copy[0] = ' ';
    memcpy(copy + 1, text, first);
    bn_status status = put_words(e, copy, first + 1);
    bn_free(copy);
    return status != BN_OK || first == n ? status : put_words(e, text + first, n - first);
}

static bn_status put_fragment(struct encoder *e, const char *text, size_t n, bool prefix)
{
    if (n == 0) return BN_OK;
    return e->tok->kind == BN_VOCAB_GPT2 ? put_gpt2(e, text, n) : put_spm(e, text, n, prefix);
}

/* ---- the whole text ---- */

static bool may_start(const struct encoder *e, unsigned char c)
{
    const struct bn_tokenizer *tok = e->tok;
    return e->specials ? tok->special_from[c] < tok->special_from[c + 1] : tok->user_first[c];
}

static bn_status put_text(struct encoder *e, const char *text, size_t n)
{
    bool prefix = true;
    size_t from = 0, n_matched = 0;
    for (size_t i = 0; i < n && e->tok->n_special > 0;) {
        int32_t id = may_start(e, (unsigned char)text[i])
                         ? bn_vocab_match_special(e->tok, text + i, n - i, !e->specials, &n_matched)
                         : -1;
        if (id < 0 || (e->message && bn_vocab_is_tag(bn_vocab_bytes(e->tok, (uint32_t)id)))) {
            i++;
            continue;
        }
        BN_TRY(put_fragment(e, text + from, i - from, prefix));
        BN_TRY(bn_ids_push(e->ids, id, e->err));
        prefix = bn_type_is_hidden(e->tok->type[id]);
        from = i += n_matched;
    }
    return put_fragment(e, text + from, n - from, prefix);
}

static bn_status check_length(size_t n, bn_error *err)
{
    if (n <= BN_MAX_TEXT_BYTES) return BN_OK;
    return bn_fail(err, BN_ERR_LIMIT, "the text has %zu bytes, the limit is %zu", n, BN_MAX_TEXT_BYTES);
}

bn_status bn_encode(const struct bn_tokenizer *tok, const char *text, size_t n, unsigned flags,
                    struct bn_ids *ids, struct bn_encode_stats *stats, bn_error *err)
{
    BN_TRY(check_length(n, err));
    if (stats != NULL) *stats = (struct bn_encode_stats){0};
    if (n == 0) return BN_OK; /* text may be NULL */
    struct encoder e = {.tok = tok,
                        .specials = flags & BN_TOKENIZE_SPECIAL,
                        .message = flags & BN_ENCODE_MESSAGE,
                        .merger.tok = tok,
                        .ids = ids,
                        .err = err};
    bn_status status = BN_OK;
    if (tok->splitter != NULL) status = bn_split_open(&e.split, tok->splitter, err);
    if (status == BN_OK) {
        status = put_text(&e, text, n);
        if (tok->splitter != NULL) bn_split_close(&e.split);
    }
    if (stats != NULL) *stats = e.merger.stats;
    bn_merger_release(&e.merger);
    return status;
}

bn_status bn_tokenize(const bn_tokenizer *tok, const char *text, size_t n_bytes, unsigned flags,
                      int32_t **ids, size_t *n_ids, bn_error *err)
{
    *ids = NULL;
    *n_ids = 0;
    if (tok == NULL) return bn_fail(err, BN_ERR_ARG, "the model has no vocabulary");
    BN_TRY(check_length(n_bytes, err));
    struct bn_ids list = {.room = n_bytes / 4 + 16};
    BN_TRY(BN_NEW(list.data, list.room, err));
    bn_status status = BN_OK;
    if ((flags & BN_TOKENIZE_BOS) && tok->add_bos && tok->bos >= 0)
        status = bn_ids_push(&list, tok->bos, err);
    if (status == BN_OK) status = bn_encode(tok, text, n_bytes, flags, &list, NULL, err);
    if (status == BN_OK && (flags & BN_TOKENIZE_BOS) && tok->add_eos && tok->eos >= 0)
        status = bn_ids_push(&list, tok->eos, err);
    if (status != BN_OK) {
        bn_free(list.data);
        return status;
    }
    *ids = list.data;
    *n_ids = list.n;
    return BN_OK;
}

/* ---- decoding, whole or as a stream. For SPM vocabularies the space that encoding added is dropped: at the start and after
 * control tokens, one leading space of an ordinary token. ---- */

size_t bn_token_bytes(const bn_tokenizer *tok, int32_t id, const char **bytes)
{
    *bytes = "";
    if (tok == NULL || id < 0 || (size_t)id >= tok->n_vocab) return 0;
    struct bn_str text = bn_vocab_bytes(tok, (uint32_t)id);
    *bytes = text.ptr;
    return text.len;
}

/* Writes to out unless it is NULL; returns the bytes. */
static uint64_t decode(const struct bn_tokenizer *tok, const int32_t *ids, size_t n_ids, bool special,
                       char *out)
{
    uint64_t total = 0;
    bool at_start = true;
    for (size_t i = 0; i < n_ids; i++) {
        struct bn_str text = bn_vocab_bytes(tok, (uint32_t)ids[i]);
        uint8_t type = tok->type[ids[i]];
        bool hidden = bn_type_is_hidden(type);
        if (hidden && !special) text.len = 0;
        if (!hidden && at_start && tok->add_space_prefix && type != BN_TOKEN_USER && text.len > 0 &&
            text.ptr[0] == ' ') {
            text.ptr++;
            text.len--;
        }
        at_start = hidden;
        if (out != NULL && text.len > 0) memcpy(out + total, text.ptr, text.len);
        total += text.len;
    }
    return total;
}

bn_status bn_detokenize(const bn_tokenizer *tok, const int32_t *ids, size_t n_ids, bool special, char **text,
                        size_t *n_bytes, bn_error *err)
{
    *text = NULL;
    *n_bytes = 0;
    if (tok == NULL) return bn_fail(err, BN_ERR_ARG, "the model has no vocabulary");
    for (size_t i = 0; i < n_ids; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= tok->n_vocab)
            return bn_fail(err, BN_ERR_ARG, "token %zu has the id %ld, the vocabulary has %zu", i,
                           (long)ids[i], tok->n_vocab);
    /* n_ids lie in memory and tokens are shorter than 2^28 bytes, so this does not wrap. */
    uint64_t total = decode(tok, ids, n_ids, special, NULL);
    char *out = bn_alloc((size_t)total + 1, 1);
    if (out == NULL) return bn_nomem(err);
    decode(tok, ids, n_ids, special, out);
    *text = out;
    *n_bytes = (size_t)total;
    return BN_OK;
}

/* ---- streaming ---- */

/* Bytes that the sequence at p needs, judged by the n >= 1 that are there; 0 when it can never be UTF-8. */
static size_t needed(const char *p, size_t n)
{
    /* The shortest and the longest completion decide: a prefix is good when filling it up can be valid. */
    static const char FILL[2] = {(char)0x80, (char)0xBF};
    size_t length = 0;
    for (int which = 0; which < 2 && length == 0; which++) {
        char whole[4];
        memset(whole, FILL[which], sizeof whole);
        memcpy(whole, p, bn_min_size(n, sizeof whole));
        length = bn_utf8_length(whole, sizeof whole);
    }
    return length;
}

size_t bn_utf8_stream_push(bn_utf8_stream *stream, const char *bytes, size_t n_bytes, char *out)
{
    size_t n_out = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        stream->pending[stream->n_pending++] = bytes[i];
        size_t length = needed(stream->pending, stream->n_pending);
        if (length == 0 && stream->n_pending > 1) { /* what came before goes out; this byte starts anew */
            stream->n_pending--;
            n_out += bn_utf8_stream_flush(stream, out + n_out);
            i--;
        } else if (length <= stream->n_pending) {
            n_out += bn_utf8_stream_flush(stream, out + n_out);
        }
    }
    return n_out;
}

size_t bn_utf8_stream_flush(bn_utf8_stream *stream, char *out)
{
    size_t n = stream->n_pending;
    memcpy(out, stream->pending, n);
    stream->n_pending = 0;
    return n;
}

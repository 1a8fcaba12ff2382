/* SPDX-License-Identifier: MIT
 *
 * Ids to text, whole or as a stream of tokens.
 *
 * For SPM vocabularies the space that encoding added is dropped: at the start and after control
 * tokens, one leading space of an ordinary token.
 */
#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/vocab.h"

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
    unsigned char lead = (unsigned char)p[0];
    size_t length = lead < 0x80                   ? 1
                    : lead >= 0xC2 && lead < 0xE0 ? 2
                    : lead >> 4 == 0xE            ? 3
                    : lead >= 0xF0 && lead < 0xF5 ? 4
                                                  : 0;
    static const char FILL[2] = {(char)0x80, (char)0xBF};
    for (int which = 0; which < 2 && length > 0; which++) {
        char whole[4];
        memset(whole, FILL[which], sizeof whole);
        memcpy(whole, p, bn_min_size(n, length));
        if (bn_utf8_valid(whole, length) == length) return length;
    }
    return 0;
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

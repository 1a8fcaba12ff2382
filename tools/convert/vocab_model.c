/* SPDX-License-Identifier: MIT
 *
 * Reads a tokenizer.model, SentencePiece's own file: a message of protocol buffers (sentencepiece_model.proto). A
 * message is a sequence of fields: a varint with the field's number and the kind of value, then the value.
 *
 *     1 pieces: 1 text, 2 score (binary32), 3 type, numbered as in GGUF files
 *     2 settings of the training: 3 kind of model (2: BPE)
 *     3 normaliser: 2 table of replaced characters, 3 a blank before the text, 4 blanks are joined
 *
 * Other fields do not change the tokens of a text.
 */
#include "base/error.h"
#include "tools/convert/vocab.h"

enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

struct field {
    uint64_t number, value;   /* value: of VARINT and FIXED32 */
    const unsigned char *ptr; /* of BYTES */
    size_t len;
};

struct message {
    const unsigned char *at, *end;
};

static bool take_varint(struct message *m, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        unsigned char byte = *m->at++;
        *out |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return false;
}

static bool take_fixed(struct message *m, size_t n, uint64_t *out)
{
    *out = 0;
    if ((size_t)(m->end - m->at) < n) return false;
    for (size_t i = 0; i < n; i++)
        *out |= (uint64_t)*m->at++ << (8 * i);
    return true;
}

static bool take_field(struct message *m, struct field *f)
{
    uint64_t tag, n;
    *f = (struct field){0};
    if (!take_varint(m, &tag)) return false;
    f->number = tag >> 3;
    switch (tag & 7) {
    case VARINT:
        return take_varint(m, &f->value);
    case FIXED64:
        return take_fixed(m, 8, &f->value);
    case FIXED32:
        return take_fixed(m, 4, &f->value);
    case BYTES:
        if (!take_varint(m, &n) || n > (uint64_t)(m->end - m->at)) return false;
        f->ptr = m->at;
        f->len = (size_t)n;
        m->at += n;
        return true;
    default:
        return false;
    }
}

static bn_status damaged(const struct message *m, const unsigned char *start, bn_error *err)
{
    return bn_fail_at(err, BN_ERR_FORMAT, (uint64_t)(m->at - start), NULL, "the field is damaged or cut off");
}

struct reader {
    struct bn_cv_vocab *v;
    const unsigned char *start;
    uint64_t n_pieces, kind;
    bool prefix, joins_blanks, replaces;
};

static bn_status take_piece(struct reader *r, const struct field *piece, bn_error *err)
{
    struct message m = {piece->ptr, piece->ptr + piece->len};
    struct field f, text = {0};
    uint64_t type = BN_CV_TOKEN_NORMAL, id = r->n_pieces++;
    uint32_t bits = 0;
    while (m.at < m.end) {
        if (!take_field(&m, &f)) return damaged(&m, r->start, err);
        if (f.number == 1) text = f;
        if (f.number == 2) bits = (uint32_t)f.value;
        if (f.number == 3) type = f.value;
    }
    if (text.ptr == NULL || type < BN_CV_TOKEN_NORMAL || type > BN_CV_TOKEN_BYTE)
        return bn_fail_at(err, BN_ERR_FORMAT, (uint64_t)(piece->ptr - r->start), NULL,
                          "piece %llu has no text or an unknown type", (unsigned long long)id);
    BN_TRY(bn_cv_vocab_put(r->v, id, (const char *)text.ptr, text.len, (enum bn_cv_token_type)type, err));
    memcpy(&r->v->tokens[id].score, &bits, sizeof bits);
    return BN_OK;
}

static bn_status take_settings(struct reader *r, const struct field *settings, bn_error *err)
{
    struct message m = {settings->ptr, settings->ptr + settings->len};
    struct field f;
    bool training = settings->number == 2;
    while (m.at < m.end) {
        if (!take_field(&m, &f)) return damaged(&m, r->start, err);
        if (training && f.number == 3) r->kind = f.value;
        if (!training && f.number == 2) r->replaces = f.len > 0;
        if (!training && f.number == 3) r->prefix = f.value != 0;
        if (!training && f.number == 4) r->joins_blanks = f.value != 0;
    }
    return BN_OK;
}

bn_status bn_cv_vocab_model(struct bn_cv_vocab *v, const void *data, size_t n, bool *prefix, bn_error *err)
{
    enum { UNIGRAM = 1, BPE = 2 };
    const unsigned char *start = data;
    struct message m = {start, start + n};
    struct reader r = {.v = v, .start = start, .kind = UNIGRAM, .prefix = true, .joins_blanks = true};
    struct field f;
    BN_TRY(bn_cv_vocab_open(v, err));
    while (m.at < m.end) {
        if (!take_field(&m, &f)) return damaged(&m, start, err);
        if (f.number >= 1 && f.number <= 3 && f.ptr == NULL) return damaged(&m, start, err);
        if (f.number == 1) BN_TRY(take_piece(&r, &f, err));
        if (f.number == 2 || f.number == 3) BN_TRY(take_settings(&r, &f, err));
    }
    *prefix = r.prefix;
    if (r.kind != BPE)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "the kind of the model is %llu, expected %d (BPE)",
                       (unsigned long long)r.kind, BPE);
    if (r.replaces || r.joins_blanks)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "its normaliser is not supported: it %s",
                       r.replaces ? "replaces characters" : "joins blanks");
    return BN_OK;
}

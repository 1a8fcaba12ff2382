/* SPDX-License-Identifier: MIT
 *
 * Reads a tokenizer.json. Its vocabulary and merges, nearly all of its bytes, are read from left to right
 * without a tree; the other members that are needed are small.
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
#include "hub/files/vocab.h"
#include "base/error.h"
#include "base/json.h"
#include "gguf/gguf.h"

#define MAX_TEXTS (256u << 20)
#define MAX_MERGES (4u << 20)
#define MAX_STRING (1u << 20)

struct reader {
    struct bn_hub_vocab *v;
    struct bn_scan scan;
    struct bn_buf name, text;
    bool has_model;
};

/* Makes n tokens of the vocabulary. */
static bn_status grow(struct bn_hub_vocab *v, size_t n, bn_error *err)
{
    if (n <= v->n) return BN_OK;
    BN_TRY(bn_array_grow(&v->tokens, &v->room, n, sizeof *v->tokens, err));
    memset(v->tokens + v->n, 0, (n - v->n) * sizeof *v->tokens);
    v->n = n;
    return BN_OK;
}

bn_status bn_hub_vocab_put(struct bn_hub_vocab *v, uint64_t id, const char *text, size_t n,
                           enum bn_hub_token_type type, bn_error *err)
{
    if (id >= v->max)
        return bn_fail(err, BN_ERR_FORMAT, "the id %llu is not below the number of tokens, %zu",
                       (unsigned long long)id, v->max);
    v->texts.max = MAX_TEXTS;
    BN_TRY(grow(v, (size_t)id + 1, err));
    v->tokens[id] = (struct bn_hub_token){.at = v->texts.len, .len = n, .type = type};
    bn_buf_append(&v->texts, text, n);
    return bn_buf_check(&v->texts, err);
}

/* The value that comes next as a tree; *out must be NULL: else the member is duplicate. */
static bn_status take_tree(struct reader *r, bn_json **out)
{
    struct bn_scan *s = &r->scan;
    (void)bn_scan_peek(s);
    size_t from = s->at;
    if (*out != NULL) return bn_fail_at(s->err, BN_ERR_FORMAT, from, r->name.data, "duplicate member");
    BN_TRY(bn_scan_skip(s));
    return bn_json_parse(out, s->text + from, s->at - from, s->err);
}

/* [["text", score], ...] */
static bn_status count_pieces(struct reader *r)
{
    struct bn_scan *s = &r->scan;
    bool more = true;
    BN_TRY(bn_scan_open(s, '['));
    for (size_t n = 0;; n++) {
        BN_TRY(bn_scan_more(s, ']', &more));
        if (!more) return grow(r->v, n, s->err);
        if (n == r->v->max)
            return bn_fail_at(s->err, BN_ERR_FORMAT, bn_scan_offset(s), NULL, "more than %zu tokens", n);
        BN_TRY(bn_scan_skip(s));
    }
}

/* {"text": id, ...} */
static bn_status take_vocab(struct reader *r)
{
    struct bn_scan *s = &r->scan;
    bool more = true;
    if (bn_scan_peek(s) == '[') return count_pieces(r);
    BN_TRY(bn_scan_open(s, '{'));
    for (;;) {
        uint64_t id;
        BN_TRY(bn_scan_more(s, '}', &more));
        if (!more) return BN_OK;
        uint64_t at = bn_scan_offset(s);
        BN_TRY(bn_scan_name(s, &r->text));
        BN_TRY(bn_scan_u64(s, &id));
        if (id < r->v->n && r->v->tokens[id].type != BN_HUB_TOKEN_NONE)
            return bn_fail_at(s->err, BN_ERR_FORMAT, at, NULL, "two tokens have the id %llu",
                              (unsigned long long)id);
        bn_status status = bn_hub_vocab_put(r->v, id, r->text.data, r->text.len, BN_HUB_TOKEN_NORMAL, s->err);
        if (status != BN_OK) {
            if (s->err != NULL) s->err->offset = at;
            return status;
        }
    }
}

/* One part of a merge. A blank, which separates the parts in GGUF, is written as the byte alphabet has it. */
static void put_part(struct bn_buf *out, const struct bn_buf *part)
{
    for (size_t i = 0; i < part->len; i++)
        if (part->data[i] == ' ')
            bn_buf_puts(out, "\xC4\xA0");
        else
            bn_buf_putc(out, part->data[i]);
}

/* "a b", or ["a", "b"] as newer files have it; the joined text to out. */
static bn_status take_merge(struct reader *r, struct bn_buf *out)
{
    struct bn_scan *s = &r->scan;
    bool more = true;
    out->len = 0;
    if (bn_scan_peek(s) == '"') return bn_scan_string(s, out);
    BN_TRY(bn_scan_open(s, '['));
    for (int i = 0; i < 3; i++) {
        uint64_t at = bn_scan_offset(s);
        BN_TRY(bn_scan_more(s, ']', &more));
        if (more != (i < 2)) return bn_fail_at(s->err, BN_ERR_FORMAT, at, NULL, "a merge has not two parts");
        if (!more) break;
        BN_TRY(bn_scan_string(s, &r->text));
        if (i == 1) bn_buf_putc(out, ' ');
        put_part(out, &r->text);
    }
    return bn_buf_check(out, s->err);
}

static bn_status take_merges(struct reader *r)
{
    struct bn_scan *s = &r->scan;
    bool more = true;
    BN_TRY(bn_scan_open(s, '['));
    for (;;) {
        BN_TRY(bn_scan_more(s, ']', &more));
        if (!more) return BN_OK;
        if (r->v->n_merges == MAX_MERGES)
            return bn_fail_at(s->err, BN_ERR_LIMIT, bn_scan_offset(s), NULL, "more than %u merges",
                              MAX_MERGES);
        BN_TRY(take_merge(r, &r->name));
        struct bn_gguf_writer element = {.kv = r->v->merges};
        bn_gguf_put_text(&element.kv, bn_buf_text(&r->name), r->name.len);
        r->v->merges = element.kv;
        r->v->n_merges++;
        BN_TRY(bn_buf_check(&r->v->merges, s->err));
    }
}

static bn_status take_model(struct reader *r)
{
    struct bn_scan *s = &r->scan;
    bool more = true;
    BN_TRY(bn_scan_open(s, '{'));
    for (;;) {
        BN_TRY(bn_scan_more(s, '}', &more));
        if (!more) return BN_OK;
        uint64_t at = bn_scan_offset(s);
        BN_TRY(bn_scan_name(s, &r->name));
        const char *name = bn_buf_text(&r->name);
        bool vocab = strcmp(name, "vocab") == 0, merges = strcmp(name, "merges") == 0;
        if ((vocab && r->v->has_vocab) || (merges && r->v->has_merges))
            return bn_fail_at(s->err, BN_ERR_FORMAT, at, NULL, "duplicate member");
        r->v->has_vocab |= vocab;
        r->v->has_merges |= merges;
        if (vocab)
            BN_TRY(take_vocab(r));
        else if (merges)
            BN_TRY(take_merges(r));
        else if (strcmp(name, "type") == 0)
            BN_TRY(take_tree(r, &r->v->type));
        else if (strcmp(name, "byte_fallback") == 0)
            BN_TRY(take_tree(r, &r->v->byte_fallback));
        else
            BN_TRY(bn_scan_skip(s));
    }
}

static bn_status take_member(struct reader *r)
{
    const struct {
        const char *name;
        bn_json **tree;
    } TREES[] = {
        {"added_tokens", &r->v->added},
        {"normalizer", &r->v->normalizer},
        {"pre_tokenizer", &r->v->pre_tokenizer},
        {"post_processor", &r->v->post_processor},
    };
    BN_TRY(bn_scan_name(&r->scan, &r->name));
    for (size_t i = 0; i < BN_ARRAY_LEN(TREES); i++)
        if (strcmp(bn_buf_text(&r->name), TREES[i].name) == 0) return take_tree(r, TREES[i].tree);
    if (strcmp(bn_buf_text(&r->name), "model") != 0) return bn_scan_skip(&r->scan);
    if (r->has_model)
        return bn_fail_at(r->scan.err, BN_ERR_FORMAT, bn_scan_offset(&r->scan), "model", "duplicate member");
    r->has_model = true;
    return take_model(r);
}

static bn_status read_all(struct reader *r)
{
    bool more = true;
    BN_TRY(bn_scan_open(&r->scan, '{'));
    for (;;) {
        BN_TRY(bn_scan_more(&r->scan, '}', &more));
        if (!more) break;
        BN_TRY(take_member(r));
    }
    BN_TRY(bn_scan_end(&r->scan));
    if (r->v->has_vocab) return BN_OK;
    return bn_fail(r->scan.err, BN_ERR_FORMAT, "not a tokenizer: it has no model.vocab");
}

bn_status bn_hub_vocab_read(struct bn_hub_vocab *v, const char *text, size_t n, bn_error *err)
{
    struct reader r = {.v = v, .scan = {.text = text, .n = n, .err = err}};
    r.name.max = r.text.max = MAX_STRING;
    v->merges.max = MAX_TEXTS;
    bn_status status = read_all(&r);
    bn_buf_release(&r.name);
    bn_buf_release(&r.text);
    return status;
}

/* ---- tokenizer.model ---- */

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

struct spm_reader {
    struct bn_hub_vocab *v;
    const unsigned char *start;
    struct bn_hub_spm *spm;
    uint64_t n_pieces;
};

static bn_status take_piece(struct spm_reader *r, const struct field *piece, bn_error *err)
{
    struct message m = {piece->ptr, piece->ptr + piece->len};
    struct field f, text = {0};
    uint64_t type = BN_HUB_TOKEN_NORMAL, id = r->n_pieces++;
    uint32_t bits = 0;
    while (m.at < m.end) {
        if (!take_field(&m, &f)) return damaged(&m, r->start, err);
        if (f.number == 1) text = f;
        if (f.number == 2) bits = (uint32_t)f.value;
        if (f.number == 3) type = f.value;
    }
    if (text.ptr == NULL || type < BN_HUB_TOKEN_NORMAL || type > BN_HUB_TOKEN_BYTE)
        return bn_fail_at(err, BN_ERR_FORMAT, (uint64_t)(piece->ptr - r->start), NULL,
                          "piece %llu has no text or an unknown type", (unsigned long long)id);
    BN_TRY(bn_hub_vocab_put(r->v, id, (const char *)text.ptr, text.len, (enum bn_hub_token_type)type, err));
    memcpy(&r->v->tokens[id].score, &bits, sizeof bits);
    return BN_OK;
}

static bn_status take_settings(struct spm_reader *r, const struct field *settings, bn_error *err)
{
    struct message m = {settings->ptr, settings->ptr + settings->len};
    struct field f;
    bool training = settings->number == 2;
    while (m.at < m.end) {
        if (!take_field(&m, &f)) return damaged(&m, r->start, err);
        if (training && f.number == 3) r->spm->kind = f.value;
        if (!training && f.number == 2) r->spm->replaces = f.len > 0;
        if (!training && f.number == 3) r->spm->prefix = f.value != 0;
        if (!training && f.number == 4) r->spm->joins_blanks = f.value != 0;
    }
    return BN_OK;
}

bn_status bn_hub_vocab_model(struct bn_hub_vocab *v, const void *data, size_t n, struct bn_hub_spm *spm,
                             bn_error *err)
{
    enum { UNIGRAM = 1 };
    const unsigned char *start = data;
    struct message m = {start, start + n};
    struct spm_reader r = {.v = v, .start = start, .spm = spm};
    struct field f;
    *spm = (struct bn_hub_spm){.kind = UNIGRAM, .prefix = true, .joins_blanks = true};
    while (m.at < m.end) {
        if (!take_field(&m, &f)) return damaged(&m, start, err);
        if (f.number >= 1 && f.number <= 3 && f.ptr == NULL) return damaged(&m, start, err);
        if (f.number == 1) BN_TRY(take_piece(&r, &f, err));
        if (f.number == 2 || f.number == 3) BN_TRY(take_settings(&r, &f, err));
    }
    return BN_OK;
}

void bn_hub_vocab_release(struct bn_hub_vocab *v)
{
    bn_json *trees[] = {v->added,          v->normalizer, v->pre_tokenizer,
                        v->post_processor, v->type,       v->byte_fallback};
    for (size_t i = 0; i < BN_ARRAY_LEN(trees); i++)
        bn_json_free(trees[i]);
    bn_free(v->tokens);
    bn_buf_release(&v->texts);
    bn_buf_release(&v->merges);
}

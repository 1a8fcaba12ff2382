/* SPDX-License-Identifier: MIT
 *
 * Reads a tokenizer.json. Its vocabulary and merges, nearly all of its bytes, are read from left to right
 * without a tree; the other members that are needed are small.
 */
#include "base/error.h"
#include "tools/convert/scan.h"
#include "tools/convert/vocab.h"

#define MAX_TEXTS (256u << 20)
#define MAX_MERGES (4u << 20)
#define MAX_STRING (1u << 20)

struct reader {
    struct bn_cv_vocab *v;
    struct bn_scan scan;
    struct bn_buf name, text;
    bool has_vocab, has_merges, has_model;
};

bn_status bn_cv_vocab_put(struct bn_cv_vocab *v, uint64_t id, const char *text, size_t n,
                          enum bn_cv_token_type type, bn_error *err)
{
    if (id >= v->n)
        return bn_fail(err, BN_ERR_FORMAT, "the id %llu is not below the %zu rows of the embedding",
                       (unsigned long long)id, v->n);
    v->tokens[id] = (struct bn_cv_token){.at = v->texts.len, .len = n, .type = type};
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

/* {"text": id, ...} */
static bn_status take_vocab(struct reader *r)
{
    struct bn_scan *s = &r->scan;
    bool more = true;
    BN_TRY(bn_scan_open(s, '{'));
    for (;;) {
        uint64_t id;
        BN_TRY(bn_scan_more(s, '}', &more));
        if (!more) return BN_OK;
        uint64_t at = bn_scan_offset(s);
        BN_TRY(bn_scan_name(s, &r->text));
        BN_TRY(bn_scan_u64(s, &id));
        if (id < r->v->n && r->v->tokens[id].type != BN_CV_TOKEN_NONE)
            return bn_fail_at(s->err, BN_ERR_FORMAT, at, NULL, "two tokens have the id %llu",
                              (unsigned long long)id);
        bn_status status = bn_cv_vocab_put(r->v, id, r->text.data, r->text.len, BN_CV_TOKEN_NORMAL, s->err);
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
        bn_gguf_put_element_str(&element, bn_buf_text(&r->name), r->name.len);
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
        if ((vocab && r->has_vocab) || (merges && r->has_merges))
            return bn_fail_at(s->err, BN_ERR_FORMAT, at, NULL, "duplicate member");
        r->has_vocab |= vocab;
        r->has_merges |= merges;
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
    if (r->has_vocab && r->has_merges) return BN_OK;
    return bn_fail(r->scan.err, BN_ERR_FORMAT, "the model has no vocab or no merges");
}

bn_status bn_cv_vocab_open(struct bn_cv_vocab *v, bn_error *err)
{
    v->texts.max = v->merges.max = MAX_TEXTS;
    v->tokens = bn_alloc(v->n, sizeof *v->tokens);
    return v->tokens != NULL ? BN_OK : bn_nomem(err);
}

bn_status bn_cv_vocab_read(struct bn_cv_vocab *v, const char *text, size_t n, bn_error *err)
{
    struct reader r = {.v = v, .scan = {.text = text, .n = n, .err = err}};
    r.name.max = r.text.max = MAX_STRING;
    bn_status status = bn_cv_vocab_open(v, err);
    if (status == BN_OK) status = read_all(&r);
    bn_buf_release(&r.name);
    bn_buf_release(&r.text);
    return status;
}

void bn_cv_vocab_release(struct bn_cv_vocab *v)
{
    bn_json *trees[] = {v->added,          v->normalizer, v->pre_tokenizer,
                        v->post_processor, v->type,       v->byte_fallback};
    for (size_t i = 0; i < BN_ARRAY_LEN(trees); i++)
        bn_json_free(trees[i]);
    bn_free(v->tokens);
    bn_buf_release(&v->texts);
    bn_buf_release(&v->merges);
}

/* SPDX-License-Identifier: MIT
 *
 * Vocabularies of SentencePiece BPE in a tokenizer.json: characters, byte tokens, and merges. Programs that read GGUF
 * files merge the neighbours whose joined text has the highest score. Merges are listed in the order in which they are
 * made, so their numbers are such scores.
 */
#include <stdlib.h>

#include "base/error.h"
#include "tools/convert/vocab.h"

#define BLANK "\xE2\x96\x81" /* U+2581 */
#define SCORE_ADDED (-1000.0f)

struct text {
    const char *ptr;
    size_t len, id;
};

static int compare_texts(const void *left, const void *right)
{
    const struct text *a = left, *b = right;
    int order = memcmp(a->ptr, b->ptr, bn_min_size(a->len, b->len));
    return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

/* ---- scores ---- */

static bool is_byte(const struct text *t)
{
    static const char DIGITS[] = "0123456789ABCDEFabcdef";
    return t->len == 6 && memcmp(t->ptr, "<0x", 3) == 0 && strchr(DIGITS, t->ptr[3]) != NULL &&
           strchr(DIGITS, t->ptr[4]) != NULL && t->ptr[5] == '>';
}

/* The merged text to joined: without the one blank between its parts. */
static bn_status join(struct bn_str merge, struct bn_buf *joined, uint64_t n, bn_error *err)
{
    const char *blank = merge.len > 2 ? memchr(merge.ptr + 1, ' ', merge.len - 2) : NULL;
    joined->len = 0;
    if (blank == NULL || memchr(blank + 1, ' ', (size_t)(merge.ptr + merge.len - blank - 1)) != NULL)
        return bn_fail(err, BN_ERR_FORMAT, "merge %llu has not two parts", (unsigned long long)n);
    bn_buf_append(joined, merge.ptr, (size_t)(blank - merge.ptr));
    bn_buf_append(joined, blank + 1, (size_t)(merge.ptr + merge.len - blank - 1));
    return bn_buf_check(joined, err);
}

static bn_status score_merges(struct bn_cv_vocab *v, const struct text *sorted, size_t n, bn_error *err)
{
    const unsigned char *at = (const unsigned char *)v->merges.data;
    struct bn_buf joined = {.max = 1u << 20};
    bn_status status = BN_OK;
    for (uint64_t i = 0; i < v->n_merges && status == BN_OK; i++) {
        status = join(bn_gguf_next_str(&at), &joined, i, err);
        if (status != BN_OK) break;
        struct text key = {bn_buf_text(&joined), joined.len, 0};
        const struct text *found = bsearch(&key, sorted, n, sizeof key, compare_texts);
        if (found == NULL)
            status = bn_fail(err, BN_ERR_FORMAT, "merge %llu makes no token", (unsigned long long)i);
        else if (v->tokens[found->id].type == BN_CV_TOKEN_NORMAL && v->tokens[found->id].score >= 0.0f)
            v->tokens[found->id].score = -(float)i - 1.0f;
    }
    bn_buf_release(&joined);
    return status;
}

static bn_status put_scores(struct bn_cv_vocab *v, bn_error *err)
{
    size_t n = 0;
    struct text *sorted = bn_alloc(v->n, sizeof *sorted);
    if (sorted == NULL) return bn_nomem(err);
    for (size_t i = 0; i < v->n; i++) {
        struct bn_cv_token *t = &v->tokens[i];
        if (t->type == BN_CV_TOKEN_NONE) continue;
        sorted[n] = (struct text){v->texts.data + t->at, t->len, i};
        t->score = t->type == BN_CV_TOKEN_NORMAL ? 0.0f : SCORE_ADDED;
        if (t->type == BN_CV_TOKEN_NORMAL && is_byte(&sorted[n])) t->type = BN_CV_TOKEN_BYTE;
        n++;
    }
    qsort(sorted, n, sizeof *sorted, compare_texts);
    bn_status status = score_merges(v, sorted, n, err);
    bn_free(sorted);
    return status;
}

/* ---- how the text is prepared ---- */

static bool replaces_blanks(const bn_json *n)
{
    return bn_json_text_is(n, "type", "Replace") &&
           bn_json_text_is(bn_json_get(n, "pattern"), "String", " ") && bn_json_text_is(n, "content", BLANK);
}

static bool is_nothing(const bn_json *value)
{
    return value == NULL || bn_json_kind(value) == BN_JSON_NULL;
}

/* Gemma's, which finds nothing: there are no blanks left. */
static bool splits_at_blanks(const bn_json *p)
{
    return bn_json_text_is(p, "type", "Split") && bn_json_text_is(bn_json_get(p, "pattern"), "String", " ");
}

/* Metaspace, which replaces blanks and may put one before the text. */
static bool read_metaspace(const bn_json *p, bool *prefix)
{
    const char *scheme = bn_json_text_of(p, "prepend_scheme");
    *prefix = true;
    if (!bn_json_text_is(p, "type", "Metaspace") || !bn_json_text_is(p, "replacement", BLANK)) return false;
    if (scheme[0] != '\0')
        *prefix = strcmp(scheme, "never") != 0;
    else
        (void)bn_json_bool(bn_json_get(p, "add_prefix_space"), prefix);
    return true;
}

static bool read_preparation(const struct bn_cv_vocab *v, bool *prefix)
{
    const bn_json *n = v->normalizer, *p = v->pre_tokenizer, *list = bn_json_get(n, "normalizers");
    bool plain = is_nothing(p) || splits_at_blanks(p);
    if (is_nothing(n)) return read_metaspace(p, prefix);
    *prefix = bn_json_text_is(n, "type", "Sequence");
    if (!*prefix) return plain && replaces_blanks(n);
    return plain && bn_json_size(list) == 2 && bn_json_text_is(bn_json_at(list, 0), "type", "Prepend") &&
           bn_json_text_is(bn_json_at(list, 0), "prepend", BLANK) && replaces_blanks(bn_json_at(list, 1));
}

bn_status bn_cv_vocab_spm(struct bn_cv_vocab *v, bool *prefix, bn_error *err)
{
    if (!read_preparation(v, prefix))
        return bn_fail(
            err, BN_ERR_UNSUPPORTED,
            "the normalizer and the pre_tokenizer of this SentencePiece vocabulary are not supported");
    return put_scores(v, err);
}

/* SPDX-License-Identifier: MIT
 *
 * The vocabulary of a folder to the keys tokenizer.ggml.*, as llama.cpp's converter writes them: byte-level BPE
 * (tokenizer.ggml.model "gpt2") or SentencePiece ("llama"). The rule that splits text is recognised by its regular
 * expression; an unknown one is refused, because another rule gives other tokens.
 *
 * A SentencePiece vocabulary in a tokenizer.json has characters, byte tokens, and merges. Programs that read GGUF files
 * merge the neighbours whose joined text has the highest score. Merges are listed in the order in which they are made,
 * so their numbers are such scores.
 */
#include <stdio.h>
#include <stdlib.h>

#include "hub/files/vocab.h"
#include "tools/convert/folder.h"

#define FILE_NAME "tokenizer.json"
#define FAIL(code, ...) bn_fail_in(err, BN_ERR_##code, FILE_NAME, __VA_ARGS__)
#define MODEL_NAME "tokenizer.model"
#define KEY "tokenizer.ggml."
#define SCORE_UNUSED (-10000.0f)
#define SCORE_ADDED (-1000.0f)
#define BLANK "\xE2\x96\x81" /* U+2581 */

struct keys {
    struct bn_cv_folder *f;
    struct bn_hub_vocab v;
    struct bn_gguf_writer *w;
    int64_t id[7]; /* of SPECIAL; -1: none */
    int64_t end_of_turn;
    int add_bos, add_eos; /* -1: nothing says it */
};

enum special { BOS, EOS, UNK, SEP, PAD, CLS, MASK };
static const struct {
    const char *name, *key;
} SPECIAL[] = {
    [BOS] = {"bos", KEY "bos_token_id"},     [EOS] = {"eos", KEY "eos_token_id"},
    [UNK] = {"unk", KEY "unknown_token_id"}, [SEP] = {"sep", KEY "seperator_token_id"},
    [PAD] = {"pad", KEY "padding_token_id"}, [CLS] = {"cls", KEY "cls_token_id"},
    [MASK] = {"mask", KEY "mask_token_id"},
};

static bool has_token(const struct bn_hub_vocab *v, uint64_t id)
{
    return id < v->n && v->tokens[id].type != BN_HUB_TOKEN_NONE;
}

/* ---- added tokens ---- */

/* Some models do not mark them as special. */
static bool looks_special(const char *text)
{
    size_t n = strlen(text);
    if (strcmp(text, "<pad>") == 0 || strcmp(text, "<mask>") == 0) return true;
    if (n >= 4 && memcmp(text, "<|", 2) == 0 && memcmp(text + n - 2, "|>", 2) == 0) return true;
    return n >= 8 && memcmp(text, "<unused", 7) == 0 && text[n - 1] == '>';
}

static bn_status put_added(struct keys *k, const bn_json *token, uint64_t id, bn_error *err)
{
    const char *text = NULL;
    if (!bn_json_string(bn_json_get(token, "content"), &text))
        return FAIL(FORMAT, "an added token has no content");
    if (bn_json_flag_of(token, "special") || looks_special(text))
        return bn_hub_vocab_put(&k->v, id, text, strlen(text), BN_HUB_TOKEN_CONTROL, err);
    struct bn_buf plain = {.max = 1u << 20}; /* U+2581, which stands for a blank, becomes one */
    for (const char *at = text; *at != '\0';) {
        bool blank = strncmp(at, BLANK, 3) == 0;
        bn_buf_putc(&plain, blank ? ' ' : *at);
        at += blank ? 3 : 1;
    }
    bn_status status = bn_buf_check(&plain, err);
    if (status == BN_OK) status = bn_hub_vocab_put(&k->v, id, plain.data, plain.len, BN_HUB_TOKEN_USER, err);
    bn_buf_release(&plain);
    return status;
}

static bn_status put_all_added(struct keys *k, bn_error *err)
{
    const bn_json *more = bn_json_get(k->f->settings, "added_tokens_decoder");
    uint64_t id;
    for (const bn_json *e = bn_json_first(k->v.added); e != NULL; e = bn_json_next(e)) {
        if (!bn_json_u64(bn_json_get(e, "id"), &id)) return FAIL(FORMAT, "an added token has no id");
        BN_TRY(put_added(k, e, id, err));
    }
    for (const bn_json *e = bn_json_first(more); e != NULL; e = bn_json_next(e)) {
        char *end;
        unsigned long long number = strtoull(bn_json_name(e), &end, 10);
        if (*end != '\0' || end == bn_json_name(e))
            return bn_fail_in(err, BN_ERR_FORMAT, "tokenizer_config.json", "'%.40s' is not the id of a token",
                              bn_json_name(e));
        if (!has_token(&k->v, number) || k->v.tokens[number].type == BN_HUB_TOKEN_NORMAL)
            BN_TRY(put_added(k, e, number, err));
    }
    return BN_OK;
}

/* The id of an added token with this text; -1 when there is none. */
static int64_t find_added(const struct keys *k, const char *text)
{
    uint64_t id;
    const bn_json *e = bn_json_find(k->v.added, "content", text);
    if (e != NULL && bn_json_u64(bn_json_get(e, "id"), &id)) return (int64_t)id;
    for (size_t i = 0; i < k->v.n; i++) {
        const struct bn_hub_token *t = &k->v.tokens[i];
        bool added = t->type == BN_HUB_TOKEN_CONTROL || t->type == BN_HUB_TOKEN_USER;
        if (added && t->len == strlen(text) && memcmp(k->v.texts.data + t->at, text, t->len) == 0)
            return (int64_t)i;
    }
    return -1;
}

/* ---- special tokens ---- */

/* Text of a token in tokenizer_config.json: a string, or an object with a content; NULL. */
static const char *token_text(const bn_json *value)
{
    const char *text = NULL;
    if (!bn_json_string(value, &text)) (void)bn_json_string(bn_json_get(value, "content"), &text);
    return text;
}

static void find_special(struct keys *k)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(SPECIAL); i++) {
        char name[32];
        uint64_t id;
        snprintf(name, sizeof name, "%s_token", SPECIAL[i].name);
        const char *text = token_text(bn_json_get(k->f->settings, name));
        k->id[i] = text != NULL ? find_added(k, text) : -1;
        snprintf(name, sizeof name, "%s_token_id", SPECIAL[i].name);
        if (k->id[i] < 0 && bn_json_u64(bn_cv_folder_setting(k->f, name), &id) && id < k->f->hp.n_vocab)
            k->id[i] = (int64_t)id;
    }
}

/* The token that a template of the post-processor puts at one end; -1: none. */
static int64_t end_token(const struct keys *k, const bn_json *single, size_t i)
{
    const char *text = bn_json_text_of(bn_json_get(bn_json_at(single, i), "SpecialToken"), "id");
    return text[0] != '\0' ? find_added(k, text) : -1;
}

static void read_template(struct keys *k, const bn_json *processor)
{
    const bn_json *single = bn_json_get(processor, "single");
    size_t n = bn_json_size(single);
    if (!bn_json_text_is(processor, "type", "TemplateProcessing") || n < 2) return;
    int64_t first = end_token(k, single, 0), last = end_token(k, single, n - 1);
    if (first >= 0) k->add_bos = first == k->id[BOS];
    if (last < 0) return;
    if (last != k->id[EOS]) k->end_of_turn = k->id[EOS];
    k->id[EOS] = last;
    k->add_eos = 1;
}

static void read_post_processor(struct keys *k)
{
    const bn_json *list = bn_json_get(k->v.post_processor, "processors");
    bool value;
    k->add_bos = k->add_eos = -1;
    k->end_of_turn = -1;
    if (list == NULL && k->v.post_processor != NULL) read_template(k, k->v.post_processor);
    for (const bn_json *e = bn_json_first(list); e != NULL; e = bn_json_next(e))
        read_template(k, e);
    if (bn_json_bool(bn_json_get(k->f->settings, "add_bos_token"), &value)) k->add_bos = value;
    if (bn_json_bool(bn_json_get(k->f->settings, "add_eos_token"), &value)) k->add_eos = value;
}

/* ---- the splitting rule ---- */

#define BEGINNING "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define ENDING "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
static const struct {
    const char *regex, *pre;
} RULES[] = {
    {BEGINNING "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" ENDING,
     "llama-bpe"},
    {BEGINNING "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" ENDING, "qwen2"},
    {BEGINNING "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" ENDING,
     "qwen35"},
};

static bool is_byte_level(const bn_json *p, bool with_regex)
{
    bool regex = true, prefix = true; /* the presets */
    (void)bn_json_bool(bn_json_get(p, "use_regex"), &regex);
    (void)bn_json_bool(bn_json_get(p, "add_prefix_space"), &prefix);
    return bn_json_text_is(p, "type", "ByteLevel") && regex == with_regex && !prefix;
}

/* A split by this expression, whose matches are pieces. */
static bool is_split(const bn_json *p, const char *regex)
{
    return bn_json_text_is(p, "type", "Split") && bn_json_text_is(p, "behavior", "Isolated") &&
           !bn_json_flag_of(p, "invert") && bn_json_text_is(bn_json_get(p, "pattern"), "Regex", regex);
}

/* The rule that bitnet.cpp has for Falcon-E: runs of punctuation, then that of GPT-2, then single digits. */
static bool is_falcon(const bn_json *list)
{
    const bn_json *first = bn_json_at(list, 0);
    return bn_json_size(list) == 3 && bn_json_text_is(first, "type", "Punctuation") &&
           bn_json_text_is(first, "behavior", "Contiguous") && is_byte_level(bn_json_at(list, 1), true) &&
           is_split(bn_json_at(list, 2), "[0-9]");
}

static const char *rule_of(const bn_json *p)
{
    const bn_json *list = bn_json_get(p, "pretokenizers");
    if (is_byte_level(p, true)) return "gpt-2";
    if (!bn_json_text_is(p, "type", "Sequence")) return NULL;
    if (is_falcon(list)) return "falcon_e";
    if (bn_json_size(list) != 2 || !is_byte_level(bn_json_at(list, 1), false)) return NULL;
    for (size_t i = 0; i < BN_ARRAY_LEN(RULES); i++)
        if (is_split(bn_json_at(list, 0), RULES[i].regex)) return RULES[i].pre;
    return NULL;
}

static bn_status find_rule(const struct keys *k, const char **pre, bn_error *err)
{
    const bn_json *normal = k->v.normalizer;
    bool nothing = bn_json_kind(normal) == BN_JSON_NULL || bn_json_text_is(normal, "type", "NFC");
    *pre = k->f->plan->options->pre;
    if (*pre != NULL) return BN_OK;
    if (!nothing)
        return bn_hint(
            FAIL(UNSUPPORTED, "the normalizer '%.40s' is not supported", bn_json_text_of(normal, "type")),
            err, "--pre NAME converts as if the text were normalised already");
    *pre = rule_of(k->v.pre_tokenizer);
    if (*pre != NULL) return BN_OK;
    return bn_hint(
        FAIL(UNSUPPORTED, "the pre_tokenizer is not one of llama-bpe, qwen2, qwen35, falcon_e and gpt-2"),
        err, "--pre NAME: falcon3 for Falcon3, falcon_e for Falcon-E");
}

static bn_status check_kind(const struct keys *k, bool *spm, bn_error *err)
{
    const char *type = "";
    *spm = false; /* characters, and bytes for those without a token */
    (void)bn_json_string(k->v.type, &type);
    (void)bn_json_bool(k->v.byte_fallback, spm);
    if (strcmp(type, "BPE") != 0) return FAIL(UNSUPPORTED, "the vocabulary is '%.40s', expected BPE", type);
    return k->v.has_merges ? BN_OK : bn_fail(err, BN_ERR_FORMAT, "the model has no merges");
}

/* ---- scores of SentencePiece ---- */

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

static bn_status score_merges(struct bn_hub_vocab *v, const struct text *sorted, size_t n, bn_error *err)
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
        else if (v->tokens[found->id].type == BN_HUB_TOKEN_NORMAL && v->tokens[found->id].score >= 0.0f)
            v->tokens[found->id].score = -(float)i - 1.0f;
    }
    bn_buf_release(&joined);
    return status;
}

static bn_status put_scores(struct bn_hub_vocab *v, bn_error *err)
{
    size_t n = 0;
    struct text *sorted = bn_alloc(v->n, sizeof *sorted);
    if (sorted == NULL) return bn_nomem(err);
    for (size_t i = 0; i < v->n; i++) {
        struct bn_hub_token *t = &v->tokens[i];
        if (t->type == BN_HUB_TOKEN_NONE) continue;
        sorted[n] = (struct text){v->texts.data + t->at, t->len, i};
        t->score = t->type == BN_HUB_TOKEN_NORMAL ? 0.0f : SCORE_ADDED;
        if (t->type == BN_HUB_TOKEN_NORMAL && is_byte(&sorted[n])) t->type = BN_HUB_TOKEN_BYTE;
        n++;
    }
    qsort(sorted, n, sizeof *sorted, compare_texts);
    bn_status status = score_merges(v, sorted, n, err);
    bn_free(sorted);
    return status;
}

/* ---- how SentencePiece prepares the text ---- */

static bool replaces_blanks(const bn_json *n)
{
    return bn_json_text_is(n, "type", "Replace") &&
           bn_json_text_is(bn_json_get(n, "pattern"), "String", " ") && bn_json_text_is(n, "content", BLANK);
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

/* Whether it is supported, and a blank comes before the text. */
static bool read_preparation(const struct bn_hub_vocab *v, bool *prefix)
{
    const bn_json *n = v->normalizer, *p = v->pre_tokenizer, *list = bn_json_get(n, "normalizers");
    /* Gemma's splits at blanks, and finds nothing: there are none left. */
    bool plain =
        bn_json_kind(p) == BN_JSON_NULL ||
        (bn_json_text_is(p, "type", "Split") && bn_json_text_is(bn_json_get(p, "pattern"), "String", " "));
    if (bn_json_kind(n) == BN_JSON_NULL) return read_metaspace(p, prefix);
    *prefix = bn_json_text_is(n, "type", "Sequence");
    if (!*prefix) return plain && replaces_blanks(n);
    return plain && bn_json_size(list) == 2 && bn_json_text_is(bn_json_at(list, 0), "type", "Prepend") &&
           bn_json_text_is(bn_json_at(list, 0), "prepend", BLANK) && replaces_blanks(bn_json_at(list, 1));
}

/* ---- keys ---- */

/* Every row of the embedding has a token; those that no list has are unused. */
static void put_tokens(struct keys *k, bool spm)
{
    const struct bn_hub_vocab *v = &k->v;
    size_t n = (size_t)k->f->hp.n_vocab;
    char text[40];
    bn_gguf_put_array(k->w, KEY "tokens", BN_GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) {
        int length = snprintf(text, sizeof text, "[PAD%zu]", i);
        if (has_token(v, i))
            bn_gguf_put_text(&k->w->kv, v->texts.data + v->tokens[i].at, v->tokens[i].len);
        else
            bn_gguf_put_text(&k->w->kv, text, (size_t)length);
    }
    if (spm) bn_gguf_put_array(k->w, KEY "scores", BN_GGUF_F32, n);
    for (size_t i = 0; spm && i < n; i++)
        bn_gguf_put_element_f32(k->w, has_token(v, i) ? v->tokens[i].score : SCORE_UNUSED);
    bn_gguf_put_array(k->w, KEY "token_type", BN_GGUF_I32, n);
    for (size_t i = 0; i < n; i++)
        bn_gguf_put_element_i32(k->w, (int32_t)(has_token(v, i) ? v->tokens[i].type : BN_HUB_TOKEN_UNUSED));
    if (spm) return;
    bn_gguf_put_array(k->w, KEY "merges", BN_GGUF_STRING, v->n_merges);
    bn_buf_append(&k->w->kv, v->merges.data, v->merges.len);
}

static void put_special(struct keys *k)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(SPECIAL); i++)
        if (k->id[i] >= 0) bn_gguf_put_u32(k->w, SPECIAL[i].key, (uint32_t)k->id[i]);
    if (k->end_of_turn >= 0) bn_gguf_put_u32(k->w, KEY "eot_token_id", (uint32_t)k->end_of_turn);
    if (k->add_bos >= 0) bn_gguf_put_bool(k->w, KEY "add_bos_token", k->add_bos == 1);
    if (k->add_eos >= 0) bn_gguf_put_bool(k->w, KEY "add_eos_token", k->add_eos == 1);
}

/* chat_template of tokenizer_config.json: a text, or a list of templates with names; else chat_template.jinja. */
static bn_status put_template(struct keys *k, bn_error *err)
{
    static const char TEMPLATE[] = "tokenizer.chat_template";
    const bn_json *value = bn_json_get(k->f->settings, "chat_template");
    const char *text = NULL;
    size_t input;
    if (!bn_json_string(value, &text)) {
        const bn_json *preset = bn_json_find(value, "name", "default");
        (void)bn_json_string(bn_json_get(preset, "template"), &text);
    }
    if (text != NULL) {
        bn_gguf_put_str(k->w, TEMPLATE, text, strlen(text));
        return BN_OK;
    }
    BN_TRY(bn_cv_folder_input(k->f, "chat_template.jinja", false, &input, err));
    if (input == SIZE_MAX) return BN_OK;
    const struct bn_file_map *map = &k->f->plan->inputs[input].map;
    bn_gguf_put_str(k->w, TEMPLATE, (const char *)map->data, map->n_bytes);
    return BN_OK;
}

static bn_status make_keys(struct keys *k, const char *pre, bool spm, bool prefix, bn_error *err)
{
    find_special(k);
    read_post_processor(k);
    bn_gguf_put_str(k->w, KEY "model", spm ? "llama" : "gpt2", spm ? 5 : 4);
    bn_gguf_put_str(k->w, KEY "pre", pre, strlen(pre));
    put_tokens(k, spm);
    if (spm) bn_gguf_put_bool(k->w, KEY "add_space_prefix", prefix);
    put_special(k);
    return put_template(k, err);
}

static bn_status from_json(struct keys *k, const struct bn_file_map *map, bn_error *err)
{
    const char *pre = "default";
    bool spm, prefix = false;
    BN_TRY(bn_hub_vocab_read(&k->v, (const char *)map->data, map->n_bytes, err));
    BN_TRY(check_kind(k, &spm, err));
    BN_TRY(put_all_added(k, err));
    if (spm && !read_preparation(&k->v, &prefix))
        return bn_fail(
            err, BN_ERR_UNSUPPORTED,
            "the normalizer and the pre_tokenizer of this SentencePiece vocabulary are not supported");
    BN_TRY(spm ? put_scores(&k->v, err) : find_rule(k, &pre, err));
    return make_keys(k, pre, spm, prefix, err);
}

/* With the tokens that were added later: tokenizer_config.json has them, in older folders added_tokens.json. */
static bn_status from_model(struct keys *k, const struct bn_file_map *map, bn_error *err)
{
    enum { BPE = 2 };
    struct bn_hub_spm spm;
    bn_json *later = NULL;
    BN_TRY(bn_hub_vocab_model(&k->v, map->data, map->n_bytes, &spm, err));
    if (spm.kind != BPE)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "the kind of the model is %llu, expected %d (BPE)",
                       (unsigned long long)spm.kind, BPE);
    if (spm.replaces || spm.joins_blanks)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "its normaliser is not supported: it %s",
                       spm.replaces ? "replaces characters" : "joins blanks");
    BN_TRY(bn_cv_folder_json(k->f, "added_tokens.json", false, &later, err));
    bn_status status = BN_OK;
    for (const bn_json *e = bn_json_first(later); e != NULL && status == BN_OK; e = bn_json_next(e)) {
        const char *text = bn_json_name(e);
        uint64_t id = UINT64_MAX;
        (void)bn_json_u64(e, &id);
        status = bn_hub_vocab_put(&k->v, id, text, strlen(text),
                                  looks_special(text) ? BN_HUB_TOKEN_CONTROL : BN_HUB_TOKEN_USER, err);
    }
    bn_json_free(later);
    if (status == BN_OK) status = put_all_added(k, err);
    return status == BN_OK ? make_keys(k, "default", true, spm.prefix, err) : status;
}

bn_status bn_cv_folder_vocab(struct bn_cv_folder *f, bn_error *err)
{
    struct keys k = {.f = f, .w = &f->plan->keys, .v.max = (size_t)f->hp.n_vocab};
    size_t json, model = SIZE_MAX;
    BN_TRY(bn_cv_folder_input(f, FILE_NAME, false, &json, err));
    if (json == SIZE_MAX) BN_TRY(bn_cv_folder_input(f, MODEL_NAME, false, &model, err));
    if (json == SIZE_MAX && model == SIZE_MAX) return bn_cv_folder_input(f, FILE_NAME, true, &json, err);
    const struct bn_file_map *map = &f->plan->inputs[json != SIZE_MAX ? json : model].map;
    bn_status status = (json != SIZE_MAX ? from_json : from_model)(&k, map, err);
    bn_hub_vocab_release(&k.v);
    if (status != BN_OK) bn_error_name(err, json != SIZE_MAX ? FILE_NAME : MODEL_NAME);
    return status;
}

/* SPDX-License-Identifier: MIT
 *
 * bn-download tokenizer: downloads the tokenizer files of a model's repository, and compares their vocabulary
 * with that of a GGUF model: number of tokens, their texts, the ids of special tokens. tokenizer.model is a
 * SentencePiece model or a tiktoken rank file.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "gguf/gguf.h"
#include "hub/cache/cache.h"
#include "hub/files/vocab.h"
#include "hub/names/names.h"
#include "lab/kit/put_counts.h"
#include "tokenizer/tokenizer.h"
#include "tools/download/download.h"

#define MAX_FILE_BYTES (64u << 20)
#define MAX_TOKENS BN_GGUF_MAX_ARRAY
#define MAX_RANK_BYTES (64u << 20)
#define UNUSED_TOKEN 5u /* tokenizer.ggml.token_type */

struct vocabulary {
    struct bn_hub_vocab tokens; /* of tokenizer.json */
    bn_json *settings;          /* tokenizer_config.json; NULL */
    uint32_t n_tokens;          /* the largest id and 1; 0: no file says it */
    uint32_t n_special;
    bool plain; /* n_tokens is of a tokenizer.model, which has no special tokens */
};

/* ---- reading ---- */

static bn_status note_added(struct vocabulary *v, bn_error *err)
{
    uint64_t id;
    for (const bn_json *o = bn_json_first(v->tokens.added); o != NULL; o = bn_json_next(o)) {
        if (!bn_json_u64(bn_json_get(o, "id"), &id) || id >= MAX_TOKENS)
            return bn_fail(err, BN_ERR_FORMAT, "a token has no valid id");
        if (id >= v->n_tokens) v->n_tokens = (uint32_t)id + 1;
        v->n_special += bn_json_flag_of(o, "special");
    }
    return v->n_tokens > 0 ? BN_OK : bn_fail(err, BN_ERR_FORMAT, "not a tokenizer: it has no tokens");
}

static bn_status read_tokens(struct vocabulary *v, const struct bn_buf *text, bn_error *err)
{
    bn_hub_vocab_release(&v->tokens);
    v->tokens = (struct bn_hub_vocab){.max = MAX_TOKENS};
    v->plain = false;
    BN_TRY(bn_hub_vocab_read(&v->tokens, text->data, text->len, err));
    v->n_tokens = (uint32_t)v->tokens.n;
    return note_added(v, err);
}

/* A tokenizer.model: SentencePiece's begins with its first piece, field 1; else ranks. */
static bn_status read_plain(struct vocabulary *v, const struct bn_buf *text, bn_error *err)
{
    struct bn_rank_vocab ranks = {.tokens.max = MAX_RANK_BYTES, .merges.max = MAX_RANK_BYTES};
    struct bn_hub_vocab pieces = {.max = MAX_TOKENS};
    struct bn_hub_spm spm;
    bn_error why = {0};
    v->plain = true;
    bn_status status = BN_ERR_FORMAT;
    if (text->data[0] == '\n') status = bn_hub_vocab_model(&pieces, text->data, text->len, &spm, NULL);
    v->n_tokens = status == BN_OK ? (uint32_t)pieces.n : 0;
    bn_hub_vocab_release(&pieces);
    if (status == BN_ERR_NOMEM) return bn_nomem(err);
    if (v->n_tokens > 0) return BN_OK;
    if (bn_rank_vocab_read(&ranks, text->data, text->len, &why) != BN_OK)
        return bn_fail(err, why.code == BN_ERR_NOMEM ? why.code : BN_ERR_FORMAT,
                       "neither a SentencePiece model nor a rank file");
    v->n_tokens = (uint32_t)ranks.n_tokens;
    bn_rank_vocab_release(&ranks);
    return BN_OK;
}

static bool is_named(const char *path, const char *name)
{
    size_t n = strlen(path), k = strlen(name);
    return n >= k && strcmp(path + n - k, name) == 0 && (n == k || path[n - k - 1] == '/');
}

static bn_status vocabulary_read(struct vocabulary *v, const char *path, bn_error *err)
{
    struct bn_buf text = {.max = MAX_FILE_BYTES};
    bn_status status = bn_file_read(path, &text, err);
    if (status == BN_OK && text.len == 0) status = bn_fail(err, BN_ERR_FORMAT, "the file is empty");
    if (status == BN_OK && is_named(path, "tokenizer_config.json"))
        status = bn_json_parse(&v->settings, text.data, text.len, err);
    else if (status == BN_OK && !is_named(path, "tokenizer.model"))
        status = read_tokens(v, &text, err);
    else if (status == BN_OK && v->n_tokens == 0)
        status = read_plain(v, &text, err);
    bn_error_name(err, path);
    bn_buf_release(&text);
    return status;
}

/* ---- comparing ---- */

struct model {
    struct bn_gguf gguf;
    struct bn_str *tokens;
    const struct bn_gguf_kv *types; /* NULL: none */
    uint32_t n;
};

static void differ(bn_json *differences, const char *fmt, ...) BN_PRINTF(2, 3);
static void differ(bn_json *differences, const char *fmt, ...)
{
    char text[512], shown[1100];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    bn_json_add_string(differences, bn_escape(shown, sizeof shown, text, strlen(text)));
}

static bn_status read_model(struct model *m, const struct bn_file_map *map, bn_error *err)
{
    const struct bn_gguf_kv *kv;
    BN_TRY(bn_gguf_open(&m->gguf, map->data, map->n_bytes, err));
    bn_status status = bn_gguf_array(&m->gguf, "tokenizer.ggml.tokens", BN_GGUF_STRING, &kv, err);
    if (status == BN_ERR_NOT_FOUND) return bn_fail(err, BN_ERR_FORMAT, "the model has no vocabulary");
    BN_TRY(status);
    status = bn_gguf_array(&m->gguf, "tokenizer.ggml.token_type", BN_GGUF_I32, &m->types, err);
    if (status == BN_ERR_FORMAT) return status;
    if (status != BN_OK || m->types->n != kv->n) m->types = NULL;
    m->n = (uint32_t)kv->n;
    BN_TRY(BN_NEW(m->tokens, m->n + 1u, err));
    const unsigned char *cursor = kv->value;
    for (uint32_t i = 0; i < m->n; i++)
        m->tokens[i] = bn_gguf_next_str(&cursor);
    return BN_OK;
}

/* Models are filled up to a round number of tokens with ones that are marked as unused. */
static bool is_padding(const struct model *m, uint32_t id)
{
    return (m->types != NULL && m->types->value[4 * (size_t)id] == UNUSED_TOKEN) ||
           (m->tokens[id].len >= 4 && memcmp(m->tokens[id].ptr, "[PAD", 4) == 0);
}

/* False when the token is another one in the model, which is then a difference. */
static bool same_token(const struct model *m, uint64_t id, const char *text, size_t n, bn_json *differences)
{
    if (id >= m->n) return true; /* counted already */
    const struct bn_str *t = &m->tokens[id];
    if (t->len == n && memcmp(t->ptr, text, n) == 0) return true;
    differ(differences, "token %llu is '%.*s' in the tokenizer and '%.*s' in the model",
           (unsigned long long)id, (int)bn_min_size(n, 60), text, (int)bn_min_size(t->len, 60), t->ptr);
    return false;
}

static void compare_texts(const struct vocabulary *v, const struct model *m, bn_json *differences)
{
    const char *text;
    uint64_t id;
    bool same = true;
    for (size_t i = 0; i < v->tokens.n && same; i++) {
        const struct bn_hub_token *t = &v->tokens.tokens[i];
        if (t->type != BN_HUB_TOKEN_NONE)
            same = same_token(m, i, v->tokens.texts.data + t->at, t->len, differences);
    }
    same = true;
    for (const bn_json *o = bn_json_first(v->tokens.added); o != NULL && same; o = bn_json_next(o))
        if (bn_json_string(bn_json_get(o, "content"), &text) && bn_json_u64(bn_json_get(o, "id"), &id))
            same = same_token(m, id, text, strlen(text), differences);
}

/* tokenizer_config.json names a special token by its text, or by an object with it. */
static void compare_special(const struct vocabulary *v, const struct model *m, const char *name,
                            const char *key, bn_json *differences)
{
    const char *text = bn_json_text_of(v->settings, name);
    uint32_t id;
    char path[64];
    snprintf(path, sizeof path, "%s.content", name);
    if (text[0] == '\0') text = bn_json_text_of(v->settings, path);
    if (text[0] == '\0' || bn_gguf_u32(&m->gguf, key, &id, NULL) != BN_OK) return;
    if (id < m->n && bn_str_equal(m->tokens[id], text)) return;
    differ(differences, "%s is '%.60s' in the tokenizer and %u '%.*s' in the model", name, text, id,
           id < m->n ? (int)bn_min_size(m->tokens[id].len, 60) : 0, id < m->n ? m->tokens[id].ptr : "");
}

static void compare(const struct vocabulary *v, const struct model *m, bn_json *differences)
{
    uint32_t n = v->n_tokens;
    while (!v->plain && n < m->n && is_padding(m, n))
        n++;
    bool fits = v->plain ? n <= m->n : n == m->n;
    if (!fits)
        differ(differences, "the tokenizer has %u tokens, the model %u", (unsigned)v->n_tokens,
               (unsigned)m->n);
    compare_texts(v, m, differences);
    compare_special(v, m, "bos_token", "tokenizer.ggml.bos_token_id", differences);
    compare_special(v, m, "eos_token", "tokenizer.ggml.eos_token_id", differences);
}

static bn_status vocabulary_compare(const struct vocabulary *v, const char *model, uint32_t *n_model,
                                    bn_json *differences, bn_error *err)
{
    struct bn_file_map map;
    struct model m = {0};
    *n_model = 0;
    BN_TRY(bn_file_map_open(&map, model, false, err));
    bn_status status = read_model(&m, &map, err);
    bn_error_name(err, model);
    if (status == BN_OK) {
        compare(v, &m, differences);
        *n_model = m.n;
    }
    bn_free(m.tokens);
    bn_gguf_close(&m.gguf);
    bn_file_map_close(&map);
    return status;
}

/* ---- the command ---- */

static const char *const FILES[] = {"tokenizer.json", "tokenizer_config.json", "tokenizer.model"};

const struct bn_option bn_download_tokenizer_options[] = {
    BN_OPTION("to", "download to plain files in DIR, not to the cache", .letter = 'o', .arg = "DIR",
              BN_TO_PATH(struct bn_download_options, to, BOTH)),
    BN_OPTION("check", "compare the vocabulary with that of a GGUF model", .arg = "MODEL",
              BN_TO_PATH(struct bn_download_options, check, MODEL)),
    {0},
};

struct tokenizer {
    const struct bn_args *args;
    struct bn_hub_fetch fetch;
    struct bn_download_show show;
    struct vocabulary vocabulary;
    char repo[193];
    bn_json *doc, *files; /* files are in doc */
    size_t n_files;
};

/* ---- downloading ---- */

/* A file that the repository does not have is left out. */
static bn_status get_file(struct tokenizer *t, const char *repo, const char *revision, const char *file,
                          bn_error *why, bn_error *err)
{
    struct bn_hub_fetch *f = &t->fetch;
    char reference[1600];
    snprintf(reference, sizeof reference, "hf:%s:%s@%s", repo, file, revision);
    f->reference = reference;
    bn_download_show_begin(&t->show, f, t->args);
    t->show.json = false; /* one document, at the end */
    bn_error failed = {0};
    bn_status status = bn_hub_fetch(f, &failed);
    bn_download_show_end(&t->show);
    f->reference = NULL;
    if (status == BN_ERR_NOT_FOUND) {
        *why = failed;
        return BN_OK;
    }
    if (status != BN_OK) {
        if (err != NULL && err->code == BN_OK) *err = failed;
        return status;
    }
    BN_TRY(vocabulary_read(&t->vocabulary, f->path, err));
    snprintf(t->repo, sizeof t->repo, "%s", repo);
    t->n_files++;
    bn_json *o = bn_json_add_object(t->files);
    BN_PUT(o, BN_STRING("file", file), BN_STRING("path", f->path), BN_TEXT("commit", f->commit),
           BN_TEXT("sha256", f->transfer.digest));
    if (!t->args->json) printf("%s\n", f->path);
    return BN_OK;
}

static bn_status get_repo(struct tokenizer *t, const char *repo, const char *revision, bn_error *why,
                          bn_error *err)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(FILES); i++)
        BN_TRY(get_file(t, repo, revision, FILES[i], why, err));
    return BN_OK;
}

/* The repositories of a model's variants in turn: one with a GGUF file often has no tokenizer. Digests of
 * first use are recorded, as for the model itself. */
static bn_status get_name(struct tokenizer *t, const struct bn_hub_reference *ref, bn_error *why,
                          bn_error *err)
{
    struct bn_hub_registry *registry;
    const struct bn_hub_model *model;
    const struct bn_hub_file *file;
    BN_TRY(bn_hub_registry_open(&registry, err));
    bn_status status = bn_hub_registry_look_up(&model, &file, registry, ref->name, ref->variant, err);
    t->fetch.pin = true;
    for (size_t i = 0; status == BN_OK && i < model->n_files && t->n_files == 0; i++) {
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++)
            seen = strcmp(model->files[k].repo, model->files[i].repo) == 0;
        if (!seen) status = get_repo(t, model->files[i].repo, model->files[i].revision, why, err);
    }
    bn_hub_registry_close(registry);
    return status;
}

static bn_status get_all(struct tokenizer *t, const char *text, bn_error *err)
{
    struct bn_hub_reference ref;
    bn_error why = {0};
    BN_TRY(bn_hub_reference_parse(&ref, text, err));
    if (ref.kind == BN_HUB_URL || (ref.kind == BN_HUB_REPO && ref.file[0] != '\0'))
        return bn_fail(err, BN_ERR_ARG, "'%s' is not a model of the registry or a repository (OWNER/REPO)",
                       text);
    if (ref.kind == BN_HUB_NAME)
        BN_TRY(get_name(t, &ref, &why, err));
    else
        BN_TRY(get_repo(t, ref.repo, ref.revision, &why, err));
    if (t->n_files > 0) return BN_OK;
    bn_fail_in(err, BN_ERR_NOT_FOUND, text, "no tokenizer file found: %s", why.msg);
    return bn_hint(BN_ERR_NOT_FOUND, err,
                   t->fetch.server.offline ? "run without --offline and HF_HUB_OFFLINE to download it"
                                           : "name the original model's repository: bn-download tokenizer "
                                             "OWNER/REPO");
}

/* ---- comparing ---- */

static bn_status check(struct tokenizer *t, const char *model, bool *fits, bn_error *err)
{
    char path[BN_HUB_PATH_MAX];
    uint32_t n_model = 0;
    const char *text = NULL;
    bool named = access(model, F_OK) != 0 && bn_hub_is_reference(model);
    if (named) BN_TRY(bn_hub_find(path, model, err));
    bn_json *o = bn_json_put_object(t->doc, "check");
    bn_json_put_string(o, "model", named ? path : model);
    bn_json *differences = bn_json_put_array(o, "differences");
    BN_TRY(vocabulary_compare(&t->vocabulary, named ? path : model, &n_model, differences, err));
    *fits = bn_json_size(differences) == 0;
    BN_PUT(o, BN_FLAG("fits", *fits), BN_U64("n_tokens", n_model));
    for (const bn_json *d = bn_json_first(differences); d != NULL && !t->args->json; d = bn_json_next(d))
        if (bn_json_string(d, &text)) printf("differs: %s\n", text);
    bn_report_note(0, "%s %s: %u tokens in the model", t->repo,
                   *fits ? "fits the model" : "does not fit the model", (unsigned)n_model);
    return BN_OK;
}

static bn_status run(struct tokenizer *t, bool *fits, bn_error *err)
{
    const struct bn_download_options *o = t->args->fields;
    t->fetch.to = o->to;
    t->fetch.fn = bn_download_show_event;
    t->fetch.user = &t->show;
    BN_TRY(bn_download_settings(&t->fetch, t->args, err));
    BN_TRY(get_all(t, t->args->operands[0], err));
    BN_PUT(t->doc, BN_STRING("repo", t->repo), BN_COUNT("n_tokens", t->vocabulary.n_tokens),
           BN_U64("n_special", t->vocabulary.n_special));
    if (t->vocabulary.n_tokens > 0)
        bn_report_note(0, "%s: %u tokens, %u of them special", t->repo, (unsigned)t->vocabulary.n_tokens,
                       (unsigned)t->vocabulary.n_special);
    if (o->check != NULL) BN_TRY(check(t, o->check, fits, err));
    return t->args->json ? bn_cli_print_json(t->doc, err) : BN_OK;
}

bn_status bn_download_tokenizer(struct bn_args *args, bn_error *err)
{
    struct tokenizer *t = bn_alloc(1, sizeof *t);
    bool fits = true;
    if (t == NULL) return bn_nomem(err);
    bn_cli_catch_interrupt();
    t->args = args;
    t->doc = bn_download_document("files", &t->files);
    bn_status status = t->doc != NULL ? run(t, &fits, err) : bn_nomem(err);
    if (status == BN_OK && !fits) args->exit_code = BN_EXIT_NEGATIVE;
    bn_hub_vocab_release(&t->vocabulary.tokens);
    bn_json_free(t->vocabulary.settings);
    bn_json_free(t->doc);
    bn_free(t);
    if (bn_cli_interrupted() == 0 || status == BN_OK) return status;
    args->exit_code = 128 + bn_cli_interrupted();
    bn_report_note(0, "%s", err->msg);
    return BN_OK;
}

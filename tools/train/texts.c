/* SPDX-License-Identifier: MIT
 *
 * Texts of a run: reading them, learning or opening their vocabulary, and turning them into tokens.
 */
#include <stdlib.h>
#include <string.h>

#include "lab/kit/put_counts.h"
#include "tokenizer/tokenizer.h"
#include "tools/train/train.h"
#include "train/vocabulary.h"

#define MAX_TEXT_BYTES ((size_t)1 << 30)

/* ---- files ---- */

/* A file as the user typed it, "FILE" or "FILE:TIMES". */
struct text {
    char *path;
    uint32_t times;
};

static bn_status parse_text(struct text *text, const char *typed, bn_error *err)
{
    const char *colon = strrchr(typed, ':');
    size_t n = strlen(typed);
    text->times = 1;
    if (colon != NULL && colon[1] != '\0' && strspn(colon + 1, "0123456789") == strlen(colon + 1)) {
        unsigned long times = strtoul(colon + 1, NULL, 10);
        if (times < 1 || times > 1000)
            return bn_fail_in(err, BN_ERR_ARG, typed, "the number of times is %lu, expected 1 to 1000",
                              times);
        text->times = (uint32_t)times;
        n = (size_t)(colon - typed);
    }
    text->path = bn_strndup(typed, n);
    return text->path != NULL ? BN_OK : bn_nomem(err);
}

static bn_status read_text(const struct text *text, struct bn_buf *buf, bn_error *err)
{
    buf->max = MAX_TEXT_BYTES;
    BN_TRY(bn_file_read(text->path, buf, err));
    return buf->len > 0 ? BN_OK : bn_fail_in(err, BN_ERR_ARG, text->path, "the text is empty");
}

/* ---- vocabulary ---- */

static bool show_merges(void *user, size_t n)
{
    bn_progress_show(user, n);
    return bn_cli_interrupted() == 0;
}

static bn_status learn_texts(struct bn_learner *l, const struct bn_texts *typed, bn_error *err)
{
    bn_status status = BN_OK;
    for (size_t i = 0; i < typed->n && status == BN_OK; i++) {
        struct text text = {0};
        struct bn_buf buf = {0};
        status = parse_text(&text, typed->list[i], err);
        if (status == BN_OK) status = read_text(&text, &buf, err);
        for (uint32_t t = 0; t < text.times && status == BN_OK; t++)
            status = bn_learner_add(l, buf.data, buf.len, err);
        bn_buf_release(&buf);
        bn_free(text.path);
    }
    return status;
}

bn_status bn_train_learn(struct bn_buf *file, const struct bn_train_options *o, bool quiet, bn_error *err)
{
    static const char *const END[] = {"<|endoftext|>"};
    const char *const *specials = o->specials.n > 0 ? o->specials.list : END;
    size_t n_specials = o->specials.n > 0 ? o->specials.n : 1, n_merges;
    struct bn_learner *l = NULL;
    struct bn_progress bar;
    if (o->vocab <= 256 + n_specials)
        return bn_fail(err, BN_ERR_ARG,
                       "a vocabulary of %u has no tokens besides 256 bytes and %zu special tokens", o->vocab,
                       n_specials);
    BN_TRY(bn_learner_open(&l, o->pre, err));
    bn_status status = learn_texts(l, &o->texts, err);
    bn_progress_begin(&bar, "vocabulary", o->vocab - 256 - n_specials, quiet);
    if (status == BN_OK) status = bn_learner_run(l, o->vocab - 256 - n_specials, show_merges, &bar, err);
    bn_progress_clear(&bar);
    file->max = BN_GGUF_MAX_META_BYTES;
    if (status == BN_OK) {
        bn_learner_merges(l, &n_merges);
        if (n_merges < o->vocab - 256 - n_specials)
            bn_report_warning("the texts give %zu tokens; no other pair of symbols occurs twice",
                              256 + n_specials + n_merges);
        status =
            bn_learner_gguf(file, l, o->name != NULL ? o->name : "vocabulary", specials, n_specials, err);
    }
    bn_learner_close(l);
    return status;
}

bn_status bn_train_open_vocabulary(struct bn_train_texts *texts, bn_error *err)
{
    struct bn_gguf gguf;
    struct bn_str arch = {"", 0};
    char name[32] = "";
    const struct bn_gguf_kv *tokens = NULL;
    BN_TRY(bn_gguf_open(&gguf, texts->tokenizer_file.data, texts->tokenizer_file.len, err));
    if (bn_gguf_str(&gguf, "general.architecture", &arch, err) == BN_OK && arch.len < sizeof name)
        memcpy(name, arch.ptr, arch.len);
    bn_status status = bn_gguf_array(&gguf, "tokenizer.ggml.tokens", BN_GGUF_STRING, &tokens, err);
    if (status == BN_OK) status = bn_tokenizer_open(&texts->tokenizer, &gguf, name, err);
    if (status == BN_ERR_NOT_FOUND) status = bn_fail(err, BN_ERR_FORMAT, "the file has no vocabulary");
    if (status == BN_OK) texts->n_vocab = (uint32_t)tokens->n;
    bn_gguf_close(&gguf);
    return status;
}

/* ---- tokens ---- */

static bn_status add_text(struct bn_train_texts *texts, struct bn_corpus *corpus, const char *role,
                          const struct text *text, const char *want, bn_json *data, bn_error *err)
{
    struct bn_buf buf = {0};
    char hex[BN_SHA256_HEX];
    /* The vocabulary's end of text is put after each text; -1: it has none. */
    int32_t end = bn_tokenizer_eos(texts->tokenizer);
    if (end >= (int32_t)texts->n_vocab || strcmp(role, "validation") == 0) end = -1;
    size_t before = corpus->n;
    bn_status status = read_text(text, &buf, err);
    bn_sha256_hex(buf.data, buf.len, hex);
    if (status == BN_OK && want != NULL && strcmp(want, hex) != 0)
        status = bn_fail_in(err, BN_ERR_INTEGRITY, text->path,
                            "the digest is %.12s, at the start of the run it was %.12s", hex, want);
    if (status == BN_OK)
        status = bn_corpus_add(corpus, texts->tokenizer, buf.data, buf.len, text->times, end, err);
    if (status == BN_OK && data != NULL) {
        bn_json *o = bn_json_add_object(data);
        BN_PUT(o, BN_STRING("role", role), BN_STRING("path", text->path), BN_U64("times", text->times),
               BN_U64("bytes", buf.len), BN_U64("tokens", (corpus->n - before) / text->times),
               BN_STRING("sha256", hex));
    }
    bn_buf_release(&buf);
    return status;
}

bn_status bn_train_read_texts(struct bn_train_texts *texts, struct bn_corpus *corpus, const char *role,
                              const struct bn_texts *typed, bn_json *data, bn_error *err)
{
    for (size_t i = 0; i < typed->n; i++) {
        struct text text = {0};
        BN_TRY(parse_text(&text, typed->list[i], err));
        bn_status status = add_text(texts, corpus, role, &text, NULL, data, err);
        bn_free(text.path);
        BN_TRY(status);
    }
    bn_corpus_finish(corpus);
    return BN_OK;
}

bn_status bn_train_reread_texts(struct bn_train_texts *texts, const bn_json *data, bn_error *err)
{
    for (const bn_json *o = bn_json_first(data); o != NULL; o = bn_json_next(o)) {
        const char *role = bn_json_text_of(o, "role"), *path = bn_json_text_of(o, "path");
        uint64_t times = 0;
        if (!bn_json_u64(bn_json_get(o, "times"), &times) || times < 1 || times > 1000)
            return bn_fail(err, BN_ERR_FORMAT, "the checkpoint's list of texts is invalid");
        struct text text = {bn_strndup(path, strlen(path)), (uint32_t)times};
        if (text.path == NULL) return bn_nomem(err);
        struct bn_corpus *corpus = strcmp(role, "late") == 0         ? &texts->late
                                   : strcmp(role, "validation") == 0 ? &texts->validation
                                                                     : &texts->main;
        bn_status status = add_text(texts, corpus, role, &text, bn_json_text_of(o, "sha256"), NULL, err);
        bn_free(text.path);
        BN_TRY(status);
    }
    bn_corpus_finish(&texts->main);
    bn_corpus_finish(&texts->late);
    bn_corpus_finish(&texts->validation);
    return BN_OK;
}

void bn_train_texts_release(struct bn_train_texts *texts)
{
    bn_corpus_release(&texts->main);
    bn_corpus_release(&texts->late);
    bn_corpus_release(&texts->validation);
    bn_tokenizer_close(texts->tokenizer);
    bn_buf_release(&texts->tokenizer_file);
    *texts = (struct bn_train_texts){0};
}

/* SPDX-License-Identifier: MIT
 *
 * Small vocabularies for tests and fuzzing: tokens and merges are put one by one, then made into a GGUF file
 * in memory and a tokenizer. Functions do nothing clever with errors; use the result's status.
 */
#ifndef BN_TESTS_VOCAB_MAKER_H
#define BN_TESTS_VOCAB_MAKER_H

#include <stdio.h>

#include "tokenizer/vocab.h"

struct maker {
    const char *model;
    struct bn_buf tokens, types, scores, merges; /* bodies of arrays */
    size_t n_tokens, n_types, n_scores, n_merges;
    bool no_types, no_scores, no_merges;
    struct bn_gguf_writer w; /* for further keys */
    struct bn_buf file;
    struct bn_gguf gguf;
    bn_tokenizer *tok;
    bn_error err;
};

static inline struct maker maker_new(const char *model)
{
    enum { ROOM = 64 << 20 };
    return (struct maker){.model = model,
                          .tokens.max = ROOM,
                          .types.max = ROOM,
                          .scores.max = ROOM,
                          .merges.max = ROOM,
                          .w = {.kv.max = ROOM, .infos.max = ROOM},
                          .file.max = ROOM};
}

static inline void maker_string(struct bn_buf *out, const char *text, size_t n)
{
    uint64_t length = n;
    bn_buf_append(out, &length, 8);
    bn_buf_append(out, text, n);
}

static inline void maker_type(struct maker *m, uint32_t type)
{
    bn_buf_append(&m->types, &type, 4);
    m->n_types++;
}

static inline void maker_score(struct maker *m, float score)
{
    bn_buf_append(&m->scores, &score, 4);
    m->n_scores++;
}

static inline void maker_token(struct maker *m, const char *text, uint32_t type, float score)
{
    maker_string(&m->tokens, text, strlen(text));
    m->n_tokens++;
    maker_type(m, type);
    maker_score(m, score);
}

/* The merge "left right", and its result as a token. */
static inline void maker_merge(struct maker *m, const char *left, const char *right)
{
    char text[128];
    snprintf(text, sizeof text, "%s %s", left, right);
    maker_string(&m->merges, text, strlen(text));
    m->n_merges++;
    snprintf(text, sizeof text, "%s%s", left, right);
    maker_token(m, text, BN_TOKEN_NORMAL, 0);
}

static inline bn_status maker_open(struct maker *m, const char *arch)
{
    struct bn_gguf_writer *w = &m->w;
    bn_gguf_put_str(w, "tokenizer.ggml.model", m->model, strlen(m->model));
    bn_gguf_put_array(w, "tokenizer.ggml.tokens", BN_GGUF_STRING, m->n_tokens);
    bn_buf_append(&w->kv, m->tokens.data, m->tokens.len);
    if (!m->no_types) {
        bn_gguf_put_array(w, "tokenizer.ggml.token_type", BN_GGUF_I32, m->n_types);
        bn_buf_append(&w->kv, m->types.data, m->types.len);
    }
    if (!m->no_scores) {
        bn_gguf_put_array(w, "tokenizer.ggml.scores", BN_GGUF_F32, m->n_scores);
        bn_buf_append(&w->kv, m->scores.data, m->scores.len);
    }
    if (!m->no_merges && strcmp(m->model, "gpt2") == 0) {
        bn_gguf_put_array(w, "tokenizer.ggml.merges", BN_GGUF_STRING, m->n_merges);
        bn_buf_append(&w->kv, m->merges.data, m->merges.len);
    }
    bn_status status = bn_gguf_write_head(w, &m->file, &m->err);
    if (status == BN_OK) status = bn_gguf_open(&m->gguf, m->file.data, m->file.len, &m->err);
    return status == BN_OK ? bn_tokenizer_open(&m->tok, &m->gguf, arch, &m->err) : status;
}

static inline void maker_release(struct maker *m)
{
    bn_tokenizer_close(m->tok);
    bn_gguf_close(&m->gguf);
    bn_gguf_writer_release(&m->w);
    bn_buf_release(&m->tokens);
    bn_buf_release(&m->types);
    bn_buf_release(&m->scores);
    bn_buf_release(&m->merges);
    bn_buf_release(&m->file);
}

/* ---- two vocabularies ---- */

/* Ids 0..255 are the bytes themselves. */
static inline struct maker maker_gpt2(void)
{
    static const char *const MERGES[][2] = {
        {"h", "e"},   {"l", "l"},     {"he", "ll"}, {"hell", "o"}, {"Ġ", "w"}, {"o", "r"},  {"l", "d"},
        {"Ġw", "or"}, {"Ġwor", "ld"}, {"a", "a"},   {"aa", "aa"},  {"1", "2"}, {"12", "3"}, {"Ġ", "Ġ"},
        {"ĠĠ", "ĠĠ"}, {"Ċ", "Ċ"},     {"ä", "½"},   {"ä½", "ł"},   {"r", "l"}, {"x", "y"}};
    struct maker m = maker_new("gpt2");
    for (unsigned c = 0; c < 256; c++) {
        char byte = (char)c, text[4];
        struct bn_buf spelled = {.data = text, .room = sizeof text, .max = sizeof text - 1};
        bn_alphabet_encode(&spelled, &byte, 1);
        maker_token(&m, text, BN_TOKEN_NORMAL, 0);
    }
    for (size_t i = 0; i < BN_ARRAY_LEN(MERGES); i++)
        maker_merge(&m, MERGES[i][0], MERGES[i][1]);
    return m;
}

/* LLaMA 3's marks and a user-defined token, behind whatever is there; returns the id of the first. */
static inline uint32_t maker_marks(struct maker *m)
{
    static const char *const MARKS[] = {"<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
                                        "<|end_header_id|>", "<|eot_id|>"};
    uint32_t first = (uint32_t)m->n_tokens;
    for (size_t i = 0; i < BN_ARRAY_LEN(MARKS); i++)
        maker_token(m, MARKS[i], BN_TOKEN_CONTROL, 0);
    maker_token(m, "@@user@@", BN_TOKEN_USER, 0);
    bn_gguf_put_u32(&m->w, "tokenizer.ggml.bos_token_id", first);
    bn_gguf_put_u32(&m->w, "tokenizer.ggml.eos_token_id", first + 1);
    return first;
}

/* <unk>, <s>, </s>, 256 byte tokens, then ordinary ones; bytes start at id 3. */
static inline struct maker maker_spm(void)
{
    static const char *const TOKENS[] = {"▁",    "h",     "e",      "l",   "o",     "w",      "r",  "d",
                                         "a",    "▁h",    "ll",     "▁he", "▁hell", "▁hello", "▁w", "or",
                                         "▁wor", "▁worl", "▁world", "aa",  "aaaa",  "▁▁",     "é",  "你"};
    struct maker m = maker_new("llama");
    maker_token(&m, "<unk>", BN_TOKEN_UNKNOWN, 0);
    maker_token(&m, "<s>", BN_TOKEN_CONTROL, 0);
    maker_token(&m, "</s>", BN_TOKEN_CONTROL, 0);
    for (unsigned c = 0; c < 256; c++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", c);
        maker_token(&m, text, BN_TOKEN_BYTE, 0);
    }
    for (size_t i = 0; i < BN_ARRAY_LEN(TOKENS); i++)
        maker_token(&m, TOKENS[i], BN_TOKEN_NORMAL, -(float)i);
    bn_gguf_put_u32(&m.w, "tokenizer.ggml.bos_token_id", 1);
    bn_gguf_put_u32(&m.w, "tokenizer.ggml.eos_token_id", 2);
    bn_gguf_put_u32(&m.w, "tokenizer.ggml.unknown_token_id", 0);
    return m;
}

/* The ranks of LLaMA 3, then its named marks and reserved tokens. */
static inline struct maker maker_llama3(const struct bn_rank_vocab *ranks)
{
    static const struct {
        unsigned at;
        const char *text;
    } NAMED[] = {{0, "<|begin_of_text|>"}, {1, "<|end_of_text|>"}, {6, "<|start_header_id|>"},
                 {7, "<|end_header_id|>"}, {9, "<|eot_id|>"},      {256, ""}};
    struct maker m = maker_new("gpt2");
    bn_buf_append(&m.tokens, ranks->tokens.data, ranks->tokens.len);
    bn_buf_append(&m.merges, ranks->merges.data, ranks->merges.len);
    m.n_tokens = ranks->n_tokens;
    m.n_merges = ranks->n_merges;
    for (size_t i = 0; i < ranks->n_tokens; i++) {
        maker_type(&m, BN_TOKEN_NORMAL);
        maker_score(&m, 0);
    }
    for (unsigned i = 0, named = 0; i < 256; i++) {
        char text[48];
        snprintf(text, sizeof text, "<|reserved_special_token_%u|>", i - named);
        maker_token(&m, i == NAMED[named].at ? NAMED[named++].text : text, BN_TOKEN_CONTROL, 0);
    }
    bn_gguf_put_u32(&m.w, "tokenizer.ggml.bos_token_id", (uint32_t)ranks->n_tokens);
    bn_gguf_put_u32(&m.w, "tokenizer.ggml.eos_token_id", (uint32_t)ranks->n_tokens + 1);
    return m;
}

#endif

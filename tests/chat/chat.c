/* SPDX-License-Identifier: MIT
 *
 * Conversations by the line, for tests/cli/chat_templates.sh: each line of standard input is a request, each line of standard
 * output its answer, both JSON; {"error"} when it is refused. A request has a "template", "tools" and one of
 *
 *   "messages": a conversation; the answer is its prompt, {"text"}
 *   "answer": a text; what the reader takes it for, {"text", "parts": [[kind, name, text]]}, in pieces of any size
 *   "form": an object of only, required, single and schema; with "prefix", whether an answer can begin so, {"match"}: 0 it
 *       cannot, 1 it can, 2 it is an answer; with "seed", one at random, byte by byte, and its parts
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "grammar/matcher.h"
#include "tests/unit/engine/vocab_maker.h"
#include "tokenizer/chat.h"

#define MOST 64u

struct turns {
    struct bn_chat_turn list[MOST];
    struct bn_chat_call calls[MOST][MOST];
};

static void read_turns(struct turns *t, const bn_json *messages)
{
    size_t i = 0;
    for (const bn_json *m = bn_json_first(messages); m != NULL && i < MOST; m = bn_json_next(m), i++) {
        const bn_json *thoughts = bn_json_get(m, "reasoning_content");
        struct bn_chat_turn *turn = &t->list[i];
        *turn = (struct bn_chat_turn){.role = bn_json_text_of(m, "role"),
                                      .content = bn_json_text_of(m, "content"),
                                      .calls = t->calls[i]};
        (void)bn_json_string(thoughts, &turn->thoughts);
        for (const bn_json *c = bn_json_first(bn_json_get(m, "tool_calls"));
             c != NULL && turn->n_calls < MOST; c = bn_json_next(c))
            t->calls[i][turn->n_calls++] =
                (struct bn_chat_call){bn_json_text_of(c, "name"), bn_json_get(c, "arguments")};
    }
}

static bn_status answer_prompt(const bn_json *request, bn_template tmpl, bn_json *answer, bn_error *err)
{
    static struct turns t;
    const bn_json *messages = bn_json_get(request, "messages");
    const struct bn_conversation c = {t.list, bn_json_size(messages), bn_json_get(request, "tools")};
    char *text;
    size_t n;
    read_turns(&t, messages);
    BN_TRY(bn_chat_render(tmpl, &c, &text, &n, err));
    bn_json_put_string(answer, "text", text);
    bn_free(text);
    return BN_OK;
}

/* ---- answers ---- */

/* The parts of an answer; pieces of the same kind are one. */
struct parts {
    bn_json *list;
    struct bn_buf text; /* of the last one, which is not in the list yet */
    int kind;
};

static void put_part(struct parts *p, int kind, const char *name, const char *text)
{
    bn_json *part = bn_json_put_array(p->list, NULL);
    bn_json_add_u64(part, (uint64_t)kind);
    bn_json_add_string(part, name);
    bn_json_add_string(part, text);
}

static void end_part(struct parts *p)
{
    if (p->text.len > 0) put_part(p, p->kind, NULL, p->text.data);
    p->text.len = 0;
}

static void take_part(void *user, enum bn_chat_part kind, const char *name, const char *text, size_t n_bytes)
{
    struct parts *p = user;
    if (strlen(text) != n_bytes) abort();
    if (p->kind != (int)kind || kind == BN_CHAT_CALL) end_part(p);
    p->kind = (int)kind;
    if (kind == BN_CHAT_CALL)
        put_part(p, BN_CHAT_CALL, name, text);
    else
        bn_buf_append(&p->text, text, n_bytes);
}

/* Reads a text in a first piece and then others. */
static bn_json *read_text(const bn_json *request, bn_template tmpl, const char *text, size_t first,
                          size_t piece)
{
    struct parts parts = {.list = bn_json_new_array(), .text.max = 1 << 20};
    struct bn_chat_reader reader = {
        .tmpl = tmpl, .tools = bn_json_get(request, "tools"), .on_part = take_part, .user = &parts};
    for (size_t at = 0, n, length = strlen(text); at < length; at += n) {
        n = bn_min_size(at == 0 ? first : piece, length - at);
        bn_chat_read(&reader, text + at, n);
    }
    bn_chat_read_end(&reader);
    end_part(&parts);
    bn_buf_release(&parts.text);
    return parts.list;
}

/* Any splitting gives the same parts: byte by byte, and, for texts that are not long, all in two. */
static bn_status answer_text(const bn_json *request, bn_template tmpl, const char *text, bn_json *answer,
                             bn_error *err)
{
    size_t n = strlen(text);
    bn_json *whole = read_text(request, tmpl, text, n, n);
    char want[BN_SHA256_HEX], got[BN_SHA256_HEX];
    bn_status status = bn_json_digest(whole, want, err);
    for (size_t first = 1; first < (n < 500 ? n : 2) && status == BN_OK; first++) {
        bn_json *parts = read_text(request, tmpl, text, first, first == 1 ? 1 : n);
        status = bn_json_digest(parts, got, err);
        if (status == BN_OK && strcmp(got, want) != 0)
            status = bn_fail(err, BN_ERR_FORMAT, "other parts when it is split at %zu", first);
        bn_json_free(parts);
    }
    bn_json_put_string(answer, "text", text);
    bn_json_put_copy(answer, "parts", whole);
    bn_json_free(whole);
    return status;
}

static uint32_t next_random(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) * below >> 31);
}

/* A text of the grammar. What ends the parts of an answer is often tried; after many bytes the answer is given up. */
static bool sample(struct bn_matcher *m, uint64_t seed, struct bn_buf *text)
{
    static const char *const ENDS[] = {"<tool_call>", "</think>", "\n</parameter>", "\n", "\"", "]",
                                       "}",           ","};
    while (!bn_matcher_is_complete(m) && text->len < 4000) {
        uint32_t choice = next_random(&seed, 24);
        if (choice == 0 && bn_matcher_accepts(m)) break;
        const char *end = choice < BN_ARRAY_LEN(ENDS) ? ENDS[choice] : "";
        if (end[0] != '\0' && bn_matcher_take_bytes(m, end, strlen(end))) {
            bn_buf_puts(text, end);
            continue;
        }
        char bytes[256];
        uint32_t n = 0;
        for (int32_t b = choice == 9 ? 1 : ' '; b < (choice == 9 ? 128 : 127); b++) /* seldom others */
            if (bn_matcher_allows(m, b)) bytes[n++] = (char)b;
        if (n == 0 && bn_matcher_allows(m, '\n')) bytes[n++] = '\n';
        if (n == 0) return false;
        char byte = bytes[next_random(&seed, n)];
        bn_buf_putc(text, byte);
        if (!bn_matcher_take_bytes(m, &byte, 1)) return false;
    }
    return bn_matcher_accepts(m);
}

static bn_status answer_form(const bn_json *request, bn_template tmpl, bn_json *answer, bn_error *err)
{
    static struct maker maker;
    const bn_json *form = bn_json_get(request, "form");
    struct bn_chat_form f = {.tools = bn_json_get(request, "tools"),
                             .required = bn_json_flag_of(form, "required"),
                             .single = bn_json_flag_of(form, "single")};
    struct bn_buf gbnf = {.max = BN_GRAMMAR_MAX_GBNF}, text = {.max = 1 << 20};
    struct bn_matcher *m = NULL;
    bn_grammar *g = NULL;
    const char *prefix;
    (void)bn_json_string(bn_json_get(form, "only"), &f.only);
    if (bn_json_string(bn_json_get(form, "schema"), &f.schema)) f.n_schema = strlen(f.schema);
    if (maker.tok == NULL) {
        maker = maker_gpt2();
        BN_TRY(maker_open(&maker, "qwen3"));
    }
    bn_status status = bn_chat_grammar(&gbnf, tmpl, &f, err);
    if (status == BN_OK) status = bn_grammar_open_gbnf(&g, bn_buf_text(&gbnf), gbnf.len, err);
    if (status == BN_OK)
        status = bn_matcher_open(&m, g, maker.tok, bn_tokenizer_n_vocab(maker.tok), NULL, 0, err);
    if (status == BN_OK && bn_json_string(bn_json_get(request, "prefix"), &prefix)) {
        bool may = prefix[0] == '\0' || bn_matcher_take_bytes(m, prefix, strlen(prefix));
        bn_json_put_u64(answer, "match", !may ? 0 : bn_matcher_accepts(m) ? 2 : 1);
    } else if (status == BN_OK && sample(m, bn_json_count_of(request, "seed"), &text)) {
        status = answer_text(request, tmpl, bn_buf_text(&text), answer, err);
    }
    bn_matcher_close(m);
    bn_grammar_close(g);
    bn_buf_release(&gbnf);
    bn_buf_release(&text);
    return status;
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;) {
        struct bn_buf out = {.max = BN_JSON_MAX_BYTES};
        bn_json *request = NULL, *answer = bn_json_new_object();
        bn_template tmpl = BN_TEMPLATE_AUTO;
        bn_error err = {0};
        bn_status status = bn_json_parse(&request, line, (size_t)n, &err);
        (void)bn_template_from_name(bn_json_text_of(request, "template"), &tmpl);
        const char *text;
        if (status == BN_OK && bn_json_get(request, "messages") != NULL)
            status = answer_prompt(request, tmpl, answer, &err);
        else if (status == BN_OK && bn_json_string(bn_json_get(request, "answer"), &text))
            status = answer_text(request, tmpl, text, answer, &err);
        else if (status == BN_OK)
            status = answer_form(request, tmpl, answer, &err);
        if (status != BN_OK) bn_json_put_string(answer, "error", err.msg);
        if (bn_json_write_line(answer, true, &out, NULL) != BN_OK) return 1;
        fputs(out.data, stdout);
        bn_buf_release(&out);
        bn_json_free(request);
        bn_json_free(answer);
    }
    free(line);
    return 0;
}

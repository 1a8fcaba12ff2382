/* SPDX-License-Identifier: MIT
 *
 * Two bytes, which choose a template and a form, then functions as JSON, then, after a NUL, any bytes as an answer. Functions
 * give a prompt; when their grammar is written, it parses. An answer has the same parts in pieces of any size.
 */
#include "tests/fuzz/fuzz.h"

#include "grammar/grammar.h"
#include "tokenizer/chat.h"

#define MOST ((size_t)1 << 24)

static void write_grammar(bn_template tmpl, unsigned flags, const bn_json *tools)
{
    const struct bn_chat_form form = {.tools = tools,
                                      .required = (flags & 1) != 0,
                                      .single = (flags & 2) != 0,
                                      .only = (flags & 4) != 0 ? "f" : NULL};
    struct bn_buf gbnf = {.max = BN_GRAMMAR_MAX_GBNF};
    bn_grammar *g = NULL;
    if (succeeds(bn_chat_grammar(&gbnf, tmpl, &form, &err))) {
        /* As with any schema, but for a class of a pattern that excludes all characters. */
        bool opened = succeeds(bn_grammar_open_gbnf(&g, gbnf.data, gbnf.len, &err));
        hold(opened || strncmp(err.msg, "line ", 5) != 0 || strstr(err.msg, "class") != NULL);
    }
    bn_grammar_close(g);
    bn_buf_release(&gbnf);
}

static void write_prompt(bn_template tmpl, const bn_json *tools, const char *text)
{
    bn_json *none = bn_json_new_object();
    const bn_json *first = bn_json_first(tools);
    const struct bn_chat_call call = {"f", bn_json_kind(first) == BN_JSON_OBJECT ? first : none};
    const struct bn_chat_turn turns[] = {{.role = "user", .content = text},
                                         {.role = "assistant", .content = text, .calls = &call, .n_calls = 1},
                                         {.role = "tool", .content = text}};
    const struct bn_conversation c = {turns, 3, tools};
    char *prompt = NULL;
    size_t n;
    hold(bn_chat_render(tmpl, &c, &prompt, &n, NULL) == BN_OK && strlen(prompt) == n);
    bn_free(prompt);
    bn_json_free(none);
}

/* The parts, each begun by a byte; pieces of the same kind are one. */
struct parts {
    struct bn_buf text;
    int last;
};

static void take_part(void *user, enum bn_chat_part part, const char *name, const char *text, size_t n_bytes)
{
    struct parts *p = user;
    hold(n_bytes > 0 && text[n_bytes] == '\0' && (name != NULL) == (part == BN_CHAT_CALL));
    if (part == BN_CHAT_CALL || p->last != (int)part)
        bn_buf_printf(&p->text, "\1%d%s", part, name != NULL ? name : "");
    bn_buf_append(&p->text, text, n_bytes);
    p->last = (int)part;
    hold(part != BN_CHAT_CALL || text[0] == '{');
}

static void read_in_pieces(struct parts *p, bn_template tmpl, const bn_json *tools, const char *text,
                           size_t n, size_t piece)
{
    struct bn_chat_reader reader = {.tmpl = tmpl, .tools = tools, .on_part = take_part, .user = p};
    *p = (struct parts){.text.max = MOST, .last = -1};
    for (size_t at = 0; at < n; at += piece)
        bn_chat_read(&reader, text + at, piece < n - at ? piece : n - at);
    bn_chat_read_end(&reader);
    bn_buf_puts(&p->text, "");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    bn_template tmpl = (bn_template)(1 + data[0] % (BN_TEMPLATE_COUNT - 1));
    const char *source = (const char *)data + 2, *nul = memchr(source, '\0', size - 2);
    size_t n = nul != NULL ? (size_t)(nul - source) : size - 2, n_answer = nul != NULL ? size - 3 - n : 0;
    struct parts whole, pieces;
    bn_json *tools = NULL;
    if (bn_json_parse(&tools, source, n, NULL) == BN_OK) {
        char *text = bn_strndup(source + n, n_answer > 0 ? 1 + n_answer : 0);
        write_grammar(tmpl, data[1], tools);
        write_prompt(tmpl, tools, text + (n_answer > 0));
        bn_free(text);
    }
    read_in_pieces(&whole, tmpl, tools, n_answer > 0 ? nul + 1 : source, n_answer > 0 ? n_answer : n,
                   SIZE_MAX / 2);
    for (size_t piece = 1; piece <= 3; piece++) {
        read_in_pieces(&pieces, tmpl, tools, n_answer > 0 ? nul + 1 : source, n_answer > 0 ? n_answer : n,
                       piece);
        hold(pieces.text.len == whole.text.len &&
             memcmp(pieces.text.data, whole.text.data, whole.text.len) == 0);
        bn_buf_release(&pieces.text);
    }
    bn_buf_release(&whole.text);
    bn_json_free(tools);
    return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * The members that requests of bn-run and bn-serve share: numbers with their ranges, messages, and the grammar, a text of GBNF or a
 * JSON Schema. A schema that is part of a request is written again with its members in their order, which is the order
 * of the members of the answer.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "grammar/grammar.h"
#include "tools/cli/batch/lanes.h"

bool bn_request_number(bn_generation *gen, const bn_json *member, bn_status *status, bn_error *err)
{
    const struct {
        const char *name;
        double least, most;
        uint32_t *whole; /* or one of the next two */
        float *number;
        uint64_t *large;
    } NUMBERS[] = {
        {"n_predict", 1, 1u << 24, .whole = &gen->n_predict},
        {"temperature", 0, 100, .number = &gen->sampling.temperature},
        {"top_k", 0, 1u << 20, .whole = &gen->sampling.top_k},
        {"top_p", 0, 1, .number = &gen->sampling.top_p},
        {"min_p", 0, 1, .number = &gen->sampling.min_p},
        {"repeat_penalty", 1, 100, .number = &gen->sampling.repeat_penalty},
        {"seed", 0, 9007199254740991, .large = &gen->sampling.seed},
    };
    size_t i = 0;
    double value;
    while (i < BN_ARRAY_LEN(NUMBERS) && strcmp(bn_json_name(member), NUMBERS[i].name) != 0)
        i++;
    if (i == BN_ARRAY_LEN(NUMBERS)) return false;
    bool whole = NUMBERS[i].number == NULL;
    if (!bn_json_number(member, &value) || value < NUMBERS[i].least || value > NUMBERS[i].most ||
        (whole && value != floor(value)))
        *status = bn_fail(err, BN_ERR_FORMAT, "%s is not a%s number from %.0f to %.0f", NUMBERS[i].name,
                          whole ? " whole" : "", NUMBERS[i].least, NUMBERS[i].most);
    else if (NUMBERS[i].whole != NULL)
        *NUMBERS[i].whole = (uint32_t)value;
    else if (NUMBERS[i].number != NULL)
        *NUMBERS[i].number = (float)value;
    else
        *NUMBERS[i].large = (uint64_t)value;
    return true;
}

bn_status bn_request_schema(bn_grammar **out, const bn_json *schema, bn_error *err)
{
    struct bn_buf text = {.max = 4 * BN_GRAMMAR_MAX_BYTES};
    bn_status status = bn_json_write(schema, false, &text, err);
    if (status == BN_OK) status = bn_grammar_open_json_schema(out, bn_buf_text(&text), text.len, err);
    bn_buf_release(&text);
    return status;
}

bool bn_request_grammar(bn_grammar **out, const bn_json *member, bn_status *status, bn_error *err)
{
    const char *name = bn_json_name(member), *text;
    bool is_schema = strcmp(name, "json_schema") == 0;
    if (!is_schema && strcmp(name, "grammar") != 0) return false;
    if (*out != NULL)
        *status = bn_fail(err, BN_ERR_ARG, "grammar and json_schema are given, one is allowed");
    else if (is_schema)
        *status = bn_request_schema(out, member, err);
    else if (bn_json_string(member, &text))
        *status = bn_grammar_open_gbnf(out, text, strlen(text), err);
    else
        *status = bn_fail(err, BN_ERR_FORMAT, "grammar is not a text");
    return true;
}

/* ---- messages ---- */

#define MAX_MESSAGES 1024u

/* The content of a message: a text, or parts that are texts. */
static bn_status take_content(struct bn_buf *out, const bn_json *content, bn_error *err)
{
    const char *text = "";
    bool is_text = content == NULL || bn_json_kind(content) == BN_JSON_NULL || bn_json_string(content, &text);
    if (!is_text && bn_json_kind(content) != BN_JSON_ARRAY)
        return bn_fail(err, BN_ERR_FORMAT, "messages has a content that is not text");
    bn_buf_puts(out, text);
    for (const bn_json *part = is_text ? NULL : bn_json_first(content); part != NULL;
         part = bn_json_next(part)) {
        if (!bn_json_text_is(part, "type", "text") || !bn_json_string(bn_json_get(part, "text"), &text))
            return bn_fail(err, BN_ERR_FORMAT, "messages has a content that is not text");
        bn_buf_puts(out, text);
    }
    bn_buf_append(out, "", 1);
    return bn_buf_check(out, err);
}

static bn_status take_role(bn_message *out, const bn_json *message, bn_error *err)
{
    static const char *const ROLES[] = {"system", "user", "assistant"};
    const char *role = bn_json_text_of(message, "role");
    const bn_json *calls = bn_json_get(message, "tool_calls");
    if (calls != NULL && bn_json_kind(calls) != BN_JSON_NULL)
        return bn_fail(err, BN_ERR_FORMAT, "messages has tool_calls, which are not supported");
    if (strcmp(role, "developer") == 0) role = "system";
    for (size_t i = 0; i < BN_ARRAY_LEN(ROLES); i++)
        if (strcmp(role, ROLES[i]) == 0) out->role = ROLES[i];
    if (out->role != NULL) return BN_OK;
    return bn_fail(err, BN_ERR_FORMAT,
                   "messages has a role other than system, developer, user and assistant");
}

bn_status bn_request_messages(struct bn_prompt *prompt, const bn_json *list, bn_template tmpl,
                              const bn_tokenizer *tok, bn_error *err)
{
    size_t n = list != NULL && bn_json_kind(list) == BN_JSON_ARRAY ? bn_json_size(list) : 0, i = 0;
    if (n == 0 || n > MAX_MESSAGES)
        return bn_fail(err, BN_ERR_FORMAT, "messages is not a list of 1 to %u messages", MAX_MESSAGES);
    bn_message *messages = bn_alloc(n, sizeof *messages);
    size_t *at = bn_alloc(n, sizeof *at);
    struct bn_buf texts = {.max = BN_JSON_MAX_BYTES + n};
    bn_status status = messages != NULL && at != NULL ? BN_OK : bn_nomem(err);
    for (const bn_json *m = bn_json_first(list); m != NULL && status == BN_OK; m = bn_json_next(m), i++) {
        at[i] = texts.len;
        status = take_role(&messages[i], m, err);
        if (status == BN_OK) status = take_content(&texts, bn_json_get(m, "content"), err);
    }
    for (i = 0; i < n && status == BN_OK; i++)
        messages[i].content = texts.data + at[i];
    if (status == BN_OK) status = bn_request_render(prompt, messages, n, tmpl, tok, err);
    bn_buf_release(&texts);
    bn_free(messages);
    bn_free(at);
    return status;
}

bn_status bn_request_render(struct bn_prompt *prompt, const bn_message *messages, size_t n, bn_template tmpl,
                            const bn_tokenizer *tok, bn_error *err)
{
    BN_TRY(bn_template_render(tmpl, messages, n, &prompt->text, &prompt->n_bytes, err));
    return bn_template_encode(tmpl, tok, messages, n, &prompt->ids, &prompt->n_ids, err);
}

const char *bn_request_stuck(const bn_generation *gen)
{
    if (gen->stuck == BN_ERR_NOMEM) return "out of memory";
    return gen->stuck == BN_ERR_LIMIT ? "the grammar is over a limit of places, states or steps"
                                      : "no token continues the text under the grammar";
}

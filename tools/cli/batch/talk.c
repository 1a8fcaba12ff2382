/* SPDX-License-Identifier: MIT
 *
 * Reads messages and functions. No text of a request is markup: what it spells is encoded as text (tokenizer/chat.c).
 */
#include "tools/cli/batch/talk.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

void bn_talk_release(struct bn_talk *talk)
{
    for (size_t i = 0; i < talk->n_turns; i++)
        bn_free((void *)(uintptr_t)talk->turns[i].calls);
    bn_free(talk->turns);
    bn_json_free(talk->texts);
    bn_json_free(talk->tools);
    *talk = (struct bn_talk){0};
}

bn_json *bn_talk_own(struct bn_talk *talk)
{
    if (talk->texts == NULL) talk->texts = bn_json_new_array();
    return talk->texts;
}

bn_status bn_talk_add(struct bn_talk *talk, const char *role, struct bn_chat_turn **out, bn_error *err)
{
    static const char *const ROLES[] = {"system", "user", "assistant", "tool"};
    size_t i = BN_FIND(ROLES, strcmp(role, "developer") == 0 ? "system" : role);
    if (i == BN_ARRAY_LEN(ROLES))
        return bn_fail(err, BN_ERR_FORMAT,
                       "a message has a role other than system, developer, user, assistant and tool");
    if (talk->n_turns == BN_TALK_MAX_TURNS)
        return bn_fail(err, BN_ERR_FORMAT, "messages is not a list of 1 to %u messages", BN_TALK_MAX_TURNS);
    BN_TRY(bn_array_grow(&talk->turns, &talk->room, talk->n_turns + 1, sizeof *talk->turns, err));
    *out = &talk->turns[talk->n_turns++];
    **out = (struct bn_chat_turn){.role = ROLES[i], .content = ""};
    return BN_OK;
}

static bn_status keep_text(struct bn_talk *talk, const struct bn_buf *text, const char **out, bn_error *err)
{
    BN_TRY(bn_buf_check(text, err));
    bn_json *kept = bn_json_put_new(bn_talk_own(talk), NULL, BN_JSON_ARRAY);
    bn_json_add_string(kept, bn_buf_text(text));
    return bn_json_string(bn_json_first(kept), out) ? BN_OK : bn_nomem(err);
}

/* A part of a content. */
static bn_status put_part(struct bn_buf *out, const bn_json *part, const char *const *types, bn_error *err)
{
    const char *type = bn_json_text_of(part, "type"), *text;
    while (*types != NULL && strcmp(type, *types) != 0)
        types++;
    if (*types == NULL && (strstr(type, "image") != NULL || strstr(type, "audio") != NULL ||
                           strstr(type, "file") != NULL || strstr(type, "document") != NULL))
        return bn_fail(err, BN_ERR_FORMAT, "a message has a part of type %.40s; this model reads text only",
                       type);
    if (*types == NULL || !bn_json_string(bn_json_get(part, "text"), &text))
        return bn_fail(err, BN_ERR_FORMAT, "a message has a content that is not text");
    bn_buf_puts(out, text);
    return BN_OK;
}

bn_status bn_talk_text(struct bn_talk *talk, const bn_json *content, const char *const *types,
                       const char **out, bn_error *err)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    bn_status status = BN_OK;
    *out = "";
    if (content == NULL || bn_json_kind(content) == BN_JSON_NULL || bn_json_string(content, out))
        return BN_OK;
    if (bn_json_kind(content) != BN_JSON_ARRAY)
        return bn_fail(err, BN_ERR_FORMAT, "a message has a content that is not text");
    for (const bn_json *part = bn_json_first(content); part != NULL && status == BN_OK;
         part = bn_json_next(part))
        status = put_part(&text, part, types, err);
    if (status == BN_OK) status = keep_text(talk, &text, out, err);
    bn_buf_release(&text);
    return status;
}

bn_status bn_talk_call(struct bn_talk *talk, struct bn_chat_turn *turn, const char *name,
                       const bn_json *arguments, bn_error *err)
{
    struct bn_chat_call *calls = (struct bn_chat_call *)(uintptr_t)turn->calls;
    bn_json *parsed = NULL;
    const char *text;
    if (name[0] == '\0') return bn_fail(err, BN_ERR_FORMAT, "a message has a call without a name");
    if (bn_json_string(arguments, &text)) {
        if (text[0] == '\0') text = "{}";
        if (bn_talk_own(talk) == NULL) return bn_nomem(err);
        BN_TRY(bn_json_parse(&parsed, text, strlen(text), err));
        arguments = bn_json_append(talk->texts, parsed);
    }
    if (bn_json_kind(arguments) != BN_JSON_OBJECT)
        return bn_fail(err, BN_ERR_FORMAT, "a message has a call whose arguments are not an object");
    if (turn->n_calls == BN_TALK_MAX_CALLS)
        return bn_fail(err, BN_ERR_FORMAT, "a message has more than %u calls", BN_TALK_MAX_CALLS);
    if (calls == NULL) calls = bn_alloc(BN_TALK_MAX_CALLS, sizeof *calls);
    if (calls == NULL) return bn_nomem(err);
    turn->calls = calls;
    calls[turn->n_calls++] = (struct bn_chat_call){name, arguments};
    return BN_OK;
}

bn_status bn_talk_tool(struct bn_talk *talk, const char *name, const bn_json *description,
                       const bn_json *parameters, bn_error *err)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
    if (n == 0 || n > 64 || name[n] != '\0')
        return bn_fail(err, BN_ERR_FORMAT,
                       "tools has a name that is not 1 to 64 letters, digits, '_', '-' or '.'");
    if (talk->tools == NULL) talk->tools = bn_json_new_array();
    if (bn_json_size(talk->tools) == BN_TALK_MAX_TOOLS)
        return bn_fail(err, BN_ERR_FORMAT, "tools has more than %u functions", BN_TALK_MAX_TOOLS);
    bn_json *tool = bn_json_add_object(talk->tools);
    bn_json_put_string(tool, "type", "function");
    bn_json *function = bn_json_put_object(tool, "function");
    bn_json_put_string(function, "name", name);
    if (description != NULL) bn_json_put_copy(function, "description", description);
    if (parameters != NULL) bn_json_put_copy(function, "parameters", parameters);
    return bn_json_is_complete(talk->tools) ? BN_OK : bn_nomem(err);
}

/* ---- OpenAI's form ---- */

static bn_status add_message(struct bn_talk *talk, const bn_json *message, bn_error *err)
{
    static const char *const TYPES[] = {"text", NULL};
    struct bn_chat_turn *turn = NULL;
    const bn_json *calls = bn_json_get(message, "tool_calls");
    const char *thoughts;
    BN_TRY(bn_talk_add(talk, bn_json_text_of(message, "role"), &turn, err));
    BN_TRY(bn_talk_text(talk, bn_json_get(message, "content"), TYPES, &turn->content, err));
    if (bn_json_string(bn_json_get(message, "reasoning_content"), &thoughts)) turn->thoughts = thoughts;
    if (calls == NULL || bn_json_kind(calls) == BN_JSON_NULL) return BN_OK;
    if (strcmp(turn->role, "assistant") != 0 || bn_json_kind(calls) != BN_JSON_ARRAY)
        return bn_fail(err, BN_ERR_FORMAT, "a message has tool_calls that are not a list of an assistant");
    for (const bn_json *call = bn_json_first(calls); call != NULL; call = bn_json_next(call))
        BN_TRY(bn_talk_call(talk, turn, bn_json_text_of(call, "function.name"),
                            bn_json_path(call, "function.arguments"), err));
    return BN_OK;
}

bn_status bn_talk_messages(struct bn_talk *talk, const bn_json *list, bn_error *err)
{
    if (list == NULL || bn_json_kind(list) != BN_JSON_ARRAY || bn_json_size(list) == 0)
        return bn_fail(err, BN_ERR_FORMAT, "messages is not a list of 1 to %u messages", BN_TALK_MAX_TURNS);
    for (const bn_json *m = bn_json_first(list); m != NULL; m = bn_json_next(m))
        BN_TRY(add_message(talk, m, err));
    return BN_OK;
}

bn_status bn_talk_tools(struct bn_talk *talk, const bn_json *list, bn_error *err)
{
    if (bn_json_kind(list) != BN_JSON_ARRAY) return bn_fail(err, BN_ERR_FORMAT, "tools is not a list");
    for (const bn_json *tool = bn_json_first(list); tool != NULL; tool = bn_json_next(tool)) {
        const bn_json *function = bn_json_get(tool, "function");
        if (!bn_json_text_is(tool, "type", "function"))
            return bn_fail(err, BN_ERR_FORMAT, "tools has the type \"%.40s\"; there are functions only",
                           bn_json_text_of(tool, "type"));
        if (function == NULL) function = tool;
        BN_TRY(bn_talk_tool(talk, bn_json_text_of(function, "name"), bn_json_get(function, "description"),
                            bn_json_get(function, "parameters"), err));
    }
    return BN_OK;
}

/* ---- the prompt ---- */

size_t bn_talk_n_system(const struct bn_talk *talk)
{
    size_t n = 0;
    while (n < talk->n_turns && strcmp(talk->turns[n].role, "system") == 0)
        n++;
    return n;
}

size_t bn_talk_oldest(const struct bn_talk *talk, size_t after)
{
    size_t first = bn_talk_n_system(talk) + after, n = 1;
    while (first + n < talk->n_turns && strcmp(talk->turns[first + n].role, "user") != 0)
        n++;
    return first + n < talk->n_turns ? n : 0;
}

bn_status bn_talk_render(struct bn_prompt *prompt, const struct bn_talk *talk, size_t dropped,
                         bn_template tmpl, const bn_tokenizer *tok, bn_error *err)
{
    size_t n = bn_talk_n_system(talk), n_left = talk->n_turns - dropped;
    struct bn_chat_turn *turns = bn_alloc(n_left + 1, sizeof *turns);
    if (turns == NULL) return bn_nomem(err);
    for (size_t i = 0; i < n_left; i++)
        turns[i] = talk->turns[i < n ? i : i + dropped];
    const struct bn_conversation c = {turns, n_left, talk->tools};
    bn_status status = bn_chat_render(tmpl, &c, &prompt->text, &prompt->n_bytes, err);
    if (status == BN_OK) status = bn_chat_encode(tmpl, tok, &c, &prompt->ids, &prompt->n_ids, err);
    bn_free(turns);
    return status;
}

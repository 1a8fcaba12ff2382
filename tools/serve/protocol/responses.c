/* SPDX-License-Identifier: MIT
 *
 * OpenAI's /v1/responses: a conversation as items, and answers as items. A part of an answer is one item: a message, thoughts
 * or a call of a function. A response is kept with its conversation (conversations.c), so that a request can go on with it.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "tools/serve/job.h"

/* What a response repeats of its request, with what stands there when the request does not have it. */
static const char REPEATED[] =
    "{\"background\":false,\"instructions\":null,\"max_output_tokens\":null,\"metadata\":{},"
    "\"parallel_tool_calls\":true,\"previous_response_id\":null,\"reasoning\":{\"effort\":null,\"summary\":null},"
    "\"store\":true,\"temperature\":1,\"text\":{\"format\":{\"type\":\"text\"}},\"tool_choice\":\"auto\","
    "\"tools\":[],\"top_p\":1,\"truncation\":\"disabled\",\"user\":null}";

/* The names of a kind of part: before ids, of its item, and of its text. */
static const struct form {
    const char *prefix, *item, *text;
} FORMS[] = {
    [BN_CHAT_TEXT] = {"msg", "message", "output_text"},
    [BN_CHAT_THOUGHT] = {"rs", "reasoning", "reasoning_text"},
    [BN_CHAT_CALL] = {"fc", "function_call", "function_call_arguments"},
};

/* ---- the conversation ---- */

/* Keeps of an item what add_item reads, so that a later request can go on with it. */
static bn_status keep_item(struct bn_job *job, const bn_json *item, const char *member, const char *text,
                           bn_error *err)
{
    static const char *const TEXTS[] = {"type", "role", "name"};
    bn_json *kept = bn_json_new_object();
    for (size_t i = 0; i < BN_ARRAY_LEN(TEXTS); i++)
        if (bn_json_text_of(item, TEXTS[i])[0] != '\0')
            bn_json_put_string(kept, TEXTS[i], bn_json_text_of(item, TEXTS[i]));
    if (text != NULL)
        bn_json_put_string(kept, member, text);
    else
        bn_json_put_copy(kept, member, bn_json_get(item, member));
    bn_buf_putc(&job->items, job->items.len > 0 ? ',' : '[');
    bn_status status = bn_json_write(kept, true, &job->items, err);
    bn_json_free(kept);
    return status;
}

/* Thoughts, a message and calls that come after each other are one turn of the assistant. */
static bn_status add_item(struct bn_ask *ask, const bn_json *item, bn_error *err)
{
    static const char *const TEXTS[] = {"input_text", "output_text", "text", "reasoning_text", NULL};
    struct bn_talk *talk = &ask->talk;
    struct bn_chat_turn *turn = talk->n_turns > 0 ? &talk->turns[talk->n_turns - 1] : NULL;
    const char *type = bn_json_text_of(item, "type"), *role = "assistant";
    bool is_message = type[0] == '\0' || strcmp(type, "message") == 0;
    bool is_result = strcmp(type, "function_call_output") == 0;
    bool is_call = strcmp(type, "function_call") == 0, is_thought = strcmp(type, "reasoning") == 0;
    if (!is_message && !is_result && !is_call && !is_thought)
        return bn_fail(err, BN_ERR_FORMAT, "input has an item of the type \"%.40s\", which is not supported",
                       type);
    if (is_message || is_result) role = is_result ? "tool" : bn_json_text_of(item, "role");
    bool goes_on = turn != NULL && strcmp(turn->role, "assistant") == 0 && strcmp(role, "assistant") == 0 &&
                   (is_call || (is_message && turn->content[0] == '\0' && turn->n_calls == 0));
    if (!goes_on) BN_TRY(bn_talk_add(talk, role, &turn, err));
    if (is_call) {
        BN_TRY(bn_talk_call(talk, turn, bn_json_text_of(item, "name"), bn_json_get(item, "arguments"), err));
        return keep_item(ask->job, item, "arguments", NULL, err);
    }
    const char **text = is_thought ? &turn->thoughts : &turn->content;
    const char *member = is_result ? "output" : "content";
    BN_TRY(bn_talk_text(talk, bn_json_get(item, member), TEXTS, text, err));
    BN_TRY(keep_item(ask->job, item, member, *text, err));
    if (is_thought && turn->thoughts[0] == '\0') turn->thoughts = NULL; /* they are encrypted */
    return BN_OK;
}

static bool add_items(struct bn_ask *ask, const bn_json *items)
{
    bn_error err = {0};
    bn_status status = BN_OK;
    for (const bn_json *m = bn_json_first(items); m != NULL && status == BN_OK; m = bn_json_next(m))
        status = add_item(ask, m, &err);
    return bn_ask_check(ask, "input", status, &err);
}

/* The items of the response that this one goes on with: as large as a body may be. */
static bool take_previous(struct bn_ask *ask, bn_json *own)
{
    static const char NAME[] = "previous_response_id";
    struct bn_buf text = {.max = (size_t)ask->server->o->max_body_bytes};
    bn_json *items = NULL;
    bn_error err = {0};
    if (bn_serve_member(ask->body, NAME) == NULL) return true;
    if (!bn_conversation_find(ask->server, bn_json_text_of(ask->body, NAME), ask->job->tenant, &text))
        return bn_reply_error(ask->reply, 404, NAME, "previous_response_not_found", BN_SERVE_NO_RESPONSE);
    bn_status status =
        text.full ? bn_fail(&err, BN_ERR_LIMIT, "%s names a conversation of more than %zu bytes (--max-body)",
                            NAME, text.max)
                  : bn_buf_check(&text, &err);
    if (status == BN_OK) status = bn_json_parse_within(&items, text.data, text.len, BN_SERVE_MAX_TREE, &err);
    bn_buf_release(&text);
    return bn_ask_check(ask, NAME, status, &err) && add_items(ask, bn_json_append(own, items));
}

/* A text is a message of the user; an item without a type is a message. */
static bool read_input(struct bn_ask *ask)
{
    const bn_json *input = bn_serve_member(ask->body, "input");
    const bn_json *instructions = bn_serve_member(ask->body, "instructions");
    bn_json *own = bn_talk_own(&ask->talk);
    const char *text;
    struct bn_chat_turn *turn = NULL;
    bn_error err = {0};
    if (input == NULL) return bn_ask_refuse(ask, "input", "is missing");
    if (instructions != NULL) {
        if (!bn_json_string(instructions, &text)) return bn_ask_refuse(ask, "instructions", "is not a text");
        if (!bn_ask_check(ask, "input", bn_talk_add(&ask->talk, "system", &turn, &err), &err)) return false;
        turn->content = text;
    }
    ask->job->items.max = BN_JSON_MAX_BYTES;
    if (own == NULL) return bn_reply_no_memory(ask->reply);
    if (!take_previous(ask, own)) return false;
    if (bn_json_string(input, &text)) {
        bn_json *list = bn_json_add_array(own), *message = bn_json_add_object(list);
        BN_PUT(message, BN_STRING("role", "user"), BN_STRING("content", text));
        return bn_json_is_complete(list) ? add_items(ask, list) : bn_reply_no_memory(ask->reply);
    }
    if (bn_json_kind(input) == BN_JSON_ARRAY && bn_json_size(input) > 0) return add_items(ask, input);
    return bn_ask_refuse(ask, "input", "is not a text or a list of items");
}

/* As OpenAI limits it. */
static bool check_metadata(struct bn_ask *ask)
{
    const bn_json *metadata = bn_serve_member(ask->body, "metadata");
    bool good =
        metadata == NULL || (bn_json_kind(metadata) == BN_JSON_OBJECT && bn_json_size(metadata) <= 16);
    const char *text;
    for (const bn_json *m = bn_json_first(metadata); m != NULL && good; m = bn_json_next(m))
        good = bn_json_string(m, &text) && bn_utf8_count(text, strlen(text)) <= 512 &&
               bn_utf8_count(bn_json_name(m), strlen(bn_json_name(m))) <= 64;
    return good || bn_ask_refuse(ask, "metadata",
                                 "is not an object of at most 16 texts of at most 512 characters, with names "
                                 "of at most 64");
}

/* What the response repeats, as a text: a tree takes more memory while the job waits. */
static bool keep_repeated(struct bn_ask *ask)
{
    bn_json *repeated = NULL;
    bn_error err = {0};
    bn_status status = bn_json_parse(&repeated, REPEATED, sizeof REPEATED - 1, &err);
    for (const bn_json *m = bn_json_first(ask->body); m != NULL; m = bn_json_next(m))
        if (bn_json_kind(m) != BN_JSON_NULL && bn_json_get(repeated, bn_json_name(m)) != NULL)
            bn_json_put_copy(repeated, bn_json_name(m), m);
    ask->job->repeated.max = BN_JSON_MAX_BYTES;
    if (status == BN_OK) status = bn_json_write(repeated, true, &ask->job->repeated, &err);
    bn_json_free(repeated);
    return bn_ask_check(ask, NULL, status, &err);
}

static bool read_body(struct bn_ask *ask)
{
    static const char *const UNSUPPORTED[] = {"background", "conversation", "prompt", "top_logprobs"};
    struct bn_job *job = ask->job;
    const bn_json *format = bn_serve_member(bn_json_get(ask->body, "text"), "format");
    const char *effort = bn_json_text_of(ask->body, "reasoning.effort");
    bool store = true;
    job->chat = true;
    ask->subject = "input";
    ask->gen.sampling.temperature = 1.0f;
    ask->truncate = bn_json_text_is(ask->body, "truncation", "auto");
    if (strcmp(effort, "none") == 0 || strcmp(effort, "minimal") == 0) bn_ask_think(ask, false);
    return bn_openai_refuse(ask, UNSUPPORTED, BN_ARRAY_LEN(UNSUPPORTED)) &&
           bn_ask_flag(ask, ask->body, "stream", &job->stream) &&
           bn_ask_flag(ask, ask->body, "store", &store) && bn_ask_sampling(ask, ask->body) &&
           bn_ask_stops(ask, bn_serve_member(ask->body, "stop"), "stop") &&
           bn_ask_whole(ask, ask->body, "max_output_tokens", 1, 1u << 24, &ask->gen.n_predict) &&
           (format == NULL || bn_openai_form(ask, format, "text.format")) && bn_openai_tools(ask) &&
           check_metadata(ask) && keep_repeated(ask) && read_input(ask);
}

/* ---- documents ---- */

static void put_id(bn_json *out, const char *name, const struct bn_job *job,
                   const struct bn_answer_part *part)
{
    char id[BN_SERVE_ID + 32];
    snprintf(id, sizeof id, "%s_%s%zu", FORMS[part->kind].prefix, job->id, part->index);
    bn_json_put_string(out, name, id);
}

static void put_content(bn_json *content, const struct bn_answer_part *part, const char *text)
{
    BN_PUT(content, BN_STRING("type", FORMS[part->kind].text), BN_STRING("text", text));
    if (part->kind != BN_CHAT_TEXT) return;
    (void)bn_json_put_array(content, "annotations");
    (void)bn_json_put_array(content, "logprobs");
}

/* A part as an item; without its content when it begins. */
static void put_item(bn_json *item, const struct bn_choice *c, const struct bn_answer_part *part, bool begins)
{
    bool cut = c->ended && bn_answer_is_cut(c) && part->index + 1 == c->n_parts;
    put_id(item, "id", c->job, part);
    bn_json_put_string(item, "type", FORMS[part->kind].item);
    bn_json_put_string(item, "status", begins ? "in_progress" : cut ? "incomplete" : "completed");
    if (part->kind == BN_CHAT_CALL) {
        BN_PUT(item, BN_STRING("call_id", part->id), BN_STRING("name", bn_buf_text(&part->name)),
               BN_STRING("arguments", begins ? "" : bn_buf_text(&part->text)));
        return;
    }
    bn_json *content = bn_json_put_array(item, "content");
    if (!begins) put_content(bn_json_add_object(content), part, bn_buf_text(&part->text));
    if (part->kind == BN_CHAT_TEXT)
        bn_json_put_string(item, "role", "assistant");
    else
        (void)bn_json_put_array(item, "summary");
}

static bn_json *new_response(const struct bn_job *job, const char *status)
{
    const struct bn_choice *c = &job->choices[0];
    bn_json *d = NULL;
    char id[BN_SERVE_ID + sizeof BN_SERVE_RESPONSE];
    snprintf(id, sizeof id, "%s%s", BN_SERVE_RESPONSE, job->id);
    if (bn_json_parse(&d, job->repeated.data, job->repeated.len, NULL) != BN_OK) return NULL;
    BN_PUT(d, BN_F32("temperature", c->gen.sampling.temperature), BN_F32("top_p", c->gen.sampling.top_p),
           BN_STRING("id", id), BN_STRING("object", "response"), BN_U64("created_at", job->created_s),
           BN_STRING("model", job->engine->id), BN_STRING("status", status), BN_STRING("error", NULL),
           BN_STRING("incomplete_details", NULL), BN_STRING("usage", NULL));
    (void)bn_json_put_array(d, "output");
    return d;
}

/* The response, which is kept when it may be. */
static bn_json *document(struct bn_job *job)
{
    const struct bn_choice *c = &job->choices[0];
    struct bn_usage n = bn_answer_usage(job);
    bool cut = bn_answer_is_cut(c);
    bn_json *d = new_response(job, cut ? "incomplete" : "completed");
    bn_json *output = bn_json_put_array(d, "output"), *usage = bn_json_put_object(d, "usage");
    for (size_t i = 0; i < c->n_parts; i++)
        put_item(bn_json_add_object(output), c, &c->parts[i], false);
    if (cut) bn_json_put_string(bn_json_put_object(d, "incomplete_details"), "reason", "max_output_tokens");
    bn_json_put_u64(usage, "input_tokens", n.n_prompt);
    bn_json_put_u64(bn_json_put_object(usage, "input_tokens_details"), "cached_tokens", n.n_cached);
    bn_json_put_u64(usage, "output_tokens", n.n_generated);
    bn_json_put_u64(bn_json_put_object(usage, "output_tokens_details"), "reasoning_tokens", n.n_thought);
    bn_json_put_u64(usage, "total_tokens", n.n_prompt + n.n_generated);
    bn_answer_put_evidence(d, c);
    bn_answer_put_timings(d, &c->gen);
    if (bn_json_flag_of(d, "store")) bn_conversation_keep(job, d);
    return d;
}

/* ---- events ---- */

static bn_json *new_event(const struct bn_job *job, const char *type)
{
    bn_json *event = bn_json_new_object();
    BN_PUT(event, BN_STRING("type", type), BN_U64("sequence_number", job->n_events));
    return event;
}

/* An event of the whole; takes the response. */
static void send_response(struct bn_job *job, const char *type, bn_json *response)
{
    bn_json *event = new_event(job, type);
    bn_json_put_copy(event, "response", response);
    bn_json_free(response);
    bn_answer_send(job, type, event);
}

static void start(struct bn_job *job)
{
    send_response(job, "response.created", new_response(job, "in_progress"));
    send_response(job, "response.in_progress", new_response(job, "in_progress"));
}

/* An event of a part, "response.WHAT.HOW": its item (text NULL: as it begins), its content, or a text as another member. */
static void send_part(const struct bn_choice *c, const struct bn_answer_part *part, const char *what,
                      const char *how, const char *member, const char *text)
{
    bool is_item = strcmp(member, "item") == 0, is_content = strcmp(member, "part") == 0;
    char type[64];
    snprintf(type, sizeof type, "response.%s.%s", what, how);
    bn_json *event = new_event(c->job, type);
    bn_json_put_u64(event, "output_index", part->index);
    if (!is_item) put_id(event, "item_id", c->job, part);
    if (!is_item && part->kind != BN_CHAT_CALL) bn_json_put_u64(event, "content_index", 0);
    if (is_item)
        put_item(bn_json_put_object(event, member), c, part, text == NULL);
    else if (is_content)
        put_content(bn_json_put_object(event, member), part, text);
    else
        bn_json_put_string(event, member, text);
    if (!is_item && !is_content && part->kind == BN_CHAT_TEXT) (void)bn_json_put_array(event, "logprobs");
    bn_answer_send(c->job, type, event);
}

static void begin_part(struct bn_choice *c, const struct bn_answer_part *part)
{
    send_part(c, part, "output_item", "added", "item", NULL);
    if (part->kind != BN_CHAT_CALL) send_part(c, part, "content_part", "added", "part", "");
}

static void piece(struct bn_choice *c, const struct bn_answer_part *part, const char *text)
{
    send_part(c, part, FORMS[part->kind].text, "delta", "delta", text);
}

static void end_part(struct bn_choice *c, const struct bn_answer_part *part)
{
    const char *text = bn_buf_text(&part->text);
    bool is_call = part->kind == BN_CHAT_CALL;
    send_part(c, part, FORMS[part->kind].text, "done", is_call ? "arguments" : "text", text);
    if (!is_call) send_part(c, part, "content_part", "done", "part", text);
    send_part(c, part, "output_item", "done", "item", text);
}

static void end(struct bn_job *job)
{
    bool cut = bn_answer_is_cut(&job->choices[0]);
    send_response(job, cut ? "response.incomplete" : "response.completed", document(job));
}

static void fail(struct bn_job *job, bn_json *error)
{
    bn_json *event = new_event(job, "error"), *response = new_response(job, "failed");
    bn_json_put_copy(event, "error", bn_json_get(error, "error"));
    bn_json_put_copy(response, "error", bn_json_get(error, "error"));
    bn_json_free(error);
    bn_answer_send(job, "error", event);
    send_response(job, "response.failed", response);
}

const struct bn_protocol bn_openai_responses = {
    .name = "responses",
    .read = read_body,
    .start = start,
    .begin_part = begin_part,
    .piece = piece,
    .end_part = end_part,
    .end = end,
    .fail = fail,
    .document = document,
    .error = bn_openai_error,
};

/* SPDX-License-Identifier: MIT
 *
 * Anthropic's /v1/messages, and /v1/messages/count_tokens. Members that are unknown are ignored; those that would change the
 * answer and are not supported are refused by name.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "tools/serve/job.h"

/* ---- the request ---- */

static const char *const TEXT[] = {"text", NULL};

/* A message whose blocks are being read. */
struct blocks {
    struct bn_talk *talk;
    const char *role;
    struct bn_chat_turn *turn; /* NULL: none was begun */
    bn_json *texts;            /* its blocks of text, and those of a type that is refused with them */
};

static bn_status begin_turn(struct blocks *m, const char *role, bn_error *err)
{
    if (m->turn != NULL) return BN_OK;
    m->texts = bn_json_new_array();
    return bn_talk_add(m->talk, role, &m->turn, err);
}

static bn_status end_turn(struct blocks *m, bn_error *err)
{
    bn_status status = BN_OK;
    if (m->turn != NULL) status = bn_talk_text(m->talk, m->texts, TEXT, &m->turn->content, err);
    bn_json_free(m->texts);
    *m = (struct blocks){.talk = m->talk, .role = m->role};
    return status;
}

/* A result is a message of its own. */
static bn_status add_block(struct blocks *m, const bn_json *block, bn_error *err)
{
    bool is_result = bn_json_text_is(block, "type", "tool_result");
    if (is_result) BN_TRY(end_turn(m, err));
    BN_TRY(begin_turn(m, is_result ? "tool" : m->role, err));
    if (bn_json_text_is(block, "type", "tool_use"))
        return bn_talk_call(m->talk, m->turn, bn_json_text_of(block, "name"), bn_json_get(block, "input"),
                            err);
    if (is_result) {
        BN_TRY(bn_talk_text(m->talk, bn_json_get(block, "content"), TEXT, &m->turn->content, err));
        m->turn = NULL;
        bn_json_free(m->texts);
        m->texts = NULL;
    } else if (bn_json_text_is(block, "type", "thinking")) {
        m->turn->thoughts = bn_json_text_of(block, "thinking");
    } else if (!bn_json_text_is(block, "type", "redacted_thinking")) {
        bn_json_put_copy(m->texts, NULL, block);
    }
    return BN_OK;
}

static bn_status add_message(struct bn_ask *ask, const bn_json *message, bn_error *err)
{
    struct blocks m = {.talk = &ask->talk, .role = bn_json_text_of(message, "role")};
    const bn_json *content = bn_json_get(message, "content");
    bn_status status = BN_OK;
    const char *text;
    bool is_text = bn_json_string(content, &text);
    if (strcmp(m.role, "user") != 0 && strcmp(m.role, "assistant") != 0)
        return bn_fail(err, BN_ERR_FORMAT, "messages has a role other than user and assistant");
    if (!is_text && bn_json_kind(content) != BN_JSON_ARRAY)
        return bn_fail(err, BN_ERR_FORMAT, "messages has a content that is not text");
    if (is_text || bn_json_size(content) == 0) {
        BN_TRY(bn_talk_add(m.talk, m.role, &m.turn, err));
        if (is_text) m.turn->content = text;
        return BN_OK;
    }
    for (const bn_json *b = bn_json_first(content); b != NULL && status == BN_OK; b = bn_json_next(b))
        status = add_block(&m, b, err);
    if (status == BN_OK) return end_turn(&m, err);
    bn_json_free(m.texts);
    return status;
}

static bool read_messages(struct bn_ask *ask)
{
    const bn_json *list = bn_serve_member(ask->body, "messages");
    const bn_json *system = bn_serve_member(ask->body, "system");
    struct bn_chat_turn *turn = NULL;
    bn_error err = {0};
    bn_status status = BN_OK;
    if (bn_json_kind(list) != BN_JSON_ARRAY || bn_json_size(list) == 0)
        return bn_ask_refuse(ask, "messages", "is not a list of messages");
    if (system != NULL) status = bn_talk_add(&ask->talk, "system", &turn, &err);
    if (turn != NULL && status == BN_OK)
        status = bn_talk_text(&ask->talk, system, TEXT, &turn->content, &err);
    for (const bn_json *m = bn_json_first(list); m != NULL && status == BN_OK; m = bn_json_next(m))
        status = add_message(ask, m, &err);
    return bn_ask_check(ask, "messages", status, &err);
}

/* {"type": "auto", "any", "tool" or "none", "name", "disable_parallel_tool_use"} */
static bool read_tools(struct bn_ask *ask)
{
    const bn_json *tools = bn_serve_member(ask->body, "tools");
    const bn_json *choice = bn_serve_member(ask->body, "tool_choice");
    bool one = choice != NULL && bn_json_text_is(choice, "type", "tool");
    bn_error err = {0};
    if (tools != NULL && bn_json_kind(tools) != BN_JSON_ARRAY)
        return bn_ask_refuse(ask, "tools", "is not a list");
    for (const bn_json *tool = bn_json_first(tools); tool != NULL; tool = bn_json_next(tool)) {
        const char *type = bn_json_text_of(tool, "type");
        if (type[0] != '\0' && strcmp(type, "custom") != 0)
            return bn_ask_refuse(ask, "tools",
                                 "has a tool that this server does not run; only functions of the "
                                 "client are supported");
        bn_status status =
            bn_talk_tool(&ask->talk, bn_json_text_of(tool, "name"), bn_json_get(tool, "description"),
                         bn_json_get(tool, "input_schema"), &err);
        if (!bn_ask_check(ask, "tools", status, &err)) return false;
    }
    return bn_ask_choice(ask, choice != NULL ? bn_json_text_of(choice, "type") : "auto",
                         one ? bn_json_text_of(choice, "name") : NULL, "tool_choice") &&
           bn_ask_flag(ask, choice, "disable_parallel_tool_use", &ask->form.single);
}

static bool read_body(struct bn_ask *ask)
{
    const bn_json *thinking = bn_serve_member(ask->body, "thinking");
    ask->job->chat = true;
    ask->gen.sampling.temperature = 1.0f;
    if (thinking != NULL) bn_ask_think(ask, !bn_json_text_is(thinking, "type", "disabled"));
    return bn_ask_whole(ask, ask->body, "max_tokens", 1, 1u << 24, &ask->gen.n_predict) &&
           bn_ask_flag(ask, ask->body, "stream", &ask->job->stream) && bn_ask_sampling(ask, ask->body) &&
           bn_ask_stops(ask, bn_serve_member(ask->body, "stop_sequences"), "stop_sequences") &&
           read_messages(ask) && read_tools(ask);
}

static bool read_message(struct bn_ask *ask)
{
    return (bn_serve_member(ask->body, "max_tokens") != NULL ||
            bn_ask_refuse(ask, "max_tokens", "is missing")) &&
           read_body(ask);
}

/* ---- documents ---- */

/* The stop text of the request that ended the answer: the one that its tokens contain first. NULL: none did. */
static const char *stop_sequence(const struct bn_choice *c)
{
    const struct bn_job *job = c->job;
    const char *first = NULL, *found = NULL;
    char *text = NULL;
    size_t n_bytes;
    if (c->gen.reason != BN_STOP_STRING ||
        bn_detokenize(job->engine->tok, c->gen.ids, c->gen.n_ids, true, &text, &n_bytes, NULL) != BN_OK)
        return NULL;
    for (size_t i = 0; i < job->n_stops; i++) {
        const char *at = strstr(text, job->stops[i]);
        if (at == NULL || (first != NULL && at >= first)) continue;
        first = at;
        found = i < BN_SERVE_MAX_STOPS && job->stops[i] == job->stop_texts[i] ? job->stops[i] : NULL;
    }
    bn_free(text);
    return found;
}

static void put_end(bn_json *out, const struct bn_choice *c)
{
    const char *stop = stop_sequence(c);
    BN_PUT(out,
           BN_STRING("stop_reason", bn_answer_is_cut(c) ? "max_tokens"
                                    : c->n_calls > 0    ? "tool_use"
                                    : stop != NULL      ? "stop_sequence"
                                                        : "end_turn"),
           BN_STRING("stop_sequence", stop));
}

/* Tokens that were cached are not among those of the input. */
static void put_usage(bn_json *out, const struct bn_job *job)
{
    struct bn_usage n = bn_answer_usage(job);
    bn_json *usage = bn_json_put_object(out, "usage");
    BN_PUT(usage, BN_U64("input_tokens", n.n_prompt - n.n_cached), BN_U64("cache_creation_input_tokens", 0),
           BN_U64("cache_read_input_tokens", n.n_cached), BN_U64("output_tokens", n.n_generated));
}

/* A block, whole or as it begins. */
static void put_block(bn_json *block, const struct bn_answer_part *part, bool whole)
{
    static const char *const TYPES[] = {
        [BN_CHAT_TEXT] = "text", [BN_CHAT_THOUGHT] = "thinking", [BN_CHAT_CALL] = "tool_use"};
    const char *type = TYPES[part->kind], *text = whole ? bn_buf_text(&part->text) : "";
    bn_json *input = NULL;
    bn_json_put_string(block, "type", type);
    if (part->kind != BN_CHAT_CALL) bn_json_put_string(block, type, text);
    if (part->kind == BN_CHAT_THOUGHT) bn_json_put_string(block, "signature", "");
    if (part->kind != BN_CHAT_CALL) return;
    BN_PUT(block, BN_STRING("id", part->id), BN_STRING("name", bn_buf_text(&part->name)));
    if (whole && bn_json_parse(&input, text, part->text.len, NULL) == BN_OK)
        bn_json_put_copy(block, "input", input);
    else
        (void)bn_json_put_object(block, "input");
    bn_json_free(input);
}

static bn_json *new_message(bn_json *message, const struct bn_job *job)
{
    char id[BN_SERVE_ID + 4];
    snprintf(id, sizeof id, "msg_%s", job->id);
    BN_PUT(message, BN_STRING("id", id), BN_STRING("type", "message"), BN_STRING("role", "assistant"),
           BN_STRING("model", job->engine->id));
    return bn_json_put_array(message, "content");
}

static bn_json *document(struct bn_job *job)
{
    const struct bn_choice *c = &job->choices[0];
    bn_json *message = bn_json_new_object(), *content = new_message(message, job);
    for (size_t i = 0; i < c->n_parts; i++)
        put_block(bn_json_add_object(content), &c->parts[i], true);
    put_end(message, c);
    put_usage(message, job);
    bn_answer_put_evidence(message, c);
    bn_answer_put_timings(message, &c->gen);
    return message;
}

static bn_json *error_document(unsigned status, const char *param, const char *code, const char *message)
{
    const char *type = status == 413   ? "request_too_large"
                       : status == 503 ? "overloaded_error"
                       : status >= 500 ? "api_error"
                                       : bn_reply_error_type(status);
    bn_json *d = bn_json_new_object();
    bn_json_put_string(d, "type", "error");
    bn_json *error = bn_json_put_object(d, "error");
    BN_PUT(error, BN_STRING("type", type), BN_STRING("message", message), BN_TEXT("param", param),
           BN_TEXT("code", code));
    return d;
}

/* ---- events ---- */

static bn_json *new_event(const char *type)
{
    bn_json *event = bn_json_new_object();
    bn_json_put_string(event, "type", type);
    return event;
}

static void start(struct bn_job *job)
{
    bn_json *event = new_event("message_start"), *message = bn_json_put_object(event, "message");
    (void)new_message(message, job);
    BN_PUT(message, BN_STRING("stop_reason", NULL), BN_STRING("stop_sequence", NULL));
    put_usage(message, job);
    bn_answer_send(job, "message_start", event);
}

static void begin_part(struct bn_choice *c, const struct bn_answer_part *part)
{
    bn_json *event = new_event("content_block_start");
    bn_json_put_u64(event, "index", part->index);
    put_block(bn_json_put_object(event, "content_block"), part, false);
    bn_answer_send(c->job, "content_block_start", event);
}

static void send_piece(struct bn_choice *c, const struct bn_answer_part *part, const char *text)
{
    static const char *const TYPES[][2] = {[BN_CHAT_TEXT] = {"text_delta", "text"},
                                           [BN_CHAT_THOUGHT] = {"thinking_delta", "thinking"},
                                           [BN_CHAT_CALL] = {"input_json_delta", "partial_json"}};
    bn_json *event = new_event("content_block_delta");
    bn_json_put_u64(event, "index", part->index);
    bn_json *delta = bn_json_put_object(event, "delta");
    BN_PUT(delta, BN_STRING("type", TYPES[part->kind][0]), BN_STRING(TYPES[part->kind][1], text));
    bn_answer_send(c->job, "content_block_delta", event);
}

static void end_part(struct bn_choice *c, const struct bn_answer_part *part)
{
    bn_json *event = new_event("content_block_stop");
    bn_json_put_u64(event, "index", part->index);
    bn_answer_send(c->job, "content_block_stop", event);
}

static void end_choice(struct bn_choice *c)
{
    bn_json *event = new_event("message_delta");
    put_end(bn_json_put_object(event, "delta"), c);
    put_usage(event, c->job);
    bn_answer_put_evidence(event, c);
    bn_answer_put_timings(event, &c->gen);
    bn_answer_send(c->job, "message_delta", event);
}

static void end_stream(struct bn_job *job)
{
    bn_answer_send(job, "message_stop", new_event("message_stop"));
}

static void fail(struct bn_job *job, bn_json *error)
{
    bn_answer_send(job, "error", error);
}

const struct bn_protocol bn_anthropic = {
    .name = "messages",
    .read = read_message,
    .start = start,
    .begin_part = begin_part,
    .piece = send_piece,
    .end_part = end_part,
    .end_choice = end_choice,
    .end = end_stream,
    .fail = fail,
    .document = document,
    .error = error_document,
};

/* ---- /v1/messages/count_tokens ---- */

static const struct bn_protocol COUNTING = {
    .name = "count_tokens", .counts = true, .read = read_body, .error = error_document};

void bn_anthropic_count(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply)
{
    struct bn_job *job = NULL;
    if (!bn_job_parse(&job, s, &COUNTING, request, reply)) return;
    bn_json *d = bn_json_new_object();
    bn_json_put_u64(d, "input_tokens", job->prompts[0].n_ids);
    bn_reply_json(reply, d);
    bn_job_drop(job);
}

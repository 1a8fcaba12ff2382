/* SPDX-License-Identifier: MIT
 *
 * OpenAI's /v1/chat/completions, /v1/completions and /v1/embeddings, with the members that llama-server adds. Members that are
 * unknown are ignored, as OpenAI's servers do; those that would change the answer and are not supported are refused by name.
 */
#include <string.h>

#include "tools/serve/job.h"

/* ---- what is not supported ---- */

/* Members that change nothing with this value, too, besides what is empty, 0 or false. */
static const char *const NEUTRAL[][2] = {
    {"tool_choice", "auto"}, {"tool_choice", "none"}, {"function_call", "auto"}, {"function_call", "none"}};

static bool changes(const bn_json *body, const char *name)
{
    const bn_json *value = bn_json_get(body, name);
    if (strcmp(name, "best_of") == 0 && bn_json_kind(value) == BN_JSON_NUMBER)
        return bn_json_number_of(body, name) != 1.0;
    if (strcmp(name, "modalities") == 0 && bn_json_size(value) == 1) return !bn_json_has_text(value, "text");
    for (size_t i = 0; i < BN_ARRAY_LEN(NEUTRAL); i++)
        if (strcmp(name, NEUTRAL[i][0]) == 0 && bn_json_text_is(body, name, NEUTRAL[i][1])) return false;
    return bn_serve_has(body, name);
}

bool bn_openai_refuse(struct bn_ask *ask, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (changes(ask->body, names[i])) return bn_ask_refuse(ask, names[i], "is not supported");
    return true;
}

/* ---- the request ---- */

static bool read_logprobs(struct bn_ask *ask)
{
    struct bn_job *job = ask->job;
    if (!job->chat) {
        job->want_logprobs = bn_serve_member(ask->body, "logprobs") != NULL;
        return bn_ask_whole(ask, ask->body, "logprobs", 0, BN_SERVE_MAX_TOP, &job->n_top);
    }
    if (!bn_ask_flag(ask, ask->body, "logprobs", &job->want_logprobs)) return false;
    if (bn_serve_member(ask->body, "top_logprobs") != NULL && !job->want_logprobs)
        return bn_ask_refuse(ask, "top_logprobs", "needs logprobs: true");
    return bn_ask_whole(ask, ask->body, "top_logprobs", 0, BN_SERVE_MAX_TOP, &job->n_top);
}

/* {"type": "json_schema", "json_schema": {"schema": ...}}; llama-server and /v1/responses have the schema beside its type. A
 * schema is always enforced, strict or not. */
bool bn_openai_form(struct bn_ask *ask, const bn_json *format, const char *name)
{
    const char *type = bn_json_text_of(format, "type");
    const bn_json *outer = bn_serve_member(format, "json_schema");
    const bn_json *schema = bn_serve_member(outer != NULL ? outer : format, "schema");
    bool is_schema = strcmp(type, "json_schema") == 0, strict;
    if (strcmp(type, "text") == 0) return true;
    if (!is_schema && strcmp(type, "json_object") != 0)
        return bn_ask_refuse(ask, name, "has a type that is not text, json_object or json_schema");
    if (is_schema && schema == NULL) return bn_ask_refuse(ask, name, "has no schema");
    return bn_ask_flag(ask, outer != NULL ? outer : format, "strict", &strict) &&
           bn_ask_schema(ask, schema, name);
}

static bool read_form(struct bn_ask *ask)
{
    const bn_json *format = bn_serve_member(ask->body, "response_format");
    const bn_json *grammar = bn_serve_member(ask->body, "grammar");
    const bn_json *schema = bn_serve_member(ask->body, "json_schema");
    const char *text = "";
    if (grammar != NULL && !bn_json_string(grammar, &text))
        return bn_ask_refuse(ask, "grammar", "is not a text");
    if (text[0] != '\0' && !bn_ask_grammar(ask, text, "grammar")) return false;
    if (schema != NULL && !bn_ask_schema(ask, schema, "json_schema")) return false;
    return format == NULL || bn_openai_form(ask, format, "response_format");
}

/* "auto", "none", "required", or {"type": "function", "function": {"name": NAME}}, in /v1/responses with the name beside. */
bool bn_openai_tools(struct bn_ask *ask)
{
    const bn_json *tools = bn_serve_member(ask->body, "tools");
    const bn_json *choice = bn_serve_member(ask->body, "tool_choice");
    const char *mode = "auto", *only = NULL;
    bool several = true;
    bn_error err = {0};
    if (tools != NULL && !bn_ask_check(ask, "tools", bn_talk_tools(&ask->talk, tools, &err), &err))
        return false;
    if (bn_json_text_is(choice, "type", "function"))
        only = bn_json_text_of(choice, bn_json_get(choice, "function") != NULL ? "function.name" : "name");
    else if (choice != NULL && !bn_json_string(choice, &mode))
        mode = "";
    if (!bn_ask_choice(ask, mode, only, "tool_choice") ||
        !bn_ask_flag(ask, ask->body, "parallel_tool_calls", &several))
        return false;
    ask->form.single = !several;
    return true;
}

/* Thoughts: Qwen's chat_template_kwargs.enable_thinking, or reasoning_effort "none". */
static bool read_chat(struct bn_ask *ask)
{
    const bn_json *kwargs = bn_serve_member(ask->body, "chat_template_kwargs");
    bool think = true;
    bn_error err = {0};
    if (bn_serve_member(kwargs, "enable_thinking") != NULL) {
        if (!bn_ask_flag(ask, kwargs, "enable_thinking", &think)) return false;
        bn_ask_think(ask, think);
    }
    if (bn_json_text_is(ask->body, "reasoning_effort", "none")) bn_ask_think(ask, false);
    ask->truncate = bn_json_text_is(ask->body, "truncation", "auto");
    if (bn_serve_member(ask->body, "messages") == NULL) return bn_ask_refuse(ask, "messages", "is missing");
    bn_status status = bn_talk_messages(&ask->talk, bn_json_get(ask->body, "messages"), &err);
    return bn_ask_check(ask, "messages", status, &err) && bn_openai_tools(ask);
}

static bool read_body(struct bn_ask *ask)
{
    struct bn_job *job = ask->job;
    static const char *const UNSUPPORTED[] = {"functions", "function_call", "modalities",
                                              "audio",     "best_of",       "echo",
                                              "suffix",    "tools",         "tool_choice"};
    enum { N_TEXT = 2 }; /* the last ones are members of chats */
    const bn_json *stream_options = bn_serve_member(ask->body, "stream_options");
    ask->subject = job->chat ? "messages" : "prompt";
    ask->gen.sampling.temperature = 1.0f;
    if (!job->chat) ask->gen.n_predict = 16;
    if (!bn_openai_refuse(ask, UNSUPPORTED, BN_ARRAY_LEN(UNSUPPORTED) - (job->chat ? N_TEXT : 0)) ||
        !bn_ask_flag(ask, ask->body, "stream", &job->stream) || !bn_ask_sampling(ask, ask->body) ||
        !read_logprobs(ask) || !bn_ask_stops(ask, bn_serve_member(ask->body, "stop"), "stop") ||
        !read_form(ask) || !bn_ask_whole(ask, ask->body, "n", 1, BN_SERVE_MAX_N, &ask->n_each) ||
        !bn_ask_whole(ask, ask->body, "max_tokens", 1, 1u << 24, &ask->gen.n_predict) ||
        !bn_ask_whole(ask, ask->body, "max_completion_tokens", 1, 1u << 24, &ask->gen.n_predict))
        return false;
    job->include_usage = stream_options != NULL && bn_json_flag_of(stream_options, "include_usage");
    return job->chat ? read_chat(ask)
                     : bn_job_take_prompts(job, bn_serve_member(ask->body, "prompt"), "prompt",
                                           BN_SERVE_MAX_CHOICES, ask->reply);
}

static bool read_as_chat(struct bn_ask *ask)
{
    ask->job->chat = true;
    return read_body(ask);
}

/* ---- documents ---- */

static const char *finish_reason(const struct bn_choice *c)
{
    return bn_answer_is_cut(c) ? "length" : c->n_calls > 0 ? "tool_calls" : "stop";
}

static bn_json *new_document(const struct bn_job *job)
{
    bn_json *document = bn_json_new_object();
    struct bn_buf id = {.max = 64};
    bn_buf_printf(&id, "%s-%s", job->chat ? "chatcmpl" : "cmpl", job->id);
    bn_json_put_string(document, "id", bn_buf_text(&id));
    bn_buf_release(&id);
    BN_PUT(document,
           BN_STRING("object", !job->chat    ? "text_completion"
                               : job->stream ? "chat.completion.chunk"
                                             : "chat.completion"),
           BN_U64("created", job->created_s), BN_STRING("model", job->engine->id),
           BN_STRING("system_fingerprint", job->server->fingerprint));
    return document;
}

static void put_usage(bn_json *document, const struct bn_job *job)
{
    struct bn_usage n = bn_answer_usage(job);
    bn_json *usage = bn_json_put_object(document, "usage");
    BN_PUT(usage, BN_U64("prompt_tokens", n.n_prompt), BN_U64("completion_tokens", n.n_generated),
           BN_U64("total_tokens", n.n_prompt + n.n_generated));
    bn_json_put_u64(bn_json_put_object(usage, "prompt_tokens_details"), "cached_tokens", n.n_cached);
    bn_json_put_u64(bn_json_put_object(usage, "completion_tokens_details"), "reasoning_tokens", n.n_thought);
}

/* A call, or a piece of one: the first piece of a stream has the name and no arguments. */
static void put_call(bn_json *list, const struct bn_answer_part *part, bool is_piece, const char *arguments)
{
    bn_json *call = bn_json_add_object(list);
    bool names = !is_piece || arguments[0] == '\0';
    if (is_piece) bn_json_put_u64(call, "index", part->call);
    if (names) bn_json_put_string(call, "id", part->id);
    if (names) bn_json_put_string(call, "type", "function");
    bn_json *function = bn_json_put_object(call, "function");
    if (names) bn_json_put_string(function, "name", bn_buf_text(&part->name));
    bn_json_put_string(function, "arguments", arguments);
}

static void put_message(bn_json *choice, const struct bn_choice *c)
{
    struct bn_buf joined = {.max = BN_SERVE_MAX_ANSWER_BYTES};
    bn_json *message = bn_json_put_object(choice, "message"), *calls = NULL;
    bn_json_put_string(message, "role", "assistant");
    const char *text = bn_answer_text(c, BN_CHAT_TEXT, &joined);
    bn_json_put_string(message, "content", text != NULL ? text : c->n_calls > 0 ? NULL : "");
    const char *thoughts = bn_answer_text(c, BN_CHAT_THOUGHT, &joined);
    if (thoughts != NULL) bn_json_put_string(message, "reasoning_content", thoughts);
    bn_json_put_null(message, "refusal");
    for (size_t i = 0; i < c->n_parts; i++) {
        const struct bn_answer_part *part = &c->parts[i];
        if (part->kind != BN_CHAT_CALL) continue;
        if (calls == NULL) calls = bn_json_put_array(message, "tool_calls");
        put_call(calls, part, false, bn_buf_text(&part->text));
    }
    bn_buf_release(&joined);
}

static bn_json *document(struct bn_job *job)
{
    bn_json *d = new_document(job), *choices = bn_json_put_array(d, "choices");
    for (size_t i = 0; i < job->n_choices; i++) {
        struct bn_choice *c = &job->choices[i];
        bn_json *choice = bn_json_add_object(choices);
        BN_PUT(choice, BN_U64("index", i), BN_STRING("finish_reason", finish_reason(c)));
        bn_answer_put_logprobs(choice, c);
        if (job->chat)
            put_message(choice, c);
        else
            bn_json_put_string(choice, "text", bn_buf_text(&c->answer));
        bn_answer_put_evidence(choice, c);
    }
    put_usage(d, job);
    if (job->n_choices == 1) bn_answer_put_timings(d, &job->choices[0].gen);
    return d;
}

bn_json *bn_openai_error(unsigned status, const char *param, const char *code, const char *message)
{
    bn_json *d = bn_json_new_object();
    bn_json *error = bn_json_put_object(d, "error");
    BN_PUT(error, BN_STRING("message", message), BN_STRING("type", bn_reply_error_type(status)),
           BN_STRING("param", param), BN_STRING("code", code));
    return d;
}

/* ---- events ---- */

/* A choice of an event: a delta with a role, a text, thoughts or a part of a call; or the end. */
static void send_piece(struct bn_choice *c, const char *member, const char *text,
                       const struct bn_answer_part *call)
{
    struct bn_job *job = c->job;
    bool ends = member == NULL && call == NULL, is_role = member != NULL && strcmp(member, "role") == 0;
    bn_json *event = new_document(job);
    bn_json *choice = bn_json_add_object(bn_json_put_array(event, "choices"));
    bn_json *delta = choice;
    bn_json_put_u64(choice, "index", (uint64_t)(c - job->choices));
    if (job->chat) delta = bn_json_put_object(choice, "delta");
    if (member != NULL) bn_json_put_string(delta, job->chat ? member : "text", text);
    if (is_role) bn_json_put_string(delta, "content", "");
    if (ends && !job->chat) bn_json_put_string(delta, "text", "");
    if (call != NULL) put_call(bn_json_put_array(delta, "tool_calls"), call, true, text);
    if (ends || is_role)
        bn_json_put_null(choice, "logprobs");
    else
        bn_answer_put_logprobs(choice, c);
    bn_json_put_string(choice, "finish_reason", ends ? finish_reason(c) : NULL);
    if (ends) bn_answer_put_evidence(choice, c);
    if (ends) bn_answer_put_timings(event, &c->gen);
    if (job->include_usage) bn_json_put_null(event, "usage");
    bn_answer_send(job, NULL, event);
}

static void send_roles(struct bn_job *job)
{
    for (size_t i = 0; i < job->n_choices; i++)
        send_piece(&job->choices[i], "role", "assistant", NULL);
}

/* A call comes in two events: its name, then its arguments. */
static void begin_part(struct bn_choice *c, const struct bn_answer_part *part)
{
    if (part->kind == BN_CHAT_CALL) send_piece(c, NULL, "", part);
}

static void send_text(struct bn_choice *c, const struct bn_answer_part *part, const char *text)
{
    if (part->kind == BN_CHAT_CALL)
        send_piece(c, NULL, text, part);
    else
        send_piece(c, part->kind == BN_CHAT_THOUGHT ? "reasoning_content" : "content", text, NULL);
}

static void end_choice(struct bn_choice *c)
{
    size_t left = c->gen.n_ids - bn_min_size(c->n_shown, c->gen.n_ids);
    if (c->job->want_logprobs && left > 0) send_piece(c, "content", "", NULL);
    send_piece(c, NULL, NULL, NULL);
}

static void end_stream(struct bn_job *job)
{
    if (job->include_usage) {
        bn_json *event = new_document(job);
        (void)bn_json_put_array(event, "choices");
        put_usage(event, job);
        bn_answer_send(job, NULL, event);
    }
    bn_answer_send_text(job, "data: [DONE]\n\n");
}

static void fail(struct bn_job *job, bn_json *error)
{
    bn_answer_send(job, NULL, error);
    bn_answer_send_text(job, "data: [DONE]\n\n");
}

#define ANSWERS                                                                                          \
    .piece = send_text, .end_choice = end_choice, .end = end_stream, .fail = fail, .document = document, \
    .error = bn_openai_error

const struct bn_protocol bn_openai_chat = {
    .name = "chat", .read = read_as_chat, .start = send_roles, .begin_part = begin_part, ANSWERS};
const struct bn_protocol bn_openai_text = {.name = "completions", .read = read_body, ANSWERS};

/* ---- texts to embed ---- */

static void put_vectors(const struct bn_job *job, struct bn_buf *out)
{
    size_t n = job->choices[0].gen.n_prompt;
    bn_buf_puts(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < job->n_prompts; i++) {
        bn_buf_printf(out, "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i > 0 ? "," : "", i);
        bn_embed_put(job, i, out);
        bn_buf_putc(out, '}');
    }
    bn_buf_puts(out, "],\"model\":");
    bn_json_write_string(out, job->engine->id);
    bn_buf_printf(out, ",\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}}\n", n, n);
}

const struct bn_protocol bn_openai_embeddings = {.name = "embeddings",
                                                 .read = bn_embed_read,
                                                 .input = "input",
                                                 .embedded = put_vectors,
                                                 .error = bn_openai_error};

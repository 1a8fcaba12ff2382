/* SPDX-License-Identifier: MIT
 *
 * Ollama's API. A stream is JSON, a document a line. Members and options that are unknown are ignored, as Ollama does; those
 * that would change the answer and are not supported are refused by name.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "model/model.h"
#include "tools/serve/job.h"

#define API_VERSION "0.12.0" /* of Ollama's API: clients ask for a certain one or a later one */
#define NEVER 253402300799   /* when a model is closed that is kept: the end of the year 9999 */

/* ---- the request ---- */

/* The defaults are Ollama's. A seed below 0 asks for a random one, a limit of 0 or below for none. */
static bool read_options(struct bn_ask *ask)
{
    bn_json *options = (bn_json *)(uintptr_t)bn_serve_member(ask->body, "options");
    double seed = 0.0, limit = 1.0;
    ask->gen.sampling.temperature = 0.8f;
    ask->gen.sampling.top_k = 40;
    ask->gen.sampling.top_p = 0.9f;
    if (options == NULL) return true;
    if (bn_json_kind(options) != BN_JSON_OBJECT) return bn_ask_refuse(ask, "options", "is not an object");
    if (bn_json_number(bn_json_get(options, "seed"), &seed) && seed < 0.0) bn_json_remove(options, "seed");
    (void)bn_json_number(bn_json_get(options, "num_predict"), &limit);
    return bn_ask_sampling(ask, options) && bn_ask_stops(ask, bn_serve_member(options, "stop"), "stop") &&
           (limit <= 0.0 || bn_ask_whole(ask, options, "num_predict", 1, 1u << 24, &ask->gen.n_predict));
}

static bool read_format(struct bn_ask *ask)
{
    const bn_json *format = bn_serve_member(ask->body, "format");
    if (bn_json_kind(format) == BN_JSON_OBJECT) return bn_ask_schema(ask, format, "format");
    if (bn_json_text_is(ask->body, "format", "json")) return bn_ask_schema(ask, NULL, "format");
    if (!bn_serve_has(ask->body, "format")) return true;
    return bn_ask_refuse(ask, "format", "is not \"json\" or a JSON Schema");
}

/* How much a model thinks is up to the model. */
static bool read_think(struct bn_ask *ask)
{
    const bn_json *think = bn_serve_member(ask->body, "think");
    const char *level = bn_json_text_of(ask->body, "think");
    bool on = strcmp(level, "low") == 0 || strcmp(level, "medium") == 0 || strcmp(level, "high") == 0;
    if (think == NULL) return true;
    if (!on && !bn_json_bool(think, &on))
        return bn_ask_refuse(ask, "think", "is not true, false, low, medium or high");
    if (on && bn_template_thinking(ask->job->tmpl) == BN_THINKING_NONE)
        return bn_ask_refuse(ask, "think", "is not supported: the template of this model has no thoughts");
    bn_ask_think(ask, on);
    return true;
}

static bool read_common(struct bn_ask *ask)
{
    static const char *const UNSUPPORTED[] = {"context", "suffix", "template", "images", "logprobs"};
    ask->truncate = true;
    ask->job->stream = true;
    for (size_t i = 0; i < BN_ARRAY_LEN(UNSUPPORTED); i++)
        if (bn_serve_has(ask->body, UNSUPPORTED[i]))
            return bn_ask_refuse(ask, UNSUPPORTED[i],
                                 i == 0 ? "is not supported: send the conversation to /api/chat"
                                        : "is not supported");
    return bn_ask_flag(ask, ask->body, "stream", &ask->job->stream) &&
           bn_ask_flag(ask, ask->body, "truncate", &ask->truncate) && read_options(ask) && read_format(ask) &&
           read_think(ask);
}

/* ---- documents ---- */

static bn_json *new_document(const struct bn_job *job, bool done)
{
    bn_json *d = bn_json_new_object();
    BN_PUT(d, BN_STRING("model", job->engine->id), BN_TIME("created_at", bn_clock_utc()),
           BN_FLAG("done", done));
    return d;
}

/* Puts a text, NULL: none. Returns the object that thoughts and calls belong to. */
static bn_json *put_text(bn_json *d, const struct bn_job *job, const char *text)
{
    bool is_chat = job->protocol == &bn_ollama_chat;
    bn_json *to = is_chat ? bn_json_put_object(d, "message") : d;
    if (is_chat) bn_json_put_string(to, "role", "assistant");
    bn_json_put_string(to, is_chat ? "content" : "response", text != NULL ? text : "");
    return to;
}

static void put_call(bn_json *message, bn_json **list, const struct bn_answer_part *part)
{
    bn_json *arguments = NULL;
    if (*list == NULL) *list = bn_json_put_array(message, "tool_calls");
    bn_json *call = bn_json_add_object(*list);
    bn_json_put_string(call, "id", part->id);
    bn_json *function = bn_json_put_object(call, "function");
    bn_json_put_string(function, "name", bn_buf_text(&part->name));
    if (bn_json_parse(&arguments, bn_buf_text(&part->text), part->text.len, NULL) == BN_OK)
        bn_json_put_copy(function, "arguments", arguments);
    bn_json_free(arguments);
}

/* Times in nanoseconds. That of an answer is from its first token to its last; one token has none. */
static void put_end(bn_json *d, const struct bn_choice *c)
{
    const bn_generation *gen = &c->gen;
    BN_PUT(d, BN_STRING("done_reason", bn_answer_is_cut(c) ? "length" : "stop"),
           BN_U64("total_duration", bn_clock_ns() - c->job->since_ns),
           BN_U64("load_duration", c->job->waited_ns), BN_U64("prompt_eval_count", gen->n_prompt),
           BN_U64("prompt_eval_duration", gen->prefill_ns), BN_U64("eval_count", gen->n_ids));
    if (gen->n_ids > 1) bn_json_put_u64(d, "eval_duration", gen->decode_ns);
    bn_answer_put_evidence(d, c);
}

static bn_json *document(struct bn_job *job)
{
    const struct bn_choice *c = &job->choices[0];
    struct bn_buf joined = {.max = BN_SERVE_MAX_ANSWER_BYTES};
    bn_json *d = new_document(job, true), *calls = NULL;
    bn_json *message = put_text(d, job, bn_answer_text(c, BN_CHAT_TEXT, &joined));
    const char *thoughts = bn_answer_text(c, BN_CHAT_THOUGHT, &joined);
    if (thoughts != NULL) bn_json_put_string(message, "thinking", thoughts);
    for (size_t i = 0; i < c->n_parts; i++)
        if (c->parts[i].kind == BN_CHAT_CALL) put_call(message, &calls, &c->parts[i]);
    put_end(d, c);
    bn_buf_release(&joined);
    return d;
}

static void send_piece(struct bn_choice *c, const struct bn_answer_part *part, const char *text)
{
    bn_json *line = new_document(c->job, false), *calls = NULL;
    bn_json *message = put_text(line, c->job, part->kind == BN_CHAT_TEXT ? text : NULL);
    if (part->kind == BN_CHAT_THOUGHT) bn_json_put_string(message, "thinking", text);
    if (part->kind == BN_CHAT_CALL) put_call(message, &calls, part);
    bn_answer_send(c->job, NULL, line);
}

static void end_choice(struct bn_choice *c)
{
    bn_json *line = new_document(c->job, true);
    (void)put_text(line, c->job, NULL);
    put_end(line, c);
    bn_answer_send(c->job, NULL, line);
}

static void fail(struct bn_job *job, bn_json *error)
{
    bn_answer_send(job, NULL, error);
}

static bn_json *error_document(unsigned status, const char *param, const char *code, const char *message)
{
    bn_json *d = bn_json_new_object();
    (void)status, (void)param, (void)code;
    bn_json_put_string(d, "error", message);
    return d;
}

/* ---- the conversation ---- */

/* There is nothing to answer: the request opens the model, which it has done, or lets it be closed. */
static bool load(struct bn_ask *ask)
{
    bool closes = ask->server->n_engines > 1 && ask->job->keeps && ask->job->keep_ns == 0;
    bn_json *d = new_document(ask->job, true);
    (void)put_text(d, ask->job, NULL);
    bn_json_put_string(d, "done_reason", closes ? "unload" : "load");
    bn_reply_json(ask->reply, d);
    return false;
}

static bool read_chat(struct bn_ask *ask)
{
    const bn_json *messages = bn_serve_member(ask->body, "messages");
    const bn_json *tools = bn_serve_member(ask->body, "tools");
    struct bn_chat_turn *turn;
    bn_error err = {0};
    ask->subject = "messages";
    ask->job->chat = true;
    if (!read_common(ask)) return false;
    if (messages == NULL || (bn_json_kind(messages) == BN_JSON_ARRAY && bn_json_size(messages) == 0))
        return load(ask);
    if (!bn_ask_check(ask, "messages", bn_talk_messages(&ask->talk, messages, &err), &err)) return false;
    turn = ask->talk.turns;
    for (const bn_json *m = bn_json_first(messages); m != NULL; m = bn_json_next(m), turn++) {
        (void)bn_json_string(bn_json_get(m, "thinking"), &turn->thoughts);
        if (bn_serve_has(m, "images"))
            return bn_ask_refuse(ask, "images", "is not supported: this model reads text only");
    }
    return tools == NULL || bn_ask_check(ask, "tools", bn_talk_tools(&ask->talk, tools, &err), &err);
}

/* A message of the system, and one of the user; raw: a text without a template. */
static bool read_generate(struct bn_ask *ask)
{
    static const char *const ROLES[] = {"system", "user"}, *const MEMBERS[] = {"system", "prompt"};
    const bn_json *prompt = bn_serve_member(ask->body, "prompt");
    struct bn_chat_turn *turn;
    bool raw = false;
    bn_error err = {0};
    ask->subject = "prompt";
    if (!read_common(ask) || !bn_ask_flag(ask, ask->body, "raw", &raw)) return false;
    if (prompt != NULL && bn_json_kind(prompt) != BN_JSON_STRING)
        return bn_ask_refuse(ask, "prompt", "is not a text");
    if (!bn_serve_has(ask->body, "prompt")) return load(ask);
    if (raw && bn_serve_has(ask->body, "system"))
        return bn_ask_refuse(ask, "system", "cannot be used together with raw");
    if (raw) return bn_job_take_prompts(ask->job, prompt, "prompt", 1, ask->reply);
    ask->job->chat = true;
    for (size_t i = 0; i < 2; i++) {
        if (!bn_serve_has(ask->body, MEMBERS[i])) continue;
        if (!bn_ask_check(ask, MEMBERS[i], bn_talk_add(&ask->talk, ROLES[i], &turn, &err), &err))
            return false;
        turn->content = bn_json_text_of(ask->body, MEMBERS[i]);
    }
    return true;
}

/* ---- texts to embed ---- */

static void put_vectors(const struct bn_job *job, struct bn_buf *out)
{
    bool one = job->protocol == &bn_ollama_embedding && job->n_prompts == 1;
    bn_buf_puts(out, one ? "{\"embedding\":" : "{\"embeddings\":[");
    for (size_t i = 0; i < job->n_prompts; i++) {
        if (i > 0) bn_buf_putc(out, ',');
        bn_embed_put(job, i, out);
    }
    if (!one) {
        bn_buf_puts(out, "],\"model\":");
        bn_json_write_string(out, job->engine->id);
        bn_buf_printf(out, ",\"total_duration\":%llu,\"load_duration\":%llu,\"prompt_eval_count\":%zu",
                      (unsigned long long)(bn_clock_ns() - job->since_ns), (unsigned long long)job->waited_ns,
                      job->choices[0].gen.n_prompt);
    }
    bn_buf_puts(out, "}\n");
}

#define ANSWERS                                                                                          \
    .is_lines = true, .piece = send_piece, .end_choice = end_choice, .fail = fail, .document = document, \
    .error = error_document
#define EMBEDS .read = bn_embed_read, .cuts = true, .embedded = put_vectors, .error = error_document

const struct bn_protocol bn_ollama_chat = {.name = "ollama-chat", .read = read_chat, ANSWERS};
const struct bn_protocol bn_ollama_generate = {.name = "ollama-generate", .read = read_generate, ANSWERS};
const struct bn_protocol bn_ollama_embed = {.name = "ollama-embed", .input = "input", EMBEDS};
const struct bn_protocol bn_ollama_embedding = {.name = "ollama-embedding", .input = "prompt", EMBEDS};

/* ---- models ---- */

void bn_ollama_version(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply)
{
    bn_json *d = bn_json_new_object();
    (void)s, (void)request;
    BN_PUT(d, BN_STRING("version", API_VERSION), BN_STRING("bn", bn_version()));
    bn_reply_json(reply, d);
}

static uint64_t n_parameters(const bn_model *m)
{
    uint64_t n = 0;
    for (size_t i = 0; i < m->gguf.n_tensors; i++) {
        const uint64_t *ne = m->gguf.tensors[i].ne;
        n += ne[0] * ne[1] * ne[2] * ne[3];
    }
    return n;
}

/* Of a model that is not open, what is in its file is not known, and stays empty. */
static void put_model(bn_json *out, const struct bn_engine *e)
{
    bool is_open = e->state == BN_ENGINE_OPEN;
    const char *arch = is_open ? bn_model_arch(e->model) : "";
    double n = is_open ? (double)n_parameters(e->model) : 0.0;
    char size[32] = "";
    bn_json *shape = bn_json_new_object();
    if (is_open) bn_receipt_put_shape(shape, e->model);
    if (n > 0) snprintf(size, sizeof size, "%.1f%c", n / (n < 1e9 ? 1e6 : 1e9), n < 1e9 ? 'M' : 'B');
    BN_PUT(out, BN_TIME("modified_at", e->modified_s));
    bn_json *details = bn_json_put_object(out, "details");
    BN_PUT(details, BN_STRING("format", "gguf"), BN_STRING("family", arch));
    bn_json_put_texts(details, "families", &arch, 1);
    bn_json_put_string(details, "parameter_size", size);
    bn_json_put_string(details, "quantization_level", bn_json_text_of(shape, "quantization"));
    bn_json_free(shape);
}

/* When it is closed unless it is used, in seconds. */
static int64_t expires_s(const struct bn_engine *e)
{
    uint64_t now = bn_clock_ns(), since = e->n_users > 0 ? now : e->used_ns;
    if (e->server->n_engines == 1 || e->keep_ns >= UINT64_MAX - since) return NEVER;
    return bn_clock_utc() + (int64_t)((since + e->keep_ns) / SECOND) - (int64_t)(now / SECOND);
}

/* /api/tags, and /api/ps: those that are open. */
void bn_ollama_list(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply)
{
    bn_json *d = bn_json_new_object(), *models = bn_json_put_array(d, "models");
    bool is_ps = strcmp(request->path, "/api/ps") == 0;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n_engines; i++) {
        const struct bn_engine *e = &s->engines[i];
        if (is_ps && e->state != BN_ENGINE_OPEN) continue;
        bn_json *m = bn_json_add_object(models);
        put_model(m, e);
        BN_PUT(m, BN_STRING("name", e->id), BN_STRING("model", e->id),
               BN_TEXT("digest", e->facts.model_sha256),
               BN_U64("size", is_ps ? bn_model_resident_bytes(e->model) : e->n_bytes));
        if (!is_ps) continue;
        BN_PUT(m, BN_TIME("expires_at", expires_s(e)), BN_U64("context_length", e->n_ctx));
        if (e->model->device == NULL) bn_json_put_u64(m, "size_vram", 0);
    }
    pthread_mutex_unlock(&s->lock);
    bn_reply_json(reply, d);
}

/* The keys of the model's file that the engine reads. */
static void put_keys(bn_json *info, const struct bn_engine *e)
{
    static const struct {
        const char *name;
        bn_model_figure figure;
    } KEYS[] = {{"context_length", BN_MODEL_N_CTX},
                {"embedding_length", BN_MODEL_N_EMBD},
                {"block_count", BN_MODEL_N_LAYER}};
    bn_json_put_string(info, "general.architecture", bn_model_arch(e->model));
    bn_json_put_u64(info, "general.parameter_count", n_parameters(e->model));
    for (size_t i = 0; i < BN_ARRAY_LEN(KEYS); i++) {
        char name[80];
        snprintf(name, sizeof name, "%s.%s", bn_model_arch(e->model), KEYS[i].name);
        bn_json_put_u64(info, name, bn_model_get(e->model, KEYS[i].figure));
    }
}

void bn_ollama_show(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply)
{
    bn_json *body = NULL, *d = bn_json_new_object();
    struct bn_engine *e = NULL;
    if (bn_serve_parse(&body, request->body, request->n_bytes, reply))
        e = bn_engine_enter(s, bn_json_text_of(body, bn_serve_has(body, "model") ? "model" : "name"), reply);
    bn_json_free(body);
    if (e == NULL) {
        bn_json_free(d);
        return;
    }
    put_model(d, e);
    put_keys(bn_json_put_object(d, "model_info"), e);
    bn_json_put_string(d, "template", bn_template_name(e->tmpl));
    bn_json *can = bn_json_put_array(d, "capabilities");
    bn_json_add_string(can, "completion");
    if (!e->base) bn_json_add_string(can, "tools");
    if (bn_template_thinking(e->tmpl) != BN_THINKING_NONE) bn_json_add_string(can, "thinking");
    if (bn_embed_can(e)) bn_json_add_string(can, "embedding");
    bn_reply_json(reply, d);
    pthread_mutex_lock(&s->lock);
    bn_engine_leave(e);
    pthread_mutex_unlock(&s->lock);
}

/* All else: models come and go by the hand of who runs the server. */
void bn_ollama_refuse(struct bn_server *s, const struct bn_request *request, struct bn_reply *reply)
{
    (void)s;
    bn_reply_error(reply, 501, NULL, NULL,
                   "%.40s is not supported: this server does not change its models; bn-download gets one, "
                   "and bn-serve -m FILE serves it",
                   request->path);
}

/* SPDX-License-Identifier: MIT
 *
 * Makes a job of a request, whatever protocol it came by: numbers, stop texts, the form of the answer, the prompt, and a
 * choice for each answer. null is the same as a member that is not there.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "grammar/matcher.h"
#include "tools/serve/job.h"

/* ---- for protocols ---- */

const bn_json *bn_serve_member(const bn_json *object, const char *name)
{
    const bn_json *value = bn_json_get(object, name);
    return bn_json_kind(value) != BN_JSON_NULL ? value : NULL;
}

bool bn_serve_has(const bn_json *object, const char *name)
{
    const bn_json *value = bn_json_get(object, name);
    const char *text = "";
    double number = 0.0;
    bool flag = false;
    (void)(bn_json_string(value, &text) || bn_json_number(value, &number) || bn_json_bool(value, &flag));
    return text[0] != '\0' || number != 0.0 || flag || bn_json_size(value) > 0;
}

bool bn_ask_refuse(struct bn_ask *ask, const char *name, const char *what)
{
    return bn_reply_refuse(ask->reply, name, what);
}

bool bn_ask_check(struct bn_ask *ask, const char *name, bn_status status, const bn_error *err)
{
    return status == BN_OK || bn_reply_failed(ask->reply, name, err);
}

bool bn_ask_whole(struct bn_ask *ask, const bn_json *object, const char *name, uint64_t least, uint64_t most,
                  uint32_t *out)
{
    const bn_json *value = bn_serve_member(object, name);
    uint64_t number;
    char what[80];
    if (value == NULL) return true;
    snprintf(what, sizeof what, "is not a whole number from %llu to %llu", (unsigned long long)least,
             (unsigned long long)most);
    if (!bn_json_u64(value, &number) || number < least || number > most)
        return bn_ask_refuse(ask, name, what);
    *out = (uint32_t)number;
    return true;
}

bool bn_ask_flag(struct bn_ask *ask, const bn_json *object, const char *name, bool *out)
{
    const bn_json *value = bn_serve_member(object, name);
    return value == NULL || bn_json_bool(value, out) || bn_ask_refuse(ask, name, "is not true or false");
}

bool bn_ask_sampling(struct bn_ask *ask, const bn_json *object)
{
    bn_error err = {0};
    bn_status status = BN_OK;
    for (const bn_json *m = bn_json_first(object); m != NULL; m = bn_json_next(m)) {
        if (bn_json_kind(m) == BN_JSON_NULL) continue;
        if (strcmp(bn_json_name(m), "seed") == 0) {
            if (!bn_receipt_seed(m, &ask->gen.sampling.seed))
                return bn_ask_refuse(ask, "seed",
                                     "is not a whole number from 0 to 2^53 - 1, or a text of digits");
        } else if (bn_request_number(&ask->gen, m, &status, &err) && status != BN_OK) {
            return bn_reply_failed(ask->reply, bn_json_name(m), &err);
        }
    }
    status = bn_receipt_bias(&ask->job->bias, &ask->gen.sampling, bn_serve_member(object, "logit_bias"),
                             bn_tokenizer_n_vocab(ask->engine->tok), &err);
    return bn_ask_check(ask, "logit_bias", status, &err);
}

static bool add_stop(struct bn_ask *ask, const bn_json *value, const char *name)
{
    struct bn_job *job = ask->job;
    const char *text;
    if (!bn_json_string(value, &text) || text[0] == '\0' || strlen(text) > BN_SERVE_MAX_STOP_BYTES)
        return bn_ask_refuse(ask, name, "is not a text of 1 to 256 bytes, or a list of these");
    if (job->n_stops == BN_SERVE_MAX_STOPS) return bn_ask_refuse(ask, name, "has more than 16 texts");
    char *copy = job->stop_texts[job->n_stops];
    memcpy(copy, text, strlen(text) + 1);
    job->stops[job->n_stops++] = copy;
    return true;
}

bool bn_ask_stops(struct bn_ask *ask, const bn_json *value, const char *name)
{
    bool is_list = bn_json_kind(value) == BN_JSON_ARRAY;
    if (value != NULL && !is_list) return add_stop(ask, value, name);
    for (const bn_json *v = bn_json_first(value); v != NULL; v = bn_json_next(v))
        if (!add_stop(ask, v, name)) return false;
    return true;
}

/* One form of the answer is allowed. */
static bool is_first_form(struct bn_ask *ask, const char *name)
{
    return (ask->job->grammar == NULL && ask->schema == NULL) ||
           bn_ask_refuse(ask, name, "is one of several forms of the answer; one is allowed");
}

bool bn_ask_schema(struct bn_ask *ask, const bn_json *schema, const char *name)
{
    bn_error err = {0};
    if (!is_first_form(ask, name)) return false;
    if (schema == NULL) {
        bn_json *any = bn_json_put_new(bn_talk_own(&ask->talk), NULL, BN_JSON_OBJECT);
        bn_json_put_string(any, "type", "object");
        schema = any;
    }
    ask->schema = schema;
    return bn_ask_check(ask, name, bn_request_schema(&ask->job->grammar, schema, &err), &err);
}

bool bn_ask_grammar(struct bn_ask *ask, const char *gbnf, const char *name)
{
    bn_error err = {0};
    return is_first_form(ask, name) &&
           bn_ask_check(ask, name, bn_grammar_open_gbnf(&ask->job->grammar, gbnf, strlen(gbnf), &err), &err);
}

bool bn_ask_choice(struct bn_ask *ask, const char *mode, const char *only, const char *name)
{
    const bn_json *tools = ask->talk.tools;
    bool required = only != NULL || strcmp(mode, "required") == 0 || strcmp(mode, "any") == 0;
    ask->no_calls = only == NULL && strcmp(mode, "none") == 0;
    if (!required && !ask->no_calls && strcmp(mode, "auto") != 0)
        return bn_ask_refuse(ask, name, "is not auto, none, required or a function");
    if (required && bn_json_size(tools) == 0) return bn_ask_refuse(ask, name, "needs tools");
    ask->form.required = required;
    if (only == NULL) return true;
    (void)bn_json_string(bn_json_path(bn_json_find(tools, "function.name", only), "function.name"),
                         &ask->form.only);
    return ask->form.only != NULL || bn_ask_refuse(ask, name, "names a function that is not one of tools");
}

/* How long the model stays open after the request, as Ollama has it. */
static bool read_keep_alive(struct bn_ask *ask)
{
    const bn_json *value = bn_serve_member(ask->body, "keep_alive");
    double seconds;
    char number[400];
    const char *text = number;
    if (value == NULL) return true;
    bool is_number = bn_json_number(value, &seconds);
    if (is_number) snprintf(number, sizeof number, "%f", seconds);
    ask->job->keeps = (is_number || bn_json_string(value, &text)) && bn_models_time(text, &ask->job->keep_ns);
    return ask->job->keeps ||
           bn_ask_refuse(ask, "keep_alive", "is not a number of seconds or a time such as \"5m\"");
}

void bn_ask_think(struct bn_ask *ask, bool on)
{
    ask->job->tmpl = bn_template_set_thinking(ask->job->tmpl, on);
}

/* ---- prompts ---- */

bool bn_job_take_prompts(struct bn_job *job, const bn_json *value, const char *name, size_t most,
                         struct bn_reply *reply)
{
    bool is_list = bn_json_kind(value) == BN_JSON_ARRAY && bn_json_size(value) > 0;
    double number;
    bool is_one = !is_list || bn_json_number(bn_json_first(value), &number);
    size_t n = is_one ? 1 : bn_json_size(value);
    char what[40];
    snprintf(what, sizeof what, "has more than %zu texts", most);
    if (value == NULL) return bn_reply_refuse(reply, name, "is missing");
    if (n > most) return bn_reply_refuse(reply, name, what);
    job->prompts = bn_alloc(n, sizeof *job->prompts);
    if (job->prompts == NULL) return bn_reply_no_memory(reply);
    for (const bn_json *v = is_one ? value : bn_json_first(value); job->n_prompts < n; v = bn_json_next(v)) {
        struct bn_prompt *prompt = &job->prompts[job->n_prompts++];
        const char *text;
        bn_error err = {0};
        if (bn_json_string(v, &text)) {
            prompt->n_bytes = strlen(text);
            prompt->text = bn_strndup(text, prompt->n_bytes);
            if (prompt->text == NULL) return bn_reply_no_memory(reply);
            if (bn_tokenize(job->engine->tok, text, prompt->n_bytes, BN_TOKENIZE_BOS, &prompt->ids,
                            &prompt->n_ids, &err) != BN_OK)
                return bn_reply_failed(reply, name, &err);
        } else if (bn_json_kind(v) != BN_JSON_ARRAY) {
            return bn_reply_refuse(reply, name, "is not a text, tokens, or a list of these");
        } else if (!bn_serve_parse_ids(job->engine, v, name, &prompt->ids, &prompt->n_ids, reply)) {
            return false;
        }
        if (prompt->n_ids == 0) return bn_reply_refuse(reply, name, "has a text without tokens");
    }
    return true;
}

/* The prompt without the oldest messages, as many as `dropped`. */
static bool render(struct bn_ask *ask, size_t dropped)
{
    struct bn_job *job = ask->job;
    bn_error err = {0};
    bn_prompt_release(&job->prompts[0]);
    return bn_ask_check(
        ask, ask->subject,
        bn_talk_render(&job->prompts[0], &ask->talk, dropped, job->tmpl, ask->engine->tok, &err), &err);
}

/* Drops as few of the oldest whole turns as leave room for an answer: a fourth of the context, or what it takes at
 * most. The number is found by halving, since every attempt encodes the conversation. */
static bool shorten(struct bn_ask *ask)
{
    size_t ends[BN_TALK_MAX_TURNS + 1] = {0}, n = 0, oldest;
    size_t n_ctx = bn_session_n_ctx(ask->engine->session), room = n_ctx / 4;
    if (ask->gen.n_predict != 0) room = bn_min_size(room, ask->gen.n_predict);
    while ((oldest = bn_talk_oldest(&ask->talk, ends[n])) != 0) {
        ends[n + 1] = ends[n] + oldest;
        n++;
    }
    size_t low = 0, high = n; /* with `high` dropped it is as short as it gets */
    if (ask->job->prompts[0].n_ids + room <= n_ctx || n == 0) return true;
    while (low + 1 < high) {
        size_t middle = low + (high - low) / 2;
        if (!render(ask, ends[middle])) return false;
        *(ask->job->prompts[0].n_ids + room <= n_ctx ? &high : &low) = middle;
    }
    ask->job->n_dropped = high;
    return render(ask, ends[high]);
}

static bool make_prompt(struct bn_ask *ask)
{
    struct bn_job *job = ask->job;
    job->prompts = bn_alloc(1, sizeof *job->prompts);
    if (job->prompts == NULL) return bn_reply_no_memory(ask->reply);
    job->n_prompts = 1;
    const char *text;
    for (size_t i = 0; (text = bn_template_stop(job->tmpl, i)) != NULL; i++)
        if (job->n_stops < BN_ARRAY_LEN(job->stops)) job->stops[job->n_stops++] = text;
    return render(ask, 0) && (!ask->truncate || shorten(ask));
}

/* ---- the form of the answer ---- */

/* The grammar of an answer with functions, or of one that has thoughts before what a schema describes. */
static bool open_chat_grammar(struct bn_ask *ask)
{
    struct bn_buf schema = {.max = 4 * BN_GRAMMAR_MAX_BYTES}, gbnf = {.max = BN_GRAMMAR_MAX_GBNF};
    bn_error err = {0};
    bn_status status = BN_OK;
    if (ask->schema != NULL) status = bn_json_write(ask->schema, false, &schema, &err);
    ask->form.schema = ask->schema != NULL ? bn_buf_text(&schema) : NULL;
    ask->form.n_schema = schema.len;
    if (status == BN_OK) status = bn_chat_grammar(&gbnf, ask->job->tmpl, &ask->form, &err);
    bn_grammar_close(ask->job->grammar);
    ask->job->grammar = NULL;
    if (status == BN_OK)
        status = bn_grammar_open_gbnf(&ask->job->grammar, bn_buf_text(&gbnf), gbnf.len, &err);
    bn_buf_release(&schema);
    bn_buf_release(&gbnf);
    return bn_ask_check(ask, ask->schema != NULL ? "response_format" : "tools", status, &err);
}

/* Also whether an answer can begin, so that the engine's thread has no errors to report; the tree of tokens is made by
 * the first request that needs it. */
static bool make_grammar(struct bn_ask *ask)
{
    struct bn_job *job = ask->job;
    struct bn_matcher *matcher = NULL;
    bn_error err = {0};
    bool calls = bn_json_size(ask->talk.tools) > 0 && !ask->no_calls;
    if (calls && job->grammar != NULL)
        return bn_ask_refuse(ask, "tools", "cannot be used together with a form of the answer");
    ask->form.tools = calls ? ask->talk.tools : NULL;
    bool thinks = ask->schema != NULL && bn_template_thinking(job->tmpl) == BN_THINKING_ON;
    if (job->chat && (calls || thinks) && !open_chat_grammar(ask)) return false;
    if (job->grammar == NULL) return true;
    bn_status status = bn_matcher_open(&matcher, job->grammar, ask->engine->tok,
                                       bn_tokenizer_n_vocab(ask->engine->tok), NULL, 0, &err);
    bn_matcher_close(matcher);
    return bn_ask_check(ask, "grammar", status, &err);
}

/* ---- choices ---- */

static bool check_length(struct bn_ask *ask, const struct bn_prompt *prompt)
{
    uint32_t n_ctx = bn_session_n_ctx(ask->engine->session);
    if (prompt->n_ids < n_ctx) return true;
    return bn_reply_error(
        ask->reply, 400, ask->subject, "context_length_exceeded",
        "This model's maximum context length is %u tokens. However, your %s resulted in %zu tokens. "
        "Please reduce the length of the %s.",
        n_ctx, ask->subject, prompt->n_ids, ask->subject);
}

static void make_choice(struct bn_ask *ask, struct bn_prompt *prompt, uint32_t i)
{
    struct bn_job *job = ask->job;
    const struct bn_serve_options *o = ask->server->o;
    size_t index = job->n_choices++;
    struct bn_choice *c = &job->choices[index];
    uint32_t room = bn_session_n_ctx(ask->engine->session) - (uint32_t)prompt->n_ids + 1;
    *c = (struct bn_choice){
        .job = job, .text = prompt->text, .n_text_bytes = prompt->n_bytes, .gen = ask->gen};
    c->gen.prompt = prompt->ids;
    c->gen.n_prompt = prompt->n_ids;
    if (c->gen.n_predict == 0) c->gen.n_predict = room;
    if (o->max_tokens != 0 && c->gen.n_predict > o->max_tokens) c->gen.n_predict = o->max_tokens;
    if (c->gen.n_predict > room) c->gen.n_predict = room;
    c->gen.sampling.seed += i;
    c->gen.stops = job->stops;
    c->gen.n_stops = job->n_stops;
    c->gen.grammar = job->grammar;
    c->gen.want_chain = true;
    c->gen.want_logprobs = job->want_logprobs;
    c->gen.n_top = job->want_logprobs ? job->n_top : 0;
    bn_answer_begin(c);
    if (ask->n_each * job->n_prompts == 1)
        snprintf(c->receipt, sizeof c->receipt, "%s", job->id);
    else
        snprintf(c->receipt, sizeof c->receipt, "%s-%zu", job->id, index);
}

static bool make_choices(struct bn_ask *ask)
{
    struct bn_job *job = ask->job;
    if (job->n_prompts * ask->n_each > BN_SERVE_MAX_CHOICES)
        return bn_ask_refuse(ask, "n", "times the number of prompts is more than 16");
    if (ask->form.tools != NULL) {
        job->tools = ask->talk.tools;
        ask->talk.tools = NULL;
    }
    for (size_t k = 0; k < job->n_prompts; k++) {
        if (!check_length(ask, &job->prompts[k])) return false;
        for (uint32_t i = 0; i < ask->n_each; i++)
            make_choice(ask, &job->prompts[k], i);
    }
    return true;
}

/* ---- the whole ---- */

bool bn_serve_make_id(char id[BN_SERVE_ID])
{
    unsigned char bytes[(BN_SERVE_ID - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return false;
    bn_hex(id, bytes, sizeof bytes);
    return true;
}

bool bn_serve_parse(bn_json **body, const char *text, size_t n, struct bn_reply *reply)
{
    bn_error err = {0};
    if (bn_json_parse_within(body, text, n, BN_SERVE_MAX_TREE, &err) == BN_OK) {
        if (bn_json_kind(*body) == BN_JSON_OBJECT) return true;
        bn_fail(&err, BN_ERR_FORMAT, "the body is not a JSON object");
    }
    bn_reply_failed(reply, NULL, &err);
    return false;
}

bool bn_serve_parse_ids(const struct bn_engine *engine, const bn_json *list, const char *name, int32_t **ids,
                        size_t *n, struct bn_reply *reply)
{
    bn_status status = bn_json_ids(list, ids, n, NULL);
    if (status == BN_ERR_NOMEM) return bn_reply_no_memory(reply);
    if (bn_json_kind(list) != BN_JSON_ARRAY)
        return bn_reply_refuse(reply, name, "is not a list of token ids");
    for (size_t i = 0; i < *n && status == BN_OK; i++)
        if ((size_t)(*ids)[i] >= bn_tokenizer_n_vocab(engine->tok)) status = BN_ERR_FORMAT;
    return status == BN_OK ||
           bn_reply_refuse(reply, name, "has something that is not a token id of this model");
}

struct bn_job *bn_job_new(struct bn_server *server, struct bn_engine *engine, struct bn_reply *reply)
{
    struct bn_job *job = bn_alloc(1, sizeof *job);
    if (job == NULL) {
        pthread_mutex_lock(&server->lock);
        bn_engine_leave(engine);
        pthread_mutex_unlock(&server->lock);
        (void)bn_reply_no_memory(reply);
        return NULL;
    }
    *job = (struct bn_job){.server = server,
                           .engine = engine,
                           .protocol = &bn_openai_chat,
                           .tmpl = engine->tmpl,
                           .fd = -1,
                           .n_owners = 1,
                           .since_ns = bn_clock_ns()};
    job->created_s = (uint64_t)bn_clock_utc();
    job->reply.body.max = BN_SERVE_MAX_ANSWER_BYTES;
    if (bn_serve_make_id(job->id)) return job;
    bn_reply_error(reply, 500, NULL, NULL, "the system gives no random numbers");
    bn_job_drop(job);
    return NULL;
}

static bool take_body(struct bn_ask *ask)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        return bn_reply_error(ask->reply, 500, NULL, NULL, "the system gives no random numbers");
    ask->gen.sampling = (bn_sampler_options)BN_SAMPLER_OPTIONS_INIT;
    ask->gen.sampling.seed = seed >> 12;
    if (!read_keep_alive(ask) || !ask->job->protocol->read(ask)) return false;
    return ask->job->embed != NULL || ((ask->talk.n_turns == 0 || make_prompt(ask)) && make_grammar(ask) &&
                                       (ask->job->protocol->counts || make_choices(ask)));
}

bool bn_job_parse(struct bn_job **out, struct bn_server *server, const struct bn_protocol *protocol,
                  const struct bn_request *request, struct bn_reply *reply)
{
    struct bn_ask ask = {.server = server, .reply = reply, .n_each = 1, .subject = "messages"};
    *out = NULL;
    if (bn_serve_parse(&ask.body, request->body, request->n_bytes, reply) &&
        (ask.engine = bn_engine_enter(server, bn_json_text_of(ask.body, "model"), reply)) != NULL &&
        (ask.job = bn_job_new(server, ask.engine, reply)) != NULL) {
        ask.job->protocol = protocol;
        ask.job->tenant = request->tenant;
        ask.job->client = request->client;
        if (take_body(&ask))
            *out = ask.job;
        else
            bn_job_drop(ask.job);
    }
    bn_talk_release(&ask.talk);
    bn_json_free(ask.body);
    return *out != NULL;
}

static void release_choice(struct bn_choice *c)
{
    bn_generation_release(&c->gen);
    bn_buf_release(&c->answer);
    bn_buf_release(&c->reader.held);
    for (size_t i = 0; i < c->n_parts; i++) {
        bn_buf_release(&c->parts[i].name);
        bn_buf_release(&c->parts[i].text);
    }
    bn_free(c->parts);
}

void bn_job_release(struct bn_job *job)
{
    if (--job->n_owners > 0) return;
    for (size_t i = 0; i < job->n_choices; i++)
        release_choice(&job->choices[i]);
    for (size_t i = 0; job->prompts != NULL && i < job->n_prompts; i++)
        bn_prompt_release(&job->prompts[i]);
    bn_free(job->prompts);
    bn_embed_release(job->embed);
    bn_replay_close(job->replay);
    bn_receipt_release(&job->receipt);
    bn_buf_release(&job->reply.body);
    bn_grammar_close(job->grammar);
    bn_free(job->bias);
    bn_json_free(job->tools);
    bn_buf_release(&job->repeated);
    bn_buf_release(&job->items);
    if (job->keeps) job->engine->keep_ns = job->keep_ns;
    bn_engine_leave(job->engine);
    bn_free(job);
}

void bn_job_drop(struct bn_job *job)
{
    struct bn_server *s = job->server;
    pthread_mutex_lock(&s->lock);
    bn_job_release(job);
    pthread_mutex_unlock(&s->lock);
}

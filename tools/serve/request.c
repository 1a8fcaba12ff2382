/* SPDX-License-Identifier: MIT
 *
 * Turns a body into a job. Members that are unknown are ignored, as OpenAI's servers do; those that would change the
 * answer and are not supported are refused by name. null is the same as a member that is not there.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "grammar/matcher.h"
#include "tools/serve/serve.h"

#define MAX_TREE ((size_t)32 << 20) /* memory for the values of a body, until it is parsed */
#define DEFAULT_TOKENS 16u          /* of /v1/completions, as OpenAI's */

struct parsing {
    struct bn_server *server;
    struct bn_job *job;
    bn_json *body;
    struct bn_reply *reply;
    bn_generation gen; /* numbers of the request */
    uint32_t n_choices_each;
};

const bn_json *bn_serve_member(const bn_json *object, const char *name)
{
    const bn_json *value = bn_json_get(object, name);
    return bn_json_kind(value) != BN_JSON_NULL ? value : NULL;
}

static const bn_json *get(const struct parsing *p, const char *name)
{
    return bn_serve_member(p->body, name);
}

static bool refuse(struct parsing *p, const char *name, const char *what)
{
    return bn_reply_refuse(p->reply, name, what);
}

/* ---- what is not supported ---- */

/* Values with which a member changes nothing. */
static bool is_neutral(const char *name, const bn_json *value)
{
    double number;
    bool flag;
    const char *text = "";
    if (bn_json_kind(value) == BN_JSON_ARRAY || bn_json_kind(value) == BN_JSON_OBJECT) {
        if (strcmp(name, "modalities") == 0)
            return bn_json_size(value) == 1 && bn_json_string(bn_json_first(value), &text) &&
                   strcmp(text, "text") == 0;
        return bn_json_size(value) == 0;
    }
    if (bn_json_number(value, &number)) return number == (strcmp(name, "best_of") == 0 ? 1.0 : 0.0);
    if (bn_json_bool(value, &flag)) return !flag;
    if (!bn_json_string(value, &text)) return false;
    return text[0] == '\0' || ((strcmp(name, "tool_choice") == 0 || strcmp(name, "function_call") == 0) &&
                               (strcmp(text, "none") == 0 || strcmp(text, "auto") == 0));
}

static bool check_unsupported(struct parsing *p)
{
    static const char *const NAMES[] = {
        "tools",      "tool_choice", "functions", "function_call",    "modalities",        "audio",
        "logit_bias", "best_of",     "echo",      "presence_penalty", "frequency_penalty", "suffix"};
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++) {
        const bn_json *value = get(p, NAMES[i]);
        if (value != NULL && !is_neutral(NAMES[i], value)) return refuse(p, NAMES[i], "is not supported");
    }
    return true;
}

/* ---- prompts ---- */

bool bn_job_take_prompts(struct bn_job *job, const bn_json *value, const char *name, size_t most,
                         struct bn_reply *reply)
{
    const struct bn_server *s = job->server;
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
            if (bn_tokenize(s->tok, text, prompt->n_bytes, BN_TOKENIZE_BOS, &prompt->ids, &prompt->n_ids,
                            &err) != BN_OK)
                return bn_reply_failed(reply, name, &err);
        } else if (bn_json_kind(v) != BN_JSON_ARRAY) {
            return bn_reply_refuse(reply, name, "is not a text, tokens, or a list of these");
        } else if (!bn_serve_parse_ids(s, v, name, &prompt->ids, &prompt->n_ids, reply)) {
            return false;
        }
        if (prompt->n_ids == 0) return bn_reply_refuse(reply, name, "has a text without tokens");
    }
    return true;
}

static bool take_messages(struct parsing *p)
{
    struct bn_job *job = p->job;
    bn_error err = {0};
    if (get(p, "messages") == NULL) return refuse(p, "messages", "is missing");
    job->prompts = bn_alloc(1, sizeof *job->prompts);
    if (job->prompts == NULL) return bn_reply_no_memory(p->reply);
    job->n_prompts = 1;
    if (bn_request_messages(job->prompts, get(p, "messages"), p->server->tmpl, p->server->tok, &err) == BN_OK)
        return true;
    return bn_reply_failed(p->reply, "messages", &err);
}

/* ---- numbers and flags ---- */

/* A whole number of this range, which is left alone when it is not given. */
static bool take_whole(struct parsing *p, const char *name, uint64_t least, uint64_t most, uint32_t *out)
{
    const bn_json *value = get(p, name);
    uint64_t number;
    char what[80];
    if (value == NULL) return true;
    snprintf(what, sizeof what, "is not a whole number from %llu to %llu", (unsigned long long)least,
             (unsigned long long)most);
    if (!bn_json_u64(value, &number) || number < least || number > most) return refuse(p, name, what);
    *out = (uint32_t)number;
    return true;
}

static bool take_flag(struct parsing *p, const char *name, bool *out)
{
    const bn_json *value = get(p, name);
    return value == NULL || bn_json_bool(value, out) || refuse(p, name, "is not true or false");
}

static bool take_sampling(struct parsing *p)
{
    bn_error err = {0};
    bn_status status = BN_OK;
    for (const bn_json *m = bn_json_first(p->body); m != NULL; m = bn_json_next(m)) {
        if (bn_json_kind(m) == BN_JSON_NULL) continue;
        if (strcmp(bn_json_name(m), "seed") == 0) {
            if (!bn_receipt_seed(m, &p->gen.sampling.seed))
                return refuse(p, "seed", "is not a whole number from 0 to 2^53 - 1, or a text of digits");
        } else if (bn_request_number(&p->gen, m, &status, &err) && status != BN_OK) {
            return bn_reply_failed(p->reply, bn_json_name(m), &err);
        }
    }
    return true;
}

static bool take_logprobs(struct parsing *p)
{
    struct bn_job *job = p->job;
    if (!job->chat) {
        job->want_logprobs = get(p, "logprobs") != NULL;
        return take_whole(p, "logprobs", 0, BN_SERVE_MAX_TOP, &job->n_top);
    }
    if (!take_flag(p, "logprobs", &job->want_logprobs)) return false;
    if (get(p, "top_logprobs") != NULL && !job->want_logprobs)
        return refuse(p, "top_logprobs", "needs logprobs: true");
    return take_whole(p, "top_logprobs", 0, BN_SERVE_MAX_TOP, &job->n_top);
}

static bool add_stop(struct parsing *p, const bn_json *value)
{
    const char *text;
    if (!bn_json_string(value, &text) || text[0] == '\0' || strlen(text) > BN_SERVE_MAX_STOP_BYTES)
        return refuse(p, "stop", "is not a text of 1 to 256 bytes, or a list of these");
    if (p->job->n_stops == BN_SERVE_MAX_STOPS) return refuse(p, "stop", "has more than 16 texts");
    char *copy = p->job->stop_texts[p->job->n_stops];
    memcpy(copy, text, strlen(text) + 1);
    p->job->stops[p->job->n_stops++] = copy;
    return true;
}

/* Those of the request, then those of the template. */
static bool take_stops(struct parsing *p)
{
    struct bn_job *job = p->job;
    const bn_json *stop = get(p, "stop");
    if (stop != NULL && bn_json_kind(stop) != BN_JSON_ARRAY && !add_stop(p, stop)) return false;
    if (stop != NULL && bn_json_kind(stop) == BN_JSON_ARRAY)
        for (const bn_json *v = bn_json_first(stop); v != NULL; v = bn_json_next(v))
            if (!add_stop(p, v)) return false;
    const char *text;
    for (size_t i = 0; job->chat && (text = bn_template_stop(p->server->tmpl, i)) != NULL; i++)
        if (job->n_stops < BN_ARRAY_LEN(job->stops)) job->stops[job->n_stops++] = text;
    return true;
}

/* ---- the form of the answer ---- */

/* Also whether an answer can begin, so that the engine's thread has no errors to report; the tree of tokens is made by
 * the first request that needs it. */
static bool open_grammar(struct parsing *p, const char *name, const bn_json *schema, const char *text)
{
    bn_error err = {0};
    struct bn_matcher *matcher = NULL;
    bn_status status;
    if (p->job->grammar != NULL)
        return refuse(p, name, "is one of several forms of the answer; one is allowed");
    status = text != NULL ? bn_grammar_open_gbnf(&p->job->grammar, text, strlen(text), &err)
                          : bn_request_schema(&p->job->grammar, schema, &err);
    if (status == BN_OK)
        status = bn_matcher_open(&matcher, p->job->grammar, p->server->tok,
                                 bn_tokenizer_n_vocab(p->server->tok), NULL, 0, &err);
    bn_matcher_close(matcher);
    return status == BN_OK || bn_reply_failed(p->reply, name, &err);
}

static bool open_any_object(struct parsing *p)
{
    bn_json *schema = bn_json_new_object();
    bn_json_put_string(schema, "type", "object");
    bool good = open_grammar(p, "response_format", schema, NULL);
    bn_json_free(schema);
    return good;
}

/* OpenAI's {"type": "json_schema", "json_schema": {"schema": ...}}; llama-server's has the schema beside its type. A
 * schema is always enforced, strict or not. */
static bool take_response_format(struct parsing *p, const bn_json *format)
{
    const char *type = bn_json_text_of(format, "type");
    const bn_json *outer = bn_json_get(format, "json_schema"), *inner = bn_serve_member(outer, "schema");
    const bn_json *beside = bn_serve_member(format, "schema"), *is_strict = bn_serve_member(outer, "strict");
    bool strict;
    if (strcmp(type, "text") == 0) return true;
    if (strcmp(type, "json_object") == 0 && beside == NULL) return open_any_object(p);
    if (strcmp(type, "json_object") == 0) return open_grammar(p, "response_format.schema", beside, NULL);
    if (strcmp(type, "json_schema") != 0)
        return refuse(p, "response_format.type", "is not text, json_object or json_schema");
    if (is_strict != NULL && !bn_json_bool(is_strict, &strict))
        return refuse(p, "response_format.json_schema.strict", "is not true or false");
    if (inner != NULL) return open_grammar(p, "response_format.json_schema.schema", inner, NULL);
    if (beside != NULL) return open_grammar(p, "response_format.schema", beside, NULL);
    return refuse(p, "response_format.json_schema.schema", "is missing");
}

static bool take_form(struct parsing *p)
{
    const bn_json *format = get(p, "response_format"), *grammar = get(p, "grammar"),
                  *schema = get(p, "json_schema");
    const char *text;
    if (grammar != NULL) {
        if (!bn_json_string(grammar, &text)) return refuse(p, "grammar", "is not a text");
        if (text[0] != '\0' && !open_grammar(p, "grammar", NULL, text)) return false;
    }
    if (schema != NULL && !open_grammar(p, "json_schema", schema, NULL)) return false;
    return format == NULL || take_response_format(p, format);
}

static bool take_options(struct parsing *p)
{
    struct bn_job *job = p->job;
    const bn_json *stream_options = get(p, "stream_options");
    p->n_choices_each = 1;
    if (!take_flag(p, "stream", &job->stream) || !take_sampling(p) || !take_logprobs(p) || !take_stops(p) ||
        !take_form(p) || !take_whole(p, "n", 1, BN_SERVE_MAX_N, &p->n_choices_each) ||
        !take_whole(p, "max_tokens", 1, 1u << 24, &p->gen.n_predict) ||
        !take_whole(p, "max_completion_tokens", 1, 1u << 24, &p->gen.n_predict))
        return false;
    job->include_usage = stream_options != NULL && bn_json_flag_of(stream_options, "include_usage");
    return true;
}

/* ---- choices ---- */

static bool check_length(struct parsing *p, const struct bn_prompt *prompt)
{
    uint32_t n_ctx = bn_session_n_ctx(p->server->session);
    if (prompt->n_ids < n_ctx) return true;
    const char *name = p->job->chat ? "messages" : "prompt";
    bn_reply_error(
        p->reply, 400, name, "context_length_exceeded",
        "This model's maximum context length is %u tokens. However, your %s resulted in %zu tokens. "
        "Please reduce the length of the %s.",
        n_ctx, name, prompt->n_ids, name);
    return false;
}

static void make_choice(struct parsing *p, struct bn_prompt *prompt, uint32_t i)
{
    struct bn_job *job = p->job;
    const struct bn_serve_options *o = p->server->o;
    size_t index = job->n_choices++;
    struct bn_choice *c = &job->choices[index];
    uint32_t room = bn_session_n_ctx(p->server->session) - (uint32_t)prompt->n_ids + 1;
    *c = (struct bn_choice){.job = job, .text = prompt->text, .n_text_bytes = prompt->n_bytes, .gen = p->gen};
    c->answer.max = BN_SERVE_MAX_ANSWER_BYTES;
    c->gen.prompt = prompt->ids;
    c->gen.n_prompt = prompt->n_ids;
    if (c->gen.n_predict == 0) c->gen.n_predict = job->chat ? room : DEFAULT_TOKENS;
    if (o->max_tokens != 0 && c->gen.n_predict > o->max_tokens) c->gen.n_predict = o->max_tokens;
    if (c->gen.n_predict > room) c->gen.n_predict = room;
    c->gen.sampling.seed += i;
    c->gen.stops = job->stops;
    c->gen.n_stops = job->n_stops;
    c->gen.grammar = job->grammar;
    c->gen.want_chain = true;
    c->gen.want_logprobs = job->want_logprobs;
    c->gen.n_top = job->want_logprobs ? job->n_top : 0;
    if (p->n_choices_each * job->n_prompts == 1)
        snprintf(c->receipt, sizeof c->receipt, "%s", job->id);
    else
        snprintf(c->receipt, sizeof c->receipt, "%s-%zu", job->id, index);
}

static bool make_choices(struct parsing *p)
{
    struct bn_job *job = p->job;
    if (job->n_prompts * p->n_choices_each > BN_SERVE_MAX_CHOICES)
        return refuse(p, "n", "times the number of prompts is more than 16");
    for (size_t k = 0; k < job->n_prompts; k++) {
        if (!check_length(p, &job->prompts[k])) return false;
        for (uint32_t i = 0; i < p->n_choices_each; i++)
            make_choice(p, &job->prompts[k], i);
    }
    return true;
}

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
    if (bn_json_parse_within(body, text, n, MAX_TREE, &err) == BN_OK) {
        if (bn_json_kind(*body) == BN_JSON_OBJECT) return true;
        bn_fail(&err, BN_ERR_FORMAT, "the body is not a JSON object");
    }
    bn_reply_failed(reply, NULL, &err);
    return false;
}

bool bn_serve_parse_ids(const struct bn_server *server, const bn_json *list, const char *name, int32_t **ids,
                        size_t *n, struct bn_reply *reply)
{
    if (list == NULL || bn_json_kind(list) != BN_JSON_ARRAY)
        return bn_reply_refuse(reply, name, "is not a list of token ids");
    *ids = bn_alloc(bn_json_size(list), sizeof **ids);
    if (*ids == NULL) return bn_reply_no_memory(reply);
    for (const bn_json *v = bn_json_first(list); v != NULL; v = bn_json_next(v)) {
        uint64_t id;
        if (!bn_json_u64(v, &id) || id >= bn_tokenizer_n_vocab(server->tok))
            return bn_reply_refuse(reply, name, "has something that is not a token id of this model");
        (*ids)[(*n)++] = (int32_t)id;
    }
    return true;
}

struct bn_job *bn_job_new(struct bn_server *server, struct bn_reply *reply)
{
    struct bn_job *job = bn_alloc(1, sizeof *job);
    if (job == NULL) {
        (void)bn_reply_no_memory(reply);
        return NULL;
    }
    *job = (struct bn_job){.server = server, .fd = -1, .n_owners = 1, .since_ns = bn_clock_ns()};
    job->created_s = (uint64_t)bn_clock_utc();
    job->reply.body.max = BN_SERVE_MAX_ANSWER_BYTES;
    if (bn_serve_make_id(job->id)) return job;
    bn_reply_error(reply, 500, NULL, NULL, "the system gives no random numbers");
    bn_job_release(job);
    return NULL;
}

static bool take_body(struct parsing *p)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) {
        bn_reply_error(p->reply, 500, NULL, NULL, "the system gives no random numbers");
        return false;
    }
    p->gen.sampling = (bn_sampler_options)BN_SAMPLER_OPTIONS_INIT;
    p->gen.sampling.temperature = 1.0f; /* OpenAI's */
    p->gen.sampling.seed = seed >> 12;
    return check_unsupported(p) && take_options(p) &&
           (p->job->chat
                ? take_messages(p)
                : bn_job_take_prompts(p->job, get(p, "prompt"), "prompt", BN_SERVE_MAX_CHOICES, p->reply)) &&
           make_choices(p);
}

bool bn_job_parse(struct bn_job **out, struct bn_server *server, const char *body, size_t n, bool chat,
                  struct bn_reply *reply)
{
    struct parsing p = {.server = server, .reply = reply, .job = bn_job_new(server, reply)};
    *out = NULL;
    if (p.job == NULL) return false;
    p.job->chat = chat;
    if (bn_serve_parse(&p.body, body, n, reply) && take_body(&p))
        *out = p.job;
    else
        bn_job_release(p.job);
    bn_json_free(p.body);
    return *out != NULL;
}

void bn_job_release(struct bn_job *job)
{
    if (--job->n_owners > 0) return;
    for (size_t i = 0; i < job->n_choices; i++) {
        bn_generation_release(&job->choices[i].gen);
        bn_buf_release(&job->choices[i].answer);
    }
    for (size_t i = 0; job->prompts != NULL && i < job->n_prompts; i++) {
        bn_free(job->prompts[i].text);
        bn_free(job->prompts[i].ids);
    }
    bn_free(job->prompts);
    bn_embed_release(job->embed);
    bn_replay_close(job->replay);
    bn_receipt_release(&job->receipt);
    bn_buf_release(&job->reply.body);
    bn_grammar_close(job->grammar);
    bn_free(job);
}

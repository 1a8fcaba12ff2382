/* SPDX-License-Identifier: MIT
 *
 * What is generated, as the documents of OpenAI's API: one for each answer, or an event for each piece of text. The
 * member "bn" of a choice, which those do not have, names its receipt and gives its chain.
 */
#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tools/serve/serve.h"

#define LEAST_LOGPROB (-9999.0) /* JSON has no infinity */

static const char *finish_reason(const bn_generation *gen)
{
    /* BN_STOP_CALLER: the time of --max-time is over. */
    bool is_cut = gen->reason == BN_STOP_LENGTH || gen->reason == BN_STOP_CONTEXT ||
                  gen->reason == BN_STOP_CALLER || gen->reason == BN_STOP_STUCK;
    return is_cut ? "length" : "stop";
}

/* make_choice() limits an answer to what the context holds, so the engine reports a limit there, too. */
const char *bn_answer_end_reason(const struct bn_choice *c)
{
    bool is_full = c->gen.n_prompt + c->gen.n_ids > bn_session_n_ctx(c->job->server->session);
    return bn_stop_reason_name(c->gen.reason == BN_STOP_LENGTH && is_full ? BN_STOP_CONTEXT : c->gen.reason);
}

static bn_json *new_document(const struct bn_job *job)
{
    bn_json *document = bn_json_new_object();
    struct bn_buf id = {.max = 64};
    bn_buf_printf(&id, "%s-%s", job->chat ? "chatcmpl" : "cmpl", job->id);
    bn_json_put_string(document, "id", bn_buf_text(&id));
    bn_buf_release(&id);
    bn_json_put_string(document, "object",
                       !job->chat    ? "text_completion"
                       : job->stream ? "chat.completion.chunk"
                                     : "chat.completion");
    bn_json_put_u64(document, "created", job->created_s);
    bn_json_put_string(document, "model", job->server->model_id);
    bn_json_put_string(document, "system_fingerprint", job->server->fingerprint);
    return document;
}

static void put_usage(bn_json *document, const struct bn_job *job)
{
    size_t n_prompt = 0, n_cached = 0, n_generated = 0, each = job->n_choices / job->n_prompts;
    for (size_t i = 0; i < job->n_choices; i++) {
        const bn_generation *gen = &job->choices[i].gen;
        n_generated += gen->n_ids;
        if (i % each != 0) continue;
        n_prompt += gen->n_prompt;
        n_cached += gen->n_cached;
    }
    bn_json *usage = bn_json_put_object(document, "usage");
    bn_json_put_u64(usage, "prompt_tokens", n_prompt);
    bn_json_put_u64(usage, "completion_tokens", n_generated);
    bn_json_put_u64(usage, "total_tokens", n_prompt + n_generated);
    bn_json_put_u64(bn_json_put_object(usage, "prompt_tokens_details"), "cached_tokens", n_cached);
}

double bn_answer_rate(size_t n, uint64_t ns)
{
    return n > 0 && ns > 0 ? (double)n * 1e9 / (double)ns : (double)NAN;
}

/* What the engine measured, with the names that llama-server has. */
static void put_timings(bn_json *document, const bn_generation *gen)
{
    size_t n_new = gen->n_prompt - gen->n_cached, n_after = gen->n_ids - (gen->n_ids > 0);
    bn_json *timings = bn_json_put_object(document, "timings");
    bn_json_put_u64(timings, "cache_n", gen->n_cached);
    bn_json_put_u64(timings, "prompt_n", n_new);
    bn_json_put_number(timings, "prompt_ms", (double)gen->prefill_ns / 1e6);
    bn_json_put_number(timings, "prompt_per_second", bn_answer_rate(n_new, gen->prefill_ns));
    bn_json_put_u64(timings, "predicted_n", gen->n_ids);
    bn_json_put_number(timings, "predicted_ms", (double)gen->decode_ns / 1e6);
    bn_json_put_number(timings, "predicted_per_second", bn_answer_rate(n_after, gen->decode_ns));
}

/* ---- log-probabilities ---- */

static double at_least(double logprob)
{
    return isfinite(logprob) && logprob > LEAST_LOGPROB ? logprob : LEAST_LOGPROB;
}

/* The text of a token; half a character becomes U+FFFD when it is written. */
static void token_text(const struct bn_choice *c, int32_t id, struct bn_buf *text)
{
    const char *bytes = NULL;
    size_t n = bn_token_bytes(c->job->server->tok, id, &bytes);
    text->len = 0;
    bn_buf_append(text, n > 0 ? bytes : "", n);
}

static void put_token(bn_json *entry, const struct bn_choice *c, int32_t id, double logprob)
{
    struct bn_buf text = {.max = 1u << 16};
    token_text(c, id, &text);
    bn_json_put_string(entry, "token", bn_buf_text(&text));
    bn_json_put_number(entry, "logprob", at_least(logprob));
    bn_json *bytes = bn_json_put_array(entry, "bytes");
    for (size_t i = 0; i < text.len; i++)
        bn_json_add_u64(bytes, (unsigned char)text.data[i]);
    bn_buf_release(&text);
}

static void put_chat_logprobs(bn_json *parent, const struct bn_choice *c, size_t from, size_t to)
{
    const bn_generation *gen = &c->gen;
    bn_json *content = bn_json_put_array(bn_json_put_object(parent, "logprobs"), "content");
    for (size_t i = from; i < to; i++) {
        bn_json *entry = bn_json_add_object(content);
        put_token(entry, c, gen->ids[i], gen->logprobs[i]);
        bn_json *top = bn_json_put_array(entry, "top_logprobs");
        for (size_t k = 0; k < gen->n_top; k++) {
            const bn_candidate *best = &gen->top[i * gen->n_top + k];
            if (best->id >= 0)
                put_token(bn_json_add_object(top), c, best->id, (double)best->logit - gen->log_sums[i]);
        }
    }
}

static void put_text_logprobs(bn_json *parent, struct bn_choice *c, size_t from, size_t to)
{
    const bn_generation *gen = &c->gen;
    bn_json *logprobs = bn_json_put_object(parent, "logprobs");
    bn_json *tokens = bn_json_put_array(logprobs, "tokens");
    bn_json *values = bn_json_put_array(logprobs, "token_logprobs");
    bn_json *tops = bn_json_put_array(logprobs, "top_logprobs");
    bn_json *offsets = bn_json_put_array(logprobs, "text_offset");
    struct bn_buf text = {.max = 1u << 16};
    for (size_t i = from; i < to; i++) {
        bn_json *top = bn_json_add_object(tops);
        for (size_t k = 0; k < gen->n_top; k++) {
            const bn_candidate *best = &gen->top[i * gen->n_top + k];
            if (best->id < 0) continue;
            token_text(c, best->id, &text);
            bn_json_put_number(top, bn_buf_text(&text), at_least((double)best->logit - gen->log_sums[i]));
        }
        token_text(c, gen->ids[i], &text);
        bn_json_add_string(tokens, bn_buf_text(&text));
        bn_json_add_number(values, at_least(gen->logprobs[i]));
        bn_json_add_u64(offsets, c->n_text);
        c->n_text += text.len;
    }
    bn_buf_release(&text);
}

/* Those of the tokens that were not shown; without the one that ended the answer. */
static void put_logprobs(bn_json *parent, struct bn_choice *c)
{
    const bn_generation *gen = &c->gen;
    bool closed = c->ended && (gen->reason == BN_STOP_END || gen->reason == BN_STOP_ID);
    size_t to = gen->n_ids - (closed && gen->n_ids > 0);
    if (!c->job->want_logprobs) {
        bn_json_put_null(parent, "logprobs");
        return;
    }
    if (c->job->chat)
        put_chat_logprobs(parent, c, c->n_shown, to);
    else
        put_text_logprobs(parent, c, c->n_shown, to);
    c->n_shown = to;
}

/* ---- one document ---- */

static void put_evidence(bn_json *parent, const struct bn_choice *c)
{
    bn_json *bn = bn_json_put_object(parent, "bn");
    bn_json_put_string(bn, "receipt", c->receipt);
    bn_json_put_string(bn, "chain", c->gen.chain);
    bn_json_put_u64(bn, "seed", c->gen.sampling.seed);
    bn_json_put_string(bn, "end", bn_answer_end_reason(c));
    if (c->gen.reason == BN_STOP_STUCK) bn_json_put_string(bn, "stuck", bn_request_stuck(&c->gen));
}

static void put_choice(bn_json *list, struct bn_choice *c)
{
    bn_json *choice = bn_json_add_object(list);
    bn_json_put_u64(choice, "index", (uint64_t)(c - c->job->choices));
    bn_json_put_string(choice, "finish_reason", finish_reason(&c->gen));
    put_logprobs(choice, c);
    if (c->job->chat) {
        bn_json *message = bn_json_put_object(choice, "message");
        bn_json_put_string(message, "role", "assistant");
        bn_json_put_string(message, "content", bn_buf_text(&c->answer));
        bn_json_put_null(message, "refusal");
    } else {
        bn_json_put_string(choice, "text", bn_buf_text(&c->answer));
    }
    put_evidence(choice, c);
}

/* ---- events ---- */

/* Appends to what the client gets; one that reads nothing is dropped when that is too much. */
static void append(struct bn_job *job, const char *before, const struct bn_buf *text)
{
    pthread_mutex_lock(&job->server->lock);
    struct bn_buf *body = &job->reply.body;
    bn_buf_puts(body, before);
    if (text != NULL) bn_buf_append(body, text->data, text->len);
    bn_buf_puts(body, "\n\n");
    if (body->failed) job->gone = true;
    job->written_ns = bn_clock_ns();
    bn_listener_resume(job);
    pthread_mutex_unlock(&job->server->lock);
}

static void send_event(struct bn_job *job, bn_json *document)
{
    struct bn_buf text = {.max = BN_SERVE_MAX_ANSWER_BYTES};
    if (bn_json_write(document, true, &text, NULL) == BN_OK) append(job, "data: ", &text);
    bn_buf_release(&text);
    bn_json_free(document);
}

/* A choice of an event: a role, a text, or the end. */
static void send_piece(struct bn_choice *c, const char *role, const char *text, bool ends)
{
    struct bn_job *job = c->job;
    bn_json *document = new_document(job);
    bn_json *choice = bn_json_add_object(bn_json_put_array(document, "choices"));
    bn_json_put_u64(choice, "index", (uint64_t)(c - job->choices));
    if (job->chat) {
        bn_json *delta = bn_json_put_object(choice, "delta");
        if (role != NULL) bn_json_put_string(delta, "role", role);
        if (text != NULL) bn_json_put_string(delta, "content", text);
    } else {
        bn_json_put_string(choice, "text", text != NULL ? text : "");
    }
    if (text != NULL && role == NULL)
        put_logprobs(choice, c);
    else
        bn_json_put_null(choice, "logprobs");
    bn_json_put_string(choice, "finish_reason", ends ? finish_reason(&c->gen) : NULL);
    if (ends) put_evidence(choice, c);
    if (ends) put_timings(document, &c->gen);
    if (job->include_usage) bn_json_put_null(document, "usage");
    send_event(job, document);
}

void bn_answer_start(struct bn_job *job)
{
    for (size_t i = 0; job->stream && job->chat && i < job->n_choices; i++)
        send_piece(&job->choices[i], "assistant", "", false);
}

void bn_answer_token(struct bn_choice *c)
{
    if (!c->job->stream || c->answer.len == 0) return;
    send_piece(c, NULL, bn_buf_text(&c->answer), false);
    c->answer.len = 0;
    c->answer.data[0] = '\0';
}

void bn_answer_choice_end(struct bn_choice *c)
{
    if (!c->job->stream) return;
    size_t left = c->gen.n_ids - bn_min_size(c->n_shown, c->gen.n_ids);
    if (c->answer.len > 0 || (c->job->want_logprobs && left > 0))
        send_piece(c, NULL, bn_buf_text(&c->answer), false);
    send_piece(c, NULL, NULL, true);
}

/* ---- the end ---- */

void bn_answer_end(struct bn_job *job)
{
    struct bn_reply reply = {0};
    bn_json *document = new_document(job);
    bn_json *choices = bn_json_put_array(document, "choices");
    if (job->stream) {
        put_usage(document, job);
        if (job->include_usage)
            send_event(job, document);
        else
            bn_json_free(document);
        append(job, "data: [DONE]", NULL);
        return;
    }
    for (size_t i = 0; i < job->n_choices; i++)
        put_choice(choices, &job->choices[i]);
    put_usage(document, job);
    if (job->n_choices == 1) put_timings(document, &job->choices[0].gen);
    if (job->replay != NULL) {
        bn_json_free(document);
        document = bn_replay_document(job);
    }
    bn_reply_json(&reply, document);
    pthread_mutex_lock(&job->server->lock);
    job->reply = reply;
    pthread_mutex_unlock(&job->server->lock);
}

void bn_answer_failed(struct bn_job *job, unsigned status, const char *code, const char *message)
{
    struct bn_reply reply = {0};
    if (job->stream) {
        send_event(job, bn_reply_error_document(status, NULL, code, message));
        append(job, "data: [DONE]", NULL);
        return;
    }
    bn_reply_error(&reply, status, NULL, code, "%s", message);
    pthread_mutex_lock(&job->server->lock);
    reply.retry_after_s = status == 429 ? bn_engine_retry_after(job->server) : status == 503;
    job->reply = reply;
    pthread_mutex_unlock(&job->server->lock);
}

void bn_answer_ping(struct bn_job *job)
{
    append(job, ": waiting", NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * Answers as they come: what is generated becomes parts, which the protocol of the job writes. And what all protocols say
 * of an answer: its end, its tokens and times, and the member "bn", which names its receipt and gives its chain.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tools/serve/job.h"

bool bn_answer_is_cut(const struct bn_choice *c)
{
    /* BN_STOP_CALLER: the time of --max-time is over. */
    bn_stop_reason reason = c->gen.reason;
    return reason == BN_STOP_LENGTH || reason == BN_STOP_CONTEXT || reason == BN_STOP_CALLER ||
           reason == BN_STOP_STUCK;
}

/* An answer is limited to what the context holds (ask.c), so the engine reports a limit there, too. */
const char *bn_answer_end_reason(const struct bn_choice *c)
{
    bool is_full = c->gen.n_prompt + c->gen.n_ids > bn_session_n_ctx(c->job->engine->session);
    return bn_stop_reason_name(c->gen.reason == BN_STOP_LENGTH && is_full ? BN_STOP_CONTEXT : c->gen.reason);
}

struct bn_usage bn_answer_usage(const struct bn_job *job)
{
    struct bn_usage usage = {0};
    size_t each = job->n_choices / job->n_prompts;
    for (size_t i = 0; i < job->n_choices; i++) {
        const bn_generation *gen = &job->choices[i].gen;
        usage.n_generated += gen->n_ids;
        usage.n_thought += job->choices[i].n_thought;
        if (i % each != 0) continue;
        usage.n_prompt += gen->n_prompt;
        usage.n_cached += gen->n_cached;
    }
    return usage;
}

double bn_answer_rate(size_t n, uint64_t ns)
{
    return n > 0 && ns > 0 ? (double)n * 1e9 / (double)ns : (double)NAN;
}

void bn_answer_put_timings(bn_json *document, const bn_generation *gen)
{
    size_t n_new = gen->n_prompt - gen->n_cached, n_after = gen->n_ids - (gen->n_ids > 0);
    bn_json *timings = bn_json_put_object(document, "timings");
    BN_PUT(timings, BN_U64("cache_n", gen->n_cached), BN_U64("prompt_n", n_new),
           BN_NUMBER("prompt_ms", (double)gen->prefill_ns / 1e6),
           BN_NUMBER("prompt_per_second", bn_answer_rate(n_new, gen->prefill_ns)),
           BN_U64("predicted_n", gen->n_ids), BN_NUMBER("predicted_ms", (double)gen->decode_ns / 1e6),
           BN_NUMBER("predicted_per_second", bn_answer_rate(n_after, gen->decode_ns)));
}

void bn_answer_put_evidence(bn_json *parent, const struct bn_choice *c)
{
    bn_json *bn = bn_json_put_object(parent, "bn");
    BN_PUT(bn, BN_STRING("receipt", c->receipt), BN_STRING("chain", c->gen.chain),
           BN_U64("seed", c->gen.sampling.seed), BN_STRING("end", bn_answer_end_reason(c)));
    if (c->gen.reason == BN_STOP_STUCK) bn_json_put_string(bn, "stuck", bn_request_stuck(&c->gen));
    if (c->job->n_dropped > 0) bn_json_put_u64(bn, "dropped_turns", c->job->n_dropped);
}

/* ---- parts ---- */

const char *bn_answer_text(const struct bn_choice *c, enum bn_chat_part kind, struct bn_buf *out)
{
    const struct bn_answer_part *only = NULL;
    out->len = 0;
    for (size_t i = 0; i < c->n_parts; i++) {
        const struct bn_answer_part *part = &c->parts[i];
        if (part->kind != kind || part->text.len == 0) continue;
        if (only != NULL && out->len == 0) bn_buf_append(out, only->text.data, only->text.len);
        if (only != NULL) bn_buf_append(out, part->text.data, part->text.len);
        only = part;
    }
    return only == NULL ? NULL : out->len > 0 ? bn_buf_text(out) : bn_buf_text(&only->text);
}

static void end_part(struct bn_choice *c)
{
    const struct bn_protocol *protocol = c->job->protocol;
    if (c->n_parts > 0 && c->job->stream && protocol->end_part != NULL)
        protocol->end_part(c, &c->parts[c->n_parts - 1]);
}

/* A part of this kind begins; NULL: no memory. */
static struct bn_answer_part *begin_part(struct bn_choice *c, enum bn_chat_part kind, const char *name)
{
    const struct bn_job *job = c->job;
    end_part(c);
    if (bn_array_grow(&c->parts, &c->parts_room, c->n_parts + 1, sizeof *c->parts, NULL) != BN_OK) {
        c->failed = true;
        return NULL;
    }
    struct bn_answer_part *part = &c->parts[c->n_parts];
    *part = (struct bn_answer_part){
        .kind = kind, .index = c->n_parts++, .name.max = 256, .text.max = BN_SERVE_MAX_ANSWER_BYTES};
    if (kind == BN_CHAT_CALL) {
        part->call = c->n_calls++;
        bn_buf_puts(&part->name, name);
        snprintf(part->id, sizeof part->id, "call_%.24s%zu%zu", job->id, (size_t)(c - job->choices),
                 part->call);
    }
    if (job->stream && job->protocol->begin_part != NULL) job->protocol->begin_part(c, part);
    return part;
}

/* What the reader finds. */
static void take_part(void *user, enum bn_chat_part kind, const char *name, const char *text, size_t n)
{
    struct bn_choice *c = user;
    struct bn_answer_part *part = c->n_parts > 0 ? &c->parts[c->n_parts - 1] : NULL;
    if (c->failed) return;
    if (part == NULL || part->kind != kind || kind == BN_CHAT_CALL) part = begin_part(c, kind, name);
    if (part == NULL) return;
    size_t from = part->text.len;
    bn_buf_append(&part->text, text, n);
    c->failed = part->text.failed || part->name.failed;
    if (kind == BN_CHAT_THOUGHT) c->n_thought = c->gen.n_ids;
    if (c->job->stream && c->job->protocol->piece != NULL && !c->failed)
        c->job->protocol->piece(c, part, bn_buf_text(&part->text) + from);
}

/* ---- events ---- */

/* Appends to what the client gets; one that reads nothing is dropped when that is too much. */
static void append(struct bn_job *job, const struct bn_buf *text)
{
    pthread_mutex_lock(&job->server->lock);
    struct bn_buf *body = &job->reply.body;
    bn_buf_append(body, bn_buf_text(text), text->len);
    if (body->failed || text->failed) job->gone = true;
    job->written_ns = bn_clock_ns();
    bn_listener_resume(job);
    pthread_mutex_unlock(&job->server->lock);
}

void bn_answer_send_text(struct bn_job *job, const char *text)
{
    struct bn_buf event = {.max = 256};
    bn_buf_puts(&event, text);
    append(job, &event);
    bn_buf_release(&event);
}

void bn_answer_send(struct bn_job *job, const char *name, bn_json *document)
{
    struct bn_buf text = {.max = BN_SERVE_MAX_ANSWER_BYTES};
    if (name != NULL) bn_buf_printf(&text, "event: %s\n", name);
    if (!job->protocol->is_lines) bn_buf_puts(&text, "data: ");
    if (bn_json_write(document, true, &text, NULL) == BN_OK) {
        bn_buf_puts(&text, job->protocol->is_lines ? "\n" : "\n\n");
        append(job, &text);
        job->n_events++;
    }
    bn_buf_release(&text);
    bn_json_free(document);
}

void bn_answer_begin(struct bn_choice *c)
{
    c->answer.max = BN_SERVE_MAX_ANSWER_BYTES;
    c->reader = (struct bn_chat_reader){
        .tmpl = c->job->tmpl, .tools = c->job->tools, .on_part = take_part, .user = c};
}

void bn_answer_token(struct bn_choice *c, const char *text, size_t n)
{
    bn_buf_append(&c->answer, text, n);
    if (c->job->dropped) return;
    if (c->job->chat)
        bn_chat_read(&c->reader, text, n);
    else if (n > 0)
        take_part(c, BN_CHAT_TEXT, NULL, text, n);
}

void bn_answer_choice_end(struct bn_choice *c)
{
    if (c->job->chat) bn_chat_read_end(&c->reader);
    if (!c->job->stream) return;
    end_part(c);
    if (c->job->protocol->end_choice != NULL) c->job->protocol->end_choice(c);
}

/* ---- the end ---- */

static void finish(struct bn_job *job, struct bn_reply *reply)
{
    pthread_mutex_lock(&job->server->lock);
    job->reply = *reply;
    pthread_mutex_unlock(&job->server->lock);
}

void bn_answer_end(struct bn_job *job)
{
    struct bn_reply reply = {.status = 200, .protocol = job->protocol, .body.max = BN_SERVE_MAX_ANSWER_BYTES};
    if (job->embed != NULL) job->protocol->embedded(job, &reply.body);
    bool failed = reply.body.failed;
    for (size_t i = 0; i < job->n_choices; i++)
        failed = failed || job->choices[i].failed;
    if (failed) {
        bn_buf_release(&reply.body);
        bn_answer_failed(job, 503, NULL, "out of memory");
    } else if (job->stream) {
        if (job->protocol->end != NULL) job->protocol->end(job);
    } else {
        if (job->embed == NULL)
            bn_reply_json(&reply,
                          job->replay != NULL ? bn_replay_document(job) : job->protocol->document(job));
        finish(job, &reply);
    }
}

void bn_answer_failed(struct bn_job *job, unsigned status, const char *code, const char *message)
{
    struct bn_reply reply = {.protocol = job->protocol};
    if (job->stream) {
        job->protocol->fail(job, job->protocol->error(status, NULL, code, message));
        return;
    }
    bn_reply_error(&reply, status, NULL, code, "%s", message);
    pthread_mutex_lock(&job->server->lock);
    reply.retry_after_s = status == 429 ? bn_engine_retry_after(job->server) : status == 503;
    pthread_mutex_unlock(&job->server->lock);
    finish(job, &reply);
}

/* SPDX-License-Identifier: MIT
 *
 * /v1/embeddings: texts or tokens in, vectors out. Each text comes in as a prompt does, in the passes of the answers
 * that run, and has the vector of bn-run embed to the bit. One text is evaluated at a time. After each, the client that got
 * the fewest tokens is next.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "tools/cli/number.h"
#include "tools/serve/serve.h"

#define MAX_TEXTS 2048u
#define FLOAT_BYTES 16u /* most bytes of a number in JSON, with the comma */

struct bn_embed {
    size_t n_done, n_tokens;
    size_t n_embd;
    bool base64;
    float *vectors; /* of each text n_embd */
    bn_embedding *embedding;
};

/* ---- the request ---- */

/* Texts that are not empty and that the context holds. */
static bool take_input(struct bn_job *job, const bn_json *body, struct bn_reply *reply)
{
    struct bn_embed *e = job->embed;
    uint32_t n_ctx = bn_session_n_ctx(job->server->session);
    const size_t room = BN_SERVE_MAX_ANSWER_BYTES / (e->n_embd * FLOAT_BYTES);
    if (!bn_job_take_prompts(job, bn_serve_member(body, "input"), "input", MAX_TEXTS, reply)) return false;
    if (job->n_prompts > room)
        return bn_reply_refuse(reply, "input", "has too many texts: the answer would be larger than 64 MiB");
    e->vectors = bn_alloc(job->n_prompts * e->n_embd, sizeof *e->vectors);
    if (e->vectors == NULL) return bn_reply_no_memory(reply);
    for (size_t i = 0; i < job->n_prompts; i++) {
        const struct bn_prompt *text = &job->prompts[i];
        e->n_tokens += text->n_ids;
        if (text->text != NULL && text->n_bytes == 0)
            return bn_reply_refuse(reply, "input", "has an empty text");
        if (text->n_ids <= n_ctx) continue;
        bn_reply_error(
            reply, 400, "input", "context_length_exceeded",
            "This model's maximum context length is %u tokens. However, your input has a text of %zu tokens. "
            "Please reduce the length of the input.",
            n_ctx, text->n_ids);
        return false;
    }
    return true;
}

static bool take_options(struct bn_job *job, const bn_json *body, struct bn_reply *reply)
{
    struct bn_embed *e = job->embed;
    const bn_json *form = bn_serve_member(body, "encoding_format");
    const bn_json *length = bn_serve_member(body, "dimensions");
    uint64_t n = e->n_embd;
    const char *name = "float";
    if (form != NULL &&
        (!bn_json_string(form, &name) || (strcmp(name, "float") != 0 && strcmp(name, "base64") != 0)))
        return bn_reply_refuse(reply, "encoding_format", "is not \"float\" or \"base64\"");
    e->base64 = strcmp(name, "base64") == 0;
    if (length == NULL || (bn_json_u64(length, &n) && n == e->n_embd)) return true;
    bn_reply_error(reply, 400, "dimensions", NULL,
                   "dimensions is not %zu, the length of this model's vectors, which cannot be shortened",
                   e->n_embd);
    return false;
}

static bn_pooling pooling_of(const struct bn_server *s)
{
    return s->o->pooling != BN_POOLING_FILE ? (bn_pooling)s->o->pooling : bn_model_hparams(s->model)->pooling;
}

static bool check_model(struct bn_job *job, struct bn_reply *reply)
{
    bn_pooling pooling = pooling_of(job->server);
    if (pooling != BN_POOLING_FILE && pooling != BN_POOLING_NONE) return true;
    bn_reply_error(
        reply, 400, "model", NULL,
        "the model's file does not say how tokens become one vector; start bn-serve with --pooling mean "
        "or --pooling last");
    return false;
}

bool bn_embed_parse(struct bn_job **out, struct bn_server *server, const char *text, size_t n,
                    struct bn_reply *reply)
{
    struct bn_job *job = bn_job_new(server, reply);
    bn_json *body = NULL;
    *out = NULL;
    if (job == NULL) return false;
    job->embed = bn_alloc(1, sizeof *job->embed);
    job->n_choices = 1;
    job->choices[0].job = job;
    if (job->embed == NULL) (void)bn_reply_no_memory(reply);
    if (job->embed != NULL) job->embed->n_embd = bn_model_hparams(server->model)->n_embd;
    bool good = job->embed != NULL && bn_serve_parse(&body, text, n, reply) && check_model(job, reply) &&
                take_options(job, body, reply) && take_input(job, body, reply);
    bn_json_free(body);
    if (good) {
        job->choices[0].gen.n_prompt = job->embed->n_tokens;
        *out = job;
    } else {
        bn_job_release(job);
    }
    return good;
}

void bn_embed_release(struct bn_embed *e)
{
    if (e == NULL) return;
    bn_free(e->vectors);
    bn_embedding_close(e->embedding);
    bn_free(e);
}

/* ---- passes ---- */

size_t bn_embed_n_next(const struct bn_job *job)
{
    size_t i = job->embed->n_done;
    return i < job->n_prompts ? job->prompts[i].n_ids : 0;
}

bool bn_embed_has_begun(const struct bn_job *job)
{
    return job->embed != NULL && job->embed->n_done > 0;
}

bn_status bn_embed_start(struct bn_job *job, bn_error *err)
{
    struct bn_server *s = job->server;
    struct bn_embed *e = job->embed;
    const struct bn_prompt *text = &job->prompts[e->n_done];
    /* The time of an answer would disclose the texts of other tenants. */
    if (s->embedding_tenant != job->tenant) BN_TRY(bn_sequence_truncate(s->embedding, 0, err));
    s->embedding_tenant = job->tenant;
    bn_embed_options options = {.pooling = pooling_of(s)};
    BN_TRY(bn_embedding_open(&e->embedding, s->session, s->embedding, text->ids, text->n_ids, &options,
                             e->vectors + e->n_done * e->n_embd, err));
    return bn_lanes_embed(&s->lanes, e->embedding, err);
}

void bn_embed_stop(struct bn_job *job)
{
    bn_scheduler *scheduler = job->server->lanes.scheduler; /* NULL after a pass that failed */
    if (scheduler != NULL) bn_scheduler_embed(scheduler, NULL);
    bn_embedding_close(job->embed->embedding);
    job->embed->embedding = NULL;
}

bool bn_embed_advance(struct bn_job *job)
{
    if (!bn_scheduler_has_embedded(job->server->lanes.scheduler)) return false;
    bn_embed_stop(job);
    job->embed->n_done++;
    return true;
}

/* ---- the answer ---- */

void bn_embed_answer(struct bn_job *job)
{
    const struct bn_embed *e = job->embed;
    struct bn_reply reply = {.status = 200, .body.max = BN_SERVE_MAX_ANSWER_BYTES};
    struct bn_buf *out = &reply.body;
    bn_buf_puts(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < job->n_prompts; i++) {
        bn_buf_printf(out, "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i > 0 ? "," : "", i);
        const float *vector = e->vectors + i * e->n_embd;
        if (e->base64) {
            bn_buf_putc(out, '"');
            bn_base64_encode(out, vector, e->n_embd * sizeof *vector); /* every target is little endian */
            bn_buf_putc(out, '"');
        } else {
            bn_number_put_f32s(out, vector, e->n_embd);
        }
        bn_buf_putc(out, '}');
    }
    bn_buf_puts(out, "],\"model\":");
    bn_json_write_string(out, job->server->model_id);
    bn_buf_printf(out, ",\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}}\n", e->n_tokens,
                  e->n_tokens);
    if (out->failed) {
        bn_buf_release(out);
        reply = (struct bn_reply){0};
        bn_reply_error(&reply, 503, NULL, NULL, "out of memory");
    }
    pthread_mutex_lock(&job->server->lock);
    job->reply = reply;
    pthread_mutex_unlock(&job->server->lock);
}

/* SPDX-License-Identifier: MIT
 *
 * Texts or tokens in, vectors out, in the form of the protocol. Each text comes in as a prompt does, in the passes of the
 * answers that run, and has the vector of bn-run embed to the bit. One text is evaluated at a time. After each, the client
 * that got the fewest tokens is next.
 */
#define _GNU_SOURCE
#include <string.h>

#include "base/error.h"
#include "tools/cli/number.h"
#include "tools/serve/job.h"

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

/* Leaves the beginning of a text, and the token that marks its end. */
static void cut(const struct bn_job *job, struct bn_prompt *text, size_t n)
{
    int32_t last = text->ids[text->n_ids - 1];
    if (bn_token_is_end(job->engine->tok, last)) text->ids[n - 1] = last;
    text->n_ids = n;
}

/* Texts that are not empty and that the context holds. */
static bool take_input(struct bn_ask *ask)
{
    struct bn_job *job = ask->job;
    struct bn_reply *reply = ask->reply;
    const char *name = job->protocol->input;
    bool cuts = job->protocol->cuts;
    struct bn_embed *e = job->embed;
    uint32_t n_ctx = bn_session_n_ctx(job->engine->session);
    const size_t room = BN_SERVE_MAX_ANSWER_BYTES / (e->n_embd * FLOAT_BYTES);
    if (cuts && !bn_ask_flag(ask, ask->body, "truncate", &cuts)) return false;
    if (!bn_job_take_prompts(job, bn_serve_member(ask->body, name), name, MAX_TEXTS, reply)) return false;
    if (job->n_prompts > room)
        return bn_reply_refuse(reply, name, "has too many texts: the answer would be larger than 64 MiB");
    e->vectors = bn_alloc(job->n_prompts * e->n_embd, sizeof *e->vectors);
    if (e->vectors == NULL) return bn_reply_no_memory(reply);
    for (size_t i = 0; i < job->n_prompts; i++) {
        struct bn_prompt *text = &job->prompts[i];
        if (cuts && text->n_ids > n_ctx) cut(job, text, n_ctx);
        e->n_tokens += text->n_ids;
        if (text->text != NULL && text->n_bytes == 0)
            return bn_reply_refuse(reply, name, "has an empty text");
        if (text->n_ids <= n_ctx) continue;
        return bn_reply_error(
            reply, 400, name, "context_length_exceeded",
            "This model's maximum context length is %u tokens. However, your %s has a text of %zu tokens. "
            "Please reduce the length of the %s.",
            n_ctx, name, text->n_ids, name);
    }
    return true;
}

static bool take_options(struct bn_ask *ask)
{
    struct bn_embed *e = ask->job->embed;
    const bn_json *form = bn_serve_member(ask->body, "encoding_format");
    const bn_json *length = bn_serve_member(ask->body, "dimensions");
    uint64_t n = e->n_embd;
    const char *name = "float";
    if (form != NULL &&
        (!bn_json_string(form, &name) || (strcmp(name, "float") != 0 && strcmp(name, "base64") != 0)))
        return bn_ask_refuse(ask, "encoding_format", "is not \"float\" or \"base64\"");
    e->base64 = strcmp(name, "base64") == 0;
    if (length == NULL || (bn_json_u64(length, &n) && n == e->n_embd)) return true;
    return bn_reply_error(
        ask->reply, 400, "dimensions", NULL,
        "dimensions is not %zu, the length of this model's vectors, which cannot be shortened", e->n_embd);
}

static bn_pooling pooling_of(const struct bn_engine *e)
{
    const struct bn_serve_options *o = e->server->o;
    return o->pooling != BN_POOLING_FILE ? (bn_pooling)o->pooling : bn_model_hparams(e->model)->pooling;
}

bool bn_embed_can(const struct bn_engine *e)
{
    bn_pooling pooling = pooling_of(e);
    return pooling != BN_POOLING_FILE && pooling != BN_POOLING_NONE;
}

bool bn_embed_read(struct bn_ask *ask)
{
    struct bn_job *job = ask->job;
    job->embed = bn_alloc(1, sizeof *job->embed);
    if (job->embed == NULL) return bn_reply_no_memory(ask->reply);
    job->embed->n_embd = bn_model_hparams(job->engine->model)->n_embd;
    job->n_choices = 1;
    job->choices[0].job = job;
    if (!bn_embed_can(ask->engine))
        bn_reply_error(ask->reply, 400, "model", NULL,
                       "the model's file does not say how tokens become one vector; start bn-serve with "
                       "--pooling mean or --pooling last");
    if (ask->reply->status != 0 || !take_options(ask) || !take_input(ask)) return false;
    job->choices[0].gen.n_prompt = job->embed->n_tokens;
    return true;
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
    struct bn_engine *s = job->engine;
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
    bn_scheduler *scheduler = job->engine->lanes.scheduler; /* NULL after a pass that failed */
    if (scheduler != NULL) bn_scheduler_embed(scheduler, NULL);
    bn_embedding_close(job->embed->embedding);
    job->embed->embedding = NULL;
}

bool bn_embed_advance(struct bn_job *job)
{
    if (!bn_scheduler_has_embedded(job->engine->lanes.scheduler)) return false;
    bn_embed_stop(job);
    job->embed->n_done++;
    return true;
}

/* ---- the answer ---- */

void bn_embed_put(const struct bn_job *job, size_t i, struct bn_buf *out)
{
    const struct bn_embed *e = job->embed;
    const float *vector = e->vectors + i * e->n_embd;
    if (e->base64) {
        bn_buf_putc(out, '"');
        bn_base64_encode(out, vector, e->n_embd * sizeof *vector); /* every target is little endian */
        bn_buf_putc(out, '"');
    } else {
        bn_number_put_f32s(out, vector, e->n_embd);
    }
}

/* SPDX-License-Identifier: MIT
 *
 * POST /v1/receipts/ID/replay: generates the answer of a receipt again, as a job among the others, and compares tokens, chain,
 * text and reason. Nothing that was evaluated before is used: the job has a tenant of its own. A receipt that was changed is
 * refused without generating.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "lab/receipt/open.h"
#include "model/model.h"
#include "tools/serve/job.h"

/* ---- the verdict ---- */

static bn_json *new_verdict(const struct bn_job *job)
{
    const struct bn_replay_result *result = &job->replayed;
    bn_json *d = bn_json_new_object();
    BN_PUT(d, BN_STRING("object", "bn.replay"), BN_STRING("receipt", job->replay_of),
           BN_FLAG("verified", result->same), BN_TEXT("reason", result->same ? NULL : result->reason),
           BN_U64("tokens", result->n_tokens), BN_FLAG("chain", result->same && result->chain),
           BN_STRING("model", job->engine->id), BN_TEXT("model_sha256", job->engine->facts.model_sha256));
    return d;
}

static void refuse(struct bn_job *job, const char *reason)
{
    job->replayed.same = false;
    snprintf(job->replayed.reason, sizeof job->replayed.reason, "%.190s", reason);
}

bn_json *bn_replay_document(struct bn_job *job)
{
    const struct bn_choice *c = &job->choices[0];
    bn_error err = {0};
    if (bn_replay_compare(job->replay, job->engine->model, &c->gen, &job->replayed, &err) != BN_OK ||
        bn_model_check_file(job->engine->model, &err) != BN_OK)
        refuse(job, err.msg);
    bn_json *d = new_verdict(job);
    bn_json_put_string(d, "text", bn_buf_text(&c->answer));
    bn_json_put_number(d, "seconds", (double)(bn_clock_ns() - job->since_ns) / 1e9);
    return d;
}

/* ---- what needs no generating ---- */

static bn_status check_digest(struct bn_job *job, bool *good, bn_error *err)
{
    char hex[BN_SHA256_HEX];
    if (job->receipt.statement == NULL) return bn_fail(err, BN_ERR_FORMAT, "the receipt is not a statement");
    BN_TRY(bn_receipt_self_digest(job->receipt.statement, hex, err));
    *good = bn_json_text_is(job->receipt.statement, "receipt_sha256", hex);
    if (!*good) refuse(job, "the receipt was changed: its content does not have the digest receipt_sha256");
    return BN_OK;
}

/* Its tokens are of this vocabulary, and the context holds them. */
static bool fits(struct bn_job *job)
{
    const bn_generation *gen = bn_replay_request(job->replay);
    size_t n_vocab = bn_tokenizer_n_vocab(job->engine->tok);
    uint32_t n_ctx = bn_session_n_ctx(job->engine->session);
    bool good = gen->n_prompt > 0 && gen->n_predict > 0 && gen->n_prompt < n_ctx &&
                gen->n_predict <= n_ctx - gen->n_prompt + 1;
    for (size_t i = 0; i < gen->n_prompt && good; i++)
        good = gen->prompt[i] >= 0 && (size_t)gen->prompt[i] < n_vocab;
    if (!good) refuse(job, "the receipt has tokens that this server cannot evaluate");
    return good;
}

/* *good: the receipt is worth a generation. */
static bn_status prepare(struct bn_job *job, bool *good, bn_error *err)
{
    const struct bn_engine *s = job->engine;
    BN_TRY(check_digest(job, good, err));
    if (!*good) return BN_OK;
    BN_TRY(bn_replay_open(&job->replay, &job->receipt, err));
    BN_TRY(bn_replay_check_model(job->replay, s->model, s->facts.model_sha256, good, &job->replayed, err));
    *good = *good && fits(job);
    return BN_OK;
}

/* ---- the job ---- */

/* The id of the model that a receipt names, by its digest where that is known already, else by its name; "": of none. */
static const char *model_of(struct bn_server *s, const struct bn_receipt *receipt)
{
    const char *digest = bn_json_text_of(receipt->predicate, "model.sha256"), *id = "";
    const char *name = bn_json_text_of(receipt->predicate, "model.path");
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n_engines; i++) {
        const struct bn_engine *e = &s->engines[i];
        bool is_known = e->n_ctx > 0;
        if (strcmp(is_known ? e->facts.model_sha256 : bn_receipt_base_name(e->name),
                   is_known ? digest : name) == 0)
            id = e->id;
    }
    pthread_mutex_unlock(&s->lock);
    return id;
}

/* Makes the job ready, or answers with a verdict; status: of reading the receipt. */
static bool begin(struct bn_job *job, bn_status status, bn_error *err, struct bn_reply *reply)
{
    bool good = false;
    if (status == BN_OK) status = prepare(job, &good, err);
    if (status == BN_ERR_NOMEM) return bn_reply_no_memory(reply);
    if (status != BN_OK) refuse(job, err->msg);
    if (status != BN_OK || !good) {
        bn_reply_json(reply, new_verdict(job));
        return false;
    }
    job->n_prompts = job->n_choices = 1;
    job->choices[0] = (struct bn_choice){.job = job, .gen = *bn_replay_request(job->replay)};
    bn_answer_begin(&job->choices[0]);
    return true;
}

bool bn_replay_job(struct bn_job **out, struct bn_server *s, const char *id, uint32_t tenant,
                   struct bn_reply *reply)
{
    const struct bn_receipt_keys keys = {.unverified = true};
    struct bn_buf text = {.max = BN_SERVE_MAX_ANSWER_BYTES};
    struct bn_receipt receipt = {0};
    bn_error err = {0};
    *out = NULL;
    if (!bn_receipts_find(s, id, tenant, &text)) {
        bn_reply_error(reply, 404, NULL, NULL, BN_SERVE_NO_RECEIPT);
        bn_buf_release(&text);
        return false;
    }
    bn_status status = bn_receipt_open(&receipt, bn_buf_text(&text), text.len, &keys, &err);
    bn_buf_release(&text);
    struct bn_engine *engine = bn_engine_enter(s, model_of(s, &receipt), reply);
    struct bn_job *job = engine != NULL ? bn_job_new(s, engine, reply) : NULL;
    if (job == NULL) {
        bn_receipt_release(&receipt);
        return false;
    }
    job->receipt = receipt;
    snprintf(job->replay_of, sizeof job->replay_of, "%s", id);
    snprintf(job->id, sizeof job->id, "%.*s", (int)sizeof job->id - 1, id);
    job->tenant = UINT32_MAX - s->n_replays++;
    if (begin(job, status, &err, reply))
        *out = job;
    else
        bn_job_drop(job);
    return *out != NULL;
}

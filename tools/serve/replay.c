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
#include "tools/serve/serve.h"

/* ---- the verdict ---- */

static bn_json *new_verdict(const struct bn_job *job)
{
    const struct bn_replay_result *result = &job->replayed;
    bn_json *d = bn_json_new_object();
    bn_json_put_string(d, "object", "bn.replay");
    bn_json_put_string(d, "receipt", job->replay_of);
    bn_json_put_bool(d, "verified", result->same);
    bn_json_put_text(d, "reason", result->same ? NULL : result->reason);
    bn_json_put_u64(d, "tokens", result->n_tokens);
    bn_json_put_bool(d, "chain", result->same && result->chain);
    bn_json_put_string(d, "model", job->server->model_id);
    bn_json_put_text(d, "model_sha256", job->server->facts.model_sha256);
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
    if (bn_replay_compare(job->replay, job->server->model, &c->gen, &job->replayed, &err) != BN_OK ||
        bn_model_check_file(job->server->model, &err) != BN_OK)
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
    size_t n_vocab = bn_tokenizer_n_vocab(job->server->tok);
    uint32_t n_ctx = bn_session_n_ctx(job->server->session);
    bool good = gen->n_prompt > 0 && gen->n_predict > 0 && gen->n_prompt < n_ctx &&
                gen->n_predict <= n_ctx - gen->n_prompt + 1;
    for (size_t i = 0; i < gen->n_prompt && good; i++)
        good = gen->prompt[i] >= 0 && (size_t)gen->prompt[i] < n_vocab;
    if (!good) refuse(job, "the receipt has tokens that this server cannot evaluate");
    return good;
}

/* Reads the receipt; *good: it is worth a generation. */
static bn_status prepare(struct bn_job *job, const struct bn_buf *text, bool *good, bn_error *err)
{
    const struct bn_server *s = job->server;
    const struct bn_receipt_keys keys = {.unverified = true};
    BN_TRY(bn_receipt_open(&job->receipt, bn_buf_text(text), text->len, &keys, err));
    BN_TRY(check_digest(job, good, err));
    if (!*good) return BN_OK;
    BN_TRY(bn_replay_open(&job->replay, &job->receipt, err));
    BN_TRY(bn_replay_check_model(job->replay, s->model, s->facts.model_sha256, good, &job->replayed, err));
    *good = *good && fits(job);
    return BN_OK;
}

/* ---- the job ---- */

/* Makes the job ready, or answers with a verdict. */
static bool begin(struct bn_job *job, const struct bn_buf *text, struct bn_reply *reply)
{
    bn_error err = {0};
    bool good = false;
    bn_status status = prepare(job, text, &good, &err);
    if (status == BN_ERR_NOMEM) return bn_reply_no_memory(reply);
    if (status != BN_OK) refuse(job, err.msg);
    if (status != BN_OK || !good) {
        bn_reply_json(reply, new_verdict(job));
        return false;
    }
    job->n_prompts = job->n_choices = 1;
    job->choices[0] = (struct bn_choice){.job = job, .gen = *bn_replay_request(job->replay)};
    job->choices[0].answer.max = BN_SERVE_MAX_ANSWER_BYTES;
    return true;
}

bool bn_replay_job(struct bn_job **out, struct bn_server *s, const char *id, uint32_t tenant,
                   struct bn_reply *reply)
{
    struct bn_buf text = {.max = BN_SERVE_MAX_ANSWER_BYTES};
    struct bn_job *job = bn_job_new(s, reply);
    *out = NULL;
    if (job == NULL) return false;
    snprintf(job->replay_of, sizeof job->replay_of, "%s", id);
    snprintf(job->id, sizeof job->id, "%.*s", (int)sizeof job->id - 1, id);
    job->tenant = UINT32_MAX - s->n_replays++;
    if (!bn_receipts_find(s, id, tenant, &text))
        bn_reply_error(reply, 404, NULL, NULL, BN_SERVE_NO_RECEIPT);
    else if (begin(job, &text, reply))
        *out = job;
    bn_buf_release(&text);
    if (*out == NULL) bn_job_release(job);
    return *out != NULL;
}

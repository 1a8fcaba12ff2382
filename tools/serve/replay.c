/* SPDX-License-Identifier: MIT
 *
 * POST /v1/receipts/ID/replay: generates the answer of a receipt again, as a job among the others, and compares tokens, chain,
 * text and reason. Nothing that was evaluated before is used: the job is of a tenant that nobody else is. A receipt that
 * was changed is refused without generating.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "lab/receipt/open.h"
#include "lab/verify/replay.h"
#include "tools/serve/serve.h"

struct bn_replaying {
    struct bn_receipt receipt;
    struct bn_replay *replay;
    struct bn_replay_result result;
    char id[BN_SERVE_ID + 4];
};

void bn_replay_release(struct bn_replaying *p)
{
    if (p == NULL) return;
    bn_replay_close(p->replay);
    bn_receipt_release(&p->receipt);
    bn_free(p);
}

/* ---- the verdict ---- */

static bn_json *new_verdict(const struct bn_server *s, const struct bn_replaying *p)
{
    bn_json *d = bn_json_new_object();
    bn_json_put_string(d, "object", "bn.replay");
    bn_json_put_string(d, "receipt", p->id);
    bn_json_put_bool(d, "verified", p->result.same);
    bn_json_put_text(d, "reason", p->result.same ? NULL : p->result.reason);
    bn_json_put_u64(d, "tokens", p->result.n_tokens);
    bn_json_put_bool(d, "chain", p->result.same && p->result.chain);
    bn_json_put_string(d, "model", s->model_id);
    bn_json_put_text(d, "model_sha256", s->facts.model_sha256);
    return d;
}

bn_json *bn_replay_document(struct bn_job *job)
{
    struct bn_replaying *p = job->replaying;
    const struct bn_choice *c = &job->choices[0];
    bn_error err = {0};
    if (bn_replay_compare(p->replay, job->server->model, &c->gen, &p->result, &err) != BN_OK) {
        p->result.same = false;
        snprintf(p->result.reason, sizeof p->result.reason, "%.190s", err.msg);
    }
    bn_json *d = new_verdict(job->server, p);
    bn_json_put_string(d, "text", bn_buf_text(&c->answer));
    bn_json_put_number(d, "seconds", (double)(bn_clock_ns() - job->since_ns) / 1e9);
    return d;
}

/* ---- what needs no generating ---- */

static void refuse(struct bn_replaying *p, const char *reason)
{
    snprintf(p->result.reason, sizeof p->result.reason, "%.190s", reason);
}

static bn_status check_digest(struct bn_replaying *p, bool *good, bn_error *err)
{
    char hex[BN_SHA256_HEX];
    if (p->receipt.statement == NULL) return bn_fail(err, BN_ERR_FORMAT, "the receipt is not a statement");
    BN_TRY(bn_receipt_self_digest(p->receipt.statement, hex, err));
    *good = bn_json_text_is(p->receipt.statement, "receipt_sha256", hex);
    if (!*good) refuse(p, "the receipt was changed: its content does not have the digest receipt_sha256");
    return BN_OK;
}

/* Its tokens are of this vocabulary, and the context holds them. */
static bool fits(struct bn_replaying *p, const struct bn_server *s)
{
    const bn_generation *gen = bn_replay_request(p->replay);
    size_t n_vocab = bn_tokenizer_n_vocab(s->tok);
    uint32_t n_ctx = bn_session_n_ctx(s->session);
    bool good = gen->n_prompt > 0 && gen->n_predict > 0 && gen->n_prompt < n_ctx &&
                gen->n_predict <= n_ctx - gen->n_prompt + 1;
    for (size_t i = 0; i < gen->n_prompt && good; i++)
        good = gen->prompt[i] >= 0 && (size_t)gen->prompt[i] < n_vocab;
    if (!good) refuse(p, "the receipt has tokens that this server cannot evaluate");
    return good;
}

/* Reads the receipt; *good: it is worth a generation. */
static bn_status prepare(struct bn_replaying *p, const struct bn_server *s, const struct bn_buf *text,
                         bool *good, bn_error *err)
{
    const struct bn_receipt_keys keys = {.unverified = true};
    BN_TRY(bn_receipt_open(&p->receipt, bn_buf_text(text), text->len, &keys, err));
    BN_TRY(check_digest(p, good, err));
    if (!*good) return BN_OK;
    BN_TRY(bn_replay_open(&p->replay, &p->receipt, err));
    BN_TRY(bn_replay_check_model(p->replay, s->model, s->facts.model_sha256, good, &p->result, err));
    *good = *good && fits(p, s);
    return BN_OK;
}

/* ---- the job ---- */

static struct bn_job *new_job(struct bn_server *s, struct bn_replaying *p)
{
    struct bn_job *job = bn_alloc(1, sizeof *job);
    if (job == NULL) return NULL;
    *job = (struct bn_job){.server = s, .fd = -1, .n_owners = 1, .since_ns = bn_clock_ns(), .replaying = p};
    job->created_s = (uint64_t)bn_clock_utc();
    job->reply.body.max = BN_SERVE_MAX_ANSWER_BYTES;
    snprintf(job->id, sizeof job->id, "%.*s", (int)sizeof job->id - 1, p->id);
    job->tenant = UINT32_MAX - s->n_replays++;
    job->n_prompts = job->n_choices = 1;
    job->choices[0] = (struct bn_choice){.job = job, .gen = *bn_replay_request(p->replay)};
    job->choices[0].answer.max = BN_SERVE_MAX_ANSWER_BYTES;
    return job;
}

bool bn_replay_job(struct bn_job **out, struct bn_server *s, const char *id, uint32_t tenant,
                   struct bn_reply *reply)
{
    struct bn_buf text = {.max = BN_SERVE_MAX_ANSWER_BYTES};
    bn_error err = {0};
    bool good = false;
    struct bn_replaying *p = bn_alloc(1, sizeof *p);
    *out = NULL;
    if (p == NULL) {
        bn_reply_error(reply, 503, NULL, NULL, "out of memory");
        return false;
    }
    *p = (struct bn_replaying){0};
    snprintf(p->id, sizeof p->id, "%s", id);
    if (!bn_receipts_find(s, id, tenant, &text)) {
        bn_reply_error(reply, 404, NULL, NULL, BN_SERVE_NO_RECEIPT);
    } else {
        bn_status status = prepare(p, s, &text, &good, &err);
        if (status == BN_OK && good && (*out = new_job(s, p)) == NULL) status = bn_nomem(&err);
        if (status == BN_ERR_NOMEM)
            bn_reply_failed(reply, NULL, &err);
        else if (*out == NULL) {
            if (status != BN_OK) refuse(p, err.msg);
            bn_reply_json(reply, new_verdict(s, p));
        }
    }
    bn_buf_release(&text);
    if (*out == NULL) bn_replay_release(p);
    return *out != NULL;
}

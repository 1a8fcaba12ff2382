/* SPDX-License-Identifier: MIT
 *
 * The pipeline of a batch: receipts are read and checked while others are replayed. Results leave it in the order in which
 * receipts came; at most WINDOW of them wait for an earlier one. A receipt is in memory from its check to its verdict, and
 * at most twice --sequences are.
 *
 * Receipts of one model are replayed several in each pass. The claimed tokens are drafts, so a pass evaluates many tokens
 * of each. Tokens that two prompts begin with are evaluated once; everything is evaluated by this process.
 */
#include <stdio.h>

#include "base/clock.h"
#include "lab/verify/rules.h"
#include "model/hparams.h"
#include "tools/cli/batch/lanes.h"
#include "tools/cli/default_model.h"
#include "tools/verify-receipt/verify_receipt.h"

#define WINDOW 1024u
#define LEAST_CTX 512u

/* One receipt. */
struct job {
    struct bn_verify_item item;
    struct bn_verify_subject subject;
    struct engine *engine; /* that replays it */
    struct bn_replay *request;
    bn_generation gen;
    uint64_t began_ns; /* the replay; 0: it has not */
    struct bn_verify_result result;
    bool waits, done; /* waits: for a place among those that are replayed */
};

/* ---- replays on one model ---- */

struct engine {
    const struct bn_verify *v;
    const struct bn_verify_model *source;
    bn_model *model;
    bn_session *session; /* NULL: none is open */
    struct bn_lanes lanes;
    uint32_t n_ctx;
    const struct job *growing; /* needs longer timelines than there are: nothing else starts before it */
};

static void close_session(struct engine *e)
{
    bn_lanes_close(&e->lanes);
    bn_session_close(e->session);
    e->session = NULL;
    e->n_ctx = 0;
}

/* Timelines of a power of two of tokens, so that a session serves many receipts. */
static bn_status open_session(struct engine *e, uint32_t wanted, bn_error *err)
{
    uint32_t most = bn_model_hparams(e->model)->n_ctx, n_ctx = LEAST_CTX;
    close_session(e);
    while (n_ctx < wanted && n_ctx < most)
        n_ctx *= 2;
    n_ctx = n_ctx < most ? n_ctx : most;
    bn_session_options with = {
        .n_ctx = n_ctx, .n_batch = e->v->options->n_batch, .n_threads = e->v->n_threads};
    BN_TRY(bn_session_open(&e->session, e->model, &with, err));
    BN_TRY(
        bn_lanes_open(&e->lanes, e->session, bn_model_tokenizer(e->model), e->v->options->n_sequences, err));
    e->n_ctx = n_ctx;
    return BN_OK;
}

static bn_status engine_open(struct engine **out, const struct bn_verify *v,
                             const struct bn_verify_model *model, bn_error *err)
{
    bn_model_options with = {.repack = BN_REPACK_AUTO, .repack_later = true};
    struct engine *e = *out = bn_alloc(1, sizeof *e);
    if (e == NULL) return bn_nomem(err);
    *e = (struct engine){.v = v, .source = model};
    BN_TRY(bn_isa_select(v->args->isa, err));
    BN_TRY(bn_cli_device(&with.device, v->args, err));
    return bn_model_open_memory(&e->model, model->bytes, model->n_bytes, model->name, &with, err);
}

static void engine_close(struct engine *e)
{
    if (e == NULL) return;
    close_session(e);
    bn_model_close(e->model);
    bn_free(e);
}

/* Reads the request; *good: the receipt names this model. */
static bn_status read_request(struct engine *e, struct job *job, bool *good, bn_error *err)
{
    *good = false;
    BN_TRY(bn_replay_open(&job->request, &job->subject.receipt, err));
    BN_TRY(bn_replay_check_model(job->request, e->model, e->source->sha256, good, &job->subject.replay, err));
    job->gen = *bn_replay_request(job->request);
    job->gen.user = job;
    bn_replay_expect(job->request, e->model, &job->gen);
    return BN_OK;
}

/* Begins a replay, or leaves it waiting when there is no place now. *ended: it was refused without generating. */
static bn_status start(struct engine *e, struct job *job, bool *ended, bn_error *err)
{
    bool good = true;
    *ended = false;
    if (job->request == NULL) BN_TRY(read_request(e, job, &good, err));
    uint32_t n_ctx = bn_replay_n_ctx(job->request);
    *ended = !good;
    if (!good || (e->growing != NULL && e->growing != job)) return BN_OK;
    e->growing = n_ctx > e->n_ctx && e->lanes.n_busy > 0 ? job : NULL;
    if (e->growing != NULL) return BN_OK;
    if (e->session == NULL || n_ctx > e->n_ctx) BN_TRY(open_session(e, n_ctx, err));
    if (e->lanes.n_busy == e->lanes.n || bn_lanes_should_wait(&e->lanes, &job->gen, 0)) return BN_OK;
    job->began_ns = bn_clock_ns();
    BN_TRY(bn_lanes_start(&e->lanes, &job->gen, 0, err));
    job->waits = false;
    return BN_OK;
}

/* What is wrong with one receipt is its result, except for a lack of memory and faults of this program. */
static bn_status refuse(struct job *job, bn_status status, const bn_error *why, bn_error *err)
{
    if (bn_verify_is_own(status)) return bn_fail(err, status, "%s", why->msg);
    if (status != BN_OK) bn_verify_refuse(&job->subject, why);
    return BN_OK;
}

/* ---- the pipeline ---- */

struct bn_verify_pipeline {
    struct bn_verify *v;
    const struct bn_verify_feed *feed;
    struct engine **engines; /* one for each model; NULL: not needed yet */
    struct job *window[WINDOW];
    uint64_t first, end; /* counted from the start */
    size_t n_waiting;    /* for a place among those that are replayed */
};

bn_status bn_verify_pipeline_open(struct bn_verify_pipeline **out, struct bn_verify *v, bn_error *err)
{
    struct bn_verify_pipeline *p = *out = bn_alloc(1, sizeof *p);
    if (p == NULL) return bn_nomem(err);
    *p = (struct bn_verify_pipeline){.v = v};
    p->engines = bn_alloc(v->n_models, sizeof(struct engine *));
    return p->engines != NULL ? BN_OK : bn_nomem(err);
}

static struct job **place(struct bn_verify_pipeline *p, uint64_t i)
{
    return &p->window[i % WINDOW];
}

/* What only the check and the replay need. */
static void forget_receipt(struct job *job)
{
    bn_generation_release(&job->gen);
    bn_replay_close(job->request);
    job->request = NULL;
    bn_receipt_release(&job->subject.receipt);
    bn_buf_release(&job->item.text);
}

static void release(struct job *job)
{
    forget_receipt(job);
    bn_verify_item_release(&job->item);
    bn_free(job);
}

void bn_verify_pipeline_close(struct bn_verify_pipeline *p)
{
    if (p == NULL) return;
    for (size_t i = 0; p->engines != NULL && i < p->v->n_models; i++)
        engine_close(p->engines[i]); /* before the generations that it runs */
    for (uint64_t i = p->first; i < p->end; i++)
        release(*place(p, i));
    bn_free(p->engines);
    bn_free(p);
}

/* ---- results ---- */

/* The rules have run for the last time. */
static void conclude(struct job *job)
{
    struct bn_verify_result *r = &job->result;
    const struct bn_rules_report *report = &job->subject.report;
    size_t bad = bn_rules_first_bad(report);
    r->outcome = bn_verify_outcome(report);
    r->exit_code = (int)report->exit_code;
    r->bound = report->bound;
    r->claimable = bn_claimable(report);
    r->n_tokens = job->subject.replay.n_tokens;
    snprintf(r->level, sizeof r->level, "%s", bn_rules_level(report));
    snprintf(r->model_sha256, sizeof r->model_sha256, "%s",
             bn_json_text_of(job->subject.receipt.predicate, job->subject.receipt.form == BN_RECEIPT_TRAINING
                                                                 ? "result.model_sha256"
                                                                 : "model.sha256"));
    if (job->subject.receipt.root == NULL ||
        bn_json_digest(job->subject.receipt.root, r->receipt_sha256, NULL) != BN_OK)
        r->receipt_sha256[0] = '\0'; /* an envelope that was not opened */
    if (bad != SIZE_MAX) {
        snprintf(r->rule, sizeof r->rule, "%s", report->rules[bad].id);
        snprintf(r->reason, sizeof r->reason, "%s", report->results[bad].reason);
    }
    job->done = true;
    forget_receipt(job);
}

/* It could not be checked. */
static void conclude_error(struct job *job, const bn_error *why)
{
    struct bn_verify_result *r = &job->result;
    r->outcome = BN_OUTCOME_ERROR;
    r->exit_code = (int)bn_status_exit(why->code);
    snprintf(r->level, sizeof r->level, "none");
    if (why->offset == BN_NO_OFFSET || why->offset == 0)
        snprintf(r->reason, sizeof r->reason, "%s", why->msg);
    else
        snprintf(r->reason, sizeof r->reason, "%s (at byte %llu)", why->msg, (unsigned long long)why->offset);
    job->done = true;
    forget_receipt(job);
}

static bn_status emit(struct bn_verify_pipeline *p, bn_error *err)
{
    for (; p->first < p->end && (*place(p, p->first))->done; p->first++) {
        struct job *job = *place(p, p->first);
        BN_TRY(p->feed->done(p->feed->user, &job->item, &job->result, err));
        release(job);
        *place(p, p->first) = NULL;
    }
    return BN_OK;
}

/* ---- checks ---- */

static bn_status read_and_check(struct bn_verify_pipeline *p, struct job *job, bn_error *err)
{
    struct bn_buf file = {.max = BN_JSON_MAX_BYTES}, *text = &job->item.text;
    if (job->item.too_long)
        return bn_fail(err, BN_ERR_LIMIT, "is longer than %u bytes, the limit of a receipt",
                       BN_JSON_MAX_BYTES);
    bn_status status = BN_OK;
    if (job->item.line == 0) {
        text = &file;
        status = bn_file_read_regular(job->item.file, text, err);
    }
    const struct bn_str view = {bn_buf_text(text), text->len};
    if (status == BN_OK) status = bn_verify_check(p->v, &job->subject, &view, err);
    bn_buf_release(&file);
    return status;
}

static bn_status check(struct bn_verify_pipeline *p, struct job *job, bn_error *err)
{
    bn_error why = {0};
    uint64_t begin = bn_clock_ns();
    job->subject.path = job->item.file;
    bn_status status = read_and_check(p, job, &why);
    job->result.check_ns = bn_clock_ns() - begin;
    if (status == BN_ERR_NOMEM || status == BN_ERR_INTERNAL) return bn_fail(err, status, "%s", why.msg);
    if (status == BN_ERR_CANCELLED) return BN_OK; /* the batch ends before this one */
    if (status != BN_OK) {
        conclude_error(job, &why);
    } else if (job->subject.wants_replay) {
        struct engine **engine = &p->engines[job->subject.model - p->v->models];
        if (*engine == NULL) BN_TRY(engine_open(engine, p->v, job->subject.model, err));
        job->engine = *engine;
        job->waits = true;
        p->n_waiting++;
    } else {
        conclude(job);
    }
    return BN_OK;
}

/* Reads receipts until enough of them wait for a replay. */
static bn_status fill(struct bn_verify_pipeline *p, bool *more, bn_error *err)
{
    while (*more && p->end - p->first < WINDOW && p->n_waiting < p->v->options->n_sequences &&
           bn_cli_interrupted() == 0) {
        struct job *job = bn_alloc(1, sizeof *job);
        if (job == NULL) return bn_nomem(err);
        bn_status status = p->feed->next(p->feed->user, &job->item, more, err);
        if (status != BN_OK || !*more) {
            release(job);
            return status;
        }
        *place(p, p->end++) = job;
        BN_TRY(check(p, job, err));
        BN_TRY(emit(p, err));
    }
    return BN_OK;
}

/* ---- replays ---- */

static bn_status finish(struct job *job, bn_error *err)
{
    if (job->began_ns > 0) job->result.replay_ns = bn_clock_ns() - job->began_ns;
    job->result.replayed = true;
    BN_TRY(bn_verify_finish(&job->subject, err));
    conclude(job);
    return BN_OK;
}

static bn_status start_waiting(struct bn_verify_pipeline *p, bn_error *err)
{
    size_t n_left = p->n_waiting;
    for (uint64_t i = p->first; i < p->end && n_left > 0; i++) {
        struct job *job = *place(p, i);
        bool ended = false;
        bn_error why = {0};
        if (!job->waits) continue;
        n_left--;
        bn_status status = start(job->engine, job, &ended, &why);
        BN_TRY(refuse(job, status, &why, err));
        if (status == BN_OK && !ended && job->waits) continue;
        job->waits = false;
        p->n_waiting--;
        if (status != BN_OK || ended) BN_TRY(finish(job, err));
    }
    return BN_OK;
}

/* One pass of each engine that has something to do, over the weights for all that run there. */
static bn_status step(struct bn_verify_pipeline *p, bool *busy, bn_error *err)
{
    *busy = false;
    for (size_t i = 0; i < p->v->n_models; i++) {
        struct engine *e = p->engines[i];
        bn_generation *gen;
        if (e == NULL || e->lanes.n_busy == 0) continue;
        *busy = true;
        BN_TRY(bn_lanes_step(&e->lanes, err));
        bn_model_repack(e->model);
        while ((gen = bn_lanes_take(&e->lanes)) != NULL) {
            struct job *job = gen->user;
            bn_error why = {0};
            bn_status status = bn_replay_compare(job->request, e->model, gen, &job->subject.replay, &why);
            BN_TRY(refuse(job, status, &why, err));
            BN_TRY(finish(job, err));
        }
    }
    return BN_OK;
}

bn_status bn_verify_pipeline_run(struct bn_verify_pipeline *p, const struct bn_verify_feed *feed,
                                 bn_error *err)
{
    bool more = true, busy = true;
    p->feed = feed;
    while ((more || busy || p->n_waiting > 0) && bn_cli_interrupted() == 0) {
        BN_TRY(fill(p, &more, err));
        BN_TRY(start_waiting(p, err));
        BN_TRY(step(p, &busy, err));
        BN_TRY(emit(p, err));
    }
    return BN_OK;
}

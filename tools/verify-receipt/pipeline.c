/* SPDX-License-Identifier: MIT
 *
 * The pipeline of a batch: receipts are read and checked while others are replayed. Results leave it in the order in which
 * receipts came; at most WINDOW of them wait for an earlier one. A receipt is in memory from its check to its verdict, and
 * at most twice --sequences are.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "lab/verify/rules.h"
#include "tools/cli/report.h"
#include "tools/verify-receipt/batch.h"

#define WINDOW 1024u

struct job {
    struct bn_verify_item item;
    struct bn_verify_subject subject;
    struct bn_verify_replay replay;
    struct bn_verify_engine *engine;
    struct bn_verify_result result;
    bool waits, done;
};

struct bn_verify_pipeline {
    struct bn_verify *v;
    const struct bn_verify_feed *feed;
    struct bn_verify_engine **engines; /* one for each model; NULL: not needed yet */
    struct job *window[WINDOW];
    uint64_t first, end; /* counted from the start */
    size_t n_waiting;    /* for a place among those that are replayed */
};

bn_status bn_verify_pipeline_open(struct bn_verify_pipeline **out, struct bn_verify *v, bn_error *err)
{
    struct bn_verify_pipeline *p = *out = bn_alloc(1, sizeof *p);
    if (p == NULL) return bn_nomem(err);
    *p = (struct bn_verify_pipeline){.v = v};
    p->engines = bn_alloc(v->n_models, sizeof(struct bn_verify_engine *));
    return p->engines != NULL ? BN_OK : bn_nomem(err);
}

static struct job **place(struct bn_verify_pipeline *p, uint64_t i)
{
    return &p->window[i % WINDOW];
}

/* What only the check and the replay need. */
static void forget_receipt(struct job *job)
{
    bn_verify_replay_release(&job->replay);
    bn_receipt_release(&job->subject.receipt);
    bn_buf_release(&job->item.text);
    job->item.text = (struct bn_buf){0};
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
        bn_verify_engine_close(p->engines[i]); /* before the generations that it runs */
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
    r->n_passed = report->n_passed;
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

static bn_status engine_of(struct bn_verify_pipeline *p, struct job *job, bn_error *err)
{
    size_t i = (size_t)(job->subject.model - p->v->models);
    if (p->engines[i] == NULL) BN_TRY(bn_verify_engine_open(&p->engines[i], p->v, job->subject.model, err));
    job->engine = p->engines[i];
    return BN_OK;
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
        BN_TRY(engine_of(p, job, err));
        job->replay.subject = &job->subject;
        job->replay.user = job;
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
    if (job->replay.began_ns > 0) job->result.replay_ns = bn_clock_ns() - job->replay.began_ns;
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
        enum bn_replay_state state;
        if (!job->waits) continue;
        n_left--;
        BN_TRY(bn_verify_engine_start(job->engine, &job->replay, &state, err));
        if (state == BN_REPLAY_WAITS) continue;
        job->waits = false;
        p->n_waiting--;
        if (state == BN_REPLAY_ENDED) BN_TRY(finish(job, err));
    }
    return BN_OK;
}

/* One pass of each engine that has something to do. */
static bn_status step(struct bn_verify_pipeline *p, bool *busy, bn_error *err)
{
    *busy = false;
    for (size_t i = 0; i < p->v->n_models; i++) {
        struct bn_verify_replay *ended;
        if (p->engines[i] == NULL || !bn_verify_engine_is_busy(p->engines[i])) continue;
        *busy = true;
        BN_TRY(bn_verify_engine_step(p->engines[i], err));
        BN_TRY(bn_verify_engine_take(p->engines[i], &ended, err));
        for (; ended != NULL;) {
            struct job *job = ended->user;
            BN_TRY(finish(job, err));
            BN_TRY(bn_verify_engine_take(p->engines[i], &ended, err));
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

/* SPDX-License-Identifier: MIT
 *
 * Replays receipts of one model, several in each pass. The claimed tokens are drafts, so a pass evaluates many tokens of
 * each. Tokens that two prompts begin with are evaluated once; everything is evaluated by this process.
 */
#include "base/clock.h"
#include "base/error.h"
#include "lab/verify/replay.h"
#include "model/hparams.h"
#include "tools/cli/batch/lanes.h"
#include "tools/verify-receipt/batch.h"

#define LEAST_CTX 512u

struct bn_verify_engine {
    const struct bn_verify *v;
    const struct bn_verify_model *source;
    bn_model *model;
    bn_session *session; /* NULL: none is open */
    struct bn_lanes lanes;
    uint32_t n_ctx;
    const struct bn_verify_replay
        *growing; /* needs longer timelines than there are: nothing else starts before it */
};

static void close_session(struct bn_verify_engine *e)
{
    bn_lanes_close(&e->lanes);
    bn_session_close(e->session);
    e->session = NULL;
    e->n_ctx = 0;
}

/* Timelines of a power of two of tokens, so that a session serves many receipts. */
static bn_status open_session(struct bn_verify_engine *e, uint32_t wanted, bn_error *err)
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

bn_status bn_verify_engine_open(struct bn_verify_engine **out, const struct bn_verify *v,
                                const struct bn_verify_model *model, bn_error *err)
{
    const bn_model_options with = {.repack = BN_REPACK_AUTO, .repack_later = true};
    struct bn_verify_engine *e = *out = bn_alloc(1, sizeof *e);
    if (e == NULL) return bn_nomem(err);
    *e = (struct bn_verify_engine){.v = v, .source = model};
    BN_TRY(bn_isa_select(v->args->isa, err));
    return bn_model_open_memory(&e->model, model->bytes, model->n_bytes, model->name, &with, err);
}

void bn_verify_engine_close(struct bn_verify_engine *e)
{
    if (e == NULL) return;
    close_session(e);
    bn_model_close(e->model);
    bn_free(e);
}

void bn_verify_replay_release(struct bn_verify_replay *r)
{
    bn_generation_release(&r->gen);
    bn_replay_close(r->request);
    r->request = NULL;
}

/* Reads the request; *good: the receipt names this model. */
static bn_status read_request(struct bn_verify_engine *e, struct bn_verify_replay *r, bool *good,
                              bn_error *err)
{
    *good = false;
    BN_TRY(bn_replay_open(&r->request, &r->subject->receipt, err));
    BN_TRY(bn_replay_check_model(r->request, e->model, e->source->sha256, good, &r->subject->replay, err));
    r->gen = *bn_replay_request(r->request);
    r->gen.user = r;
    bn_replay_expect(r->request, e->model, &r->gen);
    return BN_OK;
}

static bn_status start(struct bn_verify_engine *e, struct bn_verify_replay *r, enum bn_replay_state *state,
                       bn_error *err)
{
    bool good = true;
    if (r->request == NULL) BN_TRY(read_request(e, r, &good, err));
    uint32_t n_ctx = bn_replay_n_ctx(r->request);
    *state = BN_REPLAY_ENDED;
    if (!good) return BN_OK;
    *state = BN_REPLAY_WAITS;
    if (e->growing != NULL && e->growing != r) return BN_OK;
    e->growing = n_ctx > e->n_ctx && e->lanes.n_busy > 0 ? r : NULL;
    if (e->growing != NULL) return BN_OK;
    if (e->session == NULL || n_ctx > e->n_ctx) BN_TRY(open_session(e, n_ctx, err));
    if (e->lanes.n_busy == e->lanes.n || bn_lanes_should_wait(&e->lanes, &r->gen, 0)) return BN_OK;
    r->began_ns = bn_clock_ns();
    BN_TRY(bn_lanes_start(&e->lanes, &r->gen, 0, err));
    *state = BN_REPLAY_RUNS;
    return BN_OK;
}

bn_status bn_verify_engine_start(struct bn_verify_engine *e, struct bn_verify_replay *r,
                                 enum bn_replay_state *state, bn_error *err)
{
    bn_error why = {0};
    bn_status status = start(e, r, state, &why);
    if (status == BN_OK) return BN_OK;
    if (status == BN_ERR_NOMEM || status == BN_ERR_INTERNAL) return bn_fail(err, status, "%s", why.msg);
    bn_verify_refuse(r->subject, &why);
    *state = BN_REPLAY_ENDED;
    return BN_OK;
}

bool bn_verify_engine_is_busy(const struct bn_verify_engine *e)
{
    return e->lanes.n_busy > 0;
}

bn_status bn_verify_engine_step(struct bn_verify_engine *e, bn_error *err)
{
    BN_TRY(bn_lanes_step(&e->lanes, err));
    bn_model_repack(e->model);
    return BN_OK;
}

bn_status bn_verify_engine_take(struct bn_verify_engine *e, struct bn_verify_replay **out, bn_error *err)
{
    bn_error why = {0};
    bn_generation *gen = bn_lanes_take(&e->lanes);
    *out = NULL;
    if (gen == NULL) return BN_OK;
    struct bn_verify_replay *r = *out = gen->user;
    bn_status status = bn_replay_compare(r->request, e->model, gen, &r->subject->replay, &why);
    if (status == BN_ERR_NOMEM || status == BN_ERR_INTERNAL) return bn_fail(err, status, "%s", why.msg);
    if (status != BN_OK) bn_verify_refuse(r->subject, &why);
    return BN_OK;
}

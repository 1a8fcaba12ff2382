/* SPDX-License-Identifier: MIT
 *
 * Chooses sequences for generations so that a prompt finds its beginning where it was evaluated before.
 */
#include "tools/cli/batch/lanes.h"

#include "base/error.h"
#include "base/mem.h"

#define WORTH_WAITING 16u /* tokens that need not be evaluated */

static bn_status open_scheduler(struct bn_lanes *lanes, bn_error *err)
{
    if (lanes->scheduler == NULL)
        BN_TRY(bn_scheduler_open(&lanes->scheduler, lanes->session, lanes->tok, (uint32_t)lanes->n, err));
    bn_scheduler_set_slowdown(lanes->scheduler, lanes->slowdown);
    return BN_OK;
}

bn_status bn_lanes_open(struct bn_lanes *lanes, bn_session *session, const bn_tokenizer *tok, size_t most,
                        bn_error *err)
{
    *lanes = (struct bn_lanes){.session = session, .tok = tok};
    most = bn_min_size(most, bn_session_n_batch(session));
    BN_TRY(BN_NEW(lanes->list, most, err));
    lanes->list[lanes->n++].sequence = bn_session_sequence(session);
    for (; lanes->n < most; lanes->n++)
        BN_TRY(bn_sequence_open(&lanes->list[lanes->n].sequence, session, 0, err));
    return open_scheduler(lanes, err);
}

void bn_lanes_close(struct bn_lanes *lanes)
{
    bn_scheduler_close(lanes->scheduler);
    for (size_t i = 1; i < lanes->n; i++)
        bn_sequence_close(lanes->list[i].sequence);
    bn_free(lanes->list);
    *lanes = (struct bn_lanes){0};
}

/* Tokens of the prompt that can be taken from a lane: all but the last at most, whose logits are needed. */
static uint32_t shared(const struct bn_lane *lane, const bn_generation *gen, uint32_t tenant)
{
    if (lane->tenant != tenant || gen->n_prompt == 0) return 0;
    return bn_sequence_known(lane->sequence,
                             bn_sequence_shared(lane->sequence, gen->prompt, gen->n_prompt - 1));
}

/* The lane that has most of the prompt, free or busy. */
static const struct bn_lane *choose_source(const struct bn_lanes *lanes, const bn_generation *gen,
                                           uint32_t tenant)
{
    const struct bn_lane *best = &lanes->list[0];
    for (size_t i = 1; i < lanes->n; i++)
        if (shared(&lanes->list[i], gen, tenant) > shared(best, gen, tenant)) best = &lanes->list[i];
    return best;
}

/* A free lane: of those that lose no tokens, the one that has most of the prompt; else the one whose tokens were used
 * least recently. So a short request does not take the lane of a conversation. */
static struct bn_lane *choose_free(struct bn_lanes *lanes, const bn_generation *gen, uint32_t tenant)
{
    struct bn_lane *best = NULL, *oldest = NULL;
    for (size_t i = 0; i < lanes->n; i++) {
        struct bn_lane *lane = &lanes->list[i];
        if (lane->gen != NULL) continue;
        if (oldest == NULL || lane->last_use < oldest->last_use) oldest = lane;
        uint32_t n = shared(lane, gen, tenant);
        if (n < bn_sequence_position(lane->sequence)) continue;
        if (best == NULL || n > shared(best, gen, tenant)) best = lane;
    }
    return best != NULL ? best : oldest;
}

bn_status bn_lanes_start(struct bn_lanes *lanes, bn_generation *gen, uint32_t tenant, bn_error *err)
{
    struct bn_lane *lane = choose_free(lanes, gen, tenant);
    if (lane == NULL) return bn_fail(err, BN_ERR_LIMIT, "all %zu lanes are busy", lanes->n);
    BN_TRY(open_scheduler(lanes, err));
    if (lane->tenant != tenant) BN_TRY(bn_sequence_truncate(lane->sequence, 0, err));
    lane->tenant = tenant;
    const struct bn_lane *source = choose_source(lanes, gen, tenant);
    if (source->tenant != tenant) source = lane;
    gen->n_cached = bn_sequence_share(lanes->session, lane->sequence, source->sequence, gen->prompt,
                                      gen->n_prompt > 0 ? gen->n_prompt - 1 : 0);
    BN_TRY(bn_scheduler_add(lanes->scheduler, lane->sequence, gen, err));
    lane->gen = gen;
    lane->last_use = ++lanes->n_starts;
    lanes->n_busy++;
    return BN_OK;
}

/* The tokens that a lane will have of the prompt when it has evaluated its own. */
static size_t shared_later(const struct bn_lane *lane, const bn_generation *gen, uint32_t tenant)
{
    size_t n = 0, end = gen->n_prompt > 0 ? gen->n_prompt - 1 : 0;
    if (lane->gen == NULL || lane->tenant != tenant) return 0;
    end = bn_min_size(end, lane->gen->n_prompt);
    while (n < end && gen->prompt[n] == lane->gen->prompt[n])
        n++;
    /* The state there would be lost; once the lane has passed it, a snapshot before it counts. */
    if (n >= WORTH_WAITING) bn_sequence_mark(lane->sequence, (uint32_t)n);
    return bn_sequence_position(lane->sequence) < n ? n : 0;
}

bool bn_lanes_should_wait(const struct bn_lanes *lanes, const bn_generation *gen, uint32_t tenant)
{
    uint32_t now = 0;
    size_t later = 0;
    for (size_t i = 0; i < lanes->n; i++) {
        uint32_t n_now = shared(&lanes->list[i], gen, tenant);
        size_t n_later = shared_later(&lanes->list[i], gen, tenant);
        if (n_now > now) now = n_now;
        if (n_later > later) later = n_later;
    }
    return later >= (size_t)now + WORTH_WAITING;
}

bn_status bn_lanes_embed(struct bn_lanes *lanes, bn_embedding *embedding, bn_error *err)
{
    BN_TRY(open_scheduler(lanes, err));
    bn_scheduler_embed(lanes->scheduler, embedding);
    return BN_OK;
}

bn_status bn_lanes_step(struct bn_lanes *lanes, bn_error *err)
{
    bn_status status = bn_scheduler_step(lanes->scheduler, err);
    if (status == BN_OK) return BN_OK;
    bn_scheduler_close(lanes->scheduler);
    lanes->scheduler = NULL; /* until the next generation starts */
    lanes->n_busy = 0;
    for (size_t i = 0; i < lanes->n; i++)
        lanes->list[i].gen = NULL;
    return status;
}

bn_generation *bn_lanes_take(struct bn_lanes *lanes)
{
    if (lanes->n_busy == 0) return NULL;
    bn_generation *gen = bn_scheduler_take(lanes->scheduler);
    for (size_t i = 0; gen != NULL && i < lanes->n; i++)
        if (lanes->list[i].gen == gen) {
            lanes->list[i].gen = NULL;
            lanes->n_busy--;
        }
    return gen;
}

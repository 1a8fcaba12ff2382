/* SPDX-License-Identifier: MIT
 *
 * See generator.h.
 */

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "generate/generator.h"
#include "grammar/matcher.h"

struct bn_constraint {
    bn_session *session;
    struct bn_matcher *matcher;
    size_t n_vocab;
    float *masked;  /* n_vocab: logits, or the order of those that are known */
    uint64_t until; /* steps of the matcher that it may make before it waits */
    bool waits;
};

/* Tokens that end the generation: those of the vocabulary, and control tokens that the request stops at. */
static bn_status open_matcher(struct bn_constraint *c, const bn_generation *gen, const bn_tokenizer *tok,
                              bn_error *err)
{
    size_t n_tokens = bn_tokenizer_n_vocab(tok), n = 0;
    int32_t *ends = bn_alloc(n_tokens + gen->n_stop_ids, sizeof *ends);
    if (ends == NULL) return bn_nomem(err);
    for (size_t id = 0; id < n_tokens && !gen->ignore_end; id++)
        if (bn_token_is_end(tok, (int32_t)id)) ends[n++] = (int32_t)id;
    for (size_t i = 0; i < gen->n_stop_ids; i++)
        if (bn_token_is_control(tok, gen->stop_ids[i])) ends[n++] = gen->stop_ids[i];
    bn_status status = bn_matcher_open(&c->matcher, gen->grammar, tok, c->n_vocab, ends, n, err);
    bn_free(ends);
    return status;
}

bn_status bn_constraint_open(struct bn_constraint **out, const bn_generation *gen, bn_session *session,
                             const bn_tokenizer *tok, bn_error *err)
{
    *out = NULL;
    if (gen->grammar == NULL) return BN_OK;
    struct bn_constraint *c = bn_alloc(1, sizeof *c);
    if (c == NULL) return bn_nomem(err);
    c->session = session;
    c->n_vocab = session->model->hp.n_vocab;
    c->masked = bn_alloc_aligned(c->n_vocab, sizeof *c->masked);
    bn_status status = c->masked != NULL ? open_matcher(c, gen, tok, err) : bn_nomem(err);
    if (status != BN_OK) {
        bn_constraint_close(c);
        return status;
    }
    *out = c;
    return BN_OK;
}

void bn_constraint_close(struct bn_constraint *c)
{
    if (c == NULL) return;
    bn_matcher_close(c->matcher);
    bn_free(c->masked);
    bn_free(c);
}

bool bn_constraint_is_complete(const struct bn_constraint *c)
{
    return bn_matcher_is_complete(c->matcher);
}

static bool is_allowed(const uint64_t *mask, size_t id)
{
    return (mask[id >> 6] >> (id & 63) & 1) != 0;
}

bool bn_constraint_grant(struct bn_constraint *c, size_t n)
{
    uint64_t now = c->matcher->n_steps, part = bn_matcher_unit(c->matcher) / n;
    c->until = now < c->until ? now + part : c->until + part; /* what is not used is not saved */
    return now < c->until;
}

uint64_t bn_constraint_cost(const struct bn_constraint *c)
{
    return c->matcher->n_steps / bn_matcher_unit(c->matcher);
}

bn_status bn_constraint_status(const struct bn_constraint *c)
{
    return c->matcher->status;
}

/* The best token that is allowed, if it is among the first few that are known, and this takes few steps. */
static int32_t best_of_first(struct bn_constraint *c, const float *logits, size_t n_best)
{
    static const size_t STEPS[] = {1, BN_CHAIN_TOP};
    bn_candidate top[BN_CHAIN_TOP];
    size_t done = 0;
    uint64_t most = c->matcher->n_steps + bn_matcher_unit(c->matcher);
    for (size_t k = 0; k < BN_ARRAY_LEN(STEPS); k++) {
        size_t n = bn_best_logits(logits, c->n_vocab, top, bn_min_size(STEPS[k], n_best));
        for (; done < n && c->matcher->n_steps < most; done++)
            if (top[done].logit > -INFINITY && bn_matcher_allows(c->matcher, top[done].id))
                return top[done].id;
    }
    return BN_CHOICE_NONE;
}

static int descending(const void *a, const void *b)
{
    const float *x = a, *y = b;
    return (*x < *y) - (*x > *y);
}

/* Whether at least `reach` tokens that are allowed are among the n_best best ones, which are known; so are all when no
 * logit is -INFINITY. */
static bool suffices(struct bn_constraint *c, const float *logits, size_t n_best, const uint64_t *mask,
                     size_t reach)
{
    size_t n_known = 0, n_allowed = 0;
    for (size_t i = 0; i < c->n_vocab; i++)
        if (logits[i] > -INFINITY) c->masked[n_known++] = logits[i];
    if (n_known == c->n_vocab) return true;
    if (n_best > n_known || reach > n_best) return false;
    qsort(c->masked, n_known, sizeof *c->masked, descending);
    float least = c->masked[n_best - 1];
    for (size_t i = 0; i < c->n_vocab; i++)
        n_allowed += logits[i] >= least && is_allowed(mask, i);
    return n_allowed >= reach;
}

/* The sampler's choice by the whole mask. */
static int32_t choose_masked(struct bn_constraint *c, bn_sampler *sampler, const float *logits,
                             const float *hidden, size_t n_best, const int32_t *recent, size_t n_recent)
{
    const uint64_t *mask = bn_matcher_mask(c->matcher, c->until);
    bool any = false;
    c->waits = mask == NULL && bn_constraint_status(c) == BN_OK;
    if (mask == NULL) return c->waits ? BN_CHOICE_WAITS : BN_CHOICE_NONE;
    for (size_t i = 0; i < (c->n_vocab + 63) / 64; i++)
        any = any || mask[i] != 0;
    if (!any) return BN_CHOICE_NONE;
    if (!suffices(c, logits, n_best, mask, bn_sampler_reach(sampler))) {
        bn_head_masked(c->session, hidden, mask, c->masked);
    } else {
        for (size_t i = 0; i < c->n_vocab; i++)
            c->masked[i] = is_allowed(mask, i) ? logits[i] : -INFINITY;
    }
    return bn_sampler_next(sampler, c->masked, recent, n_recent);
}

int32_t bn_constraint_choose(struct bn_constraint *c, bn_sampler *sampler, const float *logits,
                             const float *hidden, size_t n_best, const int32_t *recent, size_t n_recent)
{
    bool greedy = bn_sampler_reach(sampler) == 1;
    int32_t id = greedy && !c->waits ? best_of_first(c, logits, n_best) : BN_CHOICE_NONE;
    if (id < 0) id = choose_masked(c, sampler, logits, hidden, n_best, recent, n_recent);
    return id < 0 || bn_matcher_take(c->matcher, id) ? id : BN_CHOICE_NONE;
}

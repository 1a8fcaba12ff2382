/* SPDX-License-Identifier: MIT
 *
 * Speculation: tokens that may come next are drafted, and one pass evaluates all of them after the newest token. The
 * sampler goes over the rows of logits in order, exactly as it does over those of single tokens; the first token that
 * differs from the draft ends the pass. So the tokens and all bits are those without speculation.
 */
#ifndef BN_GENERATE_SPECULATE_H
#define BN_GENERATE_SPECULATE_H

#include "infer/session.h"

#define BN_DRAFT_MOST 16u      /* tokens of a draft, unless the request says something else */
#define BN_DRAFT_MOST_EVER 64u /* whatever it says */

/* ---- drafts ---- */

/* The longest draft that a request wants; 0: none. */
static inline uint32_t bn_draft_most(const bn_draft_options *o)
{
    uint32_t most = o->most != 0 ? o->most : BN_DRAFT_MOST;
    return o->kind == BN_DRAFT_NONE ? 0 : most < BN_DRAFT_MOST_EVER ? most : BN_DRAFT_MOST_EVER;
}

struct bn_drafter;

/* NULL in *out when the request wants no drafts. BN_ERR_ARG when its draft session does not fit the model. */
BN_MUST_CHECK bn_status bn_drafter_open(struct bn_drafter **out, const bn_generation *gen,
                                        const struct bn_model *model, bn_error *err);
void bn_drafter_close(struct bn_drafter *d);
/* Writes at most n tokens that may follow the history after it, where there is room, and returns how many. `sampler` is
 * the one that will choose the tokens; it does not change. */
size_t bn_drafter_draft(struct bn_drafter *d, int32_t *history, size_t n_history, size_t n,
                        const bn_sampler *sampler);

/* Prompt look-up: the continuation of the longest earlier copy of the end of the history. As above. */
size_t bn_draft_ngram(int32_t *history, size_t n_history, size_t n);

/* The next random numbers of s are those of `other`. Defined in sampler.c. */
void bn_sampler_follow(bn_sampler *s, const bn_sampler *other);

#define BN_DRAFT_CLASSES 8u

/* ---- when to draft; apart from its clock, so that tests can drive it ---- */

/* A budget, in passes of one token. Each such pass adds a 64th. A pass with a draft adds the tokens that it gave, less
 * its own time. Drafts are made while the budget is not negative. A draft is no longer than the
 * budget can lose. So drafts that do not pay take at most a 64th of the time, and are tried again rarely; drafts that
 * pay become long.
 *
 * Times are those of the processor: on a busy machine other programs delay single passes tenfold, and long ones more
 * often. They are means that one value moves by little, and a drafted token counts first as a pass of its own at most,
 * which it would be without drafts. */
struct bn_draft_pace {
    bool always;                /* regardless of the time */
    uint32_t most;              /* longest draft */
    uint32_t length;            /* of the next one: doubled by a draft that was right, halved by another */
    uint32_t n_plain, n_drafts; /* passes of one token; passes with drafts since the last one of them */
    double plain_ns;            /* of a pass of one token */
    /* Time of a drafted token in passes of one token, for drafts of 1, 2 to 3, 4 to 7 ... tokens; 0: unknown. */
    double each[BN_DRAFT_CLASSES];
    double budget;
};

/* How many tokens the next pass may draft; 0: none. */
size_t bn_draft_pace_length(const struct bn_draft_pace *pace);
/* A pass of n_drafted tokens and the one before them took ns, its draft included, and gave n_tokens. */
void bn_draft_pace_account(struct bn_draft_pace *pace, size_t n_drafted, size_t n_tokens, uint64_t ns);

#endif

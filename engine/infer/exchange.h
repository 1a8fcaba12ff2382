/* SPDX-License-Identifier: MIT
 *
 * What the sessions of a divided model send each other. Data are copied, never added: each value has the bits that the
 * rank which computed it gave it, so the results are those of one process.
 *
 * A layer has four exchanges of whole rows: the output of attention, of the output projection, of the activation, and of
 * the down projection. Of the logits the first rank gets the best ones when the caller asks for few, else all.
 */
#ifndef BN_INFER_EXCHANGE_H
#define BN_INFER_EXCHANGE_H

#include "infer/session.h"
#include "model/model.h"

#define BN_CANDIDATES_MAX 4096u /* logits of a pass that are sent as such, for each rank */

/* Counters of a session. */
struct bn_rank_tally {
    struct bn_counter kernel[BN_KERNEL_COUNT];
    uint64_t screen_rows;
};

/* What a session of a divided model has in addition. */
struct bn_link {
    bn_rank_stat stat;
    bn_error err; /* the first failure; no exchange follows it */
    bool failed;
    bool agreed;                 /* the other ranks follow, or this one does */
    struct bn_rank_tally others; /* of the other ranks, when they were last asked */
    /* The sequences that the first rank opened: their number there, themselves on the others. */
    uint32_t n_sequences;
    struct bn_sequence **sequences;
    /* Scratch memory, in the session's arena. */
    size_t *edges;                 /* one more than ranks */
    float *wire;                   /* rows of a batch, rank after rank */
    struct bn_rank_tally *tallies; /* one for each rank */
    struct bn_candidate *heads;    /* 1 + BN_CANDIDATES_MAX for each rank */
    uint32_t *orders;              /* rows of a batch and rows wanted */
};

/* A row of logits of which each rank has its slice; called by one thread. */
void bn_exchange_row(struct bn_session *s, float *logits);
/* A broadcast from the first rank; nothing after a failure. */
void bn_exchange_message(struct bn_session *s, void *data, size_t n);

/* ---- orders of the first rank; nothing on the others. follow.c ---- */

BN_MUST_CHECK bn_status bn_lead_pass(struct bn_session *s, bn_error *err);
void bn_lead_masked(struct bn_session *s, const float *hidden, const uint64_t *mask);
/* Returns the number of the new sequence. */
uint32_t bn_lead_sequence(const struct bn_session *s, uint32_t n_ctx);
void bn_lead_copy(const struct bn_session *s, const struct bn_sequence *to, const struct bn_sequence *from,
                  size_t first, size_t end);
void bn_lead_end(struct bn_session *s);

/* ---- sessions of a divided model ---- */

/* The sessions of a divided model: how they begin together, and how those of the ranks after the first follow it.
 *
 *     every rank:       bn_model_open_divided, open a session with the same sizes, bn_session_agree
 *     the first rank:   use the session as always, close it
 *     the other ranks:  bn_session_follow, close it
 *
 * Not divided: traces and saved timelines, which are refused, and models that draft, which the first rank runs alone.
 */

/* All ranks call it once, whether or not they could open model and session: status and err are what came out, session
 * is NULL after a failure. All return the same: BN_OK, or the error of the first rank that failed, or
 * BN_ERR_MISMATCH when their programs, instruction sets, models or sizes differ. */
BN_MUST_CHECK bn_status bn_session_agree(const struct bn_ranks *ranks, const bn_session *session,
                                         bn_status status, bn_error *err);

/* On every rank but the first: evaluates what the first one does, until that one closes its session. The model is that
 * of the session. */
BN_MUST_CHECK bn_status bn_session_follow(bn_session *session, bn_model *model, bn_error *err);

#endif

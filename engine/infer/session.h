/* SPDX-License-Identifier: MIT
 *
 * A session's inside: the KV cache, the scratch rows of one batch, the counters; all of it is allocated when
 * the session is opened.
 */
#ifndef BN_INFER_SESSION_H
#define BN_INFER_SESSION_H

#include "base/team.h"
#include "model/model.h"
#include "stamp/counters.h"
#include "stamp/profiler.h"

#define BN_QUERIES 4u       /* heads of one token whose attention is computed together */
#define BN_SCREEN_MAX 1024u /* largest n_best that is screened for */

struct bn_session {
    const struct bn_model *model;
    uint32_t n_ctx, n_batch, n_threads;
    uint32_t position; /* tokens in the timeline */
    void *arena;       /* everything below but the KV cache */

    /* KV cache, binary16: [layer][kv head][n_ctx][head_dim]. */
    uint16_t *k_cache, *v_cache;
    float *rope_cos, *rope_sin;   /* [n_ctx][n_rot / 2] */
    float *local_cos, *local_sin; /* the same of local layers; NULL without such layers */

    /* Rows of the batch in flight, n_batch of each; of norm, norm_in and act at least n_threads. */
    float *x;       /* n_embd: the residual stream */
    float *norm;    /* widest layer input: normalised, before quantising */
    float *norm_in; /* the same after the norm of one layer's inputs; NULL unless the model has such norms */
    float *q, *k, *v; /* q_dim, kv_dim, kv_dim */
    float *att;       /* q_dim */
    float *gate, *up; /* n_ff */
    float *y;         /* n_embd: what a layer's half adds to x */
    /* The inputs of linear layers, padded to the block: of 8 bits with one scale a row, or of 16 bits in two
     * planes with a step for each group. */
    int8_t *act_q, *act_low; /* the 8 bits, or the high ones; the low ones: NULL without 16 bits */
    float *rotated;          /* n_threads rows of the widest layer input; NULL unless the model is rotated */
    struct bn_act *act;
    struct bn_act16 *act16;
    float *act_step;
    int32_t *act_sum;
    float *scores;   /* n_threads times BN_QUERIES rows of n_ctx */
    float *head_row; /* n_threads rows of n_embd: one row of a quantised head in floats */
    float *hidden;   /* n_batch x n_embd: after the final norm */
    size_t n_hidden; /* rows of hidden that the last evaluation filled */

    /* Screening the head; NULL without a screen. See screen.c. */
    int8_t *screen_x;   /* n_threads times two planes of n_embd */
    float *screen_best; /* n_threads times two heaps of BN_SCREEN_MAX */
    bn_screen_stat screen;
    bool screen_off; /* it did not save time */

    struct bn_counters *counters; /* n_threads */
    bn_eval_timing timing;
    struct bn_prof *prof; /* NULL: no profile is taken */
    bn_trace_fn trace;
    void *trace_user;
    bn_cancel_fn cancel;
    void *cancel_user;

    struct bn_team *team;
    bool is_exact; /* as requested; with a profile the team always is */

    /* The evaluation in flight, read by all threads. */
    struct {
        const int32_t *tokens;
        size_t n;       /* tokens in the batch */
        size_t head_at; /* first row of the batch that goes through the head; n for none */
        float *logits;  /* n - head_at rows of n_vocab; NULL: only hidden states are wanted */
        size_t n_best;  /* of the logits that matter; 0: all */
        atomic_size_t n_rescored;
        struct bn_brick_timer team; /* starting the team, then joining it */
        atomic_bool bad_row;        /* an embedding row or the hidden state is not finite */
    } run;
};

/* From now on the session records its work in the profile; NULL detaches it. The profile outlives the session
 * or is detached first. The results are the same bits with and without one. BN_ERR_ARG when it has fewer
 * threads. */
BN_MUST_CHECK bn_status bn_session_set_profile(bn_session *session, bn_prof *prof, bn_error *err);

/* Bytes that a session allocated, by purpose. */
struct bn_session_memory {
    uint64_t kv_bytes, scratch_bytes, handle_bytes;
};
struct bn_session_memory bn_session_memory(const bn_session *s);

/* Whether n tokens fit into the vocabulary and after those of the timeline. */
BN_MUST_CHECK bn_status bn_session_check_tokens(const struct bn_session *s, const int32_t *tokens, size_t n,
                                                bn_error *err);

/* One batch through the network; the timeline moves on by n tokens. Rows from head_at on go through the head, unless
 * logits is NULL: then only hidden states are made. n_best logits matter, 0: all. Defined in forward.c. */
BN_MUST_CHECK bn_status bn_forward(struct bn_session *s, const int32_t *tokens, size_t n, size_t head_at,
                                   size_t n_best, float *logits, bn_error *err);

#endif

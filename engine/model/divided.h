/* SPDX-License-Identifier: MIT
 *
 * Orders: how the first rank of a divided model leads the others. It alone reads prompts, chooses tokens and writes
 * results. Before it evaluates something, it broadcasts what; the others do the same with their rows
 * (infer/follow.h). So ranks cannot come to different decisions.
 */
#ifndef BN_MODEL_DIVIDED_H
#define BN_MODEL_DIVIDED_H

#include "model/model.h"

enum bn_order_kind {
    BN_ORDER_END,  /* the session of the first rank is closed */
    BN_ORDER_PASS, /* a batch of tokens; of more than one, the rows and the rows wanted are a second message */
    BN_ORDER_SEQUENCE, /* open one more sequence */
    BN_ORDER_COPY,     /* copy positions from a sequence to another */
    BN_ORDER_MASKED,   /* some rows of the head, which a second message marks */
    BN_ORDER_TALLY,    /* send the counters */
    BN_ORDER_REPACK,   /* bn_model_repack */
    BN_ORDER_DIGEST    /* bn_model_digest */
};

/* A token of a batch. */
struct bn_order_row {
    uint32_t sequence; /* 0: the session's own, then in the order of BN_ORDER_SEQUENCE */
    uint32_t position;
    int32_t token;
};

/* Sent as it is: all ranks run the same program. */
struct bn_order {
    uint32_t kind;
    union {
        struct {
            uint32_t n, n_wanted, n_heads, n_best, wants_logits, screen_off;
            struct bn_order_row first;
        } pass;
        struct {
            uint32_t n_ctx;
        } sequence;
        struct {
            uint32_t to, from, first, end;
        } copy;
        struct {
            uint32_t hidden; /* row of the hidden states */
        } masked;
    };
};

/* From the first rank to all others; on those, it receives the order. */
BN_MUST_CHECK bn_status bn_order_broadcast(const struct bn_model *m, struct bn_order *order, bn_error *err);

#endif

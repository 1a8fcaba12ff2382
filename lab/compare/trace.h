/* SPDX-License-Identifier: MIT
 *
 * Traces: the operations of the network, the intermediates of one evaluation by operation and layer, and the
 * operation where two traces part.
 *
 * Differences grow from layer to layer, so a fixed limit cannot find the wrong operation. Each operation is
 * judged by what it adds to the error of its own inputs, row by row. An output row may be off by
 *
 *     floor + gain * e + flip * sqrt(e)
 *
 * where e is the greatest relative error among the input rows (for attention, of the keys and values of all
 * rows that it sees), and the three numbers belong to the kind of operation (metrics.h). An operation without
 * a record on one side is assumed to add all that it may.
 */
#ifndef BN_COMPARE_TRACE_H
#define BN_COMPARE_TRACE_H

#include "lab/compare/metrics.h"

/* X(operation, its name in a bn_trace_record, its kind, up to three inputs) in the order of computing. A norm
 * that a model does not have is, as an input, what it would have normalised. The residual stream that enters
 * a layer is FFN_RES of the one before, or EMBD: it is named EMBD here. Recurrent layers have MIX, Z and CONV
 * in place of Q, K and V; layers with experts have ROUTER and EXPERT_WEIGHTS in place of GATE and UP. */
#define BN_OPS(X)                                                                    \
    X(EMBD, "embd", EMBD, COUNT, COUNT, COUNT)                                       \
    X(ATTN_NORM, "attn_norm", NORM, EMBD, COUNT, COUNT)                              \
    X(ATTN_Q_NORM_IN, "attn_q_norm_in", NORM, ATTN_NORM, COUNT, COUNT)               \
    X(Q, "q", LINEAR, ATTN_Q_NORM_IN, COUNT, COUNT)                                  \
    X(ATTN_K_NORM_IN, "attn_k_norm_in", NORM, ATTN_NORM, COUNT, COUNT)               \
    X(K, "k", LINEAR, ATTN_K_NORM_IN, COUNT, COUNT)                                  \
    X(ATTN_V_NORM_IN, "attn_v_norm_in", NORM, ATTN_NORM, COUNT, COUNT)               \
    X(V, "v", LINEAR, ATTN_V_NORM_IN, COUNT, COUNT)                                  \
    X(MIX, "mix", LINEAR, ATTN_NORM, COUNT, COUNT)                                   \
    X(Z, "z", LINEAR, ATTN_NORM, COUNT, COUNT)                                       \
    X(CONV, "conv", ACT, MIX, COUNT, COUNT)                                          \
    X(Q_ROPE, "q_rope", ROPE, Q, COUNT, COUNT)                                       \
    X(K_ROPE, "k_rope", ROPE, K, COUNT, COUNT)                                       \
    X(ATTN_OUT, "attn_out", ATTENTION, Q_ROPE, K_ROPE, V)                            \
    X(ATTN_SUB_NORM, "attn_sub_norm", NORM, ATTN_OUT, COUNT, COUNT)                  \
    X(ATTN_OUTPUT_NORM_IN, "attn_output_norm_in", NORM, ATTN_SUB_NORM, COUNT, COUNT) \
    X(ATTN_O, "attn_o", LINEAR, ATTN_OUTPUT_NORM_IN, COUNT, COUNT)                   \
    X(POST_ATTENTION_NORM, "post_attention_norm", NORM, ATTN_O, COUNT, COUNT)        \
    X(ATTN_RES, "attn_res", SUM, EMBD, POST_ATTENTION_NORM, COUNT)                   \
    X(FFN_NORM, "ffn_norm", NORM, ATTN_RES, COUNT, COUNT)                            \
    X(ROUTER, "router", LINEAR, FFN_NORM, COUNT, COUNT)                              \
    X(EXPERT_WEIGHTS, "expert_weights", ACT, ROUTER, COUNT, COUNT)                   \
    X(FFN_GATE_NORM_IN, "ffn_gate_norm_in", NORM, FFN_NORM, COUNT, COUNT)            \
    X(GATE, "gate", LINEAR, FFN_GATE_NORM_IN, COUNT, COUNT)                          \
    X(FFN_UP_NORM_IN, "ffn_up_norm_in", NORM, FFN_NORM, COUNT, COUNT)                \
    X(UP, "up", LINEAR, FFN_UP_NORM_IN, COUNT, COUNT)                                \
    X(FFN_ACT, "ffn_act", ACT, GATE, UP, COUNT)                                      \
    X(FFN_SUB_NORM, "ffn_sub_norm", NORM, FFN_ACT, COUNT, COUNT)                     \
    X(FFN_DOWN_NORM_IN, "ffn_down_norm_in", NORM, FFN_SUB_NORM, COUNT, COUNT)        \
    X(DOWN, "down", LINEAR, FFN_DOWN_NORM_IN, COUNT, COUNT)                          \
    X(POST_FFW_NORM, "post_ffw_norm", NORM, DOWN, COUNT, COUNT)                      \
    X(FFN_RES, "ffn_res", SUM, ATTN_RES, POST_FFW_NORM, COUNT)                       \
    X(OUTPUT_NORM, "output_norm", NORM, EMBD, COUNT, COUNT)                          \
    X(LOGITS, "logits", HEAD, OUTPUT_NORM, COUNT, COUNT)
#define BN_OP_MEMBER(op, name, kind, a, b, c) BN_AT_##op,
enum bn_op { BN_OPS(BN_OP_MEMBER) BN_AT_COUNT };
#undef BN_OP_MEMBER
const char *bn_op_name(enum bn_op op);
enum bn_op_kind bn_op_kind_of(enum bn_op op);

/* ---- records ---- */

struct bn_record {
    enum bn_op op;
    int32_t layer; /* -1 outside the layers */
    size_t rows, cols;
    float *data;
};

/* Zeroed, it is ready for use. */
struct bn_records {
    struct bn_record *list;
    size_t n, room;
    bn_error err; /* the first failure of an evaluation */
};

/* Appends rows to those that the operation already has in this layer. Operations with unknown names are
 * left out. BN_ERR_FORMAT when the number of columns changes. */
BN_MUST_CHECK bn_status bn_records_add(struct bn_records *records, const char *op, int32_t layer, size_t rows,
                                       size_t cols, const float *data, bn_error *err);
/* The trace of an evaluation of these tokens; what the session had before is lost. */
BN_MUST_CHECK bn_status bn_records_evaluate(struct bn_records *records, bn_session *session, size_t n_vocab,
                                            const int32_t *ids, size_t n, bn_error *err);
void bn_records_release(struct bn_records *records);

/* ---- comparing two traces ---- */

enum bn_found {
    BN_FOUND_WITHIN,       /* in tolerance */
    BN_FOUND_OUT,          /* out of tolerance */
    BN_FOUND_ABSENT_A,     /* only the reference has it */
    BN_FOUND_ABSENT_B,     /* the reference did not send it */
    BN_FOUND_SHAPE,        /* rows or columns differ */
    BN_FOUND_NOT_FINITE_A, /* out of tolerance, too */
    BN_FOUND_NOT_FINITE_B,
};
const char *bn_found_name(enum bn_found found);

struct bn_finding {
    enum bn_op op;
    int32_t layer;
    enum bn_found found;
    size_t rows, cols;
    double nrmse, cosine; /* of the worst row */
    /* The row that comes closest to its tolerance, or exceeds it by the greatest factor. */
    size_t row;
    double error, handed, allowed; /* its nrmse, that of its inputs, and the tolerance */
    bool same_bits;
};

struct bn_bisection {
    struct bn_finding *list; /* in the order of computing */
    size_t n;
    size_t n_layers;
    size_t n_compared, n_values;  /* records and numbers that both sides have */
    size_t n_absent, n_same_bits; /* records */
    size_t first;                 /* the first that is out of tolerance, n for none */
    size_t first_bits;            /* the first whose bits differ, n for none */
};

/* a is this engine's trace, b the reference's. BN_OK whatever is found. */
BN_MUST_CHECK bn_status bn_bisect(struct bn_bisection *out, const struct bn_records *a,
                                  const struct bn_records *b, const struct bn_growth growth[BN_OP_KIND_COUNT],
                                  bn_error *err);
void bn_bisection_release(struct bn_bisection *bisection);

#endif

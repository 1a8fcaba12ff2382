/* SPDX-License-Identifier: MIT
 *
 * Traces in memory: the intermediates of one evaluation by operation and layer, from this engine's trace
 * callback, from a reference, or from a folder that bn-run wrote. Also the operations of the network: their
 * names, kinds and inputs.
 */
#ifndef BN_COMPARE_RECORDS_H
#define BN_COMPARE_RECORDS_H

#include "lab/compare/thresholds.h"

/* In the order of computing; the names are those of bn_trace_record. */
enum bn_op {
    BN_AT_EMBD,
    BN_AT_ATTN_NORM,
    BN_AT_ATTN_Q_NORM_IN,
    BN_AT_Q,
    BN_AT_ATTN_K_NORM_IN,
    BN_AT_K,
    BN_AT_ATTN_V_NORM_IN,
    BN_AT_V,
    BN_AT_MIX, /* of recurrent layers, which have none of q, k and v */
    BN_AT_Z,
    BN_AT_CONV,
    BN_AT_Q_ROPE,
    BN_AT_K_ROPE,
    BN_AT_ATTN_OUT,
    BN_AT_ATTN_SUB_NORM,
    BN_AT_ATTN_OUTPUT_NORM_IN,
    BN_AT_ATTN_O,
    BN_AT_POST_ATTENTION_NORM,
    BN_AT_ATTN_RES,
    BN_AT_FFN_NORM,
    BN_AT_ROUTER, /* of layers with experts, which have neither of gate and up */
    BN_AT_EXPERT_WEIGHTS,
    BN_AT_FFN_GATE_NORM_IN,
    BN_AT_GATE,
    BN_AT_FFN_UP_NORM_IN,
    BN_AT_UP,
    BN_AT_FFN_ACT,
    BN_AT_FFN_SUB_NORM,
    BN_AT_FFN_DOWN_NORM_IN,
    BN_AT_DOWN,
    BN_AT_POST_FFW_NORM,
    BN_AT_FFN_RES,
    BN_AT_OUTPUT_NORM,
    BN_AT_LOGITS,
    BN_AT_COUNT
};
const char *bn_op_name(enum bn_op op);
enum bn_op_kind bn_op_kind_of(enum bn_op op);
/* Up to three inputs of an operation; BN_AT_COUNT in unused places. The residual stream that enters a layer
 * is BN_AT_FFN_RES of the one before, or BN_AT_EMBD: it is named BN_AT_EMBD here. */
const enum bn_op *bn_op_inputs(enum bn_op op);

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
    bn_error err; /* the first failure of bn_records_take */
};

/* Appends rows to those that the operation already has in this layer. Operations with unknown names are
 * left out. BN_ERR_FORMAT when the number of columns changes. */
BN_MUST_CHECK bn_status bn_records_add(struct bn_records *records, const char *op, int32_t layer, size_t rows,
                                       size_t cols, const float *data, bn_error *err);
/* The same as a trace callback; user is the records. */
void bn_records_take(void *user, const bn_trace_record *record);
/* Reads L<layer>.<op>.f32 and G.<op>.f32 from a folder, rows by their number: each file has n_rows. */
BN_MUST_CHECK bn_status bn_records_read(struct bn_records *records, const char *folder, size_t n_rows,
                                        bn_error *err);
const struct bn_record *bn_records_find(const struct bn_records *records, enum bn_op op, int32_t layer);
void bn_records_release(struct bn_records *records);

#endif

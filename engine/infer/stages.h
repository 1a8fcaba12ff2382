/* SPDX-License-Identifier: MIT
 *
 * The stages of a layer: what the files of the forward pass share. All threads call each stage.
 *
 * A stage divides rows of the batch, heads, or rows of a matrix among the threads, never a sum. It ends with a
 * barrier where another thread's results are read next, unless its comment says otherwise.
 */
#ifndef BN_INFER_STAGES_H
#define BN_INFER_STAGES_H

#include "infer/pass.h"

/* ---- linear.c ---- */

/* Passes n rows to the session's trace callback, if there is one, after all threads have written them: one record for
 * each sequence. index says which rows of the batch they are; NULL: the first n. */
void bn_trace_rows(const struct pass *p, const char *op, int32_t layer, const float *data,
                   const uint32_t *index, size_t n, size_t cols);
/* The same for all rows of the batch. */
void bn_trace_layer(const struct pass *p, const char *op, uint32_t layer, const float *data, size_t cols);

/* A row of activations, rotated in a row of this thread's own when the layer wants it. */
const float *bn_rotated(const struct pass *p, const struct bn_linear *next, const float *x, size_t width);

/* out = rmsnorm(in) * weight for the rows that this thread quantises next. Returns where its row 0 is: a single
 * token is normalised by every thread for itself. No barrier follows. `op` names the trace. */
const float *bn_norm_rows(const struct pass *p, const char *op, uint32_t layer, const float *in, float *out,
                          const float *weight, size_t width);
/* Makes the inputs of `next`: normalises them into out when the layer has a norm of its inputs, rotates and
 * quantises them. `in` is what bn_norm_rows returned, or rows that all threads see. */
void bn_prepare_inputs(const struct pass *p, const char *op, uint32_t layer, const float *in, float *out,
                       const struct bn_linear *next);
/* One row of activations at place j, which `next` reads. */
void bn_quantize_row(const struct pass *p, size_t j, const float *x, const struct bn_linear *next,
                     bool finite);
/* The same in place of the inputs of another layer, after all threads have read those. */
void bn_next_inputs(const struct pass *p, const char *op, uint32_t layer, const float *in,
                    const struct bn_linear *next);
/* y = W x for this thread's rows of this rank's slice of W and the inputs prepared. Returns the number of values. No barrier. */
size_t bn_multiply_rows(const struct pass *p, const struct bn_linear *lin, float *y);
/* The same as a brick of its own. */
void bn_project(const struct pass *p, enum bn_brick brick, const struct bn_linear *lin, float *y);
/* The same for the rows of all ranks; with ranks all threads meet. */
void bn_project_all(const struct pass *p, enum bn_brick brick, const struct bn_linear *lin, float *y);
/* x += y, or rmsnorm(y) * norm when there is a norm. No barrier follows. */
void bn_add_residual(const struct pass *p, const char *op, uint32_t layer, const float *norm);

/* ---- attention.c, recurrent.c, ffn.c, experts.c ---- */

/* The two halves of layer n: each reads and changes the residual stream. A recurrent layer has no attention. */
void bn_layer_attention(const struct pass *p, uint32_t n);
void bn_layer_recurrent(const struct pass *p, uint32_t n);
void bn_layer_ffn(const struct pass *p, uint32_t n);
/* The second half of a layer with experts. */
void bn_layer_experts(const struct pass *p, uint32_t n);

#endif

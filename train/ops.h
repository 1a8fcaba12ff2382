/* SPDX-License-Identifier: MIT
 *
 * The operations of the network, forward and backward, over rows of activations (a row for each token). Backward
 * functions take the gradient of the output. Names: dx is the gradient of x. Gradients of weights are always added to
 * what is there.
 *
 * Quantisers are straight-through (Bengio, Leonard, Courville, 2013): the gradient passes them unchanged, also where
 * a weight was clamped, and scales count as constants.
 */
#ifndef BN_TRAIN_OPS_H
#define BN_TRAIN_OPS_H

#include <stdbool.h>

#include "kernels/kernels.h"
#include "train/real.h"

/* ---- element by element ---- */

void bn_op_add(bn_real *y, const bn_real *x, size_t n);
/* y = x * factor. */
void bn_op_scale(bn_real *y, const bn_real *x, bn_real factor, size_t n);

/* ---- norm ---- */

/* y = x / rms(x) * w for each row of n. y may be x. */
void bn_op_norm(const struct bn_kernels *k, bn_real *y, const bn_real *x, const bn_real *w, size_t rows,
                size_t n, bn_real eps);
/* dx = the gradient, or dx += it; dx may be dy. */
void bn_op_norm_back(bn_real *dx, bool add, bn_real *dw, const bn_real *dy, const bn_real *x,
                     const bn_real *w, size_t rows, size_t n, bn_real eps);

/* ---- quantisers ---- */

/* For each row: scale = 127 / max(|x|, 1e-5); q = x * scale, rounded to nearest even: integers. q may be x. In
 * binary32 acts get the same rows in 8 bits, in the memory of q8. */
void bn_op_quantise(const struct bn_kernels *k, bn_real *q, bn_real *scale, struct bn_act *acts, int8_t *q8,
                    const bn_real *x, size_t rows, size_t n);
/* The sum of |w|, of a block. */
double bn_op_sum_abs(const bn_real *w, size_t n);
/* t = clamp(round(w / s), -1, 1) * unit. */
void bn_op_ternarise(bn_real *t, const bn_real *w, bn_real s, bn_real unit, size_t n);

/* ---- linear layers ---- */

/* What goes into one: rows of n values. With a scale they are integers, and x[i] / scale[row] is meant. */
struct bn_op_input {
    const bn_real *x, *scale; /* scale may be NULL */
    size_t rows, n;
    const struct bn_act *acts; /* the same rows in 8 bits; NULL: none */
};
/* n_out rows of n_in weights t * s. */
struct bn_op_matrix {
    const bn_real *t;
    bn_real s;
    size_t n_out, n_in;
    const uint8_t *codes; /* t as tiles of I2_S; NULL: none */
};

/* y (rows of n_out) = x w^T. Products of integers are exact, so the engine's integer kernel gives the bits of the float
 * product; the scales come after: (t / scale) * s. */
void bn_op_linear(const struct bn_kernels *k, bn_real *y, const struct bn_op_input *in,
                  const struct bn_op_matrix *w);
/* dx = dy w, or added; dw += dy^T x. scratch has the size of dy. */
void bn_op_linear_back(bn_real *dx, bool add, bn_real *dw, const bn_real *dy, const struct bn_op_input *in,
                       const struct bn_op_matrix *w, bn_real *scratch);

/* ---- attention ---- */

struct bn_op_heads {
    size_t n_head, n_kv, head_dim; /* heads of queries, of keys and values; n_kv divides n_head */
    size_t n_tokens;               /* of the sequence */
};

/* Rotates the heads of each row in place, pairs (i, i + head_dim / 2); back: by the opposite angles. cos and sin have
 * head_dim / 2 values a position. */
void bn_op_rope(bn_real *x, size_t n_heads, const struct bn_op_heads *h, const bn_real *cos,
                const bn_real *sin, bool back);
/* Causal attention of one sequence. q and y: n_tokens rows of n_head * head_dim; keys and values: of n_kv * head_dim.
 * p: n_head times n_tokens * n_tokens probabilities, which the backward pass takes. */
void bn_op_attention(const struct bn_kernels *k, bn_real *y, bn_real *p, const bn_real *q,
                     const bn_real *keys, const bn_real *values, const struct bn_op_heads *h);
/* dq, dkeys, dvalues are set. scratch: n_tokens * n_tokens values. */
void bn_op_attention_back(bn_real *dq, bn_real *dkeys, bn_real *dvalues, const bn_real *dy, const bn_real *p,
                          const bn_real *q, const bn_real *keys, const bn_real *values,
                          const struct bn_op_heads *h, bn_real *scratch);

/* ---- activation functions ---- */

/* y = max(gate, 0)^2 * up. */
void bn_op_relu2(bn_real *y, const bn_real *gate, const bn_real *up, size_t n);
/* dgate and dup may be gate and up. */
void bn_op_relu2_back(bn_real *dgate, bn_real *dup, const bn_real *dy, const bn_real *gate, const bn_real *up,
                      size_t n);
/* y = gate / (1 + exp(-gate)) * up. y is not gate or up. */
void bn_op_silu(const struct bn_kernels *k, bn_real *y, const bn_real *gate, const bn_real *up, size_t n);
/* scratch: n values. */
void bn_op_silu_back(const struct bn_kernels *k, bn_real *dgate, bn_real *dup, const bn_real *dy,
                     const bn_real *gate, const bn_real *up, bn_real *scratch, size_t n);

/* ---- softmax and loss ---- */

/* One row of n logits: returns the negative log likelihood of the target in nats, and replaces the logits by its
 * gradient when back is set. */
double bn_op_cross_entropy(const struct bn_kernels *k, bn_real *logits, size_t n, size_t target, bool back);

#endif

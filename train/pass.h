/* SPDX-License-Identifier: MIT
 *
 * The network over a slice: some sequences of equal length, forward, and backward when gradients are wanted. One thread
 * computes a slice from beginning to end, so its bits depend on nothing but weights, tokens and shape.
 */
#ifndef BN_TRAIN_PASS_H
#define BN_TRAIN_PASS_H

#include "train/weights.h"

struct bn_pass;

/* The memory for slices of n_sequences times hp.n_ctx tokens; `back`: with gradients. */
BN_MUST_CHECK bn_status bn_pass_open(struct bn_pass **out, const struct bn_weights *w, size_t n_sequences,
                                     bool back, bn_error *err);
void bn_pass_close(struct bn_pass *pass);
uint64_t bn_pass_bytes(const struct bn_pass *pass);

#define BN_NO_TARGET (-1)
/* The sum over the tokens of the negative log likelihood of their targets, in nats; tokens whose target is
 * BN_NO_TARGET are left out. Adds the gradient of the sum to grad, which has the layout of the masters; NULL: forward
 * only. */
double bn_pass_run(struct bn_pass *pass, const int32_t *tokens, const int32_t *targets, bn_real *grad);

/* The time of the last run. */
struct bn_pass_times {
    uint64_t forward_ns, backward_ns;
};
struct bn_pass_times bn_pass_times(const struct bn_pass *pass);

/* Floating-point operations of a token, forward and backward, by 6 N + 12 L S d for the matrices' weights N: a third
 * of them is the forward pass. */
double bn_pass_flop(const struct bn_weights *w);

#endif

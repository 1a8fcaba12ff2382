/* SPDX-License-Identifier: MIT
 *
 * The optimiser: AdamW (Loshchilov, Hutter, 2019) with the two-stage schedule of the BitNet training tips. In stage
 * one the rate rises to `rate` during warm-up and falls in a line that would reach 0 at the last step; in stage two it
 * is on such a line of `rate_2`, and weight decay changes to `decay_2`.
 *
 * Muon (Jordan and others, 2024) for the ternary matrices: the step is the average of gradients, made orthogonal by
 * five Newton-Schulz iterations. Its root mean square is 0.2 of the rate (Liu and others, arXiv 2502.16982), so the
 * rates of AdamW fit. Embedding and norms stay with AdamW.
 */
#ifndef BN_TRAIN_OPTIMISER_H
#define BN_TRAIN_OPTIMISER_H

#include "train/weights.h"

struct bn_train_schedule {
    uint32_t n_steps, warm_up;
    double stage_2; /* where stage two begins, as a share of the steps */
    double rate, rate_2, decay, decay_2;
    double beta_1, beta_2, epsilon;
    double clip;   /* largest norm of the gradient; 0: no limit */
    uint32_t muon; /* 1: ternary matrices are updated by Muon, which does not use beta, epsilon and clip */
};

/* Of step 0 ... n_steps - 1. */
double bn_schedule_rate(const struct bn_train_schedule *s, uint32_t step);
double bn_schedule_decay(const struct bn_train_schedule *s, uint32_t step);

/* Euclid's norm, in binary64 over fixed blocks. */
double bn_gradient_norm(const bn_real *grad, size_t n, struct bn_team *team);
/* One step: the gradient times `factor` (1 / tokens), clipped; norm is that of factor * grad. Decay applies to ternary
 * matrices; with Muon these stay as they are. Then the ternary copies are made again. */
void bn_adam_step(struct bn_weights *w, bn_real *moment_1, bn_real *moment_2, const bn_real *grad,
                  double factor, double norm, const struct bn_train_schedule *s, uint32_t step,
                  struct bn_team *team);

/* Scratch for the matrices of w, one part for each thread of a team of n_threads; the caller frees it by bn_free.
 * NULL: out of memory. */
BN_MUST_CHECK bn_real *bn_muon_scratch(const struct bn_weights *w, unsigned n_threads);
/* One step of all ternary matrices; the arguments are those of bn_adam_step. A thread takes whole matrices, so
 * the bits do not depend on the team's size. The ternary copies stay as they were. */
void bn_muon_step(struct bn_weights *w, bn_real *moment, const bn_real *grad, double factor,
                  const struct bn_train_schedule *s, uint32_t step, bn_real *scratch, struct bn_team *team);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Muon (Jordan and others, 2024) for the ternary matrices: the step is the average of gradients, made orthogonal by
 * five Newton-Schulz iterations. Its root mean square is 0.2 of the rate (Liu and others, arXiv 2502.16982), so the
 * rates of AdamW fit. Embedding and norms stay with AdamW.
 */
#ifndef BN_TRAIN_MUON_H
#define BN_TRAIN_MUON_H

#include "train/adam.h"

/* Scratch for the matrices of w, one part for each thread of a team of n_threads; the caller frees it by bn_free.
 * NULL: out of memory. */
BN_MUST_CHECK bn_real *bn_muon_scratch(const struct bn_weights *w, unsigned n_threads);
/* One step of all ternary matrices; the arguments are those of bn_adam_step. A thread takes whole matrices, so
 * the bits do not depend on the team's size. The ternary copies stay as they were. */
void bn_muon_step(struct bn_weights *w, bn_real *moment, const bn_real *grad, double factor,
                  const struct bn_train_schedule *s, uint32_t step, bn_real *scratch, struct bn_team *team);

#endif

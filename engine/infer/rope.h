/* SPDX-License-Identifier: MIT
 *
 * The table of rotary position angles (Su et al., RoFormer, 2021).
 */
#ifndef BN_INFER_ROPE_H
#define BN_INFER_ROPE_H

#include "bn.h"

/* Fills cos and sin, n_ctx rows of n_rot / 2 values: of the angle position * scale * base^(-2i / n_rot) /
 * factor_i, with the scaling of YaRN when the model has it. factors may be NULL. Everything is computed in binary64
 * (base/elementary.h), then rounded to binary32. */
void bn_rope_table(float *cos, float *sin, size_t n_ctx, const bn_hparams *hp, const float *factors);

#endif

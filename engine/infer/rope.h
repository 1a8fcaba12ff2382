/* SPDX-License-Identifier: MIT
 *
 * The table of rotary position angles (Su et al., RoFormer, 2021).
 */
#ifndef BN_INFER_ROPE_H
#define BN_INFER_ROPE_H

#include "bn.h"

/* Fills cos and sin, n_ctx rows of n_rot / 2 values: of the angle position * scale * base^(-2i / n_rot) /
 * factor_i, with the scaling of YaRN when the model has it. factors may be NULL. Everything is computed in binary64 by + - * / alone, then rounded to
 * binary32, so that no libm version can change a bit. */
void bn_rope_table(float *cos, float *sin, size_t n_ctx, const bn_hparams *hp, const float *factors);

/* The functions it uses; relative error below 1e-14 for x in [1e-300, 1e300], |y| <= 700, |angle| <=
 * 1e9. */
double bn_rope_log(double x);
double bn_rope_exp(double y);
void bn_rope_sincos(double angle, double *sin, double *cos);

#endif

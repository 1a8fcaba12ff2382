/* SPDX-License-Identifier: MIT
 *
 * Copies of weights that make single tokens faster. Decoding is bound by the bytes that are read for a token;
 * these copies have fewer. They never change a bit of a result.
 *
 * Ternary layers: I2_S has 2 bits a weight; T5 has 1.6, and its kernel gives the bits of the I2_S kernel.
 *
 * Ternary layers with a scale for each group: tiles of sixteen rows, which products read from the first byte to the
 * last; without them each product makes the tiles that it reads (infer/linear.c).
 *
 * When memory is short, nothing is copied, unless BN_REPACK_ALWAYS asks for it.
 *
 * The head: each row in 8 bits, with the exact norm of what the rounding left of it. A pass over those gives
 * every logit with a bound of its error, so that only rows which can be among the best need be computed from
 * the file's own weights; infer/screen.c does that.
 */
#ifndef BN_MODEL_REPACK_H
#define BN_MODEL_REPACK_H

#include "model/loading.h"
#include "model/model.h"

/* Makes the copies that the options ask for, unless calls of bn_model_repack are to make them. The weights must be
 * bound. BN_ERR_NOMEM, BN_ERR_CANCELLED. */
BN_MUST_CHECK bn_status bn_repack_model(struct bn_model *m, struct bn_loading *loading, bn_error *err);

/* What the copies take that the options ask for, made or not. */
uint64_t bn_repack_bytes(const struct bn_model *m);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Hyper-parameters from a GGUF file's keys.
 */
#ifndef BN_MODEL_HPARAMS_H
#define BN_MODEL_HPARAMS_H

#include "gguf/gguf.h"

#define BN_MAX_LAYERS 512u
#define BN_MAX_VOCAB (1u << 20)

/* Reads all hyper-parameters and checks the type and range of each, then the rules between them. */
BN_MUST_CHECK bn_status bn_hparams_read(bn_hparams *hp, const struct bn_gguf *gguf, bn_error *err);

/* Whether the linear layers of such a model, stored in a type, get activations of 16 bits with a step for each
 * group, and not of 8 bits with a step a row: models that were not trained with the latter. */
bool bn_hparams_wide_activations(const bn_hparams *hp, uint32_t type);

/* What a converted file says about that: "int8-token" or "int16-group". */
#define BN_ACTIVATIONS_KEY "bn.activations"

#endif

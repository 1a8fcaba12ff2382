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

#endif

/* SPDX-License-Identifier: MIT
 *
 * Hyper-parameters from a GGUF file's keys.
 */
#ifndef BN_MODEL_HPARAMS_H
#define BN_MODEL_HPARAMS_H

#include "gguf/gguf.h"

#define BN_MAX_LAYERS 512u
#define BN_MAX_VOCAB (1u << 20)
#define BN_MAX_TAPS 8u
#define BN_MAX_EXPERTS 4096u

/* Reads all hyper-parameters and checks the type and range of each, then the rules between them. */
BN_MUST_CHECK bn_status bn_hparams_read(bn_hparams *hp, const struct bn_gguf *gguf, bn_error *err);

/* What follows from an architecture alone: its name, activation, norms, whether the head must be the embedding. False for
 * an unknown one. */
bool bn_hparams_set_arch(bn_hparams *hp, struct bn_str name);
/* Marks a layer in local_layers or recurrence.layers. */
static inline void bn_hparams_set_layer(uint64_t *layers, uint32_t i)
{
    layers[i / 64] |= 1ull << i % 64;
}

/* Whether a layer attends to the last positions only, and how many of all layers do. */
bool bn_hparams_is_local(const bn_hparams *hp, uint32_t layer);
uint32_t bn_hparams_n_local(const bn_hparams *hp);
/* Layers with attention that rotate their heads. */
uint32_t bn_hparams_n_rotated(const bn_hparams *hp);
/* Elements between the halves of a feed-forward part that a token has: of all experts that it uses. */
size_t bn_hparams_hidden(const bn_hparams *hp);

/* Whether a layer is recurrent, and how many of the first n layers are. */
bool bn_hparams_is_recurrent(const bn_hparams *hp, uint32_t layer);
uint32_t bn_hparams_n_recurrent(const bn_hparams *hp, uint32_t n);
/* Elements of q, k and v of a recurrent layer together, and of its output. */
size_t bn_hparams_mixed(const bn_hparams *hp);
size_t bn_hparams_inner(const bn_hparams *hp);

/* Whether the linear layers of such a model, stored in a type, get activations of 16 bits with a step for each
 * group, and not of 8 bits with a step a row: models that were not trained with the latter. */
bool bn_hparams_wide_activations(const bn_hparams *hp, uint32_t type);

/* What a converted file says about that: "int8-token" or "int16-group". */
#define BN_ACTIVATIONS_KEY "bn.activations"

#endif

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

/* ---- parts of layers ---- */

/* What a layer consists of: one row for each tensor, with its name, its shape and the models that have it. The loader
 * binds these rows, bn-fixtures generates them in this order, and bn-convert takes names and shapes from them. The
 * oracle of crossval/ has a list of its own, on purpose. */

enum bn_part_kind {
    BN_PART_NORM,   /* a vector */
    BN_PART_LINEAR, /* a ternary matrix, or one for each expert */
    BN_PART_SIDE,   /* of recurrent layers: a small matrix of floats */
    BN_PART_CONV,   /* of them too: a convolution, rates and biases of the decay */
    BN_PART_RATE,
    BN_PART_BIAS,
    BN_PART_ROUTER, /* a matrix of floats that chooses experts */
};

enum bn_width {
    BN_W_ONE,
    BN_W_EMBD,
    BN_W_HEAD,
    BN_W_Q,
    BN_W_GATED_Q, /* with a gate for each element where the heads have gates */
    BN_W_KV,
    BN_W_FF,
    BN_W_MIX, /* of recurrent layers: q, k and v together; the output; value heads; a head; the convolution */
    BN_W_INNER,
    BN_W_VALUE_HEADS,
    BN_W_STATE,
    BN_W_TAPS,
    BN_W_EXPERTS,
};

enum bn_part_of {
    BN_OF_ALL,
    BN_OF_ATTENTION, /* layers that are not recurrent */
    BN_OF_RECURRENT,
    BN_OF_HYBRIDS, /* models with recurrent layers, and the others */
    BN_OF_OTHERS,
    BN_OF_SUB_NORMS,
    BN_OF_HEAD_NORMS,
    BN_OF_POST_NORMS,
    BN_OF_INPUT_NORMS,
    BN_OF_DENSE, /* models without experts, and with */
    BN_OF_EXPERTS,
};

struct bn_layer_part {
    const char *name; /* between "blk.N." and ".weight" */
    enum bn_part_kind kind;
    enum bn_width cols, rows; /* cols: ne[0] */
    enum bn_part_of of;
    size_t out; /* of the loader: the member of struct bn_layer */
    bool adds;  /* its outputs are added to the residual stream */
};

/* In the order of files; ends with a row without a name. */
extern const struct bn_layer_part bn_parts[];

bool bn_part_is_in(const struct bn_layer_part *part, const bn_hparams *hp, uint32_t layer);
uint64_t bn_width(const bn_hparams *hp, enum bn_width width);
/* "blk.3.attn_q.weight" */
#define BN_PART_NAME_ROOM 64u
void bn_part_name(char out[BN_PART_NAME_ROOM], const struct bn_layer_part *part, uint32_t layer);
/* Is this tensor a ternary matrix of a layer, by its name? */
bool bn_part_is_linear(const char *name);

#endif

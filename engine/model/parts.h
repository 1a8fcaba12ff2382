/* SPDX-License-Identifier: MIT
 *
 * What a layer consists of: one row for each tensor, with its name, its shape and the models that have it. The loader
 * binds these rows, bn-fixtures generates them in this order, and bn-convert takes names and shapes from them. The
 * oracle of crossval/ has a list of its own, on purpose.
 */
#ifndef BN_MODEL_PARTS_H
#define BN_MODEL_PARTS_H

#include "model/hparams.h"

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

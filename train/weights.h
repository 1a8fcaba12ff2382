/* SPDX-License-Identifier: MIT
 *
 * The parameters of a model in training: all of them in one array, and a table that says where each is. Latent weights
 * (masters) are floats; what the forward pass multiplies by are ternary copies, made from the masters after each step.
 *
 * With group 0 a ternary matrix has one scale, s = the mean of |w|, and its inputs are quantised to 8 bits a token
 * (BitNet b1.58). Else each group of that many weights of a row has a scale, and inputs are floats.
 */
#ifndef BN_TRAIN_WEIGHTS_H
#define BN_TRAIN_WEIGHTS_H

#include "base/team.h"
#include "bn.h"
#include "kernels/kernels.h"
#include "train/real.h"

enum bn_param_kind { BN_PARAM_EMBEDDING, BN_PARAM_NORM, BN_PARAM_TERNARY };

struct bn_param {
    char name[48]; /* of the tensor in GGUF files */
    enum bn_param_kind kind;
    size_t rows, cols;
    size_t at; /* of its first value in the arrays, a multiple of BN_LANES */
};

/* The parameters of a layer, as indexes of the table; those that the architecture lacks are 0. */
struct bn_layer_params {
    uint32_t attn_norm, q, k, v, q_norm, k_norm, attn_sub_norm, o, ffn_norm, gate, up, ffn_sub_norm, down;
};

struct bn_weights {
    bn_hparams hp; /* n_ctx: tokens of a training window */
    uint32_t group;
    size_t n_params, n_values; /* values with the gaps between parameters */
    struct bn_param *params;   /* 0: the embedding, which is the head too; the last one: the final norm */
    struct bn_layer_params *layers;
    bn_real *master;
    bn_real *ternary; /* -1, 0, 1, or with groups times the group's scale; at the places of the masters */
    uint8_t *codes;   /* the same as tiles of I2_S, a quarter of a byte each; without groups */
    bn_real *scale;   /* of each parameter; 1 with groups */
    bn_real *cos, *sin;
    const struct bn_kernels *kernels;
    bool exact; /* for tests: ternary copies are the masters, inputs are not quantised */
};

/* Masters and copies are zero. BN_ERR_ARG for a shape that cannot be trained or stored, with the reason. */
BN_MUST_CHECK bn_status bn_weights_open(struct bn_weights *w, const bn_hparams *hp, uint32_t group,
                                        bn_error *err);
void bn_weights_close(struct bn_weights *w);
/* Masters as training begins: normal numbers by a counter, norms 1. */
void bn_weights_start(struct bn_weights *w, uint64_t seed);
/* The ternary copies of the masters. The bits do not depend on the team's size;
 * without a team the caller computes all of them. */
void bn_weights_ternarise(struct bn_weights *w, struct bn_team *team);
/* Parameters of a kind; their number of values. */
size_t bn_weights_count(const struct bn_weights *w, enum bn_param_kind kind);
/* The ternary weights of a row of a matrix, and a scale for each group of its columns (n / group of them; one without
 * groups). */
void bn_weights_row(const struct bn_weights *w, size_t param, size_t row, int8_t *values, float *scales);

#endif

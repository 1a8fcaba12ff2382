/* SPDX-License-Identifier: MIT
 *
 * A folder with a model as the Hugging Face hub has it, while its plan is made: config.json, tokenizer.json,
 * and safetensors in one file or in several with an index.
 */
#ifndef BN_CONVERT_FOLDER_H
#define BN_CONVERT_FOLDER_H

#include "hub/files/safetensors.h"
#include "model/hparams.h"
#include "tools/convert/plan.h"

struct bn_cv_folder;

/* An architecture of the hub, and what it is in GGUF files. */
struct bn_cv_arch {
    const char *name;       /* general.architecture */
    const char *class_name; /* config.json's architectures[0]; NULL: decided by the others */
    const char *model_type; /* config.json's model_type; NULL: decided by the others */
    const char *activation; /* config.json's hidden_act or hidden_activation */
    bool masters;           /* floats in safetensors are masters, to be ternarised */
    double rope_theta;      /* when config.json has none; 0: it must */
    float norm_shift;       /* is added to the weights of norms, but of those of inputs */
    bn_status (*put_own)(struct bn_cv_folder *f,
                         bn_error *err); /* keys of this architecture alone; may be NULL */
};

struct bn_cv_shard {
    struct bn_safetensors st;
    bool *used;   /* a tensor of st has a place in the result */
    size_t input; /* of the plan */
};

struct bn_cv_folder {
    struct bn_cv_plan *plan;
    const char *path;
    bn_json *root, *settings; /* config.json; tokenizer_config.json, NULL without one */
    const bn_json *config;    /* the root, or its text_config in models that also see */
    bn_json *rotation;        /* hadamard_packing.json; NULL: the weights are not rotated */
    struct bn_cv_shard *shards;
    size_t n_shards, shards_room;
    const struct bn_cv_arch *arch;
    bn_hparams hp;    /* names, shapes and norms of the layers; hybrids have gated_heads */
    float norm_shift; /* that of the architecture, but 0 for weights that MLX has stored */
    bool grouped_out; /* the inputs of rotated out_proj stay in the order of the source */
    bool divides;     /* weight_scale is the reciprocal of the scale */
    bool bitnet;      /* quantization_config says so */
};

/* The input with this name; *index is SIZE_MAX when the folder does not have it and it is not required. */
BN_MUST_CHECK bn_status bn_cv_folder_input(struct bn_cv_folder *f, const char *name, bool required,
                                           size_t *index, bn_error *err);
/* A JSON file of the folder; *out is NULL when it is missing and not required. */
BN_MUST_CHECK bn_status bn_cv_folder_json(struct bn_cv_folder *f, const char *name, bool required,
                                          bn_json **out, bn_error *err);
/* The tensor of that name, marked as used; NULL when there is none. *input is its file. */
const struct bn_st_tensor *bn_cv_folder_take(struct bn_cv_folder *f, const char *name, size_t *input);
/* A name without its prefix. */
const char *bn_cv_folder_plain(const char *name);
/* folder_keys.c: config.json to f's fields and to keys. */
BN_MUST_CHECK bn_status bn_cv_folder_config(struct bn_cv_folder *f, bn_error *err);
/* A member of config.json that the text part or the whole has; NULL. */
const bn_json *bn_cv_folder_setting(const struct bn_cv_folder *f, const char *name);
/* folder_tensors.c: names, shapes, layouts. */
BN_MUST_CHECK bn_status bn_cv_folder_tensors(struct bn_cv_folder *f, bn_error *err);
/* folder_rotation.c: is this tensor of the source rotated? */
bool bn_cv_folder_rotates(const struct bn_cv_folder *f, const char *name);
/* hadamard_packing.json to keys; after the tensors. */
BN_MUST_CHECK bn_status bn_cv_folder_rotation(struct bn_cv_folder *f, bn_error *err);
/* vocab.c: tokenizer.json and its settings to keys. */
BN_MUST_CHECK bn_status bn_cv_folder_vocab(struct bn_cv_folder *f, bn_error *err);

#endif

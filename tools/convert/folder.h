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

/* A tensor of the safetensors. */
struct bn_cv_found {
    const struct bn_st_tensor *t;
    size_t input;
};

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
/* "<name><suffix>" after one of the prefixes that models have, such as "model.". */
bool bn_cv_folder_find(struct bn_cv_folder *f, const char *name, const char *suffix,
                       struct bn_cv_found *found);
/* A name without its prefix. */
const char *bn_cv_folder_plain(const char *name);
/* folder_keys.c: config.json to f's fields and to keys. */
BN_MUST_CHECK bn_status bn_cv_folder_config(struct bn_cv_folder *f, bn_error *err);
/* A member of config.json that the text part or the whole has; NULL. */
const bn_json *bn_cv_folder_setting(const struct bn_cv_folder *f, const char *name);
/* A whole number from 1 to 2^24 of the text part. */
BN_MUST_CHECK bn_status bn_cv_folder_number(const struct bn_cv_folder *f, const char *name, bool required,
                                            uint32_t *out, bn_error *err);
/* folder_own.c: the keys of gemma3, minicpm and qwen35. */
BN_MUST_CHECK bn_status bn_cv_gemma3_keys(struct bn_cv_folder *f, bn_error *err);
BN_MUST_CHECK bn_status bn_cv_minicpm_keys(struct bn_cv_folder *f, bn_error *err);
BN_MUST_CHECK bn_status bn_cv_qwen35_keys(struct bn_cv_folder *f, bn_error *err);
/* folder_rope.c: rope_theta, rope_parameters or rope_scaling to keys; factors of frequencies to a tensor. */
BN_MUST_CHECK bn_status bn_cv_folder_rope(struct bn_cv_folder *f, bn_error *err);
/* folder_tensors.c: names, shapes, layouts. */
BN_MUST_CHECK bn_status bn_cv_folder_tensors(struct bn_cv_folder *f, bn_error *err);
/* An error about a tensor of the source. */
bn_status bn_cv_folder_fail(const struct bn_cv_folder *f, const struct bn_cv_found *found, bn_status code,
                            const char *what, bn_error *err);
/* The shape must be these n_dims sizes, rows first. */
BN_MUST_CHECK bn_status bn_cv_folder_shape(const struct bn_cv_folder *f, const struct bn_cv_found *found,
                                           uint32_t n_dims, const uint64_t *sizes, bn_error *err);
/* The type of floats in GGUF; false: another type. */
bool bn_cv_float_type(enum bn_st_type type, uint32_t *out);
/* A new tensor of the result with the name `name`, rows by columns, or a vector when columns is 0. */
BN_MUST_CHECK bn_status bn_cv_folder_add(struct bn_cv_folder *f, const struct bn_cv_found *found,
                                         const char *name, uint64_t rows, uint64_t columns,
                                         struct bn_cv_tensor **out, bn_error *err);
/* The linear layer `name` of the source (without .weight) as the tensor part.weight. n_source is the number of rows in
 * the source. */
BN_MUST_CHECK bn_status bn_cv_folder_linear(struct bn_cv_folder *f, const struct bn_cv_found *found,
                                            const char *name, const char *part, uint64_t rows,
                                            uint64_t columns, uint64_t n_source, struct bn_cv_tensor **out,
                                            bn_error *err);
/* folder_recurrent.c: what a recurrent layer has in place of attention. */
BN_MUST_CHECK bn_status bn_cv_folder_recurrent(struct bn_cv_folder *f, uint64_t layer, bn_error *err);
/* folder_rotation.c: is this tensor of the source rotated? */
bool bn_cv_folder_rotates(const struct bn_cv_folder *f, const char *name);
/* hadamard_packing.json to keys; after the tensors. */
BN_MUST_CHECK bn_status bn_cv_folder_rotation(struct bn_cv_folder *f, bn_error *err);
/* vocab.c: tokenizer.json and its settings to keys. */
BN_MUST_CHECK bn_status bn_cv_folder_vocab(struct bn_cv_folder *f, bn_error *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * A folder with a model as the Hugging Face hub has it, while its plan is made: config.json, tokenizer.json,
 * and safetensors in one file or in several with an index.
 */
#ifndef BN_CONVERT_FOLDER_H
#define BN_CONVERT_FOLDER_H

#include "tools/convert/plan.h"
#include "tools/convert/safetensors.h"

struct bn_cv_folder;

/* An architecture of the hub, and what it is in GGUF files. */
struct bn_cv_arch {
    const char *name;       /* general.architecture */
    const char *class_name; /* config.json's architectures[0]; NULL: decided by the others */
    const char *model_type; /* config.json's model_type; NULL: decided by the others */
    const char *activation; /* config.json's hidden_act or hidden_activation */
    bool interleaved;       /* rows of q and k are interleaved, as NORM rope wants them */
    bool sub_norms;         /* a norm before attn_output and ffn_down */
    bool head_norms;        /* a norm of each head of q and k */
    bool post_norms;        /* a norm after attn_output and ffn_down */
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
    bn_json *config, *settings; /* settings: tokenizer_config.json, NULL without one */
    struct bn_cv_shard *shards;
    size_t n_shards, shards_room;
    const struct bn_cv_arch *arch;
    uint64_t n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_ctx;
    bool input_norms; /* a norm before each linear layer: an embedding model of BitNet */
    bool divides;     /* weight_scale is the reciprocal of the scale */
    bool bitnet;      /* quantization_config says so */
};

/* The input with this name; *index is SIZE_MAX when the folder does not have it and it is not required. */
BN_MUST_CHECK bn_status bn_cv_folder_input(struct bn_cv_folder *f, const char *name, bool required,
                                           size_t *index, bn_error *err);
/* A JSON file of the folder; *out is NULL when it is missing and not required. */
BN_MUST_CHECK bn_status bn_cv_folder_json(struct bn_cv_folder *f, const char *name, bool required,
                                          bn_json **out, bn_error *err);
/* folder_shards.c: opens model.safetensors, or what model.safetensors.index.json names. */
BN_MUST_CHECK bn_status bn_cv_folder_shards(struct bn_cv_folder *f, bn_error *err);
/* The tensor of that name, marked as used; NULL when there is none. *input is its file. */
const struct bn_st_tensor *bn_cv_folder_take(struct bn_cv_folder *f, const char *name, size_t *input);
/* folder_keys.c: config.json to f's fields and to keys. */
BN_MUST_CHECK bn_status bn_cv_folder_config(struct bn_cv_folder *f, bn_error *err);
/* folder_own.c: the keys of gemma3 and minicpm. */
BN_MUST_CHECK bn_status bn_cv_gemma3_keys(struct bn_cv_folder *f, bn_error *err);
BN_MUST_CHECK bn_status bn_cv_minicpm_keys(struct bn_cv_folder *f, bn_error *err);
/* folder_rope.c: rope_theta, rope_parameters or rope_scaling to keys; factors of frequencies to a tensor. */
BN_MUST_CHECK bn_status bn_cv_folder_rope(struct bn_cv_folder *f, bn_error *err);
/* folder_tensors.c: names, shapes, layouts. */
BN_MUST_CHECK bn_status bn_cv_folder_tensors(struct bn_cv_folder *f, bn_error *err);
/* vocab.c: tokenizer.json and its settings to keys. */
BN_MUST_CHECK bn_status bn_cv_folder_vocab(struct bn_cv_folder *f, bn_error *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The plan of a conversion: the input files, the keys of the result, and for each tensor of the result where
 * its values come from. A plan is made from a GGUF file (from_gguf.c) or from a folder with safetensors
 * (from_folder.c), then listed or written (write.c).
 */
#ifndef BN_CONVERT_PLAN_H
#define BN_CONVERT_PLAN_H

#include "base/digest.h"
#include "base/file.h"
#include "base/json.h"
#include "gguf/gguf.h"

/* The types that --to names. */
#define BN_CV_TARGETS "i2_s|tq2_0|tq1_0|q2_0|pq2_0|ptq1_0|f16|f32"

struct bn_cv_options {
    const char *output, *pre, *name;
    const char *to;   /* label of a type, one of BN_CV_TARGETS */
    int weight_scale; /* auto, multiply, divide */
    uint32_t threads; /* 0: one per core */
    bool dry_run, check, round_scales, ternarise;
};

enum bn_cv_kind {
    BN_CV_COPY,   /* the bytes of the source */
    BN_CV_BLOCKS, /* ternary blocks of the type `from` */
    BN_CV_TRITS,  /* floats that are -s, 0 or +s in each group of 64 */
    BN_CV_MASTER, /* floats to be ternarised by their mean magnitude */
    BN_CV_PACKED, /* bytes with four rows each: row i rows/4 + r is in bits 2i of row r, code = value + 1 */
    BN_CV_FLOATS, /* floats, widened to F32 or as they are */
    BN_CV_WORDS,  /* MLX: two bits each, first the lowest of a 32-bit word; weight = scale * code + bias */
};

/* Where n rows (or columns) of the result come from. They are heads of `size` rows; head h is the value head
 * h / n_key of the key head h % n_key, and its rows in the source begin at base + h % n_key * per_key + h / n_key * per_value. */
struct bn_cv_order {
    uint64_t n; /* 0: not in use, the order is that of the source */
    uint64_t size, n_key, base, per_key, per_value;
};

struct bn_cv_tensor {
    char name[BN_GGUF_MAX_NAME_BYTES + 1]; /* in the result */
    const char *source; /* its name in safetensors, as long as the folder is open; NULL: none */
    enum bn_cv_kind kind;
    uint32_t from, to; /* enum bn_type; from means nothing for BN_CV_PACKED */
    uint32_t n_dims;
    uint64_t ne[4];   /* of the result; unused ones are 1 */
    uint64_t n_bytes; /* of the result */
    const unsigned char *data;
    uint64_t n_source;  /* bytes at data */
    uint64_t offset;    /* of data in its file, for messages */
    size_t input;       /* index of its file; SIZE_MAX: data belongs to the plan */
    float scale;        /* I2_S, BN_CV_PACKED: of the tensor; BN_CV_MASTER: found before writing */
    float target_scale; /* I2_S as the result: the one scale, found before writing */
    float add;          /* BN_CV_FLOATS: is added to each value */
    bool decay;         /* BN_CV_FLOATS: each value x becomes -exp(x) */
    const unsigned char *scales, *biases; /* BN_CV_WORDS: of the type `from`, one for each `group` codes */
    uint32_t group;
    uint32_t heads; /* not 0: rows of each head are interleaved, as NORM rope wants them */
    struct bn_cv_order rows[3], columns; /* rows: one after the other */
};

struct bn_cv_input {
    char *path, *name; /* name: what the record calls it */
    struct bn_file_map map;
    char sha256[BN_SHA256_HEX];
};

struct bn_cv_plan {
    const struct bn_cv_options *options;
    uint32_t target; /* type of the ternary tensors */
    struct bn_cv_input *inputs;
    size_t n_inputs, inputs_room;
    struct bn_cv_tensor *tensors;
    size_t n_tensors, tensors_room;
    struct bn_gguf_writer keys;
    struct bn_gguf gguf; /* of a GGUF source */
    float *owned;        /* values of a tensor that the plan computed */
    size_t n_vision,
        n_next; /* tensors that are left out: of a vision tower, of layers that predict further tokens */
    char arch[64];
};

/* Opens a file as the next input and maps it. */
BN_MUST_CHECK bn_status bn_cv_add_input(struct bn_cv_plan *plan, const char *path, const char *name,
                                        bn_error *err);
/* A new tensor at the end of the plan, zeroed. *out is valid until the next one is added. */
BN_MUST_CHECK bn_status bn_cv_add_tensor(struct bn_cv_plan *plan, struct bn_cv_tensor **out, bn_error *err);
/* Keeps how the engine stores the activations of the model (docs/reference/models.md): wide, 16 bits a group, or
 * not, 8 bits a row. Puts the key bn.activations when the type of the result would change that. BN_ERR_UNSUPPORTED
 * for I2_S, which has 8 bits only. plan->arch is set. */
BN_MUST_CHECK bn_status bn_cv_keep_activations(struct bn_cv_plan *plan, bool wide, bn_error *err);
void bn_cv_release(struct bn_cv_plan *plan);

/* from_gguf.c; the path is a file. */
BN_MUST_CHECK bn_status bn_cv_from_gguf(struct bn_cv_plan *plan, const char *path, bn_error *err);
/* from_folder.c; the path is a folder. */
BN_MUST_CHECK bn_status bn_cv_from_folder(struct bn_cv_plan *plan, const char *path, bn_error *err);

/* plan.c: checks that the target can hold every tensor of the plan (blocks and rows), computes sizes. */
BN_MUST_CHECK bn_status bn_cv_settle(struct bn_cv_plan *plan, bn_error *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The plan of a conversion: the input files, the keys of the result, and for each tensor of the result where
 * its values come from. A plan is made from a GGUF file (from_gguf.c) or from a folder with safetensors
 * (from_folder.c), then listed or written (write.c).
 *
 * Rows of ternary tensors: any source to values and scales, and these to any target, one row at a time. A
 * row is K values from -1 to 2 and a scale for each 64 of them; a weight is value times scale. 64 divides the
 * block of every ternary type, so that nothing is lost in between, and what the target cannot store is found
 * while it is packed.
 *
 * Carries out the plan of a conversion: finds the scales that need all rows of a tensor, then writes the file.
 * Rows of a tensor are packed by several threads, a few MiB at a time; the bytes do not depend on their
 * number. The file appears under its name when it is complete. Its record, OUT.gguf.json, has the program, the inputs
 * with their digests, options, tensors, and the digest of the result; the same inputs, options and program give
 * the same record.
 */
#ifndef BN_CONVERT_PLAN_H
#define BN_CONVERT_PLAN_H

#include "base/digest.h"
#include "base/error.h"
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

#define BN_CV_GROUP 64u

/* Why a row cannot be read or stored. */
enum bn_cv_fault {
    BN_CV_FINE,
    BN_CV_NOT_FINITE,   /* a scale or a weight */
    BN_CV_CODE_3,       /* in a layout in which it has no meaning */
    BN_CV_TWO,          /* the weight +2, which the target has no code for */
    BN_CV_NOT_TERNARY,  /* a float that is not -s, 0, +s; a: it, b: s */
    BN_CV_TWO_SCALES,   /* a and b in one block of the target */
    BN_CV_NOT_HALF,     /* the scale a is not a binary16 number; b: the nearest one */
    BN_CV_BIAS,         /* a is not minus the scale b, so that the codes are not -1, 0, 1 times it */
    BN_CV_NOT_POSITIVE, /* the scale a of a tensor that needs a positive one */
};

struct bn_cv_note {
    enum bn_cv_fault fault;
    uint64_t row, column;
    double a, b;
};

/* What one thread needs. */
struct bn_cv_scratch {
    int8_t *values;
    float *scales, *floats;
    struct bn_cv_note note; /* of the lowest row with a fault */
    double worst;           /* largest relative change of a scale by rounding */
};

/* Rows of a tensor: the product of all dimensions but the first. */
uint64_t bn_cv_n_rows(const struct bn_cv_tensor *t);
/* The row and the column of the source that those of the result come from. */
uint64_t bn_cv_source_row(const struct bn_cv_tensor *t, uint64_t r);
uint64_t bn_cv_source_column(const struct bn_cv_tensor *t, uint64_t i);
/* Row r to s->values and s->scales. */
bool bn_cv_read_row(const struct bn_cv_tensor *t, uint64_t r, struct bn_cv_scratch *s);
/* The row in s to out, in the type t->to. */
bool bn_cv_pack_row(const struct bn_cv_tensor *t, uint64_t r, bool round_scales, struct bn_cv_scratch *s,
                    unsigned char *out);
/* Row r of a float tensor to s->floats. */
void bn_cv_widen_row(const struct bn_cv_tensor *t, uint64_t r, struct bn_cv_scratch *s);
/* The error that a note stands for. */
bn_status bn_cv_fail_note(const struct bn_cv_plan *plan, const struct bn_cv_tensor *t,
                          const struct bn_cv_note *note, bn_error *err);

struct bn_cv_result {
    char sha256[BN_SHA256_HEX];
    uint64_t n_bytes;
    double worst; /* largest relative change of a scale, 0 when all are exact */
};

/* Called now and then with the tensors that are complete; false cancels: BN_ERR_CANCELLED. */
typedef bool (*bn_cv_progress)(void *user, size_t n_done);

/* Is every weight of a float tensor -s, 0 or +s, with an s for each 64? Stops at the first that is not. */
BN_MUST_CHECK bn_status bn_cv_is_ternary(const struct bn_cv_tensor *t, bool *ternary, bn_error *err);
/* The digest of every input. */
BN_MUST_CHECK bn_status bn_cv_digest_inputs(struct bn_cv_plan *plan, bn_cv_progress progress, void *user,
                                            bn_error *err);
/* Writes the file that plan->options->output names. old_record is removed right before the file gets its name:
 * a record is never next to a file of another conversion. */
BN_MUST_CHECK bn_status bn_cv_write(struct bn_cv_plan *plan, const char *old_record,
                                    struct bn_cv_result *result, bn_cv_progress progress, void *user,
                                    bn_error *err);

/* record.c: the document, to be freed. result is NULL when nothing was written. */
bn_json *bn_cv_record(const struct bn_cv_plan *plan, const struct bn_cv_result *result);
/* FILE.json next to an output. */
BN_MUST_CHECK bn_status bn_cv_record_path(char *out, size_t room, const char *output, bn_error *err);
/* Compares a file with its record. BN_ERR_INTEGRITY when they differ. *record is to be freed; NULL on failure. */
BN_MUST_CHECK bn_status bn_cv_check(bn_json **record, const char *path, bn_error *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * A model and its sessions on an OpenCL device: what the files of this room share.
 */
#ifndef BN_OPENCL_DEVICE_H
#define BN_OPENCL_DEVICE_H

#include "infer/session.h"
#include "opencl/driver.h"

/* Buffers that are freed together. */
struct bn_cl_buffers {
    struct bn_cl_device *device;
    struct {
        cl_mem buffer;
        size_t n_bytes;
    } * list;
    size_t n, room;
};

BN_MUST_CHECK bn_status bn_cl_add(struct bn_cl_buffers *b, cl_mem *out, size_t n_bytes, const char *what,
                                  bn_error *err);
void bn_cl_free_all(struct bn_cl_buffers *b);

/* ---- weights ---- */

/* Linear layers that read the same inputs, as one matrix in tiles: the rows of part i begin at column at[i] of the outputs,
 * a multiple of BN_TILE_ROWS. */
#define BN_CL_PARTS 3u
struct bn_cl_linear {
    cl_mem codes, scales, row_scale; /* scales: NULL for I2_S */
    cl_mem norm, signs;              /* of the inputs; NULL: none */
    size_t rows, k, width;           /* with padding; inputs with padding and without */
    uint32_t group, block;           /* group 0: I2_S; block 0: inputs are not rotated */
    size_t n_parts, at[BN_CL_PARTS];
    const struct bn_linear *part[BN_CL_PARTS];
};

/* q, k and v have the same inputs unless each has a norm of its own; so have gate and up. */
struct bn_cl_layer {
    cl_mem attn_norm, ffn_norm, post_attn_norm, post_ffn_norm, q_norm, k_norm;
    struct bn_cl_linear in[BN_CL_PARTS], o, gate_up[2], down;
    size_t n_in, n_gate_up; /* how many of them there are */
    cl_mem alpha_beta, conv, rate, bias,
        head_norm; /* of a recurrent layer, which has mix and z in place of q, k and v */
    cl_mem router;
};

struct bn_device {
    const struct bn_model *model;
    struct bn_cl_device *cl;
    struct bn_cl_queue queue; /* for uploads */
    struct bn_cl_buffers buffers;
    struct bn_cl_layer *layers;
    cl_mem output_norm, head;        /* head: rows of F16 or F32 */
    struct bn_cl_linear head_linear; /* a ternary head, or there is none (rows 0) */
};

/* ---- a session ---- */

/* A token of the batch, as kernels see it: where its sequence has its keys and values, and its state. */
struct bn_cl_row {
    cl_ulong cache, state;
    cl_uint position, cache_rows;
    cl_uint before, after; /* tokens of the same sequence in this batch */
};

/* Memory that sequences share: one or two buffers of n values each, with the same regions in use, ascending. */
struct bn_cl_pool {
    cl_mem buffer[2];
    size_t n_buffers, each;
    uint64_t n;
    struct bn_cl_region {
        uint64_t at, n;
    } * regions;
    size_t n_regions, room;
};

#define BN_CL_LOGITS 16u /* rows of logits that are computed together */

struct bn_device_session {
    struct bn_device *device;
    struct bn_session *s;
    struct bn_cl_queue queue;
    struct bn_cl_buffers buffers;

    /* Rows of the batch. in: q, k and v; ld_x: values between rows. */
    cl_mem x, norm, norm_in, rotated, in, att, gate_up, y, hidden, logits;
    cl_mem conv, gates;                     /* of recurrent layers */
    cl_mem router, experts, weights, parts; /* of layers with experts: what a pair makes is in parts */
    size_t per_row, most_pairs;             /* pairs of a token, or 1; of a batch */
    cl_uint *host_experts;                  /* of the pairs, for each layer */
    size_t ld_in, ld_att, ld_gate_up, ld_y, ld_norm, ld_logits;
    size_t k_at, v_at, q_stride, up_at;        /* columns of in and of gate_up; values between heads of q */
    cl_mem high, low, step, sum, scale, total; /* the inputs of linear layers */
    size_t padded;
    cl_mem scores;
    size_t ld_scores, most_queries; /* that have room there */
    cl_mem cos, sin, local_cos, local_sin;
    cl_mem rows, wanted, bad;
    struct bn_cl_row *host_rows; /* of the batch, n_batch, as the device gets them */
    uint32_t *host_wanted;
    float *traced; /* one operation of a batch, while a trace is taken */
    cl_int host_bad;

    struct bn_cl_pool caches, states; /* keys and values, of sequences; states of recurrent layers */
    char names[BN_KERNEL_COUNT][48];
};

/* Copies the state to where it is kept, before tokens that may be taken back: an error is one of the queue. Defined in session.c. */
void bn_cl_keep_state(struct bn_sequence *sequence);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The keys prism.hadamard.* of files whose ternary weights were rotated before rounding: a stored matrix is W' =
 * W S H, S a diagonal of signs for each input width, H the Walsh-Hadamard matrix of `block` columns (Sylvester's
 * order, divided by the square root of `block`), applied to each block of an input. So a layer computes W'
 * (H (s * x)), and a row z of a rotated embedding is s * (H z). Without this such a file gives fluent nonsense,
 * so whatever the engine does not know in those keys is refused.
 */
#ifndef BN_MODEL_HADAMARD_H
#define BN_MODEL_HADAMARD_H

#include "gguf/gguf.h"

#define BN_HADAMARD_WIDTHS 8u

struct bn_hadamard {
    uint32_t block; /* a power of two; 0: the file is not rotated */
    size_t n_widths;
    uint32_t widths[BN_HADAMARD_WIDTHS];
    float *signs[BN_HADAMARD_WIDTHS]; /* +1 or -1, widths[i] of them */
    const struct bn_gguf_kv *names;   /* the tensors that are rotated */
    bool embedding;                   /* token_embd.weight is */
    bool grouped_heads; /* inputs of ssm_out: value heads of one key head lie together before the transform */
};

/* Reads and checks the keys; all zero when the file has none. BN_ERR_UNSUPPORTED for a version, transform, axis
 * or mode that is not known and for rotated tensors that no linear layer reads, BN_ERR_FORMAT for damaged values,
 * BN_ERR_NOMEM. Release with bn_hadamard_release, also after an error. */
BN_MUST_CHECK bn_status bn_hadamard_read(struct bn_hadamard *h, const struct bn_gguf *gguf, bn_error *err);
void bn_hadamard_release(struct bn_hadamard *h);

/* How the inputs of a layer are rotated before its product, by the slot rotate of the kernels. */
struct bn_rotation {
    uint32_t block;     /* 0: not at all */
    const float *signs; /* NULL: all +1 */
};

/* The rotation for inputs of `width` values of the tensor `name`. BN_ERR_FORMAT when the keys do not cover it. */
BN_MUST_CHECK bn_status bn_hadamard_of(const struct bn_hadamard *h, const char *name, size_t width,
                                       struct bn_rotation *out, bn_error *err);

#endif

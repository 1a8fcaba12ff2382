/* SPDX-License-Identifier: MIT
 *
 * Binding a model's tensors: finding each by name, checking its shape, and bringing its weights into one of
 * the forms that kernels read.
 */
#ifndef BN_MODEL_WEIGHTS_H
#define BN_MODEL_WEIGHTS_H

#include "base/error.h"
#include "model/model.h"

/* ---- progress ---- */

/* Progress of opening a model, for bn_model_options.progress: a step for each layer that is checked, each layer
 * that is copied, and each part of the head. */

#define BN_LOADING_HEAD_PARTS 16u

struct bn_loading {
    const bn_model_options *options;
    uint32_t done, total; /* steps */
};

/* Counts a step and reports it. BN_ERR_CANCELLED when the caller cancels. */
static inline bn_status bn_loading_step(struct bn_loading *loading, bn_error *err)
{
    const bn_model_options *o = loading->options;
    loading->done++;
    if (o->progress == NULL || o->progress(o->user, loading->done, loading->total)) return BN_OK;
    return bn_fail(err, BN_ERR_CANCELLED, "cancelled");
}

/* ---- binding ---- */

/* Fills model->layers, embd, head, norms from model->gguf. Copies made here are in model->copies. */
BN_MUST_CHECK bn_status bn_weights_bind(struct bn_model *model, struct bn_loading *loading, bn_error *err);

/* Brings one tensor into ternary form: I2_S stays where it is, types with a scale for each group become tiles, and
 * F32, F16, BF16 whose values are all -s, 0 or +s become I2_S, rows padded to the block. BN_ERR_FORMAT names the
 * first weight with another value. Memory made is added to model->copies. */
BN_MUST_CHECK bn_status bn_ternary_prepare(struct bn_model *model, struct bn_linear *linear,
                                           const struct bn_gguf_tensor *tensor, bool skip_code_check,
                                           bn_error *err);

/* Weights that share a scale in this type as a model keeps it in tiles: 64, 128 or 256; 0 for other types. */
uint32_t bn_grouped_size(uint32_t type);
/* Brings one tensor into tiles with a scale for each group; linear->k, its rows and its first row are set. BN_ERR_FORMAT
 * names the first row whose scale is not finite, or that has a code 3 where the format has none,
 * BN_ERR_UNSUPPORTED the first that is not ternary. */
BN_MUST_CHECK bn_status bn_grouped_prepare(struct bn_model *model, struct bn_linear *linear,
                                           const struct bn_gguf_tensor *tensor, bool skip_code_check,
                                           bn_error *err);

/* A zeroed block that lives as long as the model. */
void *bn_model_own(struct bn_model *model, size_t n, size_t each);

/* ---- rows of the embedding and of the head ---- */

/* The slot that widens rows of this matrix; BN_KERNEL_COUNT when no kernel does: F32 rows are
 * copied; ternary rows and those in Q4_K and Q5_K are unpacked. */
enum bn_kernel bn_matrix_slot(const struct bn_matrix *matrix);
/* n values of a float type, or of a multiple of the type's block, in binary32. */
void bn_widen(const struct bn_kernels *kernels, uint32_t type, float *out, const void *data, size_t n);
/* Row r in binary32: matrix->k values. */
void bn_matrix_row(const struct bn_kernels *kernels, const struct bn_matrix *matrix, size_t r, float *out);
/* Whether n values have no infinity and no NaN: finite weights may be so large that a sum overflows. */
bool bn_all_finite(const float *x, size_t n);

/* ---- copies ---- */

/* Copies of weights that make single tokens faster. Decoding is bound by the bytes that are read for a token;
 * these copies have fewer. They never change a bit of a result.
 *
 * Ternary layers: tiles of sixteen rows, which products read from the first byte to the last; without them each product
 * makes the tiles that it reads (infer/linear.c). I2_S has 2 bits a weight; T5 has 1.6, and its kernel gives the bits of
 * the product of I2_S for single tokens; several tokens then have the tiles.
 *
 * When memory is short, nothing is copied, or T5 and the head alone, unless BN_REPACK_ALWAYS asks for it.
 *
 * The head: each row in 8 bits, with the exact norm of what the rounding left of it. A pass over those gives
 * every logit with a bound of its error, so that only rows which can be among the best need be computed from
 * the file's own weights; infer/screen.c does that. */

/* Makes the copies that the options ask for, unless calls of bn_model_repack are to make them. The weights must be
 * bound. BN_ERR_NOMEM, BN_ERR_CANCELLED. */
BN_MUST_CHECK bn_status bn_repack_model(struct bn_model *m, struct bn_loading *loading, bn_error *err);

/* What the copies take that the options ask for, made or not. */
uint64_t bn_repack_bytes(const struct bn_model *m);

#endif

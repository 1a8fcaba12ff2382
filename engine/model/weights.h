/* SPDX-License-Identifier: MIT
 *
 * Binding a model's tensors: finding each by name, checking its shape, and bringing its weights into one of
 * the forms that kernels read.
 */
#ifndef BN_MODEL_WEIGHTS_H
#define BN_MODEL_WEIGHTS_H

#include "model/loading.h"
#include "model/model.h"

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

#endif

/* SPDX-License-Identifier: MIT
 *
 * A trained model as a GGUF file: ternary matrices in a ternary type, the embedding in F16 or Q8_0, norms in F32, the
 * keys of the tokenizer's file.
 */
#ifndef BN_TRAIN_EXPORT_H
#define BN_TRAIN_EXPORT_H

#include "base/buf.h"
#include "gguf/types.h"
#include "train/weights.h"

struct bn_export {
    uint32_t type;      /* of ternary matrices: I2_S, TQ1_0, TQ2_0, Q2_0, PQ2_0, PTQ1_0 */
    uint32_t embedding; /* F16 or Q8_0 */
    const char *name;   /* general.name */
    uint32_t n_ctx;     /* the context that the file states; 0: the training window */
    double temperature; /* logits are divided by it, by the gains of the last norm; 0: 1 */
};
/* Appends the file's bytes to out. BN_ERR_UNSUPPORTED when the type cannot store the weights: a scale for each matrix
 * or group has to be that of whole blocks. */
BN_MUST_CHECK bn_status bn_export_gguf(struct bn_buf *out, const struct bn_weights *w,
                                       struct bn_str tokenizer, const struct bn_export *how, bn_error *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * A model in another format, in memory: the file of the model with its ternary layers or its embedding encoded
 * again. It is opened as any file is.
 */
#ifndef BN_BENCH_QUANT_CONVERT_H
#define BN_BENCH_QUANT_CONVERT_H

#include "model/model.h"

/* The type stays where the new one is BN_CONVERT_KEEP. */
#define BN_CONVERT_KEEP UINT32_MAX
struct bn_conversion {
    uint32_t layers;    /* of I2_S tensors: BN_TYPE_TQ1_0 or BN_TYPE_TQ2_0 */
    uint32_t embedding; /* of token_embd.weight in F32 or F16: BN_TYPE_Q8_0 or BN_TYPE_Q4_0 */
};

/* *data is 64-byte aligned; the caller frees it. BN_ERR_UNSUPPORTED when the model has no such tensor, or one
 * whose rows are not whole blocks. */
BN_MUST_CHECK bn_status bn_quant_convert(void **data, size_t *n_bytes, const bn_model *model,
                                         const struct bn_conversion *how, bn_error *err);

#endif

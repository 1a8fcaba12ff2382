/* SPDX-License-Identifier: MIT
 *
 * Progress of opening a model, for bn_model_options.progress: a step for each layer that is checked, each layer
 * that is copied, and each part of the head.
 */
#ifndef BN_MODEL_LOADING_H
#define BN_MODEL_LOADING_H

#include "base/error.h"

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

#endif

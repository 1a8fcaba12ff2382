/* SPDX-License-Identifier: MIT
 *
 * Inputs, tensors and targets of a plan; see plan.h.
 */
#include "tools/convert/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/hparams.h"
#include "tools/convert/rows.h"

bn_status bn_cv_add_input(struct bn_cv_plan *plan, const char *path, const char *name, bn_error *err)
{
    BN_TRY(bn_array_grow(&plan->inputs, &plan->inputs_room, plan->n_inputs + 1, sizeof *plan->inputs, err));
    struct bn_cv_input *input = &plan->inputs[plan->n_inputs++];
    *input =
        (struct bn_cv_input){.path = bn_strndup(path, strlen(path)), .name = bn_strndup(name, strlen(name))};
    if (input->path == NULL || input->name == NULL) return bn_nomem(err);
    return bn_file_map_open(&input->map, path, false, err);
}

bn_status bn_cv_add_tensor(struct bn_cv_plan *plan, struct bn_cv_tensor **out, bn_error *err)
{
    if (plan->n_tensors == BN_GGUF_MAX_TENSORS)
        return bn_fail(err, BN_ERR_LIMIT, "more than %u tensors", BN_GGUF_MAX_TENSORS);
    BN_TRY(
        bn_array_grow(&plan->tensors, &plan->tensors_room, plan->n_tensors + 1, sizeof *plan->tensors, err));
    *out = &plan->tensors[plan->n_tensors++];
    **out = (struct bn_cv_tensor){.n_dims = 1, .ne = {1, 1, 1, 1}, .input = SIZE_MAX};
    return BN_OK;
}

void bn_cv_release(struct bn_cv_plan *plan)
{
    for (size_t i = 0; i < plan->n_inputs; i++) {
        bn_file_map_close(&plan->inputs[i].map);
        bn_free(plan->inputs[i].path);
        bn_free(plan->inputs[i].name);
    }
    bn_free(plan->inputs);
    bn_free(plan->tensors);
    bn_free(plan->owned);
    bn_gguf_close(&plan->gguf);
    bn_gguf_writer_release(&plan->keys);
}

static bn_status settle_tensor(const struct bn_cv_plan *plan, struct bn_cv_tensor *t, bn_error *err)
{
    const struct bn_type_info *info = bn_type_info(t->to);
    bool ternary = t->kind != BN_CV_COPY && t->kind != BN_CV_FLOATS;
    uint64_t need = info->block > BN_CV_GROUP || !ternary ? info->block : BN_CV_GROUP;
    char where[BN_GGUF_MAX_NAME_BYTES + 16];
    snprintf(where, sizeof where, "tensor '%s'", t->name);
    if (t->ne[0] % need != 0)
        return bn_hint(bn_fail_in(err, BN_ERR_UNSUPPORTED, where,
                                  "rows of %llu weights are not a multiple of %llu, as %s needs",
                                  (unsigned long long)t->ne[0], (unsigned long long)need, info->name),
                       err, "choose a type with smaller blocks: q2_0 has 64 weights");
    if (!bn_type_bytes(t->to, t->ne, &t->n_bytes))
        return bn_fail_in(err, BN_ERR_LIMIT, where, "its size in bytes overflows");
    if (t->heads != 0 && (bn_cv_n_rows(t) % t->heads != 0 || bn_cv_n_rows(t) / t->heads % 2 != 0))
        return bn_fail_in(err, BN_ERR_FORMAT, where, "%llu rows are not %u heads of an even number of rows",
                          (unsigned long long)bn_cv_n_rows(t), t->heads);
    (void)plan;
    return BN_OK;
}

bn_status bn_cv_settle(struct bn_cv_plan *plan, bn_error *err)
{
    size_t n_ternary = 0;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        BN_TRY(settle_tensor(plan, &plan->tensors[i], err));
        n_ternary += plan->tensors[i].kind != BN_CV_FLOATS &&
                     (plan->tensors[i].kind != BN_CV_COPY || plan->tensors[i].to == plan->target);
    }
    if (n_ternary > 0) return BN_OK;
    return bn_fail(err, BN_ERR_UNSUPPORTED, "no tensor of the model is ternary");
}

bn_status bn_cv_keep_activations(struct bn_cv_plan *plan, bool wide, bn_error *err)
{
    const char *value = wide ? "int16-group" : "int8-token";
    bn_hparams hp = {0};
    snprintf(hp.arch, sizeof hp.arch, "%.31s", plan->arch);
    if (bn_hparams_wide_activations(&hp, plan->target) == wide) return BN_OK;
    if (plan->target != BN_TYPE_I2_S) {
        bn_gguf_put_str(&plan->keys, BN_ACTIVATIONS_KEY, value, strlen(value));
        return BN_OK;
    }
    return bn_hint(bn_fail(err, BN_ERR_UNSUPPORTED,
                           "a model whose activations need 16 bits cannot be stored in I2_S, which has 8"),
                   err, "choose q2_0, which is as lossless");
}

/* SPDX-License-Identifier: MIT
 *
 * The plan of a conversion from one GGUF file to another: all keys as they are but general.file_type, all
 * tensors in their order, the ternary ones in the new type. In a file without ternary types, floats of linear
 * layers that are ternary are converted, and so are the embedding and the head when they are ternary.
 */
#include <inttypes.h>
#include <stdio.h>

#include "model/hparams.h"
#include "tools/convert/plan.h"

/* ---- keys ---- */

static bn_status keep_activations(struct bn_cv_plan *plan, bn_error *err)
{
    const struct bn_gguf_tensor *first = bn_gguf_find_tensor(&plan->gguf, "blk.0.attn_q.weight");
    struct bn_str text;
    bn_hparams hp = {0};
    snprintf(hp.arch, sizeof hp.arch, "%.31s", plan->arch);
    if (first == NULL) first = bn_gguf_find_tensor(&plan->gguf, "blk.0.attn_qkv.weight"); /* recurrent */
    if (first == NULL) return BN_OK;
    bool wide = bn_hparams_wide_activations(&hp, first->type);
    bn_status status = bn_gguf_str(&plan->gguf, BN_ACTIVATIONS_KEY, &text, err);
    if (status == BN_OK) wide = bn_str_equal(text, "int16-group");
    if (status != BN_ERR_NOT_FOUND) BN_TRY(status);
    return bn_cv_keep_activations(plan, wide, err);
}

static bn_status copy_keys(struct bn_cv_plan *plan, bn_error *err)
{
    const uint32_t file_type = bn_type_info(plan->target)->file_type;
    const struct bn_gguf *gguf = &plan->gguf;
    const unsigned char *base = plan->inputs[0].map.data;
    bool has_type = false;
    for (size_t i = 0; i < gguf->n_kv; i++) {
        const struct bn_gguf_kv *kv = &gguf->kv[i];
        uint64_t end = i + 1 < gguf->n_kv ? gguf->kv[i + 1].offset : gguf->tensors[0].info_offset;
        if (bn_str_equal(kv->key, "general.alignment")) {
            plan->keys.alignment = gguf->alignment; /* becomes the last key */
        } else if (bn_str_equal(kv->key, "general.file_type")) {
            bn_gguf_put_u32(&plan->keys, "general.file_type", file_type);
            has_type = true;
        } else if (!bn_str_equal(kv->key, BN_ACTIVATIONS_KEY)) { /* put anew when it is still needed */
            bn_buf_append(&plan->keys.kv, base + kv->offset, (size_t)(end - kv->offset));
            plan->keys.n_kv++;
        }
    }
    if (!has_type) bn_gguf_put_u32(&plan->keys, "general.file_type", file_type);
    BN_TRY(keep_activations(plan, err));
    return bn_buf_check(&plan->keys.kv, err);
}

/* ---- tensors ---- */

static bn_status read_scale(struct bn_cv_tensor *t, bn_error *err)
{
    uint64_t n_codes = t->n_source - BN_I2S_TAIL_BYTES;
    memcpy(&t->scale, t->data + n_codes, sizeof t->scale);
    if (t->scale > 0.0f && t->scale <= 3.4e38f) return BN_OK;
    return bn_fail_at(err, BN_ERR_FORMAT, t->offset + n_codes, t->name, "scale %g is not a positive number",
                      (double)t->scale);
}

/* Does the tensor belong to a layer that predicts further tokens? Those come after the others, and need not be ternary. */
static bool predicts(const struct bn_cv_plan *plan, const char *name)
{
    char key[96];
    uint32_t n_layers = 0, n_next = 0;
    unsigned layer;
    snprintf(key, sizeof key, "%s.block_count", plan->arch);
    bool counted = bn_gguf_u32(&plan->gguf, key, &n_layers, NULL) == BN_OK;
    snprintf(key, sizeof key, "%s.nextn_predict_layers", plan->arch);
    counted = counted && bn_gguf_u32(&plan->gguf, key, &n_next, NULL) == BN_OK;
    return counted && n_next < n_layers && sscanf(name, "blk.%u.", &layer) == 1 && layer >= n_layers - n_next;
}

static bn_status add(struct bn_cv_plan *plan, const struct bn_gguf_tensor *from, bool floats, bn_error *err)
{
    struct bn_cv_tensor *t;
    BN_TRY(bn_cv_add_tensor(plan, &t, err));
    snprintf(t->name, sizeof t->name, "%.*s", (int)from->name.len, from->name.ptr);
    t->from = t->to = from->type;
    t->n_dims = from->n_dims;
    memcpy(t->ne, from->ne, sizeof t->ne);
    t->data = from->data;
    t->n_source = from->n_bytes;
    t->offset = from->offset;
    t->input = 0;
    t->kind = BN_CV_COPY;
    const struct bn_type_info *info = bn_type_info(from->type);
    if (info->unpack != NULL && from->type != plan->target) {
        t->kind = BN_CV_BLOCKS;
    } else if (floats && info->is_float && from->type != plan->target && from->n_dims > 1) {
        bool wanted = bn_part_is_linear(t->name);
        if (strcmp(t->name, "token_embd.weight") == 0 || strcmp(t->name, "output.weight") == 0 ||
            (wanted && predicts(plan, t->name)))
            BN_TRY(bn_cv_is_ternary(t, &wanted, err));
        if (wanted) t->kind = BN_CV_TRITS;
        bool ternary = true;
        if (wanted && plan->options->ternarise) BN_TRY(bn_cv_is_ternary(t, &ternary, err));
        if (!ternary) t->kind = BN_CV_MASTER;
    }
    if (t->kind == BN_CV_COPY) return BN_OK;
    t->to = plan->target;
    return t->from == BN_TYPE_I2_S ? read_scale(t, err) : BN_OK;
}

static bn_status refuse_parts(const struct bn_gguf *gguf, bn_error *err)
{
    uint32_t parts = 1;
    bn_status status = bn_gguf_u32(gguf, "split.count", &parts, err);
    if (status != BN_OK && status != BN_ERR_NOT_FOUND) return status;
    if (parts <= 1) return BN_OK;
    return bn_hint(bn_fail_at(err, BN_ERR_UNSUPPORTED, bn_gguf_find(gguf, "split.count")->offset,
                              "key 'split.count'", "the file is one of %" PRIu32 " parts of a model", parts),
                   err, "join the parts with llama-gguf-split --merge, or download the model as one file");
}

static bn_status make_plan(struct bn_cv_plan *plan, bn_error *err)
{
    const struct bn_gguf *gguf = &plan->gguf;
    bool floats = true;
    struct bn_str arch = {"", 0};
    BN_TRY(refuse_parts(gguf, err));
    if (gguf->n_tensors == 0) return bn_fail(err, BN_ERR_UNSUPPORTED, "the file has no tensors");
    (void)bn_gguf_str(gguf, "general.architecture", &arch, NULL);
    snprintf(plan->arch, sizeof plan->arch, "%.*s", (int)bn_min_size(arch.len, 63), arch.ptr);
    for (size_t i = 0; i < gguf->n_tensors; i++)
        if (bn_type_info(gguf->tensors[i].type)->unpack != NULL) floats = false;
    BN_TRY(copy_keys(plan, err));
    for (size_t i = 0; i < gguf->n_tensors; i++)
        BN_TRY(add(plan, &gguf->tensors[i], floats, err));
    return BN_OK;
}

bn_status bn_cv_from_gguf(struct bn_cv_plan *plan, const char *path, bn_error *err)
{
    const char *slash = strrchr(path, '/');
    BN_TRY(bn_cv_add_input(plan, path, slash != NULL ? slash + 1 : path, err));
    const struct bn_file_map *map = &plan->inputs[0].map;
    bn_status status = bn_gguf_open(&plan->gguf, map->data, map->n_bytes, err);
    if (status == BN_OK) status = make_plan(plan, err);
    if (status != BN_OK) bn_error_name(err, path);
    return status;
}

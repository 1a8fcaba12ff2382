/* SPDX-License-Identifier: MIT
 *
 * A recurrent layer of Qwen3.5 (gated delta rule) to the tensors of GGUF, as llama.cpp's converter makes them.
 *
 * Safetensors keep the value heads of a key head together: head g belongs to key head g / (value heads of a key head).
 * In GGUF value head h belongs to key head h mod (key heads). So the rows of values, of their gates and of what each
 * head has one of are put in another order, and so are the columns of out_proj. A rotated out_proj keeps its columns,
 * because a transform of blocks is not one of heads: the engine puts its inputs in that order (folder_rotation.c).
 *
 * Early models have one matrix for q, k, v and the gates, whose rows lie together by key head, and one for the two
 * numbers of a head.
 */
#include <stdio.h>

#include "base/error.h"
#include "tools/convert/folder.h"
#include "tools/convert/plan.h"

/* A layer while it is planned. */
struct part {
    struct bn_cv_folder *f;
    uint64_t layer, d, n_key, n_value, each; /* each: value heads of a key head */
    char name[96];                           /* of the tensor in the source, without .weight */
    struct bn_cv_found found;
};

static bool look(struct part *p, const char *name, const char *suffix)
{
    snprintf(p->name, sizeof p->name, "layers.%llu.linear_attn.%s", (unsigned long long)p->layer, name);
    return bn_cv_folder_find(p->f, p->name, suffix, &p->found);
}

static bn_status want(struct part *p, const char *name, const char *suffix, bn_error *err)
{
    if (look(p, name, suffix)) return BN_OK;
    return bn_fail(err, BN_ERR_FORMAT, "the safetensors have no tensor %s%s", p->name, suffix);
}

static const char *target(const struct part *p, char out[64], const char *name)
{
    snprintf(out, 64, "blk.%llu.%s", (unsigned long long)p->layer, name);
    return out;
}

static struct bn_cv_order key_heads(const struct part *p, uint64_t base, uint64_t per_key)
{
    return (struct bn_cv_order){
        .n = p->n_key * p->d, .size = p->d, .n_key = p->n_key, .base = base, .per_key = per_key};
}

/* size: rows of a head, which follow those of the head before. */
static struct bn_cv_order value_heads(const struct part *p, uint64_t size, uint64_t base, uint64_t per_key)
{
    return (struct bn_cv_order){.n = p->n_value * size,
                                .size = size,
                                .n_key = p->n_key,
                                .base = base,
                                .per_key = per_key,
                                .per_value = size};
}

/* ---- matrices ---- */

static bn_status add_mixed(struct part *p, bn_error *err)
{
    char name[64];
    struct bn_cv_tensor *t;
    uint64_t d = p->d, keys = p->n_key * d, values = p->n_value * d, block = 2 * (1 + p->each) * d;
    bool fused = look(p, "in_proj_qkvz", ".weight");
    if (!fused) BN_TRY(want(p, "in_proj_qkv", ".weight", err));
    BN_TRY(bn_cv_folder_linear(p->f, &p->found, p->name, target(p, name, "attn_qkv"), 2 * keys + values,
                               p->f->hp.n_embd, 2 * keys + (fused ? 2 : 1) * values, &t, err));
    t->rows[0] = key_heads(p, 0, fused ? block : d);
    t->rows[1] = key_heads(p, fused ? d : keys, fused ? block : d);
    t->rows[2] = value_heads(p, d, fused ? 2 * d : 2 * keys, fused ? block : p->each * d);
    if (!fused) BN_TRY(want(p, "in_proj_z", ".weight", err));
    BN_TRY(bn_cv_folder_linear(p->f, &p->found, p->name, target(p, name, "attn_gate"), values,
                               p->f->hp.n_embd, fused ? 2 * (keys + values) : values, &t, err));
    t->rows[0] = value_heads(p, d, fused ? (2 + p->each) * d : 0, fused ? block : p->each * d);
    return BN_OK;
}

/* The two matrices with a row for each value head. They keep their type. */
static bn_status add_pair(struct part *p, bn_error *err)
{
    static const struct {
        const char *name, *target;
        bool second; /* in the rows of a key head of in_proj_ba */
    } PAIR[] = {{"in_proj_a", "ssm_alpha.weight", true}, {"in_proj_b", "ssm_beta.weight", false}};
    char name[64];
    struct bn_cv_tensor *t;
    bool fused = look(p, "in_proj_ba", ".weight");
    for (size_t i = 0; i < BN_ARRAY_LEN(PAIR); i++) {
        if (!fused) BN_TRY(want(p, PAIR[i].name, ".weight", err));
        uint64_t sizes[] = {(fused ? 2 : 1) * p->n_value, p->f->hp.n_embd};
        BN_TRY(bn_cv_folder_shape(p->f, &p->found, 2, sizes, err));
        BN_TRY(bn_cv_folder_add(p->f, &p->found, target(p, name, PAIR[i].target), p->n_value, p->f->hp.n_embd,
                                &t, err));
        t->kind = BN_CV_FLOATS;
        t->rows[0] = value_heads(p, 1, fused && PAIR[i].second ? p->each : 0, (fused ? 2 : 1) * p->each);
        if (!bn_cv_float_type(p->found.t->type, &t->from))
            return bn_cv_folder_fail(p->f, &p->found, BN_ERR_UNSUPPORTED, "it must be floats", err);
        t->to = t->from;
    }
    return BN_OK;
}

static bn_status add_output(struct part *p, bn_error *err)
{
    char name[64];
    struct bn_cv_tensor *t;
    uint64_t inner = p->n_value * p->d;
    BN_TRY(want(p, "out_proj", ".weight", err));
    BN_TRY(bn_cv_folder_linear(p->f, &p->found, p->name, target(p, name, "ssm_out"), p->f->hp.n_embd, inner,
                               p->f->hp.n_embd, &t, err));
    if (bn_cv_folder_rotates(p->f, p->found.t->name)) {
        p->f->grouped_out = true;
        return BN_OK;
    }
    t->columns = value_heads(p, p->d, 0, p->each * p->d);
    if (t->kind != BN_CV_WORDS || p->d % BN_CV_GROUP == 0) return BN_OK;
    return bn_cv_folder_fail(p->f, &p->found, BN_ERR_UNSUPPORTED,
                             "words of MLX need heads of a multiple of 64 elements", err);
}

/* ---- the convolution, and vectors ---- */

/* Channels by taps, with one channel of input: before the taps, or after them as MLX stores it. */
static bn_status add_convolution(struct part *p, bn_error *err)
{
    char name[64];
    struct bn_cv_tensor *t;
    uint64_t taps = p->f->hp.recurrence.n_taps, keys = p->n_key * p->d,
             channels = 2 * keys + p->n_value * p->d;
    BN_TRY(want(p, "conv1d", ".weight", err));
    bool last = p->found.t->n_dims == 3 && p->found.t->dims[1] == taps && p->found.t->dims[2] == 1;
    uint64_t sizes[] = {channels, last ? taps : 1, last ? 1 : taps};
    BN_TRY(bn_cv_folder_shape(p->f, &p->found, 3, sizes, err));
    BN_TRY(bn_cv_folder_add(p->f, &p->found, target(p, name, "ssm_conv1d.weight"), channels, taps, &t, err));
    t->kind = BN_CV_FLOATS;
    t->to = BN_TYPE_F32;
    t->rows[0] = key_heads(p, 0, p->d);
    t->rows[1] = key_heads(p, keys, p->d);
    t->rows[2] = value_heads(p, p->d, 2 * keys, p->each * p->d);
    if (bn_cv_float_type(p->found.t->type, &t->from)) return BN_OK;
    return bn_cv_folder_fail(p->f, &p->found, BN_ERR_UNSUPPORTED, "it must be floats", err);
}

/* The norm of a head, to which no 1 is added, and the vectors with a number for each value head. */
static bn_status add_vectors(struct part *p, bn_error *err)
{
    static const struct {
        const char *name, *suffix, *target;
        bool by_head, decay;
    } VECTORS[] = {{"dt_bias", "", "ssm_dt.bias", true, false},
                   {"A_log", "", "ssm_a", true, true},
                   {"norm", ".weight", "ssm_norm.weight", false, false}};
    char name[64];
    struct bn_cv_tensor *t;
    for (size_t i = 0; i < BN_ARRAY_LEN(VECTORS); i++) {
        uint64_t n = VECTORS[i].by_head ? p->n_value : p->d;
        BN_TRY(want(p, VECTORS[i].name, VECTORS[i].suffix, err));
        BN_TRY(bn_cv_folder_shape(p->f, &p->found, 1, &n, err));
        BN_TRY(bn_cv_folder_add(p->f, &p->found, target(p, name, VECTORS[i].target), n, 0, &t, err));
        t->kind = BN_CV_FLOATS;
        t->to = BN_TYPE_F32;
        t->decay = VECTORS[i].decay;
        if (VECTORS[i].by_head) t->columns = value_heads(p, 1, 0, p->each);
        if (!bn_cv_float_type(p->found.t->type, &t->from))
            return bn_cv_folder_fail(p->f, &p->found, BN_ERR_UNSUPPORTED, "it must be floats", err);
    }
    return BN_OK;
}

bn_status bn_cv_folder_recurrent(struct bn_cv_folder *f, uint64_t layer, bn_error *err)
{
    struct part p = {.f = f,
                     .layer = layer,
                     .d = f->hp.recurrence.head_dim,
                     .n_key = f->hp.recurrence.n_key_heads,
                     .n_value = f->hp.recurrence.n_value_heads,
                     .each = f->hp.recurrence.n_value_heads / f->hp.recurrence.n_key_heads};
    BN_TRY(add_mixed(&p, err));
    BN_TRY(add_convolution(&p, err));
    BN_TRY(add_vectors(&p, err));
    BN_TRY(add_pair(&p, err));
    return add_output(&p, err);
}

/* SPDX-License-Identifier: MIT
 *
 * The tensors of a model of the Hugging Face hub to those of a GGUF file: names, shapes, and how the weights are
 * stored. Every tensor that the architecture has must be there in its shape, and every tensor that is there must
 * have a place: what is unknown could change the result.
 *
 * A linear layer is stored as bytes with four rows each and a weight_scale, as words of MLX, as floats that are
 * ternary, or as the float masters of a model trained with ternary weights. Floats that are ternary in groups of 64 are not masters:
 * their mean magnitude would be too small a scale.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "model/hparams.h"
#include "model/weights.h"
#include "tools/convert/folder.h"
#include "tools/convert/plan.h"

/* A layer in the order of the result, with the names of the hub; model/parts.c has the shapes, and which models have
 * what. */
static const struct {
    const char *name, *other; /* after layers.N.; other: of earlier models. NULL: folder_recurrent.c */
    const char *part;
    enum { ANY, WITH_POST_NORMS, WITHOUT } models;
} LAYER[] = {
    {"input_layernorm", NULL, "attn_norm", ANY},
    {"self_attn.q_proj.norm", NULL, "attn_q_norm_in", ANY},
    {"self_attn.k_proj.norm", NULL, "attn_k_norm_in", ANY},
    {"self_attn.v_proj.norm", NULL, "attn_v_norm_in", ANY},
    {"self_attn.q_proj", NULL, "attn_q", ANY},
    {"self_attn.k_proj", NULL, "attn_k", ANY},
    {"self_attn.v_proj", NULL, "attn_v", ANY},
    {"self_attn.q_norm", NULL, "attn_q_norm", ANY},
    {"self_attn.k_norm", NULL, "attn_k_norm", ANY},
    {"self_attn.attn_sub_norm", "self_attn.inner_attn_ln", "attn_sub_norm", ANY},
    {"self_attn.o_proj.norm", NULL, "attn_output_norm_in", ANY},
    {"self_attn.o_proj", NULL, "attn_output", ANY},
    {NULL, NULL, "attn_qkv", ANY},
    {"post_attention_layernorm", NULL, "post_attention_norm", ANY},
    {"post_attention_layernorm", NULL, "ffn_norm", WITHOUT},
    {"pre_feedforward_layernorm", NULL, "ffn_norm", WITH_POST_NORMS},
    {"mlp.gate_proj.norm", NULL, "ffn_gate_norm_in", ANY},
    {"mlp.up_proj.norm", NULL, "ffn_up_norm_in", ANY},
    {"mlp.gate_proj", NULL, "ffn_gate", ANY},
    {"mlp.up_proj", NULL, "ffn_up", ANY},
    {"mlp.ffn_sub_norm", "mlp.ffn_layernorm", "ffn_sub_norm", ANY},
    {"mlp.down_proj.norm", NULL, "ffn_down_norm_in", ANY},
    {"mlp.down_proj", NULL, "ffn_down", ANY},
    {"post_feedforward_layernorm", NULL, "post_ffw_norm", ANY},
};

/* The part of a row in this layer; NULL when the model has none. */
static const struct bn_layer_part *part_of(const struct bn_cv_folder *f, uint32_t layer, size_t i)
{
    if (LAYER[i].models != ANY && (LAYER[i].models == WITH_POST_NORMS) != f->hp.post_norms) return NULL;
    for (const struct bn_layer_part *p = bn_parts; p->name != NULL; p++)
        if (strcmp(p->name, LAYER[i].part) == 0 && bn_part_is_in(p, &f->hp, layer)) return p;
    return NULL;
}

/* ---- finding ---- */

/* Longer ones first. Models that also see have their text part under another name in transformers and in MLX. */
static const char *const PREFIXES[] = {"model.language_model.", "language_model.model.", "language_model.",
                                       "model.", ""};

const char *bn_cv_folder_plain(const char *name)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(PREFIXES); i++)
        if (strncmp(name, PREFIXES[i], strlen(PREFIXES[i])) == 0) return name + strlen(PREFIXES[i]);
    return name;
}

bool bn_cv_folder_find(struct bn_cv_folder *f, const char *name, const char *suffix,
                       struct bn_cv_found *found)
{
    char full[192];
    found->t = NULL;
    for (size_t i = 0; i < BN_ARRAY_LEN(PREFIXES) && found->t == NULL; i++) {
        snprintf(full, sizeof full, "%s%s%s", PREFIXES[i], name, suffix);
        found->t = bn_cv_folder_take(f, full, &found->input);
    }
    return found->t != NULL;
}

bn_status bn_cv_folder_fail(const struct bn_cv_folder *f, const struct bn_cv_found *found, bn_status code,
                            const char *what, bn_error *err)
{
    char where[600];
    snprintf(where, sizeof where, "%s: %s", f->plan->inputs[found->input].name, found->t->name);
    return bn_fail_at(err, code, found->t->info_offset, where, "%s", what);
}

bn_status bn_cv_folder_shape(const struct bn_cv_folder *f, const struct bn_cv_found *found, uint32_t n_dims,
                             const uint64_t *sizes, bn_error *err)
{
    char what[200];
    const struct bn_st_tensor *t = found->t;
    bool same = t->n_dims == n_dims;
    for (uint32_t d = 0; d < n_dims && same; d++)
        same = t->dims[d] == sizes[d];
    if (same) return BN_OK;
    int at = snprintf(what, sizeof what, "the shape is ");
    for (uint32_t d = 0; d < t->n_dims && d < 4; d++)
        at += snprintf(what + at, sizeof what - (size_t)at, "%s%llu", d > 0 ? " x " : "",
                       (unsigned long long)t->dims[d]);
    for (uint32_t d = 0; d < n_dims && d < 4; d++)
        at += snprintf(what + at, sizeof what - (size_t)at, "%s%llu", d > 0 ? " x " : ", expected ",
                       (unsigned long long)sizes[d]);
    return bn_cv_folder_fail(f, found, BN_ERR_FORMAT, what, err);
}

static bn_status check_shape(const struct bn_cv_folder *f, const struct bn_cv_found *found, uint32_t n_dims,
                             uint64_t rows, uint64_t columns, bn_error *err)
{
    return bn_cv_folder_shape(f, found, n_dims, (const uint64_t[]){rows, columns}, err);
}

bool bn_cv_float_type(enum bn_st_type type, uint32_t *out)
{
    *out = type == BN_ST_F32 ? BN_TYPE_F32 : type == BN_ST_F16 ? BN_TYPE_F16 : BN_TYPE_BF16;
    return type == BN_ST_F32 || type == BN_ST_F16 || type == BN_ST_BF16;
}

bn_status bn_cv_folder_add(struct bn_cv_folder *f, const struct bn_cv_found *found, const char *name,
                           uint64_t rows, uint64_t columns, struct bn_cv_tensor **out, bn_error *err)
{
    BN_TRY(bn_cv_add_tensor(f->plan, out, err));
    struct bn_cv_tensor *t = *out;
    snprintf(t->name, sizeof t->name, "%s", name);
    t->source = found->t->name;
    t->n_dims = columns > 0 ? 2 : 1;
    t->ne[0] = columns > 0 ? columns : rows;
    t->ne[1] = columns > 0 ? rows : 1;
    t->data = found->t->data;
    t->n_source = found->t->n_bytes;
    t->offset = found->t->offset;
    t->input = found->input;
    return BN_OK;
}

/* The same with the name part.weight. */
static bn_status add(struct bn_cv_folder *f, const struct bn_cv_found *found, const char *part, uint64_t rows,
                     uint64_t columns, struct bn_cv_tensor **out, bn_error *err)
{
    char name[96];
    snprintf(name, sizeof name, "%s.weight", part);
    return bn_cv_folder_add(f, found, name, rows, columns, out, err);
}

/* ---- norms, tables ---- */

/* shift: Gemma's norms multiply by 1 + w, but those of inputs, which are BitNet's, by w. */
static bn_status add_norm(struct bn_cv_folder *f, const struct bn_cv_found *found, const char *name,
                          uint64_t n, float shift, bn_error *err)
{
    BN_TRY(check_shape(f, found, 1, n, 0, err));
    struct bn_cv_tensor *t;
    BN_TRY(add(f, found, name, n, 0, &t, err));
    t->kind = BN_CV_FLOATS;
    t->to = BN_TYPE_F32;
    t->add = shift;
    return bn_cv_float_type(found->t->type, &t->from)
               ? BN_OK
               : bn_cv_folder_fail(f, found, BN_ERR_UNSUPPORTED, "a norm must be floats", err);
}

/* ---- MLX: words of 32 bits with 16 codes, scales and biases of groups ---- */

static bool is_words(const struct bn_cv_found *found)
{
    return found->t->type == BN_ST_U32;
}

static bn_status find_group(const struct bn_cv_folder *f, const struct bn_cv_found *weight, uint32_t *group,
                            bn_error *err)
{
    const bn_json *q = bn_cv_folder_setting(f, "quantization");
    uint64_t bits = 0, size = 0;
    if (!bn_json_u64(bn_json_get(q, "bits"), &bits) || !bn_json_u64(bn_json_get(q, "group_size"), &size) ||
        bits != 2 || size % BN_CV_GROUP != 0 || size == 0 || size > 1024)
        return bn_cv_folder_fail(
            f, weight, BN_ERR_UNSUPPORTED,
            "words of 32 bits, and no quantization of 2 bits with a group_size of 64 or more in config.json",
            err);
    *group = (uint32_t)size;
    return BN_OK;
}

/* name: without .weight. t has the sizes of the result. */
static bn_status add_words(struct bn_cv_folder *f, const struct bn_cv_found *weight, const char *name,
                           struct bn_cv_tensor *t, uint64_t n_source, bn_error *err)
{
    static const char *const LISTS[] = {".scales", ".biases"};
    struct bn_cv_found found[2];
    uint32_t types[2];
    BN_TRY(find_group(f, weight, &t->group, err));
    BN_TRY(check_shape(f, weight, 2, n_source, t->ne[0] / 16, err));
    if (t->ne[0] % t->group != 0)
        return bn_cv_folder_fail(f, weight, BN_ERR_UNSUPPORTED, "the rows are not a whole number of groups",
                                 err);
    for (size_t i = 0; i < 2; i++) {
        if (!bn_cv_folder_find(f, name, LISTS[i], &found[i]))
            return bn_cv_folder_fail(f, weight, BN_ERR_FORMAT, "words of 32 bits without scales and biases",
                                     err);
        BN_TRY(check_shape(f, &found[i], 2, n_source, t->ne[0] / t->group, err));
        if (!bn_cv_float_type(found[i].t->type, &types[i]) || types[i] != types[0])
            return bn_cv_folder_fail(f, &found[i], BN_ERR_FORMAT,
                                     "scales and biases must be floats of one type", err);
    }
    t->kind = BN_CV_WORDS;
    t->from = types[0];
    t->to = f->plan->target;
    t->scales = found[0].t->data;
    t->biases = found[1].t->data;
    return BN_OK;
}

/* The embedding or the head: ternary when its values are, else as it is. */
static bn_status add_table(struct bn_cv_folder *f, const struct bn_cv_found *found, const char *from,
                           const char *name, bn_error *err)
{
    struct bn_cv_tensor *t;
    BN_TRY(add(f, found, name, f->hp.n_vocab, f->hp.n_embd, &t, err));
    if (is_words(found)) return add_words(f, found, from, t, f->hp.n_vocab, err);
    BN_TRY(check_shape(f, found, 2, f->hp.n_vocab, f->hp.n_embd, err));
    if (!bn_cv_float_type(found->t->type, &t->from))
        return bn_cv_folder_fail(f, found, BN_ERR_UNSUPPORTED, "the embedding and the head must be floats",
                                 err);
    bool ternary;
    BN_TRY(bn_cv_is_ternary(t, &ternary, err));
    t->kind = ternary ? BN_CV_TRITS : BN_CV_COPY;
    t->to = ternary ? f->plan->target : t->from;
    return BN_OK;
}

/* ---- linear layers ---- */

static bn_status read_scale(struct bn_cv_folder *f, const char *name, struct bn_cv_tensor *t,
                            const struct bn_cv_found *weight, bn_error *err)
{
    struct bn_cv_found scale;
    uint32_t type;
    float value = 0;
    if (!bn_cv_folder_find(f, name, ".weight_scale", &scale))
        return bn_cv_folder_fail(f, weight, BN_ERR_FORMAT, "packed bytes without a weight_scale", err);
    bool one = scale.t->n_dims == 0 || (scale.t->n_dims == 1 && scale.t->dims[0] == 1);
    if (!one || !bn_cv_float_type(scale.t->type, &type))
        return bn_cv_folder_fail(f, &scale, BN_ERR_FORMAT, "a weight_scale is not one float", err);
    bn_widen(&bn_kernels_ref, type, &value, scale.t->data, 1);
    t->scale = f->divides ? 1.0f / value : value;
    if (value > 0.0f && isfinite(value) && isfinite(t->scale)) return BN_OK;
    return bn_cv_folder_fail(f, &scale, BN_ERR_FORMAT, "the weight_scale is not a positive number", err);
}

static bn_status add_packed(struct bn_cv_folder *f, const struct bn_cv_found *found, const char *name,
                            struct bn_cv_tensor *t, bn_error *err)
{
    if (!f->bitnet && f->plan->options->weight_scale == 0)
        return bn_hint(
            bn_cv_folder_fail(f, found, BN_ERR_UNSUPPORTED,
                              "packed bytes, and no quantization_config with quant_method bitnet says what "
                              "weight_scale means",
                              err),
            err, "--weight-scale multiply or divide, as the program that made the model does");
    t->kind = BN_CV_PACKED;
    return read_scale(f, name, t, found, err);
}

bn_status bn_cv_folder_linear(struct bn_cv_folder *f, const struct bn_cv_found *found, const char *name,
                              const char *part, uint64_t rows, uint64_t columns, uint64_t n_source,
                              struct bn_cv_tensor **out, bn_error *err)
{
    bool packed = found->t->type == BN_ST_U8;
    if (packed && (rows % 4 != 0 || n_source != rows))
        return bn_cv_folder_fail(f, found, BN_ERR_FORMAT, "the rows cannot be packed four to a byte", err);
    if (!is_words(found)) BN_TRY(check_shape(f, found, 2, packed ? rows / 4 : n_source, columns, err));
    struct bn_cv_tensor *t;
    BN_TRY(add(f, found, part, rows, columns, out, err));
    t = *out;
    t->to = f->plan->target;
    if (packed) return add_packed(f, found, name, t, err);
    if (is_words(found)) return add_words(f, found, name, t, n_source, err);
    if (!bn_cv_float_type(found->t->type, &t->from))
        return bn_cv_folder_fail(f, found, BN_ERR_UNSUPPORTED, "a linear layer must be U8, F16, BF16 or F32",
                                 err);
    bool ternary = true;
    if (f->arch->masters || f->bitnet || f->hp.input_norms || f->plan->options->ternarise)
        BN_TRY(bn_cv_is_ternary(t, &ternary, err));
    t->kind = ternary ? BN_CV_TRITS : BN_CV_MASTER;
    return BN_OK;
}

/* ---- all of them ---- */

static bn_status missing(const char *name, bn_error *err)
{
    return bn_fail(err, BN_ERR_FORMAT, "the safetensors have no tensor %s.weight", name);
}

static bn_status add_part(struct bn_cv_folder *f, uint32_t layer, size_t i, const struct bn_layer_part *p,
                          bn_error *err)
{
    char name[96], part[64];
    struct bn_cv_found found;
    if (LAYER[i].name == NULL) return bn_cv_folder_recurrent(f, layer, err);
    snprintf(name, sizeof name, "layers.%u.%s", layer, LAYER[i].name);
    snprintf(part, sizeof part, "blk.%u.%s", layer, p->name);
    bool there = bn_cv_folder_find(f, name, ".weight", &found);
    if (!there && LAYER[i].other != NULL) {
        snprintf(name, sizeof name, "layers.%u.%s", layer, LAYER[i].other);
        there = bn_cv_folder_find(f, name, ".weight", &found);
    }
    if (!there) return missing(name, err);
    uint64_t rows = bn_width(&f->hp, p->rows), cols = bn_width(&f->hp, p->cols);
    if (p->kind == BN_PART_NORM)
        return add_norm(f, &found, part, cols, p->of == BN_OF_INPUT_NORMS ? 0.0f : f->norm_shift, err);
    struct bn_cv_tensor *t;
    BN_TRY(bn_cv_folder_linear(f, &found, name, part, rows, cols, rows, &t, err));
    if (f->hp.rope != BN_ROPE_NORM) return BN_OK; /* else rows of each head are interleaved */
    if (strcmp(p->name, "attn_q") == 0) t->heads = f->hp.n_head;
    if (strcmp(p->name, "attn_k") == 0) t->heads = f->hp.n_head_kv;
    return BN_OK;
}

/* Without tie_word_embeddings the model is tied when it has no head. An embedding model needs none. */
static bn_status add_head(struct bn_cv_folder *f, bn_error *err)
{
    struct bn_cv_found found;
    bool tied = false, said = bn_json_bool(bn_cv_folder_setting(f, "tie_word_embeddings"), &tied);
    bool there = bn_cv_folder_find(f, "lm_head", ".weight", &found);
    if (f->hp.sub_norms && there && !tied)
        return bn_cv_folder_fail(f, &found, BN_ERR_UNSUPPORTED,
                                 "a head of its own is not supported in BitNet models", err);
    if (there && !tied) return add_table(f, &found, "lm_head", "output", err);
    if (there || tied || !said || f->hp.input_norms) return BN_OK;
    return missing("lm_head", err);
}

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

/* Tensors that texts do not need: a vision tower, and layers that predict further tokens. */
static bool is_left_out(struct bn_cv_folder *f, const char *name)
{
    const char *plain = bn_cv_folder_plain(name);
    bool vision = begins(plain, "visual.") || begins(plain, "vision_tower."), next = begins(plain, "mtp.");
    f->plan->n_vision += f->hp.gated_heads && vision;
    f->plan->n_next += f->hp.gated_heads && next;
    return f->hp.gated_heads && (vision || next);
}

/* Every tensor must have a place. Tables of frequencies, which old files have, follow from config.json. */
static bn_status check_used(struct bn_cv_folder *f, bn_error *err)
{
    static const char FREQUENCIES[] = ".rotary_emb.inv_freq";
    for (size_t s = 0; s < f->n_shards; s++)
        for (size_t i = 0; i < f->shards[s].st.n; i++) {
            struct bn_cv_found found = {&f->shards[s].st.tensors[i], f->shards[s].input};
            size_t n = strlen(found.t->name), tail = sizeof FREQUENCIES - 1;
            if (f->shards[s].used[i] || (n > tail && strcmp(found.t->name + n - tail, FREQUENCIES) == 0) ||
                is_left_out(f, found.t->name))
                continue;
            return bn_cv_folder_fail(f, &found, BN_ERR_UNSUPPORTED, "the architecture has no such tensor",
                                     err);
        }
    return BN_OK;
}

/* MLX stores the taps of the convolution before its one channel, and has added 1 to the norms. */
static void find_norm_shift(struct bn_cv_folder *f)
{
    struct bn_cv_found found;
    char name[64];
    for (uint32_t layer = 0; layer < f->hp.n_layer && f->hp.gated_heads; layer++) {
        snprintf(name, sizeof name, "layers.%u.linear_attn.conv1d", layer);
        if (!bn_cv_folder_find(f, name, ".weight", &found)) continue;
        if (found.t->n_dims == 3 && found.t->dims[2] == 1 && f->hp.recurrence.n_taps > 1)
            f->norm_shift = 0.0f;
        return;
    }
}

bn_status bn_cv_folder_tensors(struct bn_cv_folder *f, bn_error *err)
{
    struct bn_cv_found found;
    find_norm_shift(f);
    if (!bn_cv_folder_find(f, "embed_tokens", ".weight", &found)) return missing("embed_tokens", err);
    BN_TRY(add_table(f, &found, "embed_tokens", "token_embd", err));
    for (uint32_t layer = 0; layer < f->hp.n_layer; layer++)
        for (size_t i = 0; i < BN_ARRAY_LEN(LAYER); i++) {
            const struct bn_layer_part *p = part_of(f, layer, i);
            if (p != NULL) BN_TRY(add_part(f, layer, i, p, err));
        }
    if (!bn_cv_folder_find(f, "norm", ".weight", &found)) return missing("norm", err);
    BN_TRY(add_norm(f, &found, "output_norm", f->hp.n_embd, f->norm_shift, err));
    BN_TRY(add_head(f, err));
    return check_used(f, err);
}

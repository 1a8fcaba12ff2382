/* SPDX-License-Identifier: MIT
 *
 * The tensors of a model of the Hugging Face hub to those of a GGUF file: names, shapes, and how the weights are
 * stored. Every tensor that the architecture has must be there in its shape, and every tensor that is there must
 * have a place: what is unknown could change the result.
 *
 * A linear layer is stored as bytes with four rows each and a weight_scale, as words of MLX, as floats that are
 * ternary, or as the float masters of a model trained with ternary weights. Floats that are ternary in groups of 64 are not masters:
 * their mean magnitude would be too small a scale.
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
#include <math.h>
#include <stdio.h>

#include "model/hparams.h"
#include "model/weights.h"
#include "tools/convert/folder.h"

/* A layer in the order of the result, with the names of the hub; model/parts.c has the shapes, and which models have
 * what. */
static const struct {
    const char *name, *other; /* after layers.N.; other: of earlier models. NULL: a recurrent layer */
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

/* A tensor of the safetensors. */
struct found {
    const struct bn_st_tensor *t;
    size_t input;
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

/* "<name><suffix>" after one of the prefixes. */
static bool find(struct bn_cv_folder *f, const char *name, const char *suffix, struct found *found)
{
    char full[192];
    found->t = NULL;
    for (size_t i = 0; i < BN_ARRAY_LEN(PREFIXES) && found->t == NULL; i++) {
        snprintf(full, sizeof full, "%s%s%s", PREFIXES[i], name, suffix);
        found->t = bn_cv_folder_take(f, full, &found->input);
    }
    return found->t != NULL;
}

static bn_status fail(const struct bn_cv_folder *f, const struct found *found, bn_status code,
                      const char *what, bn_error *err)
{
    char where[600];
    snprintf(where, sizeof where, "%s: %s", f->plan->inputs[found->input].name, found->t->name);
    return bn_fail_at(err, code, found->t->info_offset, where, "%s", what);
}

/* The shape must be these n_dims sizes, rows first. */
static bn_status check_shape(const struct bn_cv_folder *f, const struct found *found, uint32_t n_dims,
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
    return fail(f, found, BN_ERR_FORMAT, what, err);
}

/* The type of floats in GGUF; false: another type. */
static bool float_type(enum bn_st_type type, uint32_t *out)
{
    *out = type == BN_ST_F32 ? BN_TYPE_F32 : type == BN_ST_F16 ? BN_TYPE_F16 : BN_TYPE_BF16;
    return type == BN_ST_F32 || type == BN_ST_F16 || type == BN_ST_BF16;
}

/* A new tensor of the result with this name, rows by columns, or a vector when columns is 0. */
static bn_status add(struct bn_cv_folder *f, const struct found *found, const char *name, uint64_t rows,
                     uint64_t columns, struct bn_cv_tensor **out, bn_error *err)
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

/* One of floats that become F32. */
static bn_status add_floats(struct bn_cv_folder *f, const struct found *found, const char *name,
                            uint64_t rows, uint64_t columns, struct bn_cv_tensor **out, bn_error *err)
{
    BN_TRY(add(f, found, name, rows, columns, out, err));
    (*out)->kind = BN_CV_FLOATS;
    (*out)->to = BN_TYPE_F32;
    if (float_type(found->t->type, &(*out)->from)) return BN_OK;
    return fail(f, found, BN_ERR_UNSUPPORTED, "it must be floats", err);
}

/* ---- norms, tables ---- */

/* shift: Gemma's norms multiply by 1 + w, but those of inputs, which are BitNet's, by w. */
static bn_status add_norm(struct bn_cv_folder *f, const struct found *found, const char *name, uint64_t n,
                          float shift, bn_error *err)
{
    struct bn_cv_tensor *t;
    BN_TRY(check_shape(f, found, 1, &n, err));
    BN_TRY(add_floats(f, found, name, n, 0, &t, err));
    t->add = shift;
    return BN_OK;
}

/* ---- MLX: words of 32 bits with 16 codes, scales and biases of groups ---- */

static bool is_words(const struct found *found)
{
    return found->t->type == BN_ST_U32;
}

static bn_status find_group(const struct bn_cv_folder *f, const struct found *weight, uint32_t *group,
                            bn_error *err)
{
    const bn_json *q = bn_cv_folder_setting(f, "quantization");
    uint64_t bits = 0, size = 0;
    if (!bn_json_u64(bn_json_get(q, "bits"), &bits) || !bn_json_u64(bn_json_get(q, "group_size"), &size) ||
        bits != 2 || size % BN_CV_GROUP != 0 || size == 0 || size > 1024)
        return fail(
            f, weight, BN_ERR_UNSUPPORTED,
            "words of 32 bits, and no quantization of 2 bits with a group_size of 64 or more in config.json",
            err);
    *group = (uint32_t)size;
    return BN_OK;
}

/* name: without .weight. t has the sizes of the result. */
static bn_status add_words(struct bn_cv_folder *f, const struct found *weight, const char *name,
                           struct bn_cv_tensor *t, uint64_t n_source, bn_error *err)
{
    static const char *const LISTS[] = {".scales", ".biases"};
    struct found found[2];
    uint32_t types[2];
    BN_TRY(find_group(f, weight, &t->group, err));
    BN_TRY(check_shape(f, weight, 2, (const uint64_t[]){n_source, t->ne[0] / 16}, err));
    if (t->ne[0] % t->group != 0)
        return fail(f, weight, BN_ERR_UNSUPPORTED, "the rows are not a whole number of groups", err);
    for (size_t i = 0; i < 2; i++) {
        if (!find(f, name, LISTS[i], &found[i]))
            return fail(f, weight, BN_ERR_FORMAT, "words of 32 bits without scales and biases", err);
        BN_TRY(check_shape(f, &found[i], 2, (const uint64_t[]){n_source, t->ne[0] / t->group}, err));
        if (!float_type(found[i].t->type, &types[i]) || types[i] != types[0])
            return fail(f, &found[i], BN_ERR_FORMAT, "scales and biases must be floats of one type", err);
    }
    t->kind = BN_CV_WORDS;
    t->from = types[0];
    t->to = f->plan->target;
    t->scales = found[0].t->data;
    t->biases = found[1].t->data;
    return BN_OK;
}

/* The embedding or the head: ternary when its values are, else as it is. */
static bn_status add_table(struct bn_cv_folder *f, const struct found *found, const char *from,
                           const char *name, bn_error *err)
{
    struct bn_cv_tensor *t;
    BN_TRY(add(f, found, name, f->hp.n_vocab, f->hp.n_embd, &t, err));
    if (is_words(found)) return add_words(f, found, from, t, f->hp.n_vocab, err);
    BN_TRY(check_shape(f, found, 2, (const uint64_t[]){f->hp.n_vocab, f->hp.n_embd}, err));
    if (!float_type(found->t->type, &t->from))
        return fail(f, found, BN_ERR_UNSUPPORTED, "the embedding and the head must be floats", err);
    bool ternary;
    BN_TRY(bn_cv_is_ternary(t, &ternary, err));
    t->kind = ternary ? BN_CV_TRITS : BN_CV_COPY;
    t->to = ternary ? f->plan->target : t->from;
    return BN_OK;
}

/* ---- linear layers ---- */

static bn_status read_scale(struct bn_cv_folder *f, const char *name, struct bn_cv_tensor *t,
                            const struct found *weight, bn_error *err)
{
    struct found scale;
    uint32_t type;
    float value = 0;
    if (!find(f, name, ".weight_scale", &scale))
        return fail(f, weight, BN_ERR_FORMAT, "packed bytes without a weight_scale", err);
    bool one = scale.t->n_dims == 0 || (scale.t->n_dims == 1 && scale.t->dims[0] == 1);
    if (!one || !float_type(scale.t->type, &type))
        return fail(f, &scale, BN_ERR_FORMAT, "a weight_scale is not one float", err);
    bn_widen(&bn_kernels_ref, type, &value, scale.t->data, 1);
    t->scale = f->divides ? 1.0f / value : value;
    if (value > 0.0f && isfinite(value) && isfinite(t->scale)) return BN_OK;
    return fail(f, &scale, BN_ERR_FORMAT, "the weight_scale is not a positive number", err);
}

static bn_status add_packed(struct bn_cv_folder *f, const struct found *found, const char *name,
                            struct bn_cv_tensor *t, bn_error *err)
{
    if (!f->bitnet && f->plan->options->weight_scale == 0)
        return bn_hint(fail(f, found, BN_ERR_UNSUPPORTED,
                            "packed bytes, and no quantization_config with quant_method bitnet says what "
                            "weight_scale means",
                            err),
                       err, "--weight-scale multiply or divide, as the program that made the model does");
    t->kind = BN_CV_PACKED;
    return read_scale(f, name, t, found, err);
}

/* The linear layer `name` of the source (without .weight). n_source is the number of rows in the source. */
static bn_status add_linear(struct bn_cv_folder *f, const struct found *found, const char *name,
                            const char *part, uint64_t rows, uint64_t columns, uint64_t n_source,
                            struct bn_cv_tensor **out, bn_error *err)
{
    bool packed = found->t->type == BN_ST_U8;
    if (packed && (rows % 4 != 0 || n_source != rows))
        return fail(f, found, BN_ERR_FORMAT, "the rows cannot be packed four to a byte", err);
    if (!is_words(found))
        BN_TRY(check_shape(f, found, 2, (const uint64_t[]){packed ? rows / 4 : n_source, columns}, err));
    struct bn_cv_tensor *t;
    BN_TRY(add(f, found, part, rows, columns, out, err));
    t = *out;
    t->to = f->plan->target;
    if (packed) return add_packed(f, found, name, t, err);
    if (is_words(found)) return add_words(f, found, name, t, n_source, err);
    if (!float_type(found->t->type, &t->from))
        return fail(f, found, BN_ERR_UNSUPPORTED, "a linear layer must be U8, F16, BF16 or F32", err);
    bool ternary = true;
    if (f->arch->masters || f->bitnet || f->hp.input_norms || f->plan->options->ternarise)
        BN_TRY(bn_cv_is_ternary(t, &ternary, err));
    t->kind = ternary ? BN_CV_TRITS : BN_CV_MASTER;
    return BN_OK;
}

/* ---- a recurrent layer ---- */

/* A layer while it is planned. */
struct part {
    struct bn_cv_folder *f;
    uint64_t layer, d, n_key, n_value, each; /* each: value heads of a key head */
    char name[96];                           /* of the tensor in the source, without .weight */
    struct found found;
    char target[64];
};

static bool look(struct part *p, const char *name, const char *suffix)
{
    snprintf(p->name, sizeof p->name, "layers.%llu.linear_attn.%s", (unsigned long long)p->layer, name);
    return find(p->f, p->name, suffix, &p->found);
}

static bn_status want(struct part *p, const char *name, const char *suffix, bn_error *err)
{
    if (look(p, name, suffix)) return BN_OK;
    return bn_fail(err, BN_ERR_FORMAT, "the safetensors have no tensor %s%s", p->name, suffix);
}

/* Valid until the next call. */
static const char *target(struct part *p, const char *name)
{
    snprintf(p->target, sizeof p->target, "blk.%llu.%s", (unsigned long long)p->layer, name);
    return p->target;
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

static bn_status add_mixed(struct part *p, bn_error *err)
{
    struct bn_cv_tensor *t;
    uint64_t d = p->d, keys = p->n_key * d, values = p->n_value * d, block = 2 * (1 + p->each) * d;
    bool fused = look(p, "in_proj_qkvz", ".weight");
    if (!fused) BN_TRY(want(p, "in_proj_qkv", ".weight", err));
    BN_TRY(add_linear(p->f, &p->found, p->name, target(p, "attn_qkv.weight"), 2 * keys + values,
                      p->f->hp.n_embd, 2 * keys + (fused ? 2 : 1) * values, &t, err));
    t->rows[0] = key_heads(p, 0, fused ? block : d);
    t->rows[1] = key_heads(p, fused ? d : keys, fused ? block : d);
    t->rows[2] = value_heads(p, d, fused ? 2 * d : 2 * keys, fused ? block : p->each * d);
    if (!fused) BN_TRY(want(p, "in_proj_z", ".weight", err));
    BN_TRY(add_linear(p->f, &p->found, p->name, target(p, "attn_gate.weight"), values, p->f->hp.n_embd,
                      fused ? 2 * (keys + values) : values, &t, err));
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
    struct bn_cv_tensor *t;
    bool fused = look(p, "in_proj_ba", ".weight");
    for (size_t i = 0; i < BN_ARRAY_LEN(PAIR); i++) {
        if (!fused) BN_TRY(want(p, PAIR[i].name, ".weight", err));
        uint64_t sizes[] = {(fused ? 2 : 1) * p->n_value, p->f->hp.n_embd};
        BN_TRY(check_shape(p->f, &p->found, 2, sizes, err));
        BN_TRY(add_floats(p->f, &p->found, target(p, PAIR[i].target), p->n_value, p->f->hp.n_embd, &t, err));
        t->rows[0] = value_heads(p, 1, fused && PAIR[i].second ? p->each : 0, (fused ? 2 : 1) * p->each);
        t->to = t->from;
    }
    return BN_OK;
}

static bn_status add_output(struct part *p, bn_error *err)
{
    struct bn_cv_tensor *t;
    uint64_t inner = p->n_value * p->d;
    BN_TRY(want(p, "out_proj", ".weight", err));
    BN_TRY(add_linear(p->f, &p->found, p->name, target(p, "ssm_out.weight"), p->f->hp.n_embd, inner,
                      p->f->hp.n_embd, &t, err));
    if (bn_cv_folder_rotates(p->f, p->found.t->name)) {
        p->f->grouped_out = true;
        return BN_OK;
    }
    t->columns = value_heads(p, p->d, 0, p->each * p->d);
    if (t->kind != BN_CV_WORDS || p->d % BN_CV_GROUP == 0) return BN_OK;
    return fail(p->f, &p->found, BN_ERR_UNSUPPORTED, "words of MLX need heads of a multiple of 64 elements",
                err);
}

/* ---- a recurrent layer: the convolution, and vectors ---- */

/* Channels by taps, with one channel of input: before the taps, or after them as MLX stores it. */
static bn_status add_convolution(struct part *p, bn_error *err)
{
    struct bn_cv_tensor *t;
    uint64_t taps = p->f->hp.recurrence.n_taps, keys = p->n_key * p->d,
             channels = 2 * keys + p->n_value * p->d;
    BN_TRY(want(p, "conv1d", ".weight", err));
    bool last = p->found.t->n_dims == 3 && p->found.t->dims[1] == taps && p->found.t->dims[2] == 1;
    uint64_t sizes[] = {channels, last ? taps : 1, last ? 1 : taps};
    BN_TRY(check_shape(p->f, &p->found, 3, sizes, err));
    BN_TRY(add_floats(p->f, &p->found, target(p, "ssm_conv1d.weight"), channels, taps, &t, err));
    t->rows[0] = key_heads(p, 0, p->d);
    t->rows[1] = key_heads(p, keys, p->d);
    t->rows[2] = value_heads(p, p->d, 2 * keys, p->each * p->d);
    return BN_OK;
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
    struct bn_cv_tensor *t;
    for (size_t i = 0; i < BN_ARRAY_LEN(VECTORS); i++) {
        uint64_t n = VECTORS[i].by_head ? p->n_value : p->d;
        BN_TRY(want(p, VECTORS[i].name, VECTORS[i].suffix, err));
        BN_TRY(check_shape(p->f, &p->found, 1, &n, err));
        BN_TRY(add_floats(p->f, &p->found, target(p, VECTORS[i].target), n, 0, &t, err));
        t->decay = VECTORS[i].decay;
        if (VECTORS[i].by_head) t->columns = value_heads(p, 1, 0, p->each);
    }
    return BN_OK;
}

static bn_status add_recurrent(struct bn_cv_folder *f, uint64_t layer, bn_error *err)
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

/* ---- all of them ---- */

static bn_status missing(const char *name, bn_error *err)
{
    return bn_fail(err, BN_ERR_FORMAT, "the safetensors have no tensor %s.weight", name);
}

static bn_status add_part(struct bn_cv_folder *f, uint32_t layer, size_t i, const struct bn_layer_part *p,
                          bn_error *err)
{
    char name[96], part[BN_PART_NAME_ROOM];
    struct found found;
    if (LAYER[i].name == NULL) return add_recurrent(f, layer, err);
    snprintf(name, sizeof name, "layers.%u.%s", layer, LAYER[i].name);
    bn_part_name(part, p, layer);
    bool there = find(f, name, ".weight", &found);
    if (!there && LAYER[i].other != NULL) {
        snprintf(name, sizeof name, "layers.%u.%s", layer, LAYER[i].other);
        there = find(f, name, ".weight", &found);
    }
    if (!there) return missing(name, err);
    uint64_t rows = bn_width(&f->hp, p->rows), cols = bn_width(&f->hp, p->cols);
    if (p->kind == BN_PART_NORM)
        return add_norm(f, &found, part, cols, p->of == BN_OF_INPUT_NORMS ? 0.0f : f->norm_shift, err);
    struct bn_cv_tensor *t;
    BN_TRY(add_linear(f, &found, name, part, rows, cols, rows, &t, err));
    if (f->hp.rope != BN_ROPE_NORM) return BN_OK; /* else rows of each head are interleaved */
    if (strcmp(p->name, "attn_q") == 0) t->heads = f->hp.n_head;
    if (strcmp(p->name, "attn_k") == 0) t->heads = f->hp.n_head_kv;
    return BN_OK;
}

/* Without tie_word_embeddings the model is tied when it has no head. An embedding model needs none. */
static bn_status add_head(struct bn_cv_folder *f, bn_error *err)
{
    struct found found;
    bool tied = false, said = bn_json_bool(bn_cv_folder_setting(f, "tie_word_embeddings"), &tied);
    bool there = find(f, "lm_head", ".weight", &found);
    if (f->hp.sub_norms && there && !tied)
        return fail(f, &found, BN_ERR_UNSUPPORTED, "a head of its own is not supported in BitNet models",
                    err);
    if (there && !tied) return add_table(f, &found, "lm_head", "output.weight", err);
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
            struct found found = {&f->shards[s].st.tensors[i], f->shards[s].input};
            size_t n = strlen(found.t->name), tail = sizeof FREQUENCIES - 1;
            if (f->shards[s].used[i] || (n > tail && strcmp(found.t->name + n - tail, FREQUENCIES) == 0) ||
                is_left_out(f, found.t->name))
                continue;
            return fail(f, &found, BN_ERR_UNSUPPORTED, "the architecture has no such tensor", err);
        }
    return BN_OK;
}

/* MLX stores the taps of the convolution before its one channel, and has added 1 to the norms. */
static void find_norm_shift(struct bn_cv_folder *f)
{
    struct found found;
    char name[64];
    for (uint32_t layer = 0; layer < f->hp.n_layer && f->hp.gated_heads; layer++) {
        snprintf(name, sizeof name, "layers.%u.linear_attn.conv1d", layer);
        if (!find(f, name, ".weight", &found)) continue;
        if (found.t->n_dims == 3 && found.t->dims[2] == 1 && f->hp.recurrence.n_taps > 1)
            f->norm_shift = 0.0f;
        return;
    }
}

bn_status bn_cv_folder_tensors(struct bn_cv_folder *f, bn_error *err)
{
    struct found found;
    find_norm_shift(f);
    if (!find(f, "embed_tokens", ".weight", &found)) return missing("embed_tokens", err);
    BN_TRY(add_table(f, &found, "embed_tokens", "token_embd.weight", err));
    for (uint32_t layer = 0; layer < f->hp.n_layer; layer++)
        for (size_t i = 0; i < BN_ARRAY_LEN(LAYER); i++) {
            const struct bn_layer_part *p = part_of(f, layer, i);
            if (p != NULL) BN_TRY(add_part(f, layer, i, p, err));
        }
    if (!find(f, "norm", ".weight", &found)) return missing("norm", err);
    BN_TRY(add_norm(f, &found, "output_norm.weight", f->hp.n_embd, f->norm_shift, err));
    BN_TRY(add_head(f, err));
    return check_used(f, err);
}

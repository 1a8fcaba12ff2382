/* SPDX-License-Identifier: MIT
 *
 * Reads the hyper-parameters. An architecture is one row of ARCHS; a key and its range are one row of KEYS.
 */
#include "model/hparams.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"

/* What a model was trained with as activations. */
enum training {
    INT8,          /* 8 bits, a step a row: BitNet */
    INT8_OR_FLOAT, /* 8 bits when its matrices have one scale, floats when they have scales in blocks */
    FLOAT,         /* floats, unless the file is I2_S, which only BitNet layers are stored in */
};

static const char *key_of(char out[96], const char *arch, const char *suffix)
{
    snprintf(out, 96, "%s.%s", arch, suffix);
    return out;
}

static uint64_t key_offset(const struct bn_gguf *gguf, const char *key)
{
    const struct bn_gguf_kv *kv = bn_gguf_find(gguf, key);
    return kv != NULL ? kv->offset : BN_NO_OFFSET;
}

/* Pairs of elements are rotated. */
static bn_status check_rotated(const bn_hparams *hp, const struct bn_gguf *gguf, const char *suffix,
                               bn_error *err)
{
    char key[96];
    if (hp->n_rot <= hp->head_dim && hp->n_rot % 2 == 0 && hp->head_dim >= 2) return BN_OK;
    return bn_fail_at(err, BN_ERR_FORMAT, key_offset(gguf, key_of(key, hp->arch, suffix)), key,
                      "%u of a head of %u elements cannot be rotated", hp->n_rot, hp->head_dim);
}

static bn_status read_float(const struct bn_gguf *gguf, const char *arch, const char *suffix, bool required,
                            float min, float *out, bn_error *err)
{
    char key[96];
    key_of(key, arch, suffix);
    bn_status status = bn_gguf_f32(gguf, key, out, err);
    if (status == BN_ERR_NOT_FOUND && !required) return BN_OK;
    BN_TRY(bn_gguf_required(status, key, err));
    if (!isfinite(*out) || *out < min || *out > 1e12f)
        return bn_fail_at(err, BN_ERR_FORMAT, key_offset(gguf, key), key, "%g is not between %g and 1e12",
                          (double)*out, (double)min);
    return BN_OK;
}

/* An optional key with a whole number. */
static bn_status read_u32(const struct bn_gguf *gguf, const char *arch, const char *suffix, uint32_t min,
                          uint32_t max, uint32_t *out, bn_error *err)
{
    char key[96];
    bn_status status = bn_gguf_u32(gguf, key_of(key, arch, suffix), out, err);
    if (status == BN_ERR_NOT_FOUND) return BN_OK;
    BN_TRY(status);
    if (*out >= min && *out <= max) return BN_OK;
    return bn_fail_at(err, *out > max ? BN_ERR_LIMIT : BN_ERR_FORMAT, key_offset(gguf, key), key,
                      "%u is not between %u and %u", *out, min, max);
}

/* Keys with whole numbers. */
struct whole {
    const char *suffix;
    bool required;
    uint32_t min, max, *out;
};

static bn_status read_wholes(const bn_hparams *hp, const struct bn_gguf *gguf, const struct whole *keys,
                             size_t n, bn_error *err)
{
    char key[96];
    for (const struct whole *k = keys; k < keys + n; k++) {
        BN_TRY(read_u32(gguf, hp->arch, k->suffix, k->min, k->max, k->out, err));
        if (*k->out == 0 && k->required)
            return bn_gguf_required(BN_ERR_NOT_FOUND, key_of(key, hp->arch, k->suffix), err);
    }
    return BN_OK;
}

/* A text that is not among the known ones. */
static bn_status unsupported(const struct bn_gguf *gguf, const char *key, const char *what,
                             struct bn_str text, bn_error *err)
{
    char shown[64];
    return bn_fail_at(err, BN_ERR_UNSUPPORTED, key_offset(gguf, key), key, "%s '%s' is not supported", what,
                      bn_escape(shown, sizeof shown, text.ptr, text.len));
}

/* A key for something that is not computed: absent, or the value at which it does nothing. */
static bn_status refuse_unless(const bn_hparams *hp, const struct bn_gguf *gguf, const char *suffix,
                               float harmless, bn_error *err)
{
    char key[96];
    float value = harmless;
    BN_TRY(read_float(gguf, hp->arch, suffix, false, 0.0f, &value, err));
    if (value == harmless) return BN_OK;
    return bn_fail_at(err, BN_ERR_UNSUPPORTED, key_offset(gguf, key_of(key, hp->arch, suffix)), key,
                      "%g is not supported", (double)value);
}

static bool has_layer(const uint64_t *layers, uint32_t i)
{
    return (layers[i / 64] >> i % 64 & 1) != 0;
}

/* A list with a value of one type for each of n layers. */
static bn_status read_list(const bn_hparams *hp, const struct bn_gguf *gguf, const char *suffix,
                           enum bn_gguf_type type, uint32_t n, const struct bn_gguf_kv **out, bn_error *err)
{
    char key[96];
    bn_status status = bn_gguf_array(gguf, key_of(key, hp->arch, suffix), type, out, err);
    if (status == BN_OK && (*out)->n != n)
        return bn_fail_at(err, BN_ERR_FORMAT, (*out)->offset, key,
                          "%llu values, expected one for each of %u layers", (unsigned long long)(*out)->n,
                          n);
    return status;
}

/* Gemma 3. Queries are scaled by 1 / sqrt(head_dim), but those of 27B by the share of a head in the width.
 * llama.cpp tells that model by its 62 layers. */
static bn_status read_gemma3(bn_hparams *hp, const struct bn_gguf *gguf, bn_error *err)
{
    static const char *const SCALARS[] = {"attention.query_pre_attn_scalar", "query_pre_attn_scalar"};
    char key[96];
    uint32_t size = hp->n_layer == 62 ? hp->n_embd / hp->n_head : hp->head_dim;
    hp->embd_scale = sqrtf((float)hp->n_embd);
    for (size_t i = 0; i < BN_ARRAY_LEN(SCALARS); i++) {
        float stated = (float)size;
        uint32_t whole = size;
        const struct bn_gguf_kv *kv = bn_gguf_find(gguf, key_of(key, hp->arch, SCALARS[i]));
        if (kv != NULL && kv->type == BN_GGUF_U32)
            BN_TRY(read_u32(gguf, hp->arch, SCALARS[i], 1, 1u << 20, &whole, err));
        else
            BN_TRY(read_float(gguf, hp->arch, SCALARS[i], false, 1e-3f, &stated, err));
        if (stated != (float)size || whole != size)
            return bn_fail_at(err, BN_ERR_UNSUPPORTED, kv->offset, key, "not %u, the elements of a head",
                              size);
    }
    hp->attn_scale = 1.0f / sqrtf((float)size);
    BN_TRY(refuse_unless(hp, gguf, "attn_logit_softcapping", 0.0f, err));
    BN_TRY(refuse_unless(hp, gguf, "final_logit_softcapping", 0.0f, err));
    uint32_t period = 6;
    hp->local_rope_base = 10000.0f;
    BN_TRY(read_float(gguf, hp->arch, "rope.freq_base_swa", false, 1.0f, &hp->local_rope_base, err));
    BN_TRY(read_u32(gguf, hp->arch, "attention.sliding_window", 0, 1u << 24, &hp->window, err));
    BN_TRY(read_u32(gguf, hp->arch, "attention.sliding_window_pattern", 1, BN_MAX_LAYERS, &period, err));
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if ((i + 1) % period != 0) bn_hparams_set_layer(hp->local_layers, i);
    return BN_OK;
}

/* MiniCPM, with the keys of llama.cpp's converter. Files without them are of the first models, whose logits are those
 * of the final norm's output times 256 / width. llama.cpp since divides by that, which only samplers notice. */
static bn_status read_minicpm(bn_hparams *hp, const struct bn_gguf *gguf, bn_error *err)
{
    float divisor = (float)hp->n_embd / 256.0f;
    hp->embd_scale = 12.0f;
    hp->residual_scale = 1.4f / sqrtf((float)hp->n_layer);
    BN_TRY(read_float(gguf, hp->arch, "embedding_scale", false, 1e-6f, &hp->embd_scale, err));
    BN_TRY(read_float(gguf, hp->arch, "residual_scale", false, 1e-6f, &hp->residual_scale, err));
    BN_TRY(read_float(gguf, hp->arch, "logit_scale", false, 1e-6f, &divisor, err));
    hp->logit_scale = 1.0f / divisor;
    return BN_OK;
}

/* Which layers are recurrent: as a list says, or all but each interval-th one. */
static bn_status read_recurrent_layers(bn_hparams *hp, const struct bn_gguf *gguf, uint32_t n_all,
                                       bn_error *err)
{
    uint32_t interval = 4;
    const struct bn_gguf_kv *list = NULL;
    BN_TRY(
        bn_gguf_optional(read_list(hp, gguf, "attention.recurrent_layers", BN_GGUF_BOOL, n_all, &list, err)));
    BN_TRY(read_u32(gguf, hp->arch, "full_attention_interval", 1, BN_MAX_LAYERS, &interval, err));
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if (list != NULL ? list->value[i] != 0 : (i + 1) % interval != 0)
            bn_hparams_set_layer(hp->recurrence.layers, i);
    return BN_OK;
}

/* Qwen3.5: layers with the gated delta rule, and attention with gates in every fourth one. Layers that predict further
 * tokens come after the others and are not computed. */
static bn_status read_qwen35(bn_hparams *hp, const struct bn_gguf *gguf, bn_error *err)
{
    struct bn_recurrence *r = &hp->recurrence;
    uint32_t n_all = hp->n_layer, n_next = 0, inner = 0;
    const struct whole KEYS[] = {{"ssm.conv_kernel", true, 1, BN_MAX_TAPS, &r->n_taps},
                                 {"ssm.state_size", true, 1, 4096, &r->head_dim},
                                 {"ssm.group_count", true, 1, 4096, &r->n_key_heads},
                                 {"ssm.time_step_rank", true, 1, 4096, &r->n_value_heads},
                                 {"ssm.inner_size", true, 1, 1u << 20, &inner}};
    char key[96];
    BN_TRY(read_wholes(hp, gguf, KEYS, BN_ARRAY_LEN(KEYS), err));
    if (r->n_value_heads % r->n_key_heads != 0)
        return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, key_of(key, hp->arch, "ssm.group_count"),
                          "%u does not divide the %u heads of values", r->n_key_heads, r->n_value_heads);
    if ((uint64_t)r->n_value_heads * r->head_dim != inner)
        return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, key_of(key, hp->arch, "ssm.inner_size"),
                          "%u is not %u heads of %u elements", inner, r->n_value_heads, r->head_dim);
    BN_TRY(read_u32(gguf, hp->arch, "nextn_predict_layers", 0, n_all - 1, &n_next, err));
    hp->n_layer -= n_next;
    return read_recurrent_layers(hp, gguf, n_all, err);
}

/* The limit of gate and up, as one value or as a list in which all layers have the same. */
static bn_status read_limit(bn_hparams *hp, const struct bn_gguf *gguf, bn_error *err)
{
    static const char SUFFIX[] = "swiglu_clamp_exp";
    char key[96];
    const struct bn_gguf_kv *kv = bn_gguf_find(gguf, key_of(key, hp->arch, SUFFIX));
    float limit = 7.0f, other;
    if (kv == NULL || kv->type != BN_GGUF_ARRAY) {
        BN_TRY(read_float(gguf, hp->arch, SUFFIX, false, 0.0f, &limit, err));
    } else {
        BN_TRY(read_list(hp, gguf, SUFFIX, BN_GGUF_F32, hp->n_layer, &kv, err));
        memcpy(&limit, kv->value, sizeof limit);
        for (uint32_t i = 1; i < hp->n_layer; i++) {
            memcpy(&other, kv->value + i * sizeof other, sizeof other);
            if (other != limit)
                return bn_fail_at(err, BN_ERR_UNSUPPORTED, kv->offset, key,
                                  "%g in layer %u and %g in layer 0", (double)other, i, (double)limit);
        }
        if (!(limit >= 0.0f))
            return bn_fail_at(err, BN_ERR_FORMAT, kv->offset, key, "%g is not a limit", (double)limit);
    }
    hp->experts.limit = limit > 1e-6f ? limit : INFINITY; /* as llama.cpp tells that there is none */
    return BN_OK;
}

static bn_status read_local_layers(bn_hparams *hp, const struct bn_gguf *gguf, bn_error *err)
{
    static const char SUFFIX[] = "attention.sliding_window_pattern";
    const struct bn_gguf_kv *list = NULL;
    bn_status status = read_list(hp, gguf, SUFFIX, BN_GGUF_BOOL, hp->n_layer, &list, err);
    char key[96];
    BN_TRY(bn_gguf_required(status, key_of(key, hp->arch, SUFFIX), err));
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if (list->value[i] != 0) bn_hparams_set_layer(hp->local_layers, i);
    return BN_OK;
}

/* What a file may say of the choice of experts that would be another computation. */
static bn_status check_choice(const bn_hparams *hp, const struct bn_gguf *gguf, bn_error *err)
{
    const struct {
        const char *suffix;
        uint32_t harmless;
        const char *what;
    } KEYS[] = {{"expert_shared_count", 0, "shared experts are"},
                {"expert_gating_func", 1, "a choice by another function than softmax is"},
                {"expert_group_count", 0, "groups of experts are"}};
    bool is_normed = true;
    char key[96];
    for (size_t i = 0; i < BN_ARRAY_LEN(KEYS); i++) {
        uint32_t value = KEYS[i].harmless;
        BN_TRY(read_u32(gguf, hp->arch, KEYS[i].suffix, 0, UINT32_MAX, &value, err));
        if (value != KEYS[i].harmless)
            return bn_fail_at(err, BN_ERR_UNSUPPORTED,
                              key_offset(gguf, key_of(key, hp->arch, KEYS[i].suffix)), key,
                              "%u: %s not supported", value, KEYS[i].what);
    }
    key_of(key, hp->arch, "expert_weights_norm");
    BN_TRY(bn_gguf_optional(bn_gguf_bool(gguf, key, &is_normed, err)));
    if (!is_normed)
        return bn_fail_at(err, BN_ERR_UNSUPPORTED, key_offset(gguf, key), key,
                          "weights of experts that are not normalised are not supported");
    if (hp->input_norms)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "norms of inputs are not supported in %s", hp->arch);
    if (hp->yarn.factor > 0.0f || hp->rope_scale != 1.0f)
        return bn_fail_at(err, BN_ERR_UNSUPPORTED, BN_NO_OFFSET, key_of(key, hp->arch, "rope.scaling.factor"),
                          "scaled positions are not supported in %s", hp->arch);
    return refuse_unless(hp, gguf, "expert_weights_scale", 1.0f, err);
}

/* Maple: a router chooses experts. Local layers rotate a part of each head, the others do not rotate. */
static bn_status read_maple(bn_hparams *hp, const struct bn_gguf *gguf, bn_error *err)
{
    const struct whole KEYS[] = {{"expert_count", true, 1, BN_MAX_EXPERTS, &hp->experts.n},
                                 {"expert_used_count", true, 1, BN_MAX_EXPERTS, &hp->experts.n_used},
                                 {"expert_feed_forward_length", true, 1, 1u << 20, &hp->n_ff},
                                 {"attention.sliding_window", true, 1, 1u << 24, &hp->window}};
    char key[96];
    hp->n_ff = 0;
    BN_TRY(read_wholes(hp, gguf, KEYS, BN_ARRAY_LEN(KEYS), err));
    if (hp->experts.n_used > hp->experts.n)
        return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, key_of(key, hp->arch, "expert_used_count"),
                          "%u of %u experts", hp->experts.n_used, hp->experts.n);
    BN_TRY(read_local_layers(hp, gguf, err));
    BN_TRY(read_limit(hp, gguf, err));
    hp->rope_is_local = true;
    hp->local_rope_base = hp->rope_base;
    BN_TRY(read_float(gguf, hp->arch, "rope.freq_base_swa", false, 1.0f, &hp->local_rope_base, err));
    BN_TRY(read_u32(gguf, hp->arch, "rope.dimension_count_swa", 2, hp->head_dim / 2 * 2, &hp->n_rot, err));
    BN_TRY(check_rotated(hp, gguf, "rope.dimension_count_swa", err));
    return check_choice(hp, gguf, err);
}

bool bn_hparams_is_local(const bn_hparams *hp, uint32_t layer)
{
    return hp->window != 0 && has_layer(hp->local_layers, layer);
}

uint32_t bn_hparams_n_local(const bn_hparams *hp)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < hp->n_layer; i++)
        found += bn_hparams_is_local(hp, i);
    return found;
}

uint32_t bn_hparams_n_rotated(const bn_hparams *hp)
{
    return hp->rope_is_local ? bn_hparams_n_local(hp) : hp->n_layer - bn_hparams_n_recurrent(hp, hp->n_layer);
}

size_t bn_hparams_hidden(const bn_hparams *hp)
{
    return (size_t)hp->n_ff * (hp->experts.n != 0 ? hp->experts.n_used : 1);
}

bool bn_hparams_is_recurrent(const bn_hparams *hp, uint32_t layer)
{
    return has_layer(hp->recurrence.layers, layer);
}

uint32_t bn_hparams_n_recurrent(const bn_hparams *hp, uint32_t n)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++)
        found += bn_hparams_is_recurrent(hp, i);
    return found;
}

size_t bn_hparams_inner(const bn_hparams *hp)
{
    return (size_t)hp->recurrence.n_value_heads * hp->recurrence.head_dim;
}

size_t bn_hparams_mixed(const bn_hparams *hp)
{
    return bn_hparams_inner(hp) + (size_t)2 * hp->recurrence.n_key_heads * hp->recurrence.head_dim;
}

/* The architectures: how each differs from the others. CONTRIBUTING.md says how to add one. The C++ reference runs
 * bitnet-b1.58 with SiLU since 2026; the model was trained with the squared ReLU. */
static const struct arch {
    const char *name;
    bn_activation activation;
    bn_rope rope;
    enum training training;
    bool sub_norms, head_norms, post_norms;
    bool gated_heads; /* of layers with attention */
    bool always_tied; /* the head is the embedding even when output.weight is in the file */
    /* Checks the keys that only this architecture has, and sets what follows from them; runs last. */
    bn_status (*read_own)(bn_hparams *hp, const struct bn_gguf *gguf, bn_error *err);
} ARCHS[] = {
    {"bitnet-b1.58", BN_ACTIVATION_RELU2, BN_ROPE_NEOX, INT8, .sub_norms = true, .always_tied = true},
    {"bitnet-25", BN_ACTIVATION_RELU2, BN_ROPE_NEOX, INT8, .sub_norms = true, .always_tied = true},
    {"bitnet", BN_ACTIVATION_SILU, BN_ROPE_NEOX, INT8, .sub_norms = true, .always_tied = true},
    {"llama", BN_ACTIVATION_SILU, BN_ROPE_NORM, INT8_OR_FLOAT, .sub_norms = false},
    {"qwen3", BN_ACTIVATION_SILU, BN_ROPE_NEOX, FLOAT, .head_norms = true},
    {"gemma3", BN_ACTIVATION_GELU, BN_ROPE_NEOX, FLOAT, .head_norms = true, .post_norms = true,
     .read_own = read_gemma3},
    {"minicpm", BN_ACTIVATION_SILU, BN_ROPE_NORM, FLOAT, .read_own = read_minicpm},
    {"qwen35", BN_ACTIVATION_SILU, BN_ROPE_NEOX, FLOAT, .head_norms = true, .gated_heads = true,
     .read_own = read_qwen35},
    {"maple", BN_ACTIVATION_SILU, BN_ROPE_NEOX, FLOAT, .head_norms = true, .read_own = read_maple},
};

static const struct arch *arch_of(struct bn_str name)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(ARCHS); i++)
        if (bn_str_equal(name, ARCHS[i].name)) return &ARCHS[i];
    return NULL;
}

bool bn_hparams_set_arch(bn_hparams *hp, struct bn_str name)
{
    const struct arch *arch = arch_of(name);
    if (arch == NULL) return false;
    snprintf(hp->arch, sizeof hp->arch, "%s", arch->name);
    hp->activation = arch->activation;
    hp->rope = arch->rope;
    hp->sub_norms = arch->sub_norms;
    hp->head_norms = arch->head_norms;
    hp->post_norms = arch->post_norms;
    hp->gated_heads = arch->gated_heads;
    hp->tied_head = arch->always_tied;
    return true;
}

static bn_status read_arch(bn_hparams *hp, const struct bn_gguf *gguf, bn_error *err)
{
    const char *key = "general.architecture";
    struct bn_str name;
    BN_TRY(bn_gguf_required(bn_gguf_str(gguf, key, &name, err), key, err));
    if (bn_hparams_set_arch(hp, name)) {
        hp->input_norms = !hp->sub_norms && bn_gguf_find_tensor(gguf, "blk.0.attn_q_norm_in.weight") != NULL;
        hp->tied_head = hp->tied_head || bn_gguf_find_tensor(gguf, "output.weight") == NULL;
        return BN_OK;
    }
    return bn_hint(
        unsupported(gguf, key, "architecture", name, err), err,
        "known: bitnet-b1.58, bitnet-25, bitnet, and llama, qwen3, qwen35, gemma3, minicpm and maple with ternary layers");
}

static bn_status read_fields(bn_hparams *hp, const struct bn_gguf *gguf, bn_error *err)
{
    const struct whole KEYS[] = {{"context_length", true, 1, 1u << 24, &hp->n_ctx},
                                 {"embedding_length", true, 1, 1u << 20, &hp->n_embd},
                                 {"block_count", true, 1, BN_MAX_LAYERS, &hp->n_layer},
                                 {"feed_forward_length", false, 1, 1u << 20, &hp->n_ff},
                                 {"attention.head_count", true, 1, 4096, &hp->n_head},
                                 {"attention.head_count_kv", false, 1, 4096, &hp->n_head_kv},
                                 {"attention.key_length", false, 2, 4096, &hp->head_dim},
                                 {"rope.dimension_count", false, 2, 4096, &hp->n_rot},
                                 {"vocab_size", false, 1, BN_MAX_VOCAB, &hp->n_vocab}};
    return read_wholes(hp, gguf, KEYS, BN_ARRAY_LEN(KEYS), err);
}

/* YaRN (Peng et al., 2023), with the keys and defaults of llama.cpp. */
static bn_status read_yarn(bn_hparams *hp, const struct bn_gguf *gguf, float factor, bn_error *err)
{
    struct bn_yarn *yarn = &hp->yarn;
    float attn = 1.0f;
    char key[96];
    if (hp->rope_base <= 1.0f) /* all pairs would be equally fast */
        return bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, key_of(key, hp->arch, "rope.freq_base"),
                          "yarn needs more than 1");
    *yarn = (struct bn_yarn){
        .factor = factor, .n_ctx = hp->n_ctx, .extrapolate = 1.0f, .magnitude = 1.0f, 32.0f, 1.0f};
    BN_TRY(
        read_u32(gguf, hp->arch, "rope.scaling.original_context_length", 1, UINT32_MAX, &yarn->n_ctx, err));
    const struct {
        const char *suffix;
        float min, *out;
    } KEYS[] = {
        {"rope.scaling.yarn_ext_factor", 0.0f, &yarn->extrapolate},
        {"rope.scaling.yarn_attn_factor", 0.0f, &yarn->magnitude},
        {"rope.scaling.attn_factor", 0.0f, &attn},
        {"rope.scaling.yarn_beta_fast", 1e-3f, &yarn->beta_fast},
        {"rope.scaling.yarn_beta_slow", 1e-3f, &yarn->beta_slow},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(KEYS); i++)
        BN_TRY(read_float(gguf, hp->arch, KEYS[i].suffix, false, KEYS[i].min, KEYS[i].out, err));
    yarn->magnitude *= attn;
    return BN_OK;
}

/* LongRoPE (Ding et al., 2024): one list of divisors up to the original context, another for longer ones. The
 * first list is used (weights.c), so the context ends there. */
static bn_status read_long_rope(bn_hparams *hp, const struct bn_gguf *gguf, bn_error *err)
{
    uint32_t original = hp->n_ctx;
    BN_TRY(read_u32(gguf, hp->arch, "rope.scaling.original_context_length", 1, 1u << 24, &original, err));
    if (original < hp->n_ctx) hp->n_ctx = original;
    BN_TRY(refuse_unless(hp, gguf, "rope.scaling.factor", 1.0f, err));
    return refuse_unless(hp, gguf, "rope.scaling.attn_factor", 1.0f, err);
}

static bn_status read_rope_scaling(bn_hparams *hp, const struct bn_gguf *gguf, bn_error *err)
{
    char key[96];
    struct bn_str type = {"linear", 6};
    float factor = 1.0f;
    bn_status status = bn_gguf_str(gguf, key_of(key, hp->arch, "rope.scaling.type"), &type, err);
    bool typed = status != BN_ERR_NOT_FOUND;
    if (typed) BN_TRY(status);
    if (bn_str_equal(type, "none")) return BN_OK;
    if (bn_str_equal(type, "longrope")) return read_long_rope(hp, gguf, err);
    bool yarn = bn_str_equal(type, "yarn");
    if (!yarn && !bn_str_equal(type, "linear")) return unsupported(gguf, key, "rope scaling", type, err);
    BN_TRY(read_float(gguf, hp->arch, "rope.scaling.factor", typed, 1e-3f, &factor, err));
    if (yarn) return read_yarn(hp, gguf, factor, err);
    hp->rope_scale = 1.0f / factor;
    return BN_OK;
}

/* llama.cpp's numbers; 4 is for models that score pairs of texts. */
static bn_status read_pooling(bn_hparams *hp, const struct bn_gguf *gguf, bn_error *err)
{
    static const bn_pooling POOLINGS[] = {BN_POOLING_NONE, BN_POOLING_MEAN, BN_POOLING_FIRST,
                                          BN_POOLING_LAST};
    uint32_t pooling = UINT32_MAX;
    BN_TRY(read_u32(gguf, hp->arch, "pooling_type", 0, 64, &pooling, err));
    if (pooling < BN_ARRAY_LEN(POOLINGS)) hp->pooling = POOLINGS[pooling];
    return BN_OK;
}

static bn_status read_activation(bn_hparams *hp, const struct bn_gguf *gguf, bn_error *err)
{
    char key[96];
    struct bn_str name;
    bn_status status = bn_gguf_str(gguf, key_of(key, hp->arch, "hidden_activation"), &name, err);
    if (status == BN_ERR_NOT_FOUND) return BN_OK;
    BN_TRY(status);
    if (bn_str_equal(name, "relu2") || bn_str_equal(name, "relu_squared") ||
        bn_str_equal(name, "squared_relu")) {
        hp->activation = BN_ACTIVATION_RELU2;
    } else if (bn_str_equal(name, "silu") || bn_str_equal(name, "swish")) {
        hp->activation = BN_ACTIVATION_SILU;
    } else if (bn_str_equal(name, "gelu") || bn_str_equal(name, "gelu_pytorch_tanh")) {
        hp->activation = BN_ACTIVATION_GELU;
    } else {
        return unsupported(gguf, key, "activation", name, err);
    }
    return BN_OK;
}

/* The rules between values, and the defaults that follow from other values. */
static bn_status check_heads(bn_hparams *hp, const struct bn_gguf *gguf, bn_error *err)
{
    char key[96];
    if (hp->n_head_kv == 0) hp->n_head_kv = hp->n_head;
    if (hp->n_head % hp->n_head_kv != 0)
        return bn_fail_at(err, BN_ERR_FORMAT,
                          key_offset(gguf, key_of(key, hp->arch, "attention.head_count_kv")), key,
                          "%u does not divide the %u heads", hp->n_head_kv, hp->n_head);
    if (hp->head_dim == 0) {
        if (hp->n_embd % hp->n_head != 0)
            return bn_fail_at(err, BN_ERR_FORMAT,
                              key_offset(gguf, key_of(key, hp->arch, "attention.head_count")), key,
                              "%u does not divide the width %u", hp->n_head, hp->n_embd);
        hp->head_dim = hp->n_embd / hp->n_head;
    }
    uint32_t value_length = hp->head_dim;
    key_of(key, hp->arch, "attention.value_length");
    BN_TRY(read_u32(gguf, hp->arch, "attention.value_length", 0, UINT32_MAX, &value_length, err));
    if (value_length != hp->head_dim)
        return bn_fail_at(err, BN_ERR_UNSUPPORTED, key_offset(gguf, key), key,
                          "values of %u elements with keys of %u are not supported", value_length,
                          hp->head_dim);
    if (hp->n_rot == 0) hp->n_rot = hp->head_dim;
    BN_TRY(check_rotated(hp, gguf, "rope.dimension_count", err));
    uint64_t width = (uint64_t)hp->n_head * hp->head_dim;
    if (width > 1u << 20)
        return bn_fail_at(err, BN_ERR_LIMIT, BN_NO_OFFSET, key_of(key, hp->arch, "attention.head_count"),
                          "%u heads of %u elements are too wide", hp->n_head, hp->head_dim);
    return BN_OK;
}

bn_status bn_hparams_read(bn_hparams *hp, const struct bn_gguf *gguf, bn_error *err)
{
    *hp = (bn_hparams){.rope_base = 10000.0f,
                       .rope_scale = 1.0f,
                       .embd_scale = 1.0f,
                       .residual_scale = 1.0f,
                       .logit_scale = 1.0f};
    BN_TRY(read_arch(hp, gguf, err));
    BN_TRY(read_fields(hp, gguf, err));
    BN_TRY(read_float(gguf, hp->arch, "attention.layer_norm_rms_epsilon", true, 1e-12f, &hp->rms_eps, err));
    BN_TRY(read_float(gguf, hp->arch, "rope.freq_base", false, 1.0f, &hp->rope_base, err));
    BN_TRY(read_rope_scaling(hp, gguf, err));
    BN_TRY(read_activation(hp, gguf, err));
    BN_TRY(read_pooling(hp, gguf, err));
    BN_TRY(check_heads(hp, gguf, err));
    hp->attn_scale = 1.0f / sqrtf((float)hp->head_dim);
    const struct arch *arch = arch_of((struct bn_str){hp->arch, strlen(hp->arch)});
    if (arch != NULL && arch->read_own != NULL) BN_TRY(arch->read_own(hp, gguf, err));
    char key[96];
    return bn_gguf_required(hp->n_ff > 0 ? BN_OK : BN_ERR_NOT_FOUND,
                            key_of(key, hp->arch, "feed_forward_length"), err);
}

bool bn_hparams_wide_activations(const bn_hparams *hp, uint32_t type)
{
    if (type == BN_TYPE_I2_S) return false;
    const struct arch *arch = arch_of((struct bn_str){hp->arch, strlen(hp->arch)});
    if (arch == NULL) return false;
    return arch->training == FLOAT || (arch->training == INT8_OR_FLOAT && !bn_type_info(type)->is_float);
}

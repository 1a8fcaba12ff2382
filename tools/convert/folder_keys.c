/* SPDX-License-Identifier: MIT
 *
 * config.json to the keys of a GGUF file, named as llama.cpp's converter names them, and to the sizes that the
 * tensors must have.
 *
 * Some keys have only one architecture. gemma3: as transformers' Gemma3TextConfig, in both of its spellings: layer i is
 * local unless i + 1 is a multiple of the period; older files name the period, newer ones the type of each layer.
 * minicpm: the factors of MiniCPM. qwen35: the sizes of the recurrent layers of Qwen3.5, and which layers they are.
 *
 * The rotary position embedding: rope_theta, and rope_parameters or, as older files call it, rope_scaling. Linear and
 * YaRN scaling become keys; that of Llama 3 becomes the tensor rope_freqs.weight with a divisor for each frequency,
 * LongRoPE two such tensors.
 */
#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "base/elementary.h"
#include "tools/convert/folder.h"

#define CONFIG "config.json"
#define FAIL(code, ...) bn_fail_in(err, BN_ERR_##code, CONFIG, __VA_ARGS__)
#define QUANTIZATION_VERSION 2u
#define GEMMA3_PERIOD 6u /* when config.json says nothing */
#define GEMMA3_LOCAL_BASE 10000.0

const bn_json *bn_cv_folder_setting(const struct bn_cv_folder *f, const char *name)
{
    const bn_json *value = bn_json_get(f->config, name);
    return value != NULL ? value : bn_json_get(f->root, name);
}

/* A whole number from 1 to 2^24 of the text part. */
static bn_status whole_number(const struct bn_cv_folder *f, const char *name, bool required, uint32_t *out,
                              bn_error *err)
{
    const bn_json *value = bn_json_get(f->config, name);
    uint64_t number = 0;
    if (!required && bn_json_kind(value) == BN_JSON_NULL) return BN_OK;
    if (bn_json_u64(value, &number) && number >= 1 && number <= 1u << 24) {
        *out = (uint32_t)number;
        return BN_OK;
    }
    return FAIL(FORMAT, "%s is %s", name,
                value == NULL ? "missing" : "not a whole number from 1 to 16777216");
}

/* ---- gemma3 ---- */

/* The period in which the listed types repeat. */
static bn_status period_of_types(const struct bn_cv_folder *f, const bn_json *types, uint64_t *period,
                                 bn_error *err)
{
    uint64_t first = f->hp.n_layer, i = 0;
    if (bn_json_size(types) != f->hp.n_layer)
        return FAIL(FORMAT, "layer_types does not have one type for each layer");
    for (const bn_json *e = bn_json_first(types); e != NULL; e = bn_json_next(e), i++) {
        const char *type = "";
        (void)bn_json_string(e, &type);
        bool full = strcmp(type, "full_attention") == 0;
        if (!full && strcmp(type, "sliding_attention") != 0)
            return FAIL(UNSUPPORTED, "the type '%.40s' of a layer is not supported", type);
        if (full && i < first) first = i;
        if (full != ((i + 1) % (first + 1) == 0))
            return FAIL(UNSUPPORTED, "the types of the layers do not repeat: layer %llu",
                        (unsigned long long)i);
    }
    *period = first + 1;
    return BN_OK;
}

static bn_status read_period(const struct bn_cv_folder *f, uint64_t *period, bn_error *err)
{
    static const char *const NAMES[] = {"sliding_window_pattern", "_sliding_window_pattern"};
    const bn_json *types = bn_json_get(f->config, "layer_types");
    *period = GEMMA3_PERIOD;
    if (bn_json_kind(types) != BN_JSON_NULL) return period_of_types(f, types, period, err);
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++) {
        const bn_json *value = bn_json_get(f->config, NAMES[i]);
        if (bn_json_kind(value) != BN_JSON_NULL &&
            (!bn_json_u64(value, period) || *period == 0 || *period > 1024))
            return FAIL(FORMAT, "%s is not a whole number from 1 to 1024", NAMES[i]);
    }
    return BN_OK;
}

static bn_status put_window(struct bn_cv_folder *f, bn_error *err)
{
    const bn_json *value = bn_json_get(f->config, "sliding_window");
    uint64_t window, period;
    double base = GEMMA3_LOCAL_BASE;
    BN_TRY(read_period(f, &period, err));
    if (bn_json_kind(value) == BN_JSON_NULL || period == 1) return BN_OK;
    if (!bn_json_u64(value, &window) || window == 0 || window > 1u << 24)
        return FAIL(FORMAT, "sliding_window is not a whole number from 1 to 16777216");
    bn_gguf_put_u32(&f->plan->keys, ".attention.sliding_window", (uint32_t)(window));
    if (period != GEMMA3_PERIOD)
        bn_gguf_put_u32(&f->plan->keys, ".attention.sliding_window_pattern", (uint32_t)(period));
    (void)bn_json_number(bn_json_get(f->config, "rope_local_base_freq"), &base);
    const bn_json *local = bn_json_path(f->config, "rope_parameters.sliding_attention");
    (void)bn_json_number(bn_json_get(local, "rope_theta"), &base);
    const char *type = bn_json_text_of(local, "rope_type");
    if (type[0] != '\0' && strcmp(type, "default") != 0)
        return FAIL(UNSUPPORTED, "the rope scaling '%.40s' of local layers is not supported", type);
    if (!(base > 0 && base < 1e12))
        return FAIL(FORMAT, "the rope_theta of local layers is not a positive number");
    if (base < GEMMA3_LOCAL_BASE || base > GEMMA3_LOCAL_BASE)
        bn_gguf_put_f32(&f->plan->keys, ".rope.freq_base_swa", (float)(base));
    return BN_OK;
}

static bn_status put_gemma3(struct bn_cv_folder *f, bn_error *err)
{
    static const char *const CAPS[] = {"attn_logit_softcapping", "final_logit_softcapping"};
    double size = (double)f->hp.head_dim;
    (void)bn_json_number(bn_json_get(f->config, "query_pre_attn_scalar"), &size);
    if (size < (double)f->hp.head_dim || size > (double)f->hp.head_dim)
        return FAIL(UNSUPPORTED, "query_pre_attn_scalar is %g, only the head_dim %u is supported", size,
                    f->hp.head_dim);
    for (size_t i = 0; i < BN_ARRAY_LEN(CAPS); i++)
        if (bn_json_kind(bn_json_get(f->config, CAPS[i])) != BN_JSON_NULL)
            return FAIL(UNSUPPORTED, "%s is not supported", CAPS[i]);
    if (bn_json_flag_of(f->config, "use_bidirectional_attention"))
        return FAIL(UNSUPPORTED, "use_bidirectional_attention is not supported");
    return put_window(f, err);
}

/* ---- minicpm ---- */

static bn_status put_minicpm(struct bn_cv_folder *f, bn_error *err)
{
    static const char *const NAMES[] = {"scale_emb", "scale_depth", "dim_model_base"};
    double values[BN_ARRAY_LEN(NAMES)];
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++)
        if (!bn_json_number(bn_json_get(f->config, NAMES[i]), &values[i]) ||
            !(values[i] > 0 && values[i] < 1e6))
            return FAIL(FORMAT, "%s is missing or not a positive number", NAMES[i]);
    bn_gguf_put_f32(&f->plan->keys, ".embedding_scale", (float)(values[0]));
    bn_gguf_put_f32(&f->plan->keys, ".residual_scale", (float)(values[1] / sqrt((double)f->hp.n_layer)));
    bn_gguf_put_f32(&f->plan->keys, ".logit_scale", (float)((double)f->hp.n_embd / values[2]));
    return BN_OK;
}

/* ---- qwen35 ---- */

/* The sections of positions in pictures; texts have the same position in all of them. */
static bn_status put_sections(struct bn_cv_folder *f, bn_error *err)
{
    static const uint64_t PRESET[] = {11, 11, 10, 0};
    const bn_json *list = bn_json_path(f->config, "rope_parameters.mrope_section");
    if (bn_json_kind(list) == BN_JSON_NULL) list = bn_json_path(f->config, "rope_scaling.mrope_section");
    if (bn_json_kind(list) != BN_JSON_NULL && (bn_json_size(list) < 3 || bn_json_size(list) > 4))
        return FAIL(FORMAT, "mrope_section does not have 3 or 4 numbers");
    bn_gguf_put_array(&f->plan->keys, ".rope.dimension_sections", BN_GGUF_I32, BN_ARRAY_LEN(PRESET));
    for (size_t i = 0; i < BN_ARRAY_LEN(PRESET); i++) {
        uint64_t n = bn_json_kind(list) != BN_JSON_NULL ? 0 : PRESET[i];
        if (i < bn_json_size(list) && (!bn_json_u64(bn_json_at(list, i), &n) || n > f->hp.n_rot))
            return FAIL(FORMAT, "mrope_section: number %zu is not from 0 to %u", i, f->hp.n_rot);
        bn_gguf_put_element_i32(&f->plan->keys, (int32_t)n);
    }
    return BN_OK;
}

/* Each interval-th layer has attention, or the layers that layer_types names. */
static bn_status put_layers(struct bn_cv_folder *f, bn_error *err)
{
    const bn_json *types = bn_json_get(f->config, "layer_types"), *e = bn_json_first(types);
    uint32_t first = f->hp.n_layer;
    uint32_t interval = 4;
    bool repeats = true;
    BN_TRY(whole_number(f, "full_attention_interval", false, &interval, err));
    if (bn_json_kind(types) != BN_JSON_NULL && bn_json_size(types) != f->hp.n_layer)
        return FAIL(FORMAT, "layer_types does not have one type for each layer");
    for (uint32_t i = 0; i < f->hp.n_layer; i++, e = e != NULL ? bn_json_next(e) : NULL) {
        const char *type = (i + 1) % interval == 0 ? "full_attention" : "linear_attention";
        if (bn_json_kind(types) != BN_JSON_NULL) type = "";
        (void)bn_json_string(e, &type);
        bool recurrent = strcmp(type, "linear_attention") == 0;
        if (recurrent) bn_hparams_set_layer(f->hp.recurrence.layers, i);
        if (!recurrent && strcmp(type, "full_attention") != 0)
            return FAIL(UNSUPPORTED, "the type '%.40s' of a layer is not supported", type);
        if (!recurrent && i < first) first = i;
        repeats &= recurrent == ((i + 1) % (first + 1) != 0);
    }
    if (repeats) {
        bn_gguf_put_u32(&f->plan->keys, ".full_attention_interval", (uint32_t)(first + 1));
        return BN_OK;
    }
    bn_gguf_put_array(&f->plan->keys, ".attention.recurrent_layers", BN_GGUF_BOOL, f->hp.n_layer);
    for (uint32_t i = 0; i < f->hp.n_layer; i++)
        bn_buf_putc(&f->plan->keys.kv, bn_hparams_is_recurrent(&f->hp, i));
    return BN_OK;
}

static bn_status put_qwen35(struct bn_cv_folder *f, bn_error *err)
{
    struct bn_recurrence *r = &f->hp.recurrence;
    uint32_t value_dim = 0;
    bool gate = true;
    BN_TRY(whole_number(f, "linear_conv_kernel_dim", true, &r->n_taps, err));
    BN_TRY(whole_number(f, "linear_key_head_dim", true, &r->head_dim, err));
    BN_TRY(whole_number(f, "linear_value_head_dim", true, &value_dim, err));
    BN_TRY(whole_number(f, "linear_num_key_heads", true, &r->n_key_heads, err));
    BN_TRY(whole_number(f, "linear_num_value_heads", true, &r->n_value_heads, err));
    (void)bn_json_bool(bn_json_get(f->config, "attn_output_gate"), &gate);
    if (!gate) return FAIL(UNSUPPORTED, "attn_output_gate false is not supported");
    if (value_dim != r->head_dim)
        return FAIL(UNSUPPORTED, "linear_value_head_dim %u is not linear_key_head_dim %u", value_dim,
                    r->head_dim);
    if (r->n_value_heads % r->n_key_heads != 0)
        return FAIL(FORMAT, "linear_num_key_heads does not divide linear_num_value_heads");
    bn_gguf_put_u32(&f->plan->keys, ".ssm.conv_kernel", r->n_taps);
    bn_gguf_put_u32(&f->plan->keys, ".ssm.state_size", r->head_dim);
    bn_gguf_put_u32(&f->plan->keys, ".ssm.group_count", r->n_key_heads);
    bn_gguf_put_u32(&f->plan->keys, ".ssm.time_step_rank", r->n_value_heads);
    bn_gguf_put_u32(&f->plan->keys, ".ssm.inner_size", r->n_value_heads * r->head_dim);
    BN_TRY(put_sections(f, err));
    return put_layers(f, err);
}

/* ---- the rotary position embedding ---- */

static bn_status positive(const bn_json *rope, const char *name, double preset, double *out, bn_error *err)
{
    const bn_json *value = bn_json_get(rope, name);
    *out = preset;
    if (value == NULL || bn_json_kind(value) == BN_JSON_NULL) {
        if (!isnan(preset)) return BN_OK;
    } else if (bn_json_number(value, out) && *out > 0 && *out < 1e12) {
        return BN_OK;
    }
    return FAIL(FORMAT, "%s of the rope is missing or not a positive number", name);
}

static bn_status put_yarn(struct bn_cv_folder *f, const bn_json *rope, bn_error *err)
{
    static const struct {
        const char *name, *suffix;
    } OPTIONAL[] = {
        {"extrapolation_factor", ".rope.scaling.yarn_ext_factor"},
        {"attention_factor", ".rope.scaling.yarn_attn_factor"},
        {"attn_factor", ".rope.scaling.yarn_attn_factor"},
        {"beta_fast", ".rope.scaling.yarn_beta_fast"},
        {"beta_slow", ".rope.scaling.yarn_beta_slow"},
    };
    double factor, original, value;
    BN_TRY(positive(rope, "factor", (double)NAN, &factor, err));
    BN_TRY(positive(rope, "original_max_position_embeddings", (double)f->hp.n_ctx, &original, err));
    bn_gguf_put_str(&f->plan->keys, ".rope.scaling.type", "yarn", 4);
    bn_gguf_put_f32(&f->plan->keys, ".rope.scaling.factor", (float)factor);
    bn_gguf_put_u32(&f->plan->keys, ".rope.scaling.original_context_length",
                    (uint32_t)fmin(original, 1u << 24));
    for (size_t i = 0; i < BN_ARRAY_LEN(OPTIONAL); i++) {
        if (!bn_json_number(bn_json_get(rope, OPTIONAL[i].name), &value)) continue;
        if (i == 2 && bn_json_number(bn_json_get(rope, "attention_factor"), &factor)) continue;
        bn_gguf_put_f32(&f->plan->keys, OPTIONAL[i].suffix, (float)value);
    }
    return BN_OK;
}

/* The divisor of a frequency: 1 for short waves, the factor for long ones, between them a mixture. */
static double llama3_divisor(double wave, double factor, double low, double high, double original)
{
    if (wave < original / high) return 1.0;
    if (wave > original / low) return factor;
    double smooth = (original / wave - low) / (high - low);
    return 1.0 / ((1.0 - smooth) / factor + smooth);
}

/* A tensor with values that the plan owns. */
static void own(struct bn_cv_tensor *t, const char *name, const float *values, size_t n)
{
    snprintf(t->name, sizeof t->name, "%s", name);
    t->kind = BN_CV_COPY;
    t->from = t->to = BN_TYPE_F32;
    t->ne[0] = n;
    t->data = (const unsigned char *)values;
    t->n_source = n * sizeof *values;
}

static bn_status add_llama3(struct bn_cv_folder *f, const bn_json *rope, double theta, bn_error *err)
{
    static const double TAU = 6.283185307179586;
    double factor, low, high, original;
    size_t n = (size_t)f->hp.n_rot / 2;
    BN_TRY(positive(rope, "factor", 8, &factor, err));
    BN_TRY(positive(rope, "low_freq_factor", 1, &low, err));
    BN_TRY(positive(rope, "high_freq_factor", 4, &high, err));
    BN_TRY(positive(rope, "original_max_position_embeddings", 8192, &original, err));
    if (low >= high) return FAIL(FORMAT, "low_freq_factor is not below high_freq_factor");
    struct bn_cv_tensor *t;
    BN_TRY(bn_cv_add_tensor(f->plan, &t, err));
    BN_TRY(BN_NEW(f->plan->owned, n, err));
    for (size_t i = 0; i < n; i++) {
        double wave = TAU * bn_exp(bn_log(theta) * 2.0 * (double)i / (double)f->hp.n_rot);
        f->plan->owned[i] = (float)llama3_divisor(wave, factor, low, high, original);
    }
    own(t, "rope_freqs.weight", f->plan->owned, n);
    return BN_OK;
}

static bn_status read_factors(const bn_json *rope, const char *name, size_t n, float *out, bn_error *err)
{
    const bn_json *list = bn_json_get(rope, name);
    size_t i = 0;
    for (const bn_json *e = bn_json_first(list); e != NULL && i < n; e = bn_json_next(e), i++) {
        double value;
        if (!bn_json_number(e, &value) || !(value > 0 && value < 1e12)) break;
        out[i] = (float)value;
    }
    if (i == n && bn_json_size(list) == n) return BN_OK;
    return FAIL(FORMAT, "%s of the rope is not a list of %zu positive numbers", name, n);
}

/* Past the original context the rotated values have another size, which no key says. */
static bn_status add_long_rope(struct bn_cv_folder *f, const bn_json *rope, bn_error *err)
{
    static const char *const NAMES[] = {"long_factor", "short_factor"};
    static const char *const TENSORS[] = {"rope_factors_long.weight", "rope_factors_short.weight"};
    size_t n = (size_t)f->hp.n_rot / 2;
    double original;
    BN_TRY(positive(rope, "original_max_position_embeddings", (double)f->hp.n_ctx, &original, err));
    if (original < (double)f->hp.n_ctx)
        return FAIL(UNSUPPORTED,
                    "longrope with a context of %u tokens, more than the original %.0f, is not supported",
                    f->hp.n_ctx, original);
    BN_TRY(BN_NEW(f->plan->owned, 2 * n, err));
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++) {
        struct bn_cv_tensor *t;
        BN_TRY(read_factors(rope, NAMES[i], n, f->plan->owned + i * n, err));
        BN_TRY(bn_cv_add_tensor(f->plan, &t, err));
        own(t, TENSORS[i], f->plan->owned + i * n, n);
    }
    bn_gguf_put_str(&f->plan->keys, ".rope.scaling.type", "longrope", 8);
    bn_gguf_put_u32(&f->plan->keys, ".rope.scaling.original_context_length", f->hp.n_ctx);
    return BN_OK;
}

static bn_status put_rope(struct bn_cv_folder *f, bn_error *err)
{
    const bn_json *rope = bn_json_get(f->config, "rope_parameters");
    const bn_json *full = bn_json_get(rope, "full_attention"); /* Gemma: local layers have their own */
    double theta = f->arch->rope_theta, factor;
    (void)bn_json_number(bn_json_get(f->config, "rope_theta"), &theta);
    if (full != NULL) rope = full;
    if (rope == NULL || bn_json_kind(rope) != BN_JSON_OBJECT) rope = bn_json_get(f->config, "rope_scaling");
    (void)bn_json_number(bn_json_get(rope, "rope_theta"), &theta);
    if (!(theta > 0 && theta < 1e12)) return FAIL(FORMAT, "rope_theta is missing or not a positive number");
    bn_gguf_put_f32(&f->plan->keys, ".rope.freq_base", (float)theta);
    const char *type = bn_json_text_of(rope, "rope_type");
    if (type[0] == '\0') type = bn_json_text_of(rope, "type");
    if (type[0] == '\0' || strcmp(type, "default") == 0) return BN_OK;
    if (strcmp(type, "yarn") == 0) return put_yarn(f, rope, err);
    if (strcmp(type, "longrope") == 0) return add_long_rope(f, rope, err);
    if (strcmp(type, "llama3") == 0) return add_llama3(f, rope, theta, err);
    if (strcmp(type, "linear") != 0)
        return FAIL(UNSUPPORTED,
                    "the rope scaling '%.40s' is not supported: linear, yarn, llama3 and longrope are", type);
    BN_TRY(positive(rope, "factor", (double)NAN, &factor, err));
    bn_gguf_put_str(&f->plan->keys, ".rope.scaling.type", "linear", 6);
    bn_gguf_put_f32(&f->plan->keys, ".rope.scaling.factor", (float)factor);
    return BN_OK;
}

/* ---- the architecture ---- */

/* The first row that fits. BitNet 2B4T has the squared ReLU and is bitnet-b1.58; the earlier models have
 * SiLU and are bitnet. Their config.json may have the model_type llama, so the class comes first. */
static const struct bn_cv_arch ARCHS[] = {
    {"bitnet-b1.58", "BitNetForCausalLM", NULL, "relu2", .masters = true},
    {"bitnet", "BitNetForCausalLM", NULL, "silu", .masters = true},
    {"qwen3", NULL, "qwen3", "silu", .masters = false},
    {"llama", NULL, "llama", "silu", .masters = false},
    {"gemma3", NULL, "gemma3_text", "gelu_pytorch_tanh", .rope_theta = 1e6, .norm_shift = 1.0f,
     .put_own = put_gemma3},
    {"minicpm", NULL, "minicpm", "silu", .rope_theta = 1e4, .put_own = put_minicpm},
    {"qwen35", NULL, "qwen3_5_text", "silu", .norm_shift = 1.0f, .put_own = put_qwen35},
};

static bn_status find_arch(struct bn_cv_folder *f, bn_error *err)
{
    const char *class_name = "", *type = bn_json_text_of(f->config, "model_type");
    const char *activation = bn_json_text_of(f->config, "hidden_act");
    if (activation[0] == '\0') activation = bn_json_text_of(f->config, "hidden_activation");
    (void)bn_json_string(bn_json_at(bn_json_get(f->root, "architectures"), 0), &class_name);
    for (size_t i = 0; i < BN_ARRAY_LEN(ARCHS); i++) {
        const struct bn_cv_arch *a = &ARCHS[i];
        if (a->class_name != NULL && strcasecmp(a->class_name, class_name) != 0) continue;
        if (a->model_type != NULL && strcmp(a->model_type, type) != 0) continue;
        if (strcmp(a->activation, activation) != 0) continue;
        f->arch = a;
        snprintf(f->plan->arch, sizeof f->plan->arch, "%s", a->name);
        f->plan->keys.arch = f->plan->arch;
        (void)bn_hparams_set_arch(&f->hp, (struct bn_str){a->name, strlen(a->name)});
        return BN_OK;
    }
    return bn_hint(FAIL(UNSUPPORTED,
                        "the architecture '%.60s' (model_type '%.40s', hidden_act '%.20s') is not supported",
                        class_name, type, activation),
                   err, "supported are BitNetForCausalLM, Qwen3, Qwen3.5, Llama, Gemma 3 and MiniCPM");
}

/* ---- numbers ---- */

static bn_status read_sizes(struct bn_cv_folder *f, bn_error *err)
{
    bn_hparams *hp = &f->hp;
    const struct {
        const char *name;
        bool required;
        uint32_t *out;
    } SIZES[] = {
        {"hidden_size", true, &hp->n_embd},
        {"num_hidden_layers", true, &hp->n_layer},
        {"intermediate_size", true, &hp->n_ff},
        {"num_attention_heads", true, &hp->n_head},
        {"vocab_size", true, &hp->n_vocab},
        {"max_position_embeddings", true, &hp->n_ctx},
        {"num_key_value_heads", false, &hp->n_head_kv},
        {"head_dim", false, &hp->head_dim},
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(SIZES); i++)
        BN_TRY(whole_number(f, SIZES[i].name, SIZES[i].required, SIZES[i].out, err));
    if (hp->n_head_kv == 0) hp->n_head_kv = hp->n_head;
    if (hp->n_layer > BN_MAX_LAYERS) return FAIL(LIMIT, "num_hidden_layers is over %u", BN_MAX_LAYERS);
    if (hp->head_dim != 0) return BN_OK;
    hp->head_dim = hp->n_embd / hp->n_head;
    if (hp->n_embd % hp->n_head == 0) return BN_OK;
    return FAIL(FORMAT, "num_attention_heads does not divide hidden_size");
}

/* How much of each head is rotated: all of it, but in hybrids. */
static bn_status read_rotated(struct bn_cv_folder *f, bn_error *err)
{
    bool hybrid = f->hp.gated_heads;
    double share = hybrid ? 0.25 : 1.0;
    (void)bn_json_number(bn_json_path(f->config, "rope_parameters.partial_rotary_factor"), &share);
    (void)bn_json_number(bn_json_get(f->config, "partial_rotary_factor"), &share);
    if (share > 0.0 && share <= 1.0) f->hp.n_rot = (uint32_t)((double)f->hp.head_dim * share);
    if (hybrid ? f->hp.n_rot >= 2 && f->hp.n_rot % 2 == 0 : share >= 1.0 && share <= 1.0) return BN_OK;
    return FAIL(UNSUPPORTED,
                hybrid ? "partial_rotary_factor %g does not give an even number of elements"
                       : "partial_rotary_factor %g is not supported, only 1",
                share);
}

/* Settings that change the graph, and that no key of these architectures describes. */
static bn_status refuse_others(const struct bn_cv_folder *f, bn_error *err)
{
    if (bn_json_flag_of(f->config, "use_sliding_window"))
        return FAIL(UNSUPPORTED, "use_sliding_window is not supported");
    if (bn_json_get(f->root, "hadamard") == NULL || f->rotation != NULL) return BN_OK;
    return bn_hint(FAIL(UNSUPPORTED, "it describes rotated weights, and there is no hadamard_packing.json"),
                   err, "convert the GGUF file of the model, whose keys describe the rotation");
}

/* ---- the two meanings of weight_scale ---- */

/* transformers' AutoBitLinear multiplies its output by weight_scale, its BitLinear divides by it. The class is
 * in quantization_config; BitLinear is the default. */
static bn_status read_quantization(struct bn_cv_folder *f, bn_error *err)
{
    const bn_json *q = bn_cv_folder_setting(f, "quantization_config");
    const char *method = bn_json_text_of(q, "quant_method"), *class_name = bn_json_text_of(q, "linear_class");
    f->bitnet = strcmp(method, "bitnet") == 0;
    if (method[0] != '\0' && !f->bitnet)
        return FAIL(UNSUPPORTED, "the quant_method '%.40s' is not supported, only bitnet", method);
    if (bn_json_flag_of(q, "use_rms_norm"))
        return FAIL(UNSUPPORTED, "use_rms_norm of quantization_config is not supported");
    if (class_name[0] != '\0' && strcmp(class_name, "bitlinear") != 0 &&
        strcmp(class_name, "autobitlinear") != 0)
        return FAIL(UNSUPPORTED, "the linear_class '%.40s' is neither bitlinear nor autobitlinear",
                    class_name);
    f->divides = strcmp(class_name, "autobitlinear") != 0;
    if (f->plan->options->weight_scale != 0) f->divides = f->plan->options->weight_scale == 2;
    return BN_OK;
}

/* ---- keys ---- */

static bn_status put_epsilon(struct bn_cv_folder *f, bn_error *err)
{
    double epsilon = bn_json_number_of(f->config, "rms_norm_eps");
    if (!(epsilon > 0 && epsilon < 1)) return FAIL(FORMAT, "rms_norm_eps is missing or not between 0 and 1");
    bn_gguf_put_f32(&f->plan->keys, ".attention.layer_norm_rms_epsilon", (float)epsilon);
    return BN_OK;
}

/* Which token's vector is the text's: sentence-transformers writes it into the folder of a module. */
static bn_status put_pooling(struct bn_cv_folder *f, bn_error *err)
{
    static const struct {
        const char *flag;
        uint32_t pooling;
    } MODES[] = {
        {"pooling_mode_mean_tokens", 1}, {"pooling_mode_cls_token", 2}, {"pooling_mode_lasttoken", 3}};
    bn_json *pooling;
    if (!f->hp.input_norms) return BN_OK;
    BN_TRY(bn_cv_folder_json(f, "1_Pooling/config.json", false, &pooling, err));
    uint32_t mode = pooling == NULL ? 3 : 0; /* the models of this kind use the last token */
    for (size_t i = 0; i < BN_ARRAY_LEN(MODES) && mode == 0; i++)
        if (bn_json_flag_of(pooling, MODES[i].flag)) mode = MODES[i].pooling;
    bn_json_free(pooling);
    if (mode == 0)
        return bn_fail_in(err, BN_ERR_UNSUPPORTED, "1_Pooling/config.json",
                          "its pooling mode is not supported");
    bn_gguf_put_u32(&f->plan->keys, ".pooling_type", mode);
    return BN_OK;
}

static bn_status put_keys(struct bn_cv_folder *f, bn_error *err)
{
    struct bn_gguf_writer *w = &f->plan->keys;
    bn_gguf_put_str(w, "general.architecture", f->arch->name, strlen(f->arch->name));
    bn_gguf_put_str(w, "general.type", "model", 5);
    if (f->plan->options->name != NULL)
        bn_gguf_put_str(w, "general.name", f->plan->options->name, strlen(f->plan->options->name));
    bn_gguf_put_u32(w, "general.file_type", bn_type_info(f->plan->target)->file_type);
    bn_gguf_put_u32(w, "general.quantization_version", QUANTIZATION_VERSION);
    const bn_hparams *hp = &f->hp;
    bool bitnet = f->bitnet || hp->input_norms, wide = bn_hparams_wide_activations(hp, BN_TYPE_F16);
    if (bitnet || wide) BN_TRY(bn_cv_keep_activations(f->plan, !bitnet, err));
    bn_gguf_put_u32(w, ".vocab_size", hp->n_vocab);
    bn_gguf_put_u32(w, ".context_length", hp->n_ctx);
    bn_gguf_put_u32(w, ".embedding_length", hp->n_embd);
    bn_gguf_put_u32(w, ".block_count", hp->n_layer);
    bn_gguf_put_u32(w, ".feed_forward_length", hp->n_ff);
    bn_gguf_put_u32(w, ".attention.head_count", hp->n_head);
    bn_gguf_put_u32(w, ".attention.head_count_kv", hp->n_head_kv);
    bn_gguf_put_u32(w, ".attention.key_length", hp->head_dim);
    bn_gguf_put_u32(w, ".attention.value_length", hp->head_dim);
    bn_gguf_put_u32(w, ".rope.dimension_count", hp->n_rot);
    BN_TRY(put_epsilon(f, err));
    BN_TRY(put_rope(f, err));
    if (f->arch->put_own != NULL) BN_TRY(f->arch->put_own(f, err));
    return put_pooling(f, err);
}

bn_status bn_cv_folder_config(struct bn_cv_folder *f, bn_error *err)
{
    size_t input;
    const bn_json *part = bn_json_get(f->root, "text_config");
    bool sees = bn_json_text_is(f->root, "model_type", "qwen3_5") && bn_json_kind(part) == BN_JSON_OBJECT;
    f->config = sees ? part : f->root;
    BN_TRY(find_arch(f, err));
    f->norm_shift = f->arch->norm_shift;
    BN_TRY(read_sizes(f, err));
    BN_TRY(read_rotated(f, err));
    BN_TRY(refuse_others(f, err));
    BN_TRY(read_quantization(f, err));
    const char *probe = "model.layers.0.self_attn.q_proj.norm.weight";
    f->hp.input_norms = bn_cv_folder_take(f, probe, &input) != NULL ||
                        bn_cv_folder_take(f, probe + strlen("model."), &input) != NULL;
    return put_keys(f, err);
}

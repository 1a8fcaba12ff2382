/* SPDX-License-Identifier: MIT
 *
 * Keys that only one architecture has. gemma3: as transformers' Gemma3TextConfig, in both of its spellings: layer i is
 * local unless i + 1 is a multiple of the period; older files name the period, newer ones the type of each layer.
 * minicpm: the factors of MiniCPM, as llama.cpp's converter writes them. qwen35: the sizes of the recurrent layers of
 * Qwen3.5, and which layers they are.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "tools/convert/folder.h"

#define CONFIG "config.json"
#define GEMMA3_PERIOD 6u /* when config.json says nothing */
#define GEMMA3_LOCAL_BASE 10000.0

static void put_u32(struct bn_cv_folder *f, const char *suffix, uint64_t value)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", f->arch->name, suffix);
    bn_gguf_put_u32(&f->plan->keys, key, (uint32_t)value);
}

static void put_f32(struct bn_cv_folder *f, const char *suffix, double value)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", f->arch->name, suffix);
    bn_gguf_put_f32(&f->plan->keys, key, (float)value);
}

static bool is_given(const bn_json *value)
{
    return value != NULL && bn_json_kind(value) != BN_JSON_NULL;
}

/* ---- gemma3 ---- */

/* The period in which the listed types repeat. */
static bn_status period_of_types(const struct bn_cv_folder *f, const bn_json *types, uint64_t *period,
                                 bn_error *err)
{
    uint64_t first = f->n_layer, i = 0;
    if (bn_json_size(types) != f->n_layer)
        return bn_fail_in(err, BN_ERR_FORMAT, CONFIG, "layer_types does not have one type for each layer");
    for (const bn_json *e = bn_json_first(types); e != NULL; e = bn_json_next(e), i++) {
        const char *type = "";
        (void)bn_json_string(e, &type);
        bool full = strcmp(type, "full_attention") == 0;
        if (!full && strcmp(type, "sliding_attention") != 0)
            return bn_fail_in(err, BN_ERR_UNSUPPORTED, CONFIG, "the type '%.40s' of a layer is not supported",
                              type);
        if (full && i < first) first = i;
        if (full != ((i + 1) % (first + 1) == 0))
            return bn_fail_in(err, BN_ERR_UNSUPPORTED, CONFIG,
                              "the types of the layers do not repeat: layer %llu", (unsigned long long)i);
    }
    *period = first + 1;
    return BN_OK;
}

static bn_status read_period(const struct bn_cv_folder *f, uint64_t *period, bn_error *err)
{
    static const char *const NAMES[] = {"sliding_window_pattern", "_sliding_window_pattern"};
    const bn_json *types = bn_json_get(f->config, "layer_types");
    *period = GEMMA3_PERIOD;
    if (is_given(types)) return period_of_types(f, types, period, err);
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++) {
        const bn_json *value = bn_json_get(f->config, NAMES[i]);
        if (is_given(value) && (!bn_json_u64(value, period) || *period == 0 || *period > 1024))
            return bn_fail_in(err, BN_ERR_FORMAT, CONFIG, "%s is not a whole number from 1 to 1024",
                              NAMES[i]);
    }
    return BN_OK;
}

static bn_status put_window(struct bn_cv_folder *f, bn_error *err)
{
    const bn_json *value = bn_json_get(f->config, "sliding_window");
    uint64_t window, period;
    double base = GEMMA3_LOCAL_BASE;
    BN_TRY(read_period(f, &period, err));
    if (!is_given(value) || period == 1) return BN_OK;
    if (!bn_json_u64(value, &window) || window == 0 || window > 1u << 24)
        return bn_fail_in(err, BN_ERR_FORMAT, CONFIG,
                          "sliding_window is not a whole number from 1 to 16777216");
    put_u32(f, "attention.sliding_window", window);
    if (period != GEMMA3_PERIOD) put_u32(f, "attention.sliding_window_pattern", period);
    (void)bn_json_number(bn_json_get(f->config, "rope_local_base_freq"), &base);
    const bn_json *local = bn_json_path(f->config, "rope_parameters.sliding_attention");
    (void)bn_json_number(bn_json_get(local, "rope_theta"), &base);
    const char *type = bn_json_text_of(local, "rope_type");
    if (type[0] != '\0' && strcmp(type, "default") != 0)
        return bn_fail_in(err, BN_ERR_UNSUPPORTED, CONFIG,
                          "the rope scaling '%.40s' of local layers is not supported", type);
    if (!(base > 0 && base < 1e12))
        return bn_fail_in(err, BN_ERR_FORMAT, CONFIG,
                          "the rope_theta of local layers is not a positive number");
    if (base < GEMMA3_LOCAL_BASE || base > GEMMA3_LOCAL_BASE) put_f32(f, "rope.freq_base_swa", base);
    return BN_OK;
}

bn_status bn_cv_gemma3_keys(struct bn_cv_folder *f, bn_error *err)
{
    static const char *const CAPS[] = {"attn_logit_softcapping", "final_logit_softcapping"};
    double size = (double)f->head_dim;
    (void)bn_json_number(bn_json_get(f->config, "query_pre_attn_scalar"), &size);
    if (size < (double)f->head_dim || size > (double)f->head_dim)
        return bn_fail_in(err, BN_ERR_UNSUPPORTED, CONFIG,
                          "query_pre_attn_scalar is %g, only the head_dim %llu is supported", size,
                          (unsigned long long)f->head_dim);
    for (size_t i = 0; i < BN_ARRAY_LEN(CAPS); i++)
        if (is_given(bn_json_get(f->config, CAPS[i])))
            return bn_fail_in(err, BN_ERR_UNSUPPORTED, CONFIG, "%s is not supported", CAPS[i]);
    if (bn_json_flag_of(f->config, "use_bidirectional_attention"))
        return bn_fail_in(err, BN_ERR_UNSUPPORTED, CONFIG, "use_bidirectional_attention is not supported");
    return put_window(f, err);
}

/* ---- minicpm ---- */

bn_status bn_cv_minicpm_keys(struct bn_cv_folder *f, bn_error *err)
{
    static const char *const NAMES[] = {"scale_emb", "scale_depth", "dim_model_base"};
    double values[BN_ARRAY_LEN(NAMES)];
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++)
        if (!bn_json_number(bn_json_get(f->config, NAMES[i]), &values[i]) ||
            !(values[i] > 0 && values[i] < 1e6))
            return bn_fail_in(err, BN_ERR_FORMAT, CONFIG, "%s is missing or not a positive number", NAMES[i]);
    put_f32(f, "embedding_scale", values[0]);
    put_f32(f, "residual_scale", values[1] / sqrt((double)f->n_layer));
    put_f32(f, "logit_scale", (double)f->n_embd / values[2]);
    return BN_OK;
}

/* ---- qwen35 ---- */

/* The sections of positions in pictures; texts have the same position in all of them. */
static bn_status put_sections(struct bn_cv_folder *f, bn_error *err)
{
    static const uint64_t PRESET[] = {11, 11, 10, 0};
    const bn_json *list = bn_json_path(f->config, "rope_parameters.mrope_section");
    char key[128];
    if (!is_given(list)) list = bn_json_path(f->config, "rope_scaling.mrope_section");
    if (is_given(list) && (bn_json_size(list) < 3 || bn_json_size(list) > 4))
        return bn_fail_in(err, BN_ERR_FORMAT, CONFIG, "mrope_section does not have 3 or 4 numbers");
    snprintf(key, sizeof key, "%s.rope.dimension_sections", f->arch->name);
    bn_gguf_put_array(&f->plan->keys, key, BN_GGUF_I32, BN_ARRAY_LEN(PRESET));
    for (size_t i = 0; i < BN_ARRAY_LEN(PRESET); i++) {
        uint64_t n = is_given(list) ? 0 : PRESET[i];
        if (i < bn_json_size(list) && (!bn_json_u64(bn_json_at(list, i), &n) || n > f->n_rot))
            return bn_fail_in(err, BN_ERR_FORMAT, CONFIG, "mrope_section: number %zu is not from 0 to %llu",
                              i, (unsigned long long)f->n_rot);
        bn_gguf_put_element_i32(&f->plan->keys, (int32_t)n);
    }
    return BN_OK;
}

/* Each interval-th layer has attention, or the layers that layer_types names. */
static bn_status put_layers(struct bn_cv_folder *f, bn_error *err)
{
    const bn_json *types = bn_json_get(f->config, "layer_types"), *e = bn_json_first(types);
    uint64_t interval = 4, first = f->n_layer;
    bool repeats = true;
    char key[128];
    BN_TRY(bn_cv_folder_number(f, "full_attention_interval", false, &interval, err));
    if (is_given(types) && bn_json_size(types) != f->n_layer)
        return bn_fail_in(err, BN_ERR_FORMAT, CONFIG, "layer_types does not have one type for each layer");
    for (uint64_t i = 0; i < f->n_layer; i++, e = e != NULL ? bn_json_next(e) : NULL) {
        const char *type = (i + 1) % interval == 0 ? "full_attention" : "linear_attention";
        if (is_given(types)) type = "";
        (void)bn_json_string(e, &type);
        f->recurrent.layers[i] = strcmp(type, "linear_attention") == 0;
        if (!f->recurrent.layers[i] && strcmp(type, "full_attention") != 0)
            return bn_fail_in(err, BN_ERR_UNSUPPORTED, CONFIG, "the type '%.40s' of a layer is not supported",
                              type);
        if (!f->recurrent.layers[i] && i < first) first = i;
        repeats &= f->recurrent.layers[i] == ((i + 1) % (first + 1) != 0);
    }
    if (repeats) {
        put_u32(f, "full_attention_interval", first + 1);
        return BN_OK;
    }
    snprintf(key, sizeof key, "%s.attention.recurrent_layers", f->arch->name);
    bn_gguf_put_array(&f->plan->keys, key, BN_GGUF_BOOL, f->n_layer);
    bn_buf_append(&f->plan->keys.kv, f->recurrent.layers, (size_t)f->n_layer);
    return BN_OK;
}

bn_status bn_cv_qwen35_keys(struct bn_cv_folder *f, bn_error *err)
{
    uint64_t value_dim = 0;
    bool gate = true;
    BN_TRY(bn_cv_folder_number(f, "linear_conv_kernel_dim", true, &f->recurrent.n_taps, err));
    BN_TRY(bn_cv_folder_number(f, "linear_key_head_dim", true, &f->recurrent.head_dim, err));
    BN_TRY(bn_cv_folder_number(f, "linear_value_head_dim", true, &value_dim, err));
    BN_TRY(bn_cv_folder_number(f, "linear_num_key_heads", true, &f->recurrent.n_key, err));
    BN_TRY(bn_cv_folder_number(f, "linear_num_value_heads", true, &f->recurrent.n_value, err));
    (void)bn_json_bool(bn_json_get(f->config, "attn_output_gate"), &gate);
    if (!gate) return bn_fail_in(err, BN_ERR_UNSUPPORTED, CONFIG, "attn_output_gate false is not supported");
    if (value_dim != f->recurrent.head_dim)
        return bn_fail_in(err, BN_ERR_UNSUPPORTED, CONFIG,
                          "linear_value_head_dim %llu is not linear_key_head_dim %llu",
                          (unsigned long long)value_dim, (unsigned long long)f->recurrent.head_dim);
    if (f->recurrent.n_value % f->recurrent.n_key != 0)
        return bn_fail_in(err, BN_ERR_FORMAT, CONFIG,
                          "linear_num_key_heads does not divide linear_num_value_heads");
    put_u32(f, "ssm.conv_kernel", f->recurrent.n_taps);
    put_u32(f, "ssm.state_size", f->recurrent.head_dim);
    put_u32(f, "ssm.group_count", f->recurrent.n_key);
    put_u32(f, "ssm.time_step_rank", f->recurrent.n_value);
    put_u32(f, "ssm.inner_size", f->recurrent.n_value * f->recurrent.head_dim);
    BN_TRY(put_sections(f, err));
    return put_layers(f, err);
}

/* SPDX-License-Identifier: MIT
 *
 * The rotary position embedding of a config.json: rope_theta, and rope_parameters or, as older files call it,
 * rope_scaling. Linear and YaRN scaling become keys; that of Llama 3 becomes the tensor rope_freqs.weight with a
 * divisor for each frequency, LongRoPE two such tensors.
 */
#include <math.h>
#include <stdio.h>

#include "base/elementary.h"
#include "base/error.h"
#include "tools/convert/folder.h"

#define CONFIG "config.json"

static bn_status positive(const bn_json *rope, const char *name, double preset, double *out, bn_error *err)
{
    const bn_json *value = bn_json_get(rope, name);
    *out = preset;
    if (value == NULL || bn_json_kind(value) == BN_JSON_NULL) {
        if (!isnan(preset)) return BN_OK;
    } else if (bn_json_number(value, out) && *out > 0 && *out < 1e12) {
        return BN_OK;
    }
    return bn_fail_in(err, BN_ERR_FORMAT, CONFIG, "%s of the rope is missing or not a positive number", name);
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
    if (low >= high)
        return bn_fail_in(err, BN_ERR_FORMAT, CONFIG, "low_freq_factor is not below high_freq_factor");
    struct bn_cv_tensor *t;
    BN_TRY(bn_cv_add_tensor(f->plan, &t, err));
    f->plan->owned = bn_alloc(n, sizeof *f->plan->owned);
    if (f->plan->owned == NULL) return bn_nomem(err);
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
    return bn_fail_in(err, BN_ERR_FORMAT, CONFIG, "%s of the rope is not a list of %zu positive numbers",
                      name, n);
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
        return bn_fail_in(
            err, BN_ERR_UNSUPPORTED, CONFIG,
            "longrope with a context of %u tokens, more than the original %.0f, is not supported",
            f->hp.n_ctx, original);
    f->plan->owned = bn_alloc(2 * n, sizeof *f->plan->owned);
    if (f->plan->owned == NULL) return bn_nomem(err);
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

bn_status bn_cv_folder_rope(struct bn_cv_folder *f, bn_error *err)
{
    const bn_json *rope = bn_json_get(f->config, "rope_parameters");
    const bn_json *full = bn_json_get(rope, "full_attention"); /* Gemma: local layers have their own */
    double theta = f->arch->rope_theta, factor;
    (void)bn_json_number(bn_json_get(f->config, "rope_theta"), &theta);
    if (full != NULL) rope = full;
    if (rope == NULL || bn_json_kind(rope) != BN_JSON_OBJECT) rope = bn_json_get(f->config, "rope_scaling");
    (void)bn_json_number(bn_json_get(rope, "rope_theta"), &theta);
    if (!(theta > 0 && theta < 1e12))
        return bn_fail_in(err, BN_ERR_FORMAT, CONFIG, "rope_theta is missing or not a positive number");
    bn_gguf_put_f32(&f->plan->keys, ".rope.freq_base", (float)theta);
    const char *type = bn_json_text_of(rope, "rope_type");
    if (type[0] == '\0') type = bn_json_text_of(rope, "type");
    if (type[0] == '\0' || strcmp(type, "default") == 0) return BN_OK;
    if (strcmp(type, "yarn") == 0) return put_yarn(f, rope, err);
    if (strcmp(type, "longrope") == 0) return add_long_rope(f, rope, err);
    if (strcmp(type, "llama3") == 0) return add_llama3(f, rope, theta, err);
    if (strcmp(type, "linear") != 0)
        return bn_fail_in(err, BN_ERR_UNSUPPORTED, CONFIG,
                          "the rope scaling '%.40s' is not supported: linear, yarn, llama3 and longrope are",
                          type);
    BN_TRY(positive(rope, "factor", (double)NAN, &factor, err));
    bn_gguf_put_str(&f->plan->keys, ".rope.scaling.type", "linear", 6);
    bn_gguf_put_f32(&f->plan->keys, ".rope.scaling.factor", (float)factor);
    return BN_OK;
}

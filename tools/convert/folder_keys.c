/* SPDX-License-Identifier: MIT
 *
 * config.json to the keys of a GGUF file, named as llama.cpp's converter names them, and to the sizes that the
 * tensors must have.
 */
#include <stdio.h>
#include <strings.h>

#include "base/error.h"
#include "tools/convert/folder.h"

#define CONFIG "config.json"
#define QUANTIZATION_VERSION 2u

/* The first row that fits. BitNet 2B4T has the squared ReLU and is bitnet-b1.58; the earlier models have
 * SiLU and are bitnet. Their config.json may have the model_type llama, so the class comes first. */
static const struct bn_cv_arch ARCHS[] = {
    {"bitnet-b1.58", "BitNetForCausalLM", NULL, "relu2", .masters = true},
    {"bitnet", "BitNetForCausalLM", NULL, "silu", .masters = true},
    {"qwen3", NULL, "qwen3", "silu", .masters = false},
    {"llama", NULL, "llama", "silu", .masters = false},
    {"gemma3", NULL, "gemma3_text", "gelu_pytorch_tanh", .rope_theta = 1e6, .norm_shift = 1.0f,
     .put_own = bn_cv_gemma3_keys},
    {"minicpm", NULL, "minicpm", "silu", .rope_theta = 1e4, .put_own = bn_cv_minicpm_keys},
    {"qwen35", NULL, "qwen3_5_text", "silu", .norm_shift = 1.0f, .put_own = bn_cv_qwen35_keys},
};

static const char *text(const bn_json *object, const char *name)
{
    return bn_json_text_of(object, name);
}

const bn_json *bn_cv_folder_setting(const struct bn_cv_folder *f, const char *name)
{
    const bn_json *value = bn_json_get(f->config, name);
    return value != NULL ? value : bn_json_get(f->root, name);
}

static bn_status find_arch(struct bn_cv_folder *f, bn_error *err)
{
    const char *class_name = "", *type = text(f->config, "model_type");
    const char *activation = text(f->config, "hidden_act");
    if (activation[0] == '\0') activation = text(f->config, "hidden_activation");
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
    return bn_hint(
        bn_fail_in(err, BN_ERR_UNSUPPORTED, CONFIG,
                   "the architecture '%.60s' (model_type '%.40s', hidden_act '%.20s') is not supported",
                   class_name, type, activation),
        err, "supported are BitNetForCausalLM, Qwen3, Qwen3.5, Llama, Gemma 3 and MiniCPM");
}

/* ---- numbers ---- */

bn_status bn_cv_folder_number(const struct bn_cv_folder *f, const char *name, bool required, uint32_t *out,
                              bn_error *err)
{
    const bn_json *value = bn_json_get(f->config, name);
    uint64_t number = 0;
    if (!required && bn_json_kind(value) == BN_JSON_NULL) return BN_OK;
    if (bn_json_u64(value, &number) && number >= 1 && number <= 1u << 24) {
        *out = (uint32_t)number;
        return BN_OK;
    }
    return bn_fail_in(err, BN_ERR_FORMAT, CONFIG, "%s is %s", name,
                      value == NULL ? "missing" : "not a whole number from 1 to 16777216");
}

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
        BN_TRY(bn_cv_folder_number(f, SIZES[i].name, SIZES[i].required, SIZES[i].out, err));
    if (hp->n_head_kv == 0) hp->n_head_kv = hp->n_head;
    if (hp->n_layer > BN_MAX_LAYERS)
        return bn_fail_in(err, BN_ERR_LIMIT, CONFIG, "num_hidden_layers is over %u", BN_MAX_LAYERS);
    if (hp->head_dim != 0) return BN_OK;
    hp->head_dim = hp->n_embd / hp->n_head;
    if (hp->n_embd % hp->n_head == 0) return BN_OK;
    return bn_fail_in(err, BN_ERR_FORMAT, CONFIG, "num_attention_heads does not divide hidden_size");
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
    return bn_fail_in(err, BN_ERR_UNSUPPORTED, CONFIG,
                      hybrid ? "partial_rotary_factor %g does not give an even number of elements"
                             : "partial_rotary_factor %g is not supported, only 1",
                      share);
}

/* Settings that change the graph, and that no key of these architectures describes. */
static bn_status refuse_others(const struct bn_cv_folder *f, bn_error *err)
{
    if (bn_json_flag_of(f->config, "use_sliding_window"))
        return bn_fail_in(err, BN_ERR_UNSUPPORTED, CONFIG, "use_sliding_window is not supported");
    if (bn_json_get(f->root, "hadamard") == NULL || f->rotation != NULL) return BN_OK;
    return bn_hint(bn_fail_in(err, BN_ERR_UNSUPPORTED, CONFIG,
                              "it describes rotated weights, and there is no hadamard_packing.json"),
                   err, "convert the GGUF file of the model, whose keys describe the rotation");
}

/* ---- the two meanings of weight_scale ---- */

/* transformers' AutoBitLinear multiplies its output by weight_scale, its BitLinear divides by it. The class is
 * in quantization_config; BitLinear is the default. */
static bn_status read_quantization(struct bn_cv_folder *f, bn_error *err)
{
    const bn_json *q = bn_cv_folder_setting(f, "quantization_config");
    const char *method = text(q, "quant_method"), *class_name = text(q, "linear_class");
    f->bitnet = strcmp(method, "bitnet") == 0;
    if (method[0] != '\0' && !f->bitnet)
        return bn_fail_in(err, BN_ERR_UNSUPPORTED, CONFIG,
                          "the quant_method '%.40s' is not supported, only bitnet", method);
    if (bn_json_flag_of(q, "use_rms_norm"))
        return bn_fail_in(err, BN_ERR_UNSUPPORTED, CONFIG,
                          "use_rms_norm of quantization_config is not supported");
    if (class_name[0] != '\0' && strcmp(class_name, "bitlinear") != 0 &&
        strcmp(class_name, "autobitlinear") != 0)
        return bn_fail_in(err, BN_ERR_UNSUPPORTED, CONFIG,
                          "the linear_class '%.40s' is neither bitlinear nor autobitlinear", class_name);
    f->divides = strcmp(class_name, "autobitlinear") != 0;
    if (f->plan->options->weight_scale != 0) f->divides = f->plan->options->weight_scale == 2;
    return BN_OK;
}

/* ---- keys ---- */

static bn_status put_epsilon(struct bn_cv_folder *f, bn_error *err)
{
    double epsilon = bn_json_number_of(f->config, "rms_norm_eps");
    if (!(epsilon > 0 && epsilon < 1))
        return bn_fail_in(err, BN_ERR_FORMAT, CONFIG, "rms_norm_eps is missing or not between 0 and 1");
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
    BN_TRY(bn_cv_folder_rope(f, err));
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

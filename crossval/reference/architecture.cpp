// SPDX-License-Identifier: MIT
//
// Reads the keys of a model.
//
// gemma3 follows Gemma 3 (Gemma Team 2025) as its makers' code defines it: layer i is local unless i + 1 is a multiple
// of the period, a local layer sees the last `window` positions, its own among them, and has a rotation base of its
// own without any scaling. minicpm follows MiniCPM (Hu et al. 2024, table 1): embeddings times scale_emb, each half of
// a layer times scale_depth / sqrt(layers), logits of h / (width / dim_model_base). The keys hold scale_emb,
// scale_depth / sqrt(layers) and width / dim_model_base. Files without them are of the first models: 12, 1.4 and 256.
#include "architecture.hpp"

#include <cmath>
#include <utility>

#include "errors.hpp"

namespace ref
{

namespace
{

Activation activation_of(const std::string &name)
{
    if (name == "relu2" || name == "relu_squared" || name == "squared_relu") return Activation::Relu2;
    if (name == "silu" || name == "swish") return Activation::Silu;
    if (name == "gelu" || name == "gelu_pytorch_tanh") return Activation::Gelu;
    throw Unsupported("activation '" + name + "'");
}

} // namespace

Architecture::Architecture(const Gguf &file, const Faults &faults) : name(file.text("general.architecture"))
{
    choose(file, faults);
    read_sizes(file);
    eps = file.real(key("attention.layer_norm_rms_epsilon")) * (faults.epsilon ? 100 : 1);
    score_size = static_cast<double>(head_dim);
    read_rotation(file, faults);
    if (name == "gemma3") read_gemma(file, faults);
    if (name == "minicpm") read_minicpm(file, faults);
    if (name == "qwen35") read_qwen35(file);
    if (name == "maple") read_maple(file, faults);
    if (faults.no_embd_scale) embedding_scale = 1;
    if (faults.embd_scale) embedding_scale *= std::sqrt(static_cast<double>(n_embd));
    if (faults.no_sqrt) score_size = 1;
    if (faults.width_64) score_size = 64;
}

void Architecture::choose(const Gguf &file, const Faults &faults)
{
    const bool b158 = name == "bitnet-b1.58" || name == "bitnet-25", gemma = name == "gemma3";
    eight_bits = always_tied = b158 || name == "bitnet";
    const bool hybrid = name == "qwen35";
    float_training = name == "qwen3" || gemma || hybrid || name == "minicpm" || name == "maple";
    if (!eight_bits && !float_training && name != "llama") throw Unsupported("architecture '" + name + "'");
    rope_style =
        (name == "llama" || name == "minicpm") != faults.rope_norm ? RopeStyle::Norm : RopeStyle::Neox;
    activation = activation_of(file.text(key("hidden_activation"), b158 ? "relu2" : gemma ? "gelu" : "silu"));
    if (faults.silu) activation = activation == Activation::Silu ? Activation::Relu2 : Activation::Silu;
    if (faults.gelu_erf && activation == Activation::Gelu) activation = Activation::GeluErf;
    sub_norms = eight_bits && !faults.no_sub_norm;
    head_norms = (name == "qwen3" || gemma || hybrid || name == "maple") && !faults.no_head_norm;
    post_norms = gemma && !faults.no_post_norm;
    if (!eight_bits && (file.find("blk.0.attn_sub_norm.weight") || file.find("blk.0.ffn_sub_norm.weight")))
        throw Unsupported("inner norms in a file of architecture '" + name + "'");
    input_norms = file.find("blk.0.attn_q_norm_in.weight") != nullptr && !faults.no_input_norm;
    if (input_norms && eight_bits) throw Unsupported("inner norms and norms of inputs");
}

void Architecture::read_sizes(const Gguf &file)
{
    const auto count = [&](const std::string &suffix) {
        const std::uint64_t n = file.integer(key(suffix));
        if (n == 0 || n > 1 << 24) throw Malformed("key '" + key(suffix) + "' is out of range");
        return static_cast<std::size_t>(n);
    };
    const auto count_or = [&](const std::string &suffix, std::size_t otherwise) {
        return file.has(key(suffix)) ? count(suffix) : otherwise;
    };
    n_layers = count("block_count");
    n_embd = count("embedding_length");
    n_ff = count(name == "maple" ? "expert_feed_forward_length" : "feed_forward_length");
    n_head = count("attention.head_count");
    n_head_kv = count_or("attention.head_count_kv", n_head);
    head_dim = count_or("attention.key_length", n_embd / n_head);
    if (n_head % n_head_kv != 0)
        throw Malformed("the number of heads is not a multiple of the number of KV heads");
    if (count_or("attention.value_length", head_dim) != head_dim)
        throw Unsupported("keys and values of different length");
}

void Architecture::read_rotation(const Gguf &file, const Faults &faults)
{
    const auto real = [&](const std::string &suffix, double otherwise) {
        return file.real(key("rope." + suffix), otherwise);
    };
    std::size_t n_rot = static_cast<std::size_t>(file.integer(key("rope.dimension_count"), head_dim));
    if (faults.rope_all) n_rot = head_dim;
    if (n_rot == 0 || n_rot % 2 != 0 || n_rot > head_dim) throw Malformed("rope.dimension_count");
    const double base = real("freq_base", 10000.0) * (faults.rope_base ? 0.5 : 1);
    const std::string scaling = file.text(key("rope.scaling.type"), "none");
    if (scaling != "linear" && scaling != "yarn" && scaling != "longrope" && scaling != "none")
        throw Unsupported("rope scaling '" + scaling + "'");
    // LongRoPE (Ding et al. 2024) divides the frequencies by one list up to the original context and by another
    // one after it. Texts are shorter here.
    const Tensor *divisors = file.find("rope_freqs.weight");
    if (divisors == nullptr) divisors = file.find("rope_factors_short.weight");
    if (divisors == nullptr && (scaling == "longrope" || file.find("rope_factors_long.weight") != nullptr))
        throw Unsupported("LongRoPE without rope_factors_short.weight");
    if (divisors != nullptr && faults.long_factors) divisors = &file.tensor("rope_factors_long.weight");
    Row factors;
    if (divisors != nullptr && !faults.no_factors) factors = dense_vector(*divisors);
    if (!factors.empty() && factors.size() != n_rot / 2)
        throw Malformed("tensor '" + divisors->name + "' has the wrong size");
    local_rotation.frequencies =
        rope_frequencies(n_rot, real("freq_base_swa", name == "maple" ? base : 10000.0), 1, {});
    if (scaling != "yarn" || faults.no_yarn) {
        const double scale = scaling == "linear" ? 1 / real("scaling.factor", 1.0) : 1;
        rotation.frequencies = rope_frequencies(n_rot, base, scale, factors);
        return;
    }
    Yarn yarn;
    yarn.factor = real("scaling.factor", 1.0);
    yarn.original = static_cast<double>(
        file.integer(key("rope.scaling.original_context_length"), file.integer(key("context_length"), 0)));
    yarn.beta_fast = real("scaling.yarn_beta_fast", yarn.beta_fast);
    yarn.beta_slow = real("scaling.yarn_beta_slow", yarn.beta_slow);
    yarn.ext = real("scaling.yarn_ext_factor", yarn.ext);
    yarn.attn = real("scaling.attn_factor", 1.0) * real("scaling.yarn_attn_factor", 1.0);
    if (!(yarn.factor > 0) || !(yarn.original > 0) || !factors.empty())
        throw Unsupported("these keys of rope.scaling");
    rotation.frequencies = yarn_frequencies(n_rot, base, yarn);
    rotation.magnitude = faults.no_magnitude ? 1.0 : yarn_magnitude(yarn);
}

void Architecture::read_gemma(const Gguf &file, const Faults &faults)
{
    for (const char *capped : {"attn_logit_softcapping", "final_logit_softcapping"})
        if (file.real(key(capped), 0) != 0) throw Unsupported("key '" + key(capped) + "'");
    embedding_scale = std::sqrt(static_cast<double>(n_embd));
    // The length of a head, but in 27B, which has 62 layers, the share of a head in the width.
    if (n_layers == 62) score_size = static_cast<double>(n_embd / n_head);
    for (const char *scalar : {"query_pre_attn_scalar", "attention.query_pre_attn_scalar"})
        score_size = file.real(key(scalar), score_size);
    window = static_cast<std::size_t>(file.integer(key("attention.sliding_window"), 0));
    period = static_cast<std::size_t>(file.integer(key("attention.sliding_window_pattern"), 6));
    if (period == 0) throw Malformed("key '" + key("attention.sliding_window_pattern") + "' is 0");
    if (window != 0 && faults.swap_base) std::swap(rotation, local_rotation);
    if (window != 0 && faults.window) window++;
    if (window != 0 && faults.no_window) window = 1 << 24;
    if (faults.all_local) period = n_layers + 1;
}

void Architecture::read_minicpm(const Gguf &file, const Faults &faults)
{
    embedding_scale = file.real(key("embedding_scale"), 12);
    residual_scale = file.real(key("residual_scale"), 1.4 / std::sqrt(static_cast<double>(n_layers)));
    logit_divisor = file.real(key("logit_scale"), static_cast<double>(n_embd) / 256);
    if (!(logit_divisor > 0)) throw Malformed("key '" + key("logit_scale") + "' is not positive");
    if (faults.no_depth_scale) residual_scale = 1;
    if (faults.logit_scale) logit_divisor = 1 / logit_divisor;
}

// Qwen3.5. Layers that predict further tokens come last and belong to another graph. A list of flags says which layers
// are recurrent; without it, every fourth layer attends, or every one of another interval.
void Architecture::read_qwen35(const Gguf &file)
{
    const auto size = [&](const char *suffix) {
        const std::uint64_t n = file.integer(key(suffix));
        if (n == 0 || n > 1 << 20) throw Malformed("key '" + key(suffix) + "' is out of range");
        return static_cast<std::size_t>(n);
    };
    const std::size_t all = n_layers,
                      further = static_cast<std::size_t>(file.integer(key("nextn_predict_layers"), 0));
    const std::size_t interval = static_cast<std::size_t>(file.integer(key("full_attention_interval"), 4));
    taps = size("ssm.conv_kernel");
    state_dim = size("ssm.state_size");
    key_heads = size("ssm.group_count");
    value_heads = size("ssm.time_step_rank");
    gated_heads = true;
    if (further >= all || interval == 0) throw Malformed("the number of layers");
    if (value_heads % key_heads != 0 || size("ssm.inner_size") != value_heads * state_dim)
        throw Malformed("the sizes of the heads of recurrent layers");
    n_layers = all - further;
    const std::string list = key("attention.recurrent_layers");
    const std::vector<std::int64_t> flags =
        file.has(list) ? file.integers(list) : std::vector<std::int64_t>{};
    if (!flags.empty() && flags.size() != all) throw Malformed("key '" + list + "' has the wrong length");
    for (std::size_t i = 0; i < n_layers; i++)
        recurrent.push_back(flags.empty() ? (i + 1) % interval != 0 : flags[i] != 0);
}

// Maple. A flag for each layer says whether it is local. The limit is 7 in files that do not have it.
void Architecture::read_maple(const Gguf &file, const Faults &faults)
{
    const std::string limits = key("swiglu_clamp_exp"), flags = key("attention.sliding_window_pattern");
    experts = static_cast<std::size_t>(file.integer(key("expert_count")));
    experts_used = static_cast<std::size_t>(file.integer(key("expert_used_count")));
    window = static_cast<std::size_t>(file.integer(key("attention.sliding_window")));
    expert_limit = 7;
    if (file.has(limits)) expert_limit = file.reals(limits).at(0);
    if (experts == 0 || experts > 4096 || experts_used == 0 || experts_used > experts || window == 0)
        throw Malformed("the numbers of experts, or the window");
    for (const std::int64_t flag : file.integers(flags))
        local.push_back(flag != 0);
    if (local.size() != n_layers) throw Malformed("key '" + flags + "' has the wrong length");
    rope_is_local = !faults.rope_global;
    if (faults.window) window++;
    if (faults.no_window) window = 1 << 24;
}

} // namespace ref

// SPDX-License-Identifier: MIT
//
// The steps of the forward pass. With x the residual stream, a layer is
//
//   h = norm(x)             q, k, v = Wq h, Wk h, Wv h        q, k rotated by their positions
//   (qwen3: each head of q and k is normed before)
//   a = attention(q, k, v)  a = sub_norm(a) (BitNet)          x = x + Wo a
//   h = norm(x)             m = act(Wgate h) * (Wup h)        m = sub_norm(m) (BitNet)    x = x + Wdown m
//
// and the logits are head . norm(x). BitNet's inner norms come before Wo and Wdown because these inputs
// are rounded to eight bits next, and a norm keeps outliers from using up the range (Wang et al. 2023,
// "BitNet", SubLN). All W are ternary layers when the file stores them so; a matrix of floats is multiplied
// as it is, without rounding the activations.
#include "graph.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "errors.hpp"
#include "numbers.hpp"

namespace ref
{

namespace
{

// The name of a fault, and the switch that it turns on.
struct Named {
    const char *name;
    bool &(*of)(Faults &);
};
const Named faults_by_name[] = {
    {"silu", [](Faults &f) -> bool & { return f.silu; }},
    {"rope-norm", [](Faults &f) -> bool & { return f.rope_norm; }},
    {"no-sub-norm", [](Faults &f) -> bool & { return f.no_sub_norm; }},
    {"head-map", [](Faults &f) -> bool & { return f.head_map; }},
    {"code-map", [](Faults &f) -> bool & { return f.weights.code_map; }},
    {"scale", [](Faults &f) -> bool & { return f.weights.scale; }},
    {"block-64", [](Faults &f) -> bool & { return f.weights.block_64; }},
    {"position", [](Faults &f) -> bool & { return f.position; }},
    {"rope-base", [](Faults &f) -> bool & { return f.rope_base; }},
    {"epsilon", [](Faults &f) -> bool & { return f.epsilon; }},
    {"swap-k", [](Faults &f) -> bool & { return f.swap_k; }},
    {"swap-ffn", [](Faults &f) -> bool & { return f.swap_ffn; }},
    {"no-residual", [](Faults &f) -> bool & { return f.no_residual; }},
    {"sees-next", [](Faults &f) -> bool & { return f.sees_next; }},
    {"no-sqrt", [](Faults &f) -> bool & { return f.no_sqrt; }},
    {"head-q8", [](Faults &f) -> bool & { return f.head_q8; }},
    {"embd-scale", [](Faults &f) -> bool & { return f.embd_scale; }},
    {"no-bos", [](Faults &f) -> bool & { return f.no_bos; }},
    {"no-yarn", [](Faults &f) -> bool & { return f.no_yarn; }},
    {"no-magnitude", [](Faults &f) -> bool & { return f.no_magnitude; }},
    {"width-64", [](Faults &f) -> bool & { return f.width_64; }},
    {"no-head-norm", [](Faults &f) -> bool & { return f.no_head_norm; }},
    {"group-64", [](Faults &f) -> bool & { return f.weights.group_64; }},
    {"neighbour", [](Faults &f) -> bool & { return f.weights.neighbour; }},
    {"no-hadamard", [](Faults &f) -> bool & { return f.hadamard.ignored; }},
    {"no-signs", [](Faults &f) -> bool & { return f.hadamard.no_signs; }},
    {"signs-after", [](Faults &f) -> bool & { return f.hadamard.signs_after; }},
    {"no-inverse", [](Faults &f) -> bool & { return f.hadamard.no_inverse; }},
};

} // namespace

void plant(Faults &faults, const std::string &name)
{
    for (const Named &fault : faults_by_name) {
        if (name != fault.name) continue;
        fault.of(faults) = true;
        return;
    }
    throw Usage("unknown fault '" + name + "'");
}

std::string fault_names()
{
    std::string names = " ";
    std::size_t line = 0; // where it starts
    for (const Named &fault : faults_by_name) {
        const std::string name = std::string(" ") + fault.name;
        if (names.size() - line + name.size() > 78) {
            line = names.size() + 1;
            names += "\n ";
        }
        names += name;
    }
    return names;
}

void Table::set_row(std::size_t r, const Row &x)
{
    std::copy(x.begin(), x.end(), at(r));
}

// y = scale * (W x) + bias; most files have neither an extra scale nor a bias.
struct Graph::Linear {
    Matrix weight;
    bool transformed = false; // x is replaced by its Hadamard transform
    bool has_scale = false;
    double scale = 1;
    Row bias;
};

Graph::Graph(const Gguf &file, const Options &options) : file_(file), options_(options)
{
    const std::string arch = file.text("general.architecture");
    const bool b158 = arch == "bitnet-b1.58" || arch == "bitnet-25";
    const bool llama = arch == "llama";
    qwen_ = arch == "qwen3";
    bitnet_ = b158 || arch == "bitnet";
    if (!bitnet_ && !llama && !qwen_) throw Unsupported("architecture '" + arch + "'");
    const auto count = [&](const std::string &key) {
        const std::uint64_t n = file.integer(arch + "." + key);
        if (n == 0 || n > 1 << 24) throw Malformed("key '" + arch + "." + key + "' is out of range");
        return static_cast<std::size_t>(n);
    };
    const auto count_or = [&](const std::string &key, std::size_t otherwise) {
        return file.has(arch + "." + key) ? count(key) : otherwise;
    };
    n_layers_ = count("block_count");
    n_embd_ = count("embedding_length");
    n_ff_ = count("feed_forward_length");
    n_head_ = count("attention.head_count");
    n_head_kv_ = count_or("attention.head_count_kv", n_head_);
    head_dim_ = count_or("attention.key_length", n_embd_ / n_head_);
    if (n_head_ % n_head_kv_ != 0)
        throw Malformed("the number of heads is not a multiple of the number of KV heads");
    if (count_or("attention.value_length", head_dim_) != head_dim_)
        throw Unsupported("keys and values of different length");
    eps_ = file.real(arch + ".attention.layer_norm_rms_epsilon") * (options.faults.epsilon ? 100 : 1);

    read_rotation(arch);
    const bool norm_pairs = llama != options.faults.rope_norm;
    rope_style_ = norm_pairs ? RopeStyle::Norm : RopeStyle::Neox;

    const std::string activation = file.text(arch + ".hidden_activation", b158 ? "relu2" : "silu");
    const bool squared =
        activation == "relu2" || activation == "relu_squared" || activation == "squared_relu";
    if (!squared && activation != "silu" && activation != "swish")
        throw Unsupported("activation '" + activation + "'");
    squared_relu_ = squared != options.faults.silu;
    sub_norms_ = bitnet_ && !options.faults.no_sub_norm;
    head_norms_ = qwen_ && !options.faults.no_head_norm;
    if (!bitnet_ && (file.find("blk.0.attn_sub_norm.weight") || file.find("blk.0.ffn_sub_norm.weight")))
        throw Unsupported("inner norms in a file of architecture '" + arch + "'");

    hadamard_ = Hadamard(file, options.faults.hadamard);
    embedding_ = Matrix(file.tensor("token_embd.weight"), options.faults.weights);
    const Tensor *output = bitnet_ ? nullptr : file.find("output.weight");
    head_ = output != nullptr ? Matrix(*output, options.faults.weights) : embedding_;
    head_name_ = output != nullptr ? "output.weight" : "token_embd.weight";
    if (output == nullptr && hadamard_.has_inverse())
        throw Unsupported("a head that is the embedding, when that is stored transformed");
    if (embedding_.columns() != n_embd_ || head_.columns() != n_embd_ || head_.rows() != embedding_.rows())
        throw Malformed("the embedding or the head has the wrong size");
}

void Graph::read_rotation(const std::string &arch)
{
    const auto real = [&](const std::string &key, double otherwise) {
        return file_.real(arch + ".rope." + key, otherwise);
    };
    const std::size_t n_rot =
        static_cast<std::size_t>(file_.integer(arch + ".rope.dimension_count", head_dim_));
    if (n_rot == 0 || n_rot % 2 != 0 || n_rot > head_dim_) throw Malformed("rope.dimension_count");
    const double base = real("freq_base", 10000.0) * (options_.faults.rope_base ? 0.5 : 1);
    const std::string scaling = file_.text(arch + ".rope.scaling.type", "none");
    if (scaling != "linear" && scaling != "yarn" && scaling != "none")
        throw Unsupported("rope scaling '" + scaling + "'");
    Row factors;
    if (const Tensor *t = file_.find("rope_freqs.weight")) factors = dense_vector(*t);
    if (!factors.empty() && factors.size() != n_rot / 2)
        throw Malformed("tensor 'rope_freqs.weight' has the wrong size");
    if (scaling == "yarn" && !options_.faults.no_yarn) {
        Yarn yarn;
        yarn.factor = real("scaling.factor", 1.0);
        yarn.original = static_cast<double>(file_.integer(arch + ".rope.scaling.original_context_length",
                                                          file_.integer(arch + ".context_length", 0)));
        yarn.beta_fast = real("scaling.yarn_beta_fast", yarn.beta_fast);
        yarn.beta_slow = real("scaling.yarn_beta_slow", yarn.beta_slow);
        yarn.ext = real("scaling.yarn_ext_factor", yarn.ext);
        yarn.attn = real("scaling.attn_factor", 1.0) * real("scaling.yarn_attn_factor", 1.0);
        if (!(yarn.factor > 0) || !(yarn.original > 0) || !factors.empty())
            throw Unsupported("these keys of rope.scaling");
        frequencies_ = yarn_frequencies(n_rot, base, yarn);
        magnitude_ = options_.faults.no_magnitude ? 1.0 : yarn_magnitude(yarn);
    } else {
        const double scale = scaling == "linear" ? 1 / real("scaling.factor", 1.0) : 1;
        frequencies_ = rope_frequencies(n_rot, base, scale, factors);
    }
}

Table Graph::embed(const std::vector<std::uint32_t> &tokens) const
{
    Table x(tokens.size(), n_embd_);
    for (std::size_t p = 0; p < tokens.size(); p++) {
        if (tokens[p] >= n_vocab())
            throw Usage("token " + std::to_string(tokens[p]) + " is not in the vocabulary");
        const Row row = embedding_.dense_row(tokens[p]);
        x.set_row(p, hadamard_.has_inverse() ? hadamard_.embedding(row, options_.as) : row);
    }
    if (options_.faults.embd_scale)
        for (double &v : x.values)
            v *= std::sqrt(static_cast<double>(n_embd_));
    return x;
}

Graph::Linear Graph::linear(const std::string &name, std::size_t n_out, std::size_t n_in) const
{
    Linear layer;
    layer.weight = Matrix(file_.tensor(name + ".weight"), options_.faults.weights);
    layer.weight.recognise_ternary(qwen_);
    layer.transformed = hadamard_.has(name + ".weight");
    if (layer.weight.rows() != n_out || layer.weight.columns() != n_in)
        throw Malformed("tensor '" + name + ".weight' has the wrong size");
    if (const Tensor *scale = file_.find(name + ".scale")) {
        layer.scale = dense_vector(*scale).at(0);
        layer.has_scale = true;
    }
    if (const Tensor *bias = file_.find(name + ".bias")) layer.bias = dense_vector(*bias);
    if (!layer.bias.empty() && layer.bias.size() != n_out)
        throw Malformed("tensor '" + name + ".bias' has the wrong size");
    return layer;
}

bool Graph::eight_bits(const Matrix &weight) const
{
    switch (weight.type()) {
    case I2_S:
        return true;
    case TQ1_0:
    case TQ2_0:
        return bitnet_;
    case Q2_0:
    case PQ2_0:
    case PTQ1_0:
        return false;
    default:
        return weight.is_ternary() && !qwen_;
    }
}

Table Graph::apply_linear(const Linear &layer, const Table &input) const
{
    const bool eight = eight_bits(layer.weight);
    const bool sixteen = !eight && layer.weight.is_ternary() && options_.as == As::Engines;
    Table x = input;
    for (std::size_t p = 0; layer.transformed && p < x.rows; p++)
        x.set_row(p, hadamard_.input(input.row(p), options_.as));
    std::vector<Quantised> quantised;
    for (std::size_t p = 0; eight && p < x.rows; p++)
        quantised.push_back(quantise(x.row(p), options_.as));
    const auto finish = [&](double y, std::size_t r) {
        // Engines round here once more. Binary64 holds the product exactly, since 24 + 24 bits fit.
        if (layer.has_scale) y *= layer.scale;
        if (layer.has_scale && options_.as == As::Engines) y = static_cast<float>(y);
        if (!layer.bias.empty()) y += layer.bias[r];
        return y;
    };
    Table y(x.rows, layer.weight.rows());
    for (std::size_t r = 0; r < y.cols; r++) {
        if (eight) {
            const TernaryRow w = layer.weight.ternary_row(r);
            for (std::size_t p = 0; p < x.rows; p++)
                y.at(p)[r] =
                    finish(ternary_dot(w, layer.weight.has_block_scales(), quantised[p], options_.as), r);
        } else if (sixteen) {
            const TernaryRow w = layer.weight.ternary_row(r);
            for (std::size_t p = 0; p < x.rows; p++)
                y.at(p)[r] = finish(grouped_dot(w, x.row(p)), r);
        } else {
            const Row w = layer.weight.dense_row(r);
            for (std::size_t p = 0; p < x.rows; p++)
                y.at(p)[r] = finish(dot(w, x.row(p)), r);
        }
    }
    return y;
}

Step Graph::linear_step(const std::string &tensor, const std::string &output, const std::string &input,
                        std::size_t n_out, std::size_t n_in) const
{
    const auto layer = std::make_shared<Linear>(linear(tensor, n_out, n_in));
    const bool exact = layer->weight.is_ternary() && layer->bias.empty();
    return {output, {input}, n_out, exact, [this, layer](const std::vector<const Table *> &in) {
                return apply_linear(*layer, *in[0]);
            }};
}

Step Graph::norm_step(const std::string &tensor, const std::string &output, const std::string &input,
                      std::size_t n) const
{
    const Row weight = dense_vector(file_.tensor(tensor + ".weight"));
    if (weight.size() != n) throw Malformed("tensor '" + tensor + ".weight' has the wrong size");
    return {output, {input}, n, false, [weight, eps = eps_](const std::vector<const Table *> &in) {
                Table y(in[0]->rows, in[0]->cols);
                for (std::size_t p = 0; p < y.rows; p++)
                    y.set_row(p, rmsnorm(in[0]->row(p), weight, eps));
                return y;
            }};
}

// norm: the weights of the norm of each head before the rotation, one vector for all heads.
Step Graph::rope_step(const std::string &norm, const std::string &output, const std::string &input,
                      std::size_t n_heads) const
{
    Row weight;
    if (head_norms_) {
        weight = dense_vector(file_.tensor(norm + ".weight"));
        if (weight.size() != head_dim_) throw Malformed("tensor '" + norm + ".weight' has the wrong size");
    }
    const std::size_t ahead = options_.faults.position && n_heads == n_head_ ? 1 : 0;
    return {output,
            {input},
            n_heads * head_dim_,
            false,
            [this, n_heads, weight, ahead](const std::vector<const Table *> &in) {
                Table y = *in[0];
                for (std::size_t at = 0; at < n_heads * y.rows; at++) {
                    const std::size_t p = at / n_heads;
                    double *head = y.at(p) + at % n_heads * head_dim_;
                    if (!weight.empty()) {
                        const Row normed = rmsnorm(Row(head, head + head_dim_), weight, eps_);
                        std::copy(normed.begin(), normed.end(), head);
                    }
                    rope(head, frequencies_, static_cast<double>(p + ahead), rope_style_);
                    // Elements after the rotated ones keep their size.
                    for (std::size_t i = 0; i < 2 * frequencies_.size(); i++)
                        head[i] *= magnitude_;
                }
                return y;
            }};
}

// Grouped-query attention (Ainslie et al. 2023): n_head / n_head_kv neighbouring query heads share one head
// of keys and values. A position sees itself and those before it.
Step Graph::attention_step(const std::string &prefix) const
{
    return {prefix + "attn_out",
            {prefix + "q_rope", prefix + "k_rope", prefix + "v"},
            n_head_ * head_dim_,
            false,
            [this](const std::vector<const Table *> &in) {
                const Table &q = *in[0];
                Table k = *in[1], v = *in[2];
                if (options_.kv_in_half) {
                    for (double &x : k.values)
                        x = round_to_half(x);
                    for (double &x : v.values)
                        x = round_to_half(x);
                }
                const std::size_t group = n_head_ / n_head_kv_;
                const Faults &faults = options_.faults;
                Table out(q.rows, q.cols);
                for (std::size_t p = 0; p < q.rows; p++) {
                    const std::size_t seen = std::min(p + (faults.sees_next ? 2 : 1), q.rows);
                    for (std::size_t h = 0; h < n_head_; h++) {
                        const std::size_t kv = faults.head_map ? h % n_head_kv_ : h / group;
                        Row query(q.at(p) + h * head_dim_, q.at(p) + (h + 1) * head_dim_);
                        for (double &x : query)
                            x *= faults.no_sqrt    ? std::sqrt(static_cast<double>(head_dim_))
                                 : faults.width_64 ? std::sqrt(static_cast<double>(head_dim_) / 64)
                                                   : 1;
                        const Row head = attention(query.data(), k.at(0) + kv * head_dim_,
                                                   v.at(0) + kv * head_dim_, seen, head_dim_, k.cols);
                        std::copy(head.begin(), head.end(), out.at(p) + h * head_dim_);
                    }
                }
                return out;
            }};
}

// The gated unit of the feed-forward part (Shazeer 2020, "GLU variants"): act(gate) * up.
Step Graph::activation_step(const std::string &prefix) const
{
    return {prefix + "ffn_act",
            {prefix + "gate", prefix + "up"},
            n_ff_,
            false,
            [squared = squared_relu_](const std::vector<const Table *> &in) {
                Table y(in[0]->rows, in[0]->cols);
                for (std::size_t i = 0; i < y.values.size(); i++) {
                    const double gate = in[0]->values[i];
                    y.values[i] = (squared ? relu2(gate) : silu(gate)) * in[1]->values[i];
                }
                return y;
            }};
}

// The residual stream. Engines keep it in binary32.
Step Graph::sum_step(const std::string &output, const std::string &a, const std::string &b,
                     std::size_t n) const
{
    return {output, {a, b}, n, true, [this](const std::vector<const Table *> &in) {
                Table y = *in[0];
                for (std::size_t i = 0; i < y.values.size(); i++) {
                    y.values[i] += in[1]->values[i];
                    if (options_.as == As::Engines) y.values[i] = static_cast<float>(y.values[i]);
                }
                return y;
            }};
}

std::vector<Step> Graph::layer_steps(std::size_t layer) const
{
    const std::string blk = "blk." + std::to_string(layer) + ".";
    const std::string L = "L" + std::to_string(layer) + ".";
    const std::string x = layer == 0 ? "G.embd" : "L" + std::to_string(layer - 1) + ".ffn_res";
    const std::size_t n_q = n_head_ * head_dim_, n_kv = n_head_kv_ * head_dim_;
    std::vector<Step> s;
    s.push_back(norm_step(blk + "attn_norm", L + "attn_norm", x, n_embd_));
    s.push_back(linear_step(blk + "attn_q", L + "q", L + "attn_norm", n_q, n_embd_));
    s.push_back(linear_step(blk + "attn_k", L + "k", L + "attn_norm", n_kv, n_embd_));
    if (options_.faults.swap_k)
        s.back().apply = [plain = s.back().apply, this](const auto &in) {
            Table k = plain(in);
            for (std::size_t p = 0; p < k.rows; p++)
                for (std::size_t h = 0; h < n_head_kv_ / 2; h++)
                    std::swap_ranges(k.at(p) + h * head_dim_, k.at(p) + (h + 1) * head_dim_,
                                     k.at(p) + (n_head_kv_ - 1 - h) * head_dim_);
            return k;
        };
    s.push_back(linear_step(blk + "attn_v", L + "v", L + "attn_norm", n_kv, n_embd_));
    s.push_back(rope_step(blk + "attn_q_norm", L + "q_rope", L + "q", n_head_));
    s.push_back(rope_step(blk + "attn_k_norm", L + "k_rope", L + "k", n_head_kv_));
    s.push_back(attention_step(L));
    if (sub_norms_) s.push_back(norm_step(blk + "attn_sub_norm", L + "attn_sub_norm", L + "attn_out", n_q));
    s.push_back(linear_step(blk + "attn_output", L + "attn_o",
                            L + (sub_norms_ ? "attn_sub_norm" : "attn_out"), n_embd_, n_q));
    s.push_back(sum_step(L + "attn_res", x, L + "attn_o", n_embd_));
    if (options_.faults.no_residual) s.back().apply = [](const auto &in) { return *in[1]; };
    s.push_back(norm_step(blk + "ffn_norm", L + "ffn_norm", L + "attn_res", n_embd_));
    const bool swap = options_.faults.swap_ffn;
    s.push_back(
        linear_step(blk + (swap ? "ffn_up" : "ffn_gate"), L + "gate", L + "ffn_norm", n_ff_, n_embd_));
    s.push_back(linear_step(blk + (swap ? "ffn_gate" : "ffn_up"), L + "up", L + "ffn_norm", n_ff_, n_embd_));
    s.push_back(activation_step(L));
    if (sub_norms_) s.push_back(norm_step(blk + "ffn_sub_norm", L + "ffn_sub_norm", L + "ffn_act", n_ff_));
    s.push_back(linear_step(blk + "ffn_down", L + "down", L + (sub_norms_ ? "ffn_sub_norm" : "ffn_act"),
                            n_embd_, n_ff_));
    s.push_back(sum_step(L + "ffn_res", L + "attn_res", L + "down", n_embd_));
    return s;
}

Row Graph::head_row(std::size_t row) const
{
    Row w = head_.dense_row(row);
    for (std::size_t b = 0; options_.faults.head_q8 && b < w.size(); b += 32) {
        const std::size_t end = std::min(b + 32, w.size());
        double amax = 0;
        for (std::size_t i = b; i < end; i++)
            amax = std::max(amax, std::fabs(w[i]));
        for (std::size_t i = b; amax > 0 && i < end; i++)
            w[i] = round_half_even(w[i] / amax * 127) * amax / 127;
    }
    return w;
}

std::vector<Step> Graph::output_steps() const
{
    const std::string last = "L" + std::to_string(n_layers_ - 1) + ".ffn_res";
    const bool transformed = hadamard_.has(head_name_);
    const bool sixteen = head_.has_block_scales() && !options_.faults.head_q8;
    Step head{"G.logits",
              {"G.output_norm"},
              n_vocab(),
              sixteen,
              [this, transformed, sixteen](const std::vector<const Table *> &in) {
                  Table x = *in[0], y(x.rows, n_vocab());
                  for (std::size_t p = 0; transformed && p < x.rows; p++)
                      x.set_row(p, hadamard_.input(in[0]->row(p), options_.as));
                  for (std::size_t r = 0; r < y.cols; r++) {
                      if (sixteen && options_.as == As::Engines) {
                          const TernaryRow w = head_.ternary_row(r);
                          for (std::size_t p = 0; p < y.rows; p++)
                              y.at(p)[r] = grouped_dot(w, x.row(p));
                      } else {
                          const Row w = head_row(r);
                          for (std::size_t p = 0; p < y.rows; p++)
                              y.at(p)[r] = dot(w, x.row(p));
                      }
                  }
                  return y;
              }};
    return {norm_step("output_norm", "G.output_norm", last, n_embd_), head};
}

Table Graph::forward(const std::vector<std::uint32_t> &tokens, bool all, const Observer &observer) const
{
    if (tokens.empty()) throw Usage("no tokens given");
    if (!options_.faults.no_bos || tokens.size() < 2) return run_all(tokens, all, observer);
    const auto repeated = [](const Table &x) {
        Table y(x.rows + 1, x.cols);
        y.set_row(0, x.row(0));
        for (std::size_t r = 0; r < x.rows; r++)
            y.set_row(r + 1, x.row(r));
        return y;
    };
    const Observer outer = [&](const std::string &name, const Table &value) {
        if (observer) observer(name, repeated(value));
    };
    const Table logits = run_all({tokens.begin() + 1, tokens.end()}, all, outer);
    return all ? repeated(logits) : logits;
}

Table Graph::run_all(const std::vector<std::uint32_t> &tokens, bool all, const Observer &observer) const
{
    std::map<std::string, Table> values;
    const auto run = [&](const std::vector<Step> &steps) {
        for (const Step &step : steps) {
            std::vector<const Table *> inputs;
            for (const std::string &name : step.inputs)
                inputs.push_back(&values.at(name));
            Table &out = values[step.output] = step.apply(inputs);
            if (observer) observer(step.output, out);
        }
    };

    Table x = embed(tokens);
    if (observer) observer("G.embd", x);
    values["G.embd"] = std::move(x);
    for (std::size_t layer = 0; layer < n_layers_; layer++) {
        run(layer_steps(layer));
        const std::string last = "L" + std::to_string(layer) + ".ffn_res";
        Table residual = std::move(values.at(last));
        values.clear(); // only the residual stream is used again
        values[last] = std::move(residual);
    }
    if (!all) { // the head is the slowest step, and one row is enough
        Table &residual = values.begin()->second;
        Table one(1, residual.cols);
        one.set_row(0, residual.row(residual.rows - 1));
        residual = std::move(one);
    }
    run(output_steps());
    return values.at("G.logits");
}

} // namespace ref

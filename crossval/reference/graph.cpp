// SPDX-License-Identifier: MIT
//
// The steps of the forward pass. With x the residual stream, a layer is
//
//   h = norm(x)             q, k, v = Wq h, Wk h, Wv h        q, k rotated by their positions
//   (qwen3, gemma3: each head of q and k is normed before)
//   a = attention(q, k, v)  a = sub_norm(a) (BitNet)          x = x + post_norm(Wo a) (post_norm: gemma3)
//   h = norm(x)             m = act(Wgate h) * (Wup h)        m = sub_norm(m) (BitNet)
//                                                             x = x + post_norm(Wdown m)
//
// and the logits are head . norm(x). BitNet's inner norms come before Wo and Wdown because these inputs
// are rounded to eight bits next, and a norm keeps outliers from using up the range (Wang et al. 2023,
// "BitNet", SubLN). Embedding models have such a norm before each of the seven W, in place of sub_norm. All W
// are ternary layers when the file stores them so; a matrix of floats is multiplied as it is, without rounding
// the activations.
#include "graph.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "errors.hpp"
#include "numbers.hpp"

namespace ref
{

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

Graph::Graph(const Gguf &file, const Options &options)
    : file_(file), options_(options), arch_(file, options.faults),
      activations_(file.text("bn.activations", "")), hadamard_(file, options.faults.hadamard),
      embedding_(file.tensor("token_embd.weight"), options.faults.weights)
{
    if (!activations_.empty() && activations_ != "int8-token" && activations_ != "int16-group")
        throw Unsupported("key 'bn.activations' is '" + activations_ + "'");
    const Tensor *output = arch_.always_tied ? nullptr : file.find("output.weight");
    head_ = output != nullptr ? Matrix(*output, options.faults.weights) : embedding_;
    rotated_head_ = hadamard_.has_head("output.weight", output == nullptr);
    if (embedding_.columns() != arch_.n_embd || head_.columns() != arch_.n_embd ||
        head_.rows() != embedding_.rows())
        throw Malformed("the embedding or the head has the wrong size");
}

Table Graph::embed(const std::vector<std::uint32_t> &tokens) const
{
    const bool rounds = options_.as == As::Engines;
    const double scale = rounds ? static_cast<float>(arch_.embedding_scale) : arch_.embedding_scale;
    Table x(tokens.size(), arch_.n_embd);
    for (std::size_t p = 0; p < tokens.size(); p++) {
        if (tokens[p] >= n_vocab())
            throw Usage("token " + std::to_string(tokens[p]) + " is not in the vocabulary");
        const Row row = embedding_.dense_row(tokens[p]);
        x.set_row(p, hadamard_.has_inverse() ? hadamard_.embedding(row, options_.as) : row);
    }
    if (scale == 1) return x;
    for (double &v : x.values)
        v = rounds ? static_cast<float>(v * scale) : v * scale;
    return x;
}

Graph::Linear Graph::linear(const std::string &name, std::size_t n_out, std::size_t n_in) const
{
    Linear layer;
    layer.weight = Matrix(file_.tensor(name + ".weight"), options_.faults.weights);
    layer.weight.recognise_ternary(arch_.float_training);
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
    if (!activations_.empty()) return weight.is_ternary() && activations_ == "int8-token";
    switch (weight.type()) {
    case I2_S:
        return true;
    case TQ1_0:
    case TQ2_0:
        return arch_.eight_bits;
    case Q2_0:
    case PQ2_0:
    case PTQ1_0:
        return false;
    default:
        return weight.is_ternary() && !arch_.float_training;
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
                        std::size_t n_out, std::size_t n_in, double factor) const
{
    const auto layer = std::make_shared<Linear>(linear(tensor, n_out, n_in));
    if (factor != 1) {
        if (layer->has_scale) throw Unsupported("tensor '" + tensor + ".scale' with a factor of the model");
        layer->has_scale = true;
        layer->scale = options_.as == As::Engines ? static_cast<float>(factor) : factor;
    }
    const bool exact = layer->weight.is_ternary() && layer->bias.empty();
    return {output, {input}, n_out, exact, [this, layer](const std::vector<const Table *> &in) {
                return apply_linear(*layer, *in[0]);
            }};
}

Step Graph::norm_step(const std::string &tensor, const std::string &output, const std::string &input,
                      std::size_t n, double divisor) const
{
    Row weight = dense_vector(file_.tensor(tensor + ".weight"));
    if (weight.size() != n) throw Malformed("tensor '" + tensor + ".weight' has the wrong size");
    for (double &w : weight)
        w = (w + (options_.faults.norm_plus_one ? 1 : 0)) / divisor;
    return {output, {input}, n, false, [weight, eps = arch_.eps](const std::vector<const Table *> &in) {
                Table y(in[0]->rows, in[0]->cols);
                for (std::size_t p = 0; p < y.rows; p++)
                    y.set_row(p, rmsnorm(in[0]->row(p), weight, eps));
                return y;
            }};
}

// norm: the weights of the norm of each head before the rotation, one vector for all heads.
Step Graph::rope_step(const std::string &norm, const std::string &output, const std::string &input,
                      std::size_t n_heads, bool local) const
{
    const std::size_t d = arch_.head_dim;
    Row weight;
    if (arch_.head_norms) {
        weight = dense_vector(file_.tensor(norm + ".weight"));
        if (weight.size() != d) throw Malformed("tensor '" + norm + ".weight' has the wrong size");
    }
    const std::size_t ahead = options_.faults.position && n_heads == arch_.n_head ? 1 : 0;
    const bool rotated = local || !arch_.rope_is_local;
    const Rotation &rotation = local ? arch_.local_rotation : arch_.rotation;
    return {output,
            {input},
            n_heads * d,
            false,
            [this, n_heads, d, weight, ahead, rotated, &rotation](const std::vector<const Table *> &in) {
                Table y = *in[0];
                if (y.cols != n_heads * d) { // each head has a gate
                    y = Table(in[0]->rows, n_heads * d);
                    for (std::size_t at = 0; at < n_heads * y.rows; at++) {
                        const double *from = in[0]->at(at / n_heads) + place_in_q(at % n_heads, false);
                        std::copy(from, from + d, y.at(at / n_heads) + at % n_heads * d);
                    }
                }
                for (std::size_t at = 0; at < n_heads * y.rows; at++) {
                    const std::size_t p = at / n_heads;
                    double *head = y.at(p) + at % n_heads * d;
                    if (!weight.empty()) {
                        const Row normed = rmsnorm(Row(head, head + d), weight, arch_.eps);
                        std::copy(normed.begin(), normed.end(), head);
                    }
                    if (!rotated) continue;
                    rope(head, rotation.frequencies, static_cast<double>(p + ahead), arch_.rope_style);
                    // Elements after the rotated ones keep their size.
                    for (std::size_t i = 0; i < 2 * rotation.frequencies.size(); i++)
                        head[i] *= rotation.magnitude;
                }
                return y;
            }};
}

std::size_t Graph::place_in_q(std::size_t head, bool gate) const
{
    const std::size_t at = options_.faults.gate_halves ? head + (gate ? arch_.n_head : 0) : 2 * head + gate;
    return at * arch_.head_dim;
}

// What one head of queries sees: the positions up to its own, or the last of them in a local layer.
Row Graph::attend(const Table &q, const Table &k, const Table &v, std::size_t position, std::size_t head,
                  bool local) const
{
    const Faults &faults = options_.faults;
    const std::size_t d = arch_.head_dim, group = arch_.n_head / arch_.n_head_kv;
    const std::size_t kv = (faults.head_map ? head % arch_.n_head_kv : head / group) * d;
    const std::size_t end = std::min(position + (faults.sees_next ? 2 : 1), q.rows);
    const std::size_t begin = local && position >= arch_.window ? position - arch_.window + 1 : 0;
    Row query(q.at(position) + head * d, q.at(position) + (head + 1) * d);
    for (double &x : query) // attention() divides by the root of d
        x *= std::sqrt(static_cast<double>(d) / arch_.score_size);
    return attention(query.data(), k.at(begin) + kv, v.at(begin) + kv, end - begin, d, k.cols);
}

// Grouped-query attention (Ainslie et al. 2023): n_head / n_head_kv neighbouring query heads share one head
// of keys and values.
Step Graph::attention_step(const std::string &prefix, bool local) const
{
    return {prefix + "attn_out",
            {prefix + "q_rope", prefix + "k_rope", prefix + "v", prefix + "q"},
            arch_.n_head * arch_.head_dim,
            false,
            [this, local](const std::vector<const Table *> &in) {
                const Table &q = *in[0];
                Table k = *in[1], v = *in[2];
                for (Table *kept : {&k, &v})
                    for (double &x : kept->values)
                        if (options_.kv_in_half) x = round_to_half(x);
                Table out(q.rows, q.cols);
                for (std::size_t p = 0; p < q.rows; p++)
                    for (std::size_t h = 0; h < arch_.n_head; h++) {
                        Row head = attend(q, k, v, p, h, local);
                        const double *gate = in[3]->at(p) + (arch_.gated_heads ? place_in_q(h, true) : 0);
                        for (std::size_t i = 0; arch_.gated_heads && i < head.size(); i++)
                            head[i] /= 1 + std::exp(-gate[i]);
                        std::copy(head.begin(), head.end(), out.at(p) + h * arch_.head_dim);
                    }
                return out;
            }};
}

static double (*function_of(Activation activation))(double)
{
    switch (activation) {
    case Activation::Relu2:
        return relu2;
    case Activation::Silu:
        return silu;
    case Activation::Gelu:
        return gelu;
    case Activation::GeluErf:
        return gelu_erf;
    }
    throw Unsupported("this activation");
}

// The gated unit of the feed-forward part (Shazeer 2020, "GLU variants"): act(gate) * up.
Step Graph::activation_step(const std::string &prefix) const
{
    return {prefix + "ffn_act",
            {prefix + "gate", prefix + "up"},
            arch_.n_ff,
            false,
            [f = function_of(arch_.activation)](const std::vector<const Table *> &in) {
                Table y(in[0]->rows, in[0]->cols);
                for (std::size_t i = 0; i < y.values.size(); i++)
                    y.values[i] = f(in[0]->values[i]) * in[1]->values[i];
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

std::string Graph::normed_inputs(std::vector<Step> &steps, std::size_t layer, const std::string &part,
                                 const std::string &input, std::size_t n) const
{
    if (!arch_.input_norms) return input;
    const bool shared = part == "attn_k" || part == "attn_v" || part == "ffn_up";
    const std::string norm =
        (options_.faults.one_input_norm && shared ? part[0] == 'a' ? "attn_q" : "ffn_gate" : part) +
        "_norm_in";
    const std::string output = "L" + std::to_string(layer) + "." + part + "_norm_in";
    steps.push_back(norm_step("blk." + std::to_string(layer) + "." + norm, output, input, n));
    return output;
}

void Graph::attention_half(std::vector<Step> &s, std::size_t layer, const std::string &x) const
{
    const std::string blk = "blk." + std::to_string(layer) + ".", L = "L" + std::to_string(layer) + ".";
    const std::size_t d = arch_.head_dim, n_q = arch_.n_head * d, n_kv = arch_.n_head_kv * d,
                      n = arch_.n_embd;
    const bool local = arch_.is_local(layer);
    s.push_back(norm_step(blk + "attn_norm", L + "attn_norm", x, n));
    for (const char *name : {"q", "k", "v"}) {
        const std::string part = std::string("attn_") + name;
        const std::string inputs = normed_inputs(s, layer, part, L + "attn_norm", n);
        const std::size_t n_of_q = arch_.gated_heads ? 2 * n_q : n_q;
        s.push_back(linear_step(blk + part, L + name, inputs, *name == 'q' ? n_of_q : n_kv, n));
        if (*name != 'k' || !options_.faults.swap_k) continue;
        s.back().apply = [plain = s.back().apply, d, n_heads = arch_.n_head_kv](const auto &in) {
            Table k = plain(in);
            for (std::size_t p = 0; p < k.rows; p++)
                for (std::size_t h = 0; h < n_heads / 2; h++)
                    std::swap_ranges(k.at(p) + h * d, k.at(p) + (h + 1) * d, k.at(p) + (n_heads - 1 - h) * d);
            return k;
        };
    }
    s.push_back(rope_step(blk + "attn_q_norm", L + "q_rope", L + "q", arch_.n_head, local));
    s.push_back(rope_step(blk + "attn_k_norm", L + "k_rope", L + "k", arch_.n_head_kv, local));
    s.push_back(attention_step(L, local));
    if (arch_.sub_norms)
        s.push_back(norm_step(blk + "attn_sub_norm", L + "attn_sub_norm", L + "attn_out", n_q));
    const std::string inputs =
        normed_inputs(s, layer, "attn_output", L + (arch_.sub_norms ? "attn_sub_norm" : "attn_out"), n_q);
    s.push_back(linear_step(blk + "attn_output", L + "attn_o", inputs, n, n_q, arch_.residual_scale));
    std::string added = L + "attn_o";
    if (arch_.post_norms) {
        s.push_back(norm_step(blk + "post_attention_norm", L + "post_attention_norm", added, n));
        added = s.back().output;
    }
    s.push_back(sum_step(L + "attn_res", x, added, n));
    if (options_.faults.no_residual) s.back().apply = [](const auto &in) { return *in[1]; };
}

void Graph::feed_forward_half(std::vector<Step> &s, std::size_t layer) const
{
    const std::string blk = "blk." + std::to_string(layer) + ".", L = "L" + std::to_string(layer) + ".";
    const std::size_t n = arch_.n_embd, n_ff = arch_.n_ff;
    const bool swap = options_.faults.swap_ffn;
    s.push_back(norm_step(blk + (arch_.gated_heads ? "post_attention_norm" : "ffn_norm"), L + "ffn_norm",
                          L + "attn_res", n));
    std::string inputs = normed_inputs(s, layer, "ffn_gate", L + "ffn_norm", n);
    s.push_back(linear_step(blk + (swap ? "ffn_up" : "ffn_gate"), L + "gate", inputs, n_ff, n));
    inputs = normed_inputs(s, layer, "ffn_up", L + "ffn_norm", n);
    s.push_back(linear_step(blk + (swap ? "ffn_gate" : "ffn_up"), L + "up", inputs, n_ff, n));
    s.push_back(activation_step(L));
    if (arch_.sub_norms)
        s.push_back(norm_step(blk + "ffn_sub_norm", L + "ffn_sub_norm", L + "ffn_act", n_ff));
    inputs = normed_inputs(s, layer, "ffn_down", L + (arch_.sub_norms ? "ffn_sub_norm" : "ffn_act"), n_ff);
    s.push_back(linear_step(blk + "ffn_down", L + "down", inputs, n, n_ff, arch_.residual_scale));
    std::string added = L + "down";
    if (arch_.post_norms) {
        s.push_back(norm_step(blk + "post_ffw_norm", L + "post_ffw_norm", added, n));
        added = s.back().output;
    }
    s.push_back(sum_step(L + "ffn_res", L + "attn_res", added, n));
}

std::vector<Step> Graph::layer_steps(std::size_t layer) const
{
    std::vector<Step> steps;
    const std::string x = layer == 0 ? "G.embd" : "L" + std::to_string(layer - 1) + ".ffn_res";
    if (arch_.is_recurrent(layer))
        recurrent_half(steps, layer, x);
    else
        attention_half(steps, layer, x);
    if (arch_.experts > 0)
        expert_half(steps, layer);
    else
        feed_forward_half(steps, layer);
    return steps;
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
    const std::string last = "L" + std::to_string(arch_.n_layers - 1) + ".ffn_res";
    const bool sixteen = head_.has_block_scales() && !options_.faults.head_q8;
    Step head{"G.logits",
              {"G.output_norm"},
              n_vocab(),
              sixteen,
              [this, sixteen](const std::vector<const Table *> &in) {
                  Table x = *in[0], y(x.rows, n_vocab());
                  for (std::size_t p = 0; rotated_head_ && p < x.rows; p++)
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
    return {norm_step("output_norm", "G.output_norm", last, arch_.n_embd, arch_.logit_divisor), head};
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
    for (std::size_t layer = 0; layer < arch_.n_layers; layer++) {
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

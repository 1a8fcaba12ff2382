// SPDX-License-Identifier: MIT
//
// The transformer as a list of named steps. One list serves two purposes: run from the token ids, each step
// fed by the steps before it, it is the forward pass. Run step by step on the recorded inputs of
// another engine, it checks that engine operation by operation.
//
// architecture.hpp has what differs between architectures.
//
// Ternary layers round their inputs to eight bits where the models were trained so: in the bitnet
// architectures, and in every I2_S file. Layers with block scales in other models do not round: that is the
// exact model. As engines compute them, their inputs have 16 bits. The key bn.activations outranks this.
#ifndef REFERENCE_GRAPH_HPP
#define REFERENCE_GRAPH_HPP

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "architecture.hpp"
#include "faults.hpp"
#include "gguf.hpp"
#include "hadamard.hpp"
#include "ops.hpp"
#include "weights.hpp"

namespace ref
{

// One row per position.
struct Table {
    Table() = default;
    Table(std::size_t n_rows, std::size_t n_cols) : rows(n_rows), cols(n_cols), values(n_rows * n_cols)
    {
    }
    std::size_t rows = 0, cols = 0;
    std::vector<double> values;

    double *at(std::size_t row)
    {
        return values.data() + row * cols;
    }
    const double *at(std::size_t row) const
    {
        return values.data() + row * cols;
    }
    Row row(std::size_t r) const
    {
        return Row(at(r), at(r) + cols);
    }
    void set_row(std::size_t r, const Row &x);
};

struct Options {
    As as = As::Binary64;
    bool kv_in_half = true; // keys and values are kept in binary16, as engines keep them
    Faults faults;
};

struct Step {
    std::string output;              // "L3.attn_norm", "G.logits"
    std::vector<std::string> inputs; // outputs of other steps
    std::size_t columns;             // of the output
    bool exact;                      // a ternary layer, a sum: engines must agree to the bit
    std::function<Table(const std::vector<const Table *> &)> apply;
};

class Graph
{
  public:
    Graph(const Gguf &file, const Options &options);
    Graph(const Graph &) = delete;
    Graph &operator=(const Graph &) = delete;

    std::size_t n_layers() const
    {
        return arch_.n_layers;
    }
    std::size_t n_vocab() const
    {
        return embedding_.rows();
    }
    std::size_t n_embd() const
    {
        return arch_.n_embd;
    }
    std::string architecture() const
    {
        return arch_.name;
    }

    Table embed(const std::vector<std::uint32_t> &tokens) const; // "G.embd"
    std::vector<Step> layer_steps(std::size_t layer) const;
    std::vector<Step> output_steps() const; // "G.output_norm", "G.logits"

    using Observer = std::function<void(const std::string &name, const Table &value)>;
    // The logits of all positions, or of the last one only. The observer, if any, is called for every step.
    Table forward(const std::vector<std::uint32_t> &tokens, bool all, const Observer &observer = {}) const;

  private:
    struct Linear;
    struct Recurrent;
    struct Choice;
    Linear linear(const std::string &name, std::size_t n_out, std::size_t n_in) const;
    // factor: of the outputs, once more after the layer's own.
    Step linear_step(const std::string &tensor, const std::string &output, const std::string &input,
                     std::size_t n_out, std::size_t n_in, double factor = 1) const;
    Step norm_step(const std::string &tensor, const std::string &output, const std::string &input,
                   std::size_t n, double divisor = 1) const;
    Step rope_step(const std::string &norm, const std::string &output, const std::string &input,
                   std::size_t n_heads, bool local) const;
    bool eight_bits(const Matrix &weight) const;
    Step attention_step(const std::string &prefix, bool local) const;
    // Without the gates of heads: where a head of queries, or its gate, is in a row of attn_q.
    std::size_t place_in_q(std::size_t head, bool gate) const;
    Row attend(const Table &q, const Table &k, const Table &v, std::size_t position, std::size_t head,
               bool local) const;
    Step activation_step(const std::string &prefix) const;
    Step sum_step(const std::string &output, const std::string &a, const std::string &b, std::size_t n) const;
    Table apply_linear(const Linear &layer, const Table &x) const;
    void attention_half(std::vector<Step> &steps, std::size_t layer, const std::string &x) const;
    // recurrent.cpp
    Step convolution_step(const std::string &blk, const std::string &prefix) const;
    Step delta_step(const std::string &blk, const std::string &prefix) const;
    void run_head(const Recurrent &w, std::size_t head, const Table &c, const Table &h, Table &out) const;
    Row gate_heads(const Recurrent &w, const Row &o, const Row &z) const;
    void recurrent_half(std::vector<Step> &steps, std::size_t layer, const std::string &x) const;
    // experts.cpp
    Choice choose_experts(const Row &logits) const;
    double expert_dot(const Matrix &w, std::size_t r, const Row &x) const;
    Step router_step(const std::string &blk, const std::string &prefix) const;
    Step expert_step(const std::string &blk, const std::string &prefix) const;
    Step expert_sum_step(const std::string &blk, const std::string &prefix) const;
    void expert_half(std::vector<Step> &steps, std::size_t layer) const;
    void feed_forward_half(std::vector<Step> &steps, std::size_t layer) const;
    // The name of the inputs of a linear layer: of their norm, which is appended, when the model has such norms.
    std::string normed_inputs(std::vector<Step> &steps, std::size_t layer, const std::string &part,
                              const std::string &input, std::size_t n) const;
    Row head_row(std::size_t row) const;
    Table run_all(const std::vector<std::uint32_t> &tokens, bool all, const Observer &observer) const;

    const Gguf &file_;
    Options options_;
    Architecture arch_;
    std::string activations_; // the key bn.activations, or nothing
    Hadamard hadamard_;
    Matrix embedding_, head_;
    bool rotated_head_ = false;
};

} // namespace ref

#endif

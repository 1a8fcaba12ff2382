// SPDX-License-Identifier: MIT
//
// The transformer as a list of named steps. One list serves two purposes: run from the token ids, each step
// fed by the steps before it, it is the forward pass. Run step by step on the recorded inputs of
// another engine, it checks that engine operation by operation.
//
// Four architectures (general.architecture):
//   bitnet-b1.58, bitnet-25   squared ReLU, Neox rotation, norms before Wo and Wdown, head = embedding
//   bitnet                    the same with SiLU
//   llama                     SiLU, Norm rotation, no inner norms, a head of its own or the embedding
//   qwen3                     as llama, with Neox rotation and a norm of each head of queries and keys
//
// Ternary layers round their inputs to eight bits where the models were trained so: in the bitnet
// architectures, and in every I2_S file. Layers with block scales in other models do not round: that is the
// exact model. As engines compute them, their inputs have 16 bits.
#ifndef REFERENCE_GRAPH_HPP
#define REFERENCE_GRAPH_HPP

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

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

// Deliberate mistakes of the whole graph, for tests.
struct Faults {
    bool silu = false;         // SiLU where squared ReLU belongs, and the other way round
    bool rope_norm = false;    // the other pairing of elements in the rotation
    bool no_sub_norm = false;  // leaves out the inner norms
    bool head_map = false;     // query head h looks at KV head h mod n_head_kv
    bool position = false;     // queries are rotated for the next position
    bool rope_base = false;    // the rotation's base is half of the file's
    bool epsilon = false;      // the epsilon of the norms is a hundred times too large
    bool swap_k = false;       // the heads of the keys are in reverse order
    bool swap_ffn = false;     // gate and up are exchanged
    bool no_residual = false;  // attention's output replaces the residual stream
    bool sees_next = false;    // attention also sees the next position
    bool no_sqrt = false;      // scores are not divided by the root of the head's length
    bool head_q8 = false;      // the head's weights are rounded to eight bits, 32 per scale
    bool embd_scale = false;   // embeddings are multiplied by the root of their length, as in Gemma
    bool no_bos = false;       // the first token is not evaluated; its row repeats the second's
    bool no_yarn = false;      // the rotation is that of a file without YaRN
    bool no_magnitude = false; // YaRN without the factor of the rotated elements
    bool width_64 = false;     // scores are divided by the root of 64, whatever the length of the head
    bool no_head_norm = false; // leaves out the norms of the heads
    HadamardFault hadamard;
    WeightFault weights;
};

// Turns the fault of this name ("rope-norm") on, or throws Usage. fault_names() is for help texts.
void plant(Faults &faults, const std::string &name);
std::string fault_names();

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
        return n_layers_;
    }
    std::size_t n_vocab() const
    {
        return embedding_.rows();
    }
    std::size_t n_embd() const
    {
        return n_embd_;
    }
    std::string architecture() const
    {
        return file_.text("general.architecture");
    }

    Table embed(const std::vector<std::uint32_t> &tokens) const; // "G.embd"
    std::vector<Step> layer_steps(std::size_t layer) const;
    std::vector<Step> output_steps() const; // "G.output_norm", "G.logits"

    using Observer = std::function<void(const std::string &name, const Table &value)>;
    // The logits of all positions, or of the last one only. The observer, if any, is called for every step.
    Table forward(const std::vector<std::uint32_t> &tokens, bool all, const Observer &observer = {}) const;

  private:
    struct Linear;
    Linear linear(const std::string &name, std::size_t n_out, std::size_t n_in) const;
    Step linear_step(const std::string &tensor, const std::string &output, const std::string &input,
                     std::size_t n_out, std::size_t n_in) const;
    Step norm_step(const std::string &tensor, const std::string &output, const std::string &input,
                   std::size_t n) const;
    Step rope_step(const std::string &norm, const std::string &output, const std::string &input,
                   std::size_t n_heads) const;
    void read_rotation(const std::string &arch);
    bool eight_bits(const Matrix &weight) const;
    Step attention_step(const std::string &prefix) const;
    Step activation_step(const std::string &prefix) const;
    Step sum_step(const std::string &output, const std::string &a, const std::string &b, std::size_t n) const;
    Table apply_linear(const Linear &layer, const Table &x) const;
    Row head_row(std::size_t row) const;
    Table run_all(const std::vector<std::uint32_t> &tokens, bool all, const Observer &observer) const;

    const Gguf &file_;
    Options options_;
    std::size_t n_layers_, n_embd_, n_ff_, n_head_, n_head_kv_, head_dim_;
    double eps_;
    Row frequencies_;
    double magnitude_ = 1; // of rotated elements
    RopeStyle rope_style_;
    bool bitnet_, qwen_;
    bool squared_relu_;
    bool sub_norms_, head_norms_;
    Hadamard hadamard_;
    Matrix embedding_, head_;
    std::string head_name_;
};

} // namespace ref

#endif

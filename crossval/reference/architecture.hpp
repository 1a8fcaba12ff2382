// SPDX-License-Identifier: MIT
//
// What differs between architectures (general.architecture), and the sizes and constants of one model:
//
//   bitnet-b1.58, bitnet-25   squared ReLU, Neox rotation, norms before Wo and Wdown, head = embedding
//   bitnet                    the same with SiLU
//   llama                     SiLU, Norm rotation, no inner norms, a head of its own or the embedding
//   qwen3                     as llama, with Neox rotation and a norm of each head of queries and keys
//   gemma3                    as qwen3 with GELU; embeddings times the root of their length; norms after attention
//                             and feed-forward; most layers see the last positions only, with another rotation
//   minicpm                   as llama; embeddings, the halves of a layer and the logits are multiplied
//   qwen35                    as qwen3, but most layers have the gated delta rule in place of attention (recurrent.cpp),
//                             and the heads of the others have gates
//   maple                     as qwen3, but only local layers rotate, and the others see all positions; a router chooses
//                             some of many feed-forward parts for each token (experts.cpp)
//
// Any of them that has no inner norms may have a norm of the inputs of each linear layer (embedding models).
#ifndef REFERENCE_ARCHITECTURE_HPP
#define REFERENCE_ARCHITECTURE_HPP

#include <string>
#include <vector>

#include "faults.hpp"
#include "gguf.hpp"
#include "ops.hpp"

namespace ref
{

enum class Activation { Relu2, Silu, Gelu, GeluErf };

struct Rotation {
    Row frequencies;      // radians per position, one for each pair
    double magnitude = 1; // of rotated elements
};

struct Architecture {
    std::string name;
    std::size_t n_layers = 0, n_embd = 0, n_ff = 0, n_head = 0, n_head_kv = 0, head_dim = 0;
    double eps = 0;
    Activation activation = Activation::Silu;
    RopeStyle rope_style = RopeStyle::Norm;
    Rotation rotation, local_rotation;
    std::size_t window = 0, period = 0; // positions that local layers see, 0: there are none; every period-th
                                        // layer is not local
    double score_size = 0;              // scores are divided by the root of this
    double embedding_scale = 1;
    double residual_scale = 1; // of what attention and feed-forward add
    double logit_divisor = 1;
    // qwen35: layers with the gated delta rule, their sizes
    std::vector<bool> recurrent;
    std::size_t taps = 0, state_dim = 0, key_heads = 0, value_heads = 0;
    // maple: experts of a layer and of a token, the limit of gate and up, which layers are local
    std::size_t experts = 0, experts_used = 0;
    double expert_limit = 0;
    std::vector<bool> local;
    bool rope_is_local = false; // only local layers rotate
    bool gated_heads = false;   // attn_q has a gate after each head
    bool sub_norms = false, head_norms = false, post_norms = false, input_norms = false;
    bool always_tied = false;    // the head is the embedding even when there is another
    bool eight_bits = false;     // activations had eight bits in training, whatever the type of the weights
    bool float_training = false; // activations were floats in training, whatever the type but I2_S

    Architecture() = default;
    Architecture(const Gguf &file, const Faults &faults);
    bool is_local(std::size_t layer) const
    {
        if (!local.empty()) return local[layer];
        return window != 0 && (layer + 1) % period != 0;
    }

    bool is_recurrent(std::size_t layer) const
    {
        return layer < recurrent.size() && recurrent[layer];
    }
    // Elements of q, k and v of such a layer together.
    std::size_t mixed() const
    {
        return (2 * key_heads + value_heads) * state_dim;
    }

  private:
    std::string key(const std::string &suffix) const
    {
        return name + "." + suffix;
    }
    void choose(const Gguf &file, const Faults &faults);
    void read_sizes(const Gguf &file);
    void read_rotation(const Gguf &file, const Faults &faults);
    void read_gemma(const Gguf &file, const Faults &faults);
    void read_minicpm(const Gguf &file, const Faults &faults);
    void read_qwen35(const Gguf &file);
    void read_maple(const Gguf &file, const Faults &faults);
};

} // namespace ref

#endif

// SPDX-License-Identifier: MIT
//
// Deliberate mistakes, for tests that must detect them. main.cpp has their names.
#ifndef REFERENCE_FAULTS_HPP
#define REFERENCE_FAULTS_HPP

#include "hadamard.hpp"
#include "weights.hpp"

namespace ref
{

struct Faults {
    bool silu = false;           // SiLU where another activation belongs, and squared ReLU where SiLU does
    bool rope_norm = false;      // the other pairing of elements in the rotation
    bool no_sub_norm = false;    // leaves out the inner norms
    bool head_map = false;       // query head h looks at KV head h mod n_head_kv
    bool position = false;       // queries are rotated for the next position
    bool rope_base = false;      // the rotation's base is half of the file's
    bool epsilon = false;        // the epsilon of the norms is a hundred times too large
    bool swap_k = false;         // the heads of the keys are in reverse order
    bool swap_ffn = false;       // gate and up are exchanged
    bool no_residual = false;    // attention's output replaces the residual stream
    bool sees_next = false;      // attention also sees the next position
    bool no_sqrt = false;        // scores are not divided by the root of the head's length
    bool head_q8 = false;        // the head's weights are rounded to eight bits, 32 per scale
    bool embd_scale = false;     // embeddings are multiplied by the root of their length, as in Gemma
    bool no_bos = false;         // the first token is not evaluated; its row repeats the second's
    bool no_yarn = false;        // the rotation is that of a file without YaRN
    bool no_magnitude = false;   // YaRN without the factor of the rotated elements
    bool width_64 = false;       // scores are divided by the root of 64, whatever the length of the head
    bool no_head_norm = false;   // leaves out the norms of the heads
    bool no_embd_scale = false;  // embeddings are not multiplied, where the architecture does so
    bool window = false;         // local layers see one position more
    bool no_window = false;      // local layers see all positions; they keep their rotation
    bool all_local = false;      // every layer is local
    bool swap_base = false;      // local layers rotate with the base of the others, and the other way round
    bool no_post_norm = false;   // leaves out the norms after attention and feed-forward
    bool gelu_erf = false;       // GELU by the error function in place of its approximation
    bool norm_plus_one = false;  // adds 1 to the weights of norms, which files contain already
    bool no_depth_scale = false; // the halves of a layer are added as they are
    bool logit_scale = false;    // logits are multiplied by the divisor
    bool no_input_norm = false;  // leaves out the norms of inputs
    bool one_input_norm = false; // k and v take the normed inputs of q, up those of gate
    bool long_factors = false;   // LongRoPE with the factors for long texts
    bool no_factors = false;     // frequencies are not divided
    // of qwen35
    bool grouped_heads = false; // value head j belongs to key head j / (value heads of a key head)
    bool late_update = false;   // the state is read before it takes the token in
    bool no_key_root = false;   // q is not divided by the root of its size
    bool gate_halves = false;   // the gates are the second half of attn_q
    bool rope_all = false;      // the whole head is rotated
    bool unordered_out = false; // the inputs of a transformed ssm_out are in the order of the heads
    // of maple
    bool unnormed_experts = false; // weights of experts are not divided by their sum
    bool swap_weights = false;     // weights are in the order of their size, experts in that of their numbers
    bool first_expert = false;     // one expert takes all of the weight
    bool router_input = false;     // the router reads the residual stream without its norm
    bool no_limit = false;         // gate and up have no limit
    bool rope_global = false;      // all layers rotate
    HadamardFault hadamard;
    WeightFault weights;
};

} // namespace ref

#endif

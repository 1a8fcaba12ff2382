// SPDX-License-Identifier: MIT
//
// The names of the deliberate mistakes.
#include "faults.hpp"

#include "errors.hpp"

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
    {"no-embd-scale", [](Faults &f) -> bool & { return f.no_embd_scale; }},
    {"window", [](Faults &f) -> bool & { return f.window; }},
    {"no-window", [](Faults &f) -> bool & { return f.no_window; }},
    {"all-local", [](Faults &f) -> bool & { return f.all_local; }},
    {"swap-base", [](Faults &f) -> bool & { return f.swap_base; }},
    {"no-post-norm", [](Faults &f) -> bool & { return f.no_post_norm; }},
    {"gelu-erf", [](Faults &f) -> bool & { return f.gelu_erf; }},
    {"norm-plus-one", [](Faults &f) -> bool & { return f.norm_plus_one; }},
    {"no-depth-scale", [](Faults &f) -> bool & { return f.no_depth_scale; }},
    {"logit-scale", [](Faults &f) -> bool & { return f.logit_scale; }},
    {"no-input-norm", [](Faults &f) -> bool & { return f.no_input_norm; }},
    {"one-input-norm", [](Faults &f) -> bool & { return f.one_input_norm; }},
    {"long-factors", [](Faults &f) -> bool & { return f.long_factors; }},
    {"no-factors", [](Faults &f) -> bool & { return f.no_factors; }},
    {"group-64", [](Faults &f) -> bool & { return f.weights.group_64; }},
    {"neighbour", [](Faults &f) -> bool & { return f.weights.neighbour; }},
    {"no-hadamard", [](Faults &f) -> bool & { return f.hadamard.ignored; }},
    {"no-signs", [](Faults &f) -> bool & { return f.hadamard.no_signs; }},
    {"signs-after", [](Faults &f) -> bool & { return f.hadamard.signs_after; }},
    {"no-inverse", [](Faults &f) -> bool & { return f.hadamard.no_inverse; }},
    {"head-unrotated", [](Faults &f) -> bool & { return f.hadamard.head_unrotated; }},
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

} // namespace ref

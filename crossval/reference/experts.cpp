// SPDX-License-Identifier: MIT
//
// The feed-forward half of a layer of Maple: a mixture of experts (Shazeer et al. 2017). With h = norm(x):
//
//   g = Wrouter h             p = softmax(g), over all experts
//   C: the k experts with the largest p, of equal ones the first        w_e = p_e / sum of p over C
//   x = x + sum over C of w_e Wdown_e (silu(min(Wgate_e h, limit)) * max(-limit, min(Wup_e h, limit)))
//
// In traces the experts of a token stand in ascending order. Engines make sure that the sum of p is not below 2^-14.
#include <algorithm>
#include <cmath>
#include <memory>

#include "errors.hpp"
#include "graph.hpp"

namespace ref
{

// The experts that a token uses, in ascending order, and their weights.
struct Graph::Choice {
    std::vector<std::size_t> experts;
    Row weights;
};

Graph::Choice Graph::choose_experts(const Row &logits) const
{
    const Row p = softmax(logits);
    std::vector<std::size_t> order(p.size());
    for (std::size_t e = 0; e < p.size(); e++)
        order[e] = e;
    std::stable_sort(order.begin(), order.end(), [&p](std::size_t a, std::size_t b) { return p[a] > p[b]; });
    Choice choice;
    choice.experts.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(arch_.experts_used));
    double sum = 0;
    for (const std::size_t e : choice.experts)
        sum += p[e];
    Row ranked;
    for (const std::size_t e : choice.experts)
        ranked.push_back(p[e]);
    std::sort(choice.experts.begin(), choice.experts.end());
    for (std::size_t i = 0; i < choice.experts.size(); i++) {
        double weight = options_.faults.swap_weights ? ranked[i] : p[choice.experts[i]];
        if (options_.faults.first_expert) weight = i == 0 ? sum : 0;
        choice.weights.push_back(options_.faults.unnormed_experts ? weight : weight / std::max(sum, 0x1p-14));
    }
    return choice;
}

// Row r of W times x; engines round the inputs of ternary layers to 16 bits.
double Graph::expert_dot(const Matrix &w, std::size_t r, const Row &x) const
{
    const bool sixteen = w.is_ternary() && options_.as == As::Engines;
    return sixteen ? grouped_dot(w.ternary_row(r), x) : dot(w.dense_row(r), x);
}

static Matrix expert_matrix(const Gguf &file, const std::string &name, std::size_t rows, std::size_t columns,
                            const WeightFault &fault)
{
    Matrix m(file.tensor(name + ".weight"), fault);
    m.recognise_ternary(true);
    if (m.rows() != rows || m.columns() != columns)
        throw Malformed("tensor '" + name + ".weight' has the wrong size");
    return m;
}

Step Graph::router_step(const std::string &blk, const std::string &L) const
{
    const Matrix router(file_.tensor(blk + "ffn_gate_inp.weight"));
    if (router.rows() != arch_.experts || router.columns() != arch_.n_embd)
        throw Malformed("tensor '" + blk + "ffn_gate_inp.weight' has the wrong size");
    const std::string input = L + (options_.faults.router_input ? "attn_res" : "ffn_norm");
    return {L + "router", {input}, arch_.experts, false, [router](const std::vector<const Table *> &in) {
                Table y(in[0]->rows, router.rows());
                for (std::size_t e = 0; e < router.rows(); e++)
                    for (std::size_t p = 0; p < y.rows; p++)
                        y.at(p)[e] = dot(router.dense_row(e), in[0]->row(p));
                return y;
            }};
}

// silu(gate) * up of the experts of each token, after each other.
Step Graph::expert_step(const std::string &blk, const std::string &L) const
{
    const std::size_t n_ff = arch_.n_ff, rows = arch_.experts * n_ff;
    const Matrix gate =
                     expert_matrix(file_, blk + "ffn_gate_exps", rows, arch_.n_embd, options_.faults.weights),
                 up = expert_matrix(file_, blk + "ffn_up_exps", rows, arch_.n_embd, options_.faults.weights);
    const double limit = options_.faults.no_limit ? HUGE_VAL : arch_.expert_limit;
    return {L + "ffn_act",
            {L + "ffn_norm", L + "router"},
            arch_.experts_used * n_ff,
            false,
            [this, gate, up, limit, n_ff](const std::vector<const Table *> &in) {
                Table y(in[0]->rows, arch_.experts_used * n_ff);
                for (std::size_t p = 0; p < y.rows; p++) {
                    const Row h = in[0]->row(p);
                    const Choice choice = choose_experts(in[1]->row(p));
                    for (std::size_t i = 0; i < y.cols; i++) {
                        const std::size_t row = choice.experts[i / n_ff] * n_ff + i % n_ff;
                        const double g = std::min(expert_dot(gate, row, h), limit);
                        y.at(p)[i] = silu(g) * std::clamp(expert_dot(up, row, h), -limit, limit);
                    }
                }
                return y;
            }};
}

Step Graph::expert_sum_step(const std::string &blk, const std::string &L) const
{
    const std::size_t n_ff = arch_.n_ff, n = arch_.n_embd;
    const Matrix down =
        expert_matrix(file_, blk + "ffn_down_exps", arch_.experts * n, n_ff, options_.faults.weights);
    return {L + "down",
            {L + "ffn_act", L + "router"},
            n,
            false,
            [this, down, n_ff, n](const std::vector<const Table *> &in) {
                Table y(in[0]->rows, n);
                for (std::size_t p = 0; p < y.rows; p++) {
                    const Choice choice = choose_experts(in[1]->row(p));
                    for (std::size_t k = 0; k < choice.experts.size(); k++) {
                        const double *act = in[0]->at(p) + k * n_ff;
                        const Row x(act, act + n_ff);
                        for (std::size_t r = 0; r < n; r++)
                            y.at(p)[r] += choice.weights[k] * expert_dot(down, choice.experts[k] * n + r, x);
                    }
                }
                return y;
            }};
}

void Graph::expert_half(std::vector<Step> &s, std::size_t layer) const
{
    const std::string blk = "blk." + std::to_string(layer) + ".", L = "L" + std::to_string(layer) + ".";
    s.push_back(norm_step(blk + "ffn_norm", L + "ffn_norm", L + "attn_res", arch_.n_embd));
    s.push_back(router_step(blk, L));
    s.push_back({L + "expert_weights", {L + "router"}, arch_.experts_used, false, [this](const auto &in) {
                     Table y(in[0]->rows, arch_.experts_used);
                     for (std::size_t p = 0; p < y.rows; p++)
                         y.set_row(p, choose_experts(in[0]->row(p)).weights);
                     return y;
                 }});
    s.push_back(expert_step(blk, L));
    s.push_back(expert_sum_step(blk, L));
    s.push_back(sum_step(L + "ffn_res", L + "attn_res", L + "down", arch_.n_embd));
}

} // namespace ref

// SPDX-License-Identifier: MIT
#include "trace.hpp"

#include <cstdio>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "ggml-backend.h"

namespace
{

// In the order of computing; those after `ffn_res` come after all layers.
const char *const order[] = {
    "embd",     "attn_norm",     "q",      "k",        "v",           "q_rope", "k_rope",
    "attn_out", "attn_sub_norm", "attn_o", "attn_res", "ffn_norm",    "gate",   "up",
    "ffn_act",  "ffn_sub_norm",  "down",   "ffn_res",  "output_norm", "logits"};

int place(const std::string &op)
{
    int i = 0;
    for (const char *name : order) {
        if (op == name) return i;
        i++;
    }
    return -1;
}

using Table = std::pair<const char *, const char *>;
const Table linears[] = {{"attn_q", "q"},           {"attn_k", "k"},      {"attn_v", "v"},
                         {"attn_output", "attn_o"}, {"ffn_gate", "gate"}, {"ffn_up", "up"},
                         {"ffn_down", "down"}};
const Table norms[] = {{"attn_norm", "attn_norm"},
                       {"attn_sub_norm", "attn_sub_norm"},
                       {"ffn_norm", "ffn_norm"},
                       {"ffn_sub_norm", "ffn_sub_norm"}};

// blk.LAYER.NAME.weight
bool weight_of_layer(const char *tensor, int &layer, std::string &name)
{
    char part[64], end[8];
    int used = 0;
    if (std::sscanf(tensor, "blk.%d.%63[a-z_].%7[a-z]%n", &layer, part, end, &used) != 3 ||
        tensor[used] != '\0' || std::strcmp(end, "weight") != 0)
        return false;
    name = part;
    return true;
}

template <std::size_t n> const char *look_up(const Table (&table)[n], const std::string &name)
{
    for (const Table &row : table)
        if (name == row.first) return row.second;
    return nullptr;
}

bool has(std::string_view text, std::string_view part)
{
    return text.find(part) != std::string_view::npos;
}

bool is_linear(const std::string &op)
{
    for (const Table &row : linears)
        if (op == row.second) return true;
    return op == "logits";
}

// Whether the tokens are the outermost dimension, so that the rows follow one another in memory.
bool rows_of_tokens(const ggml_tensor *t, std::size_t n_tokens)
{
    const auto n = static_cast<std::int64_t>(n_tokens);
    if (t->ne[3] != 1 || !ggml_is_contiguous(t)) return false;
    return n == 1 || (t->ne[2] == 1 ? t->ne[1] == n : t->ne[2] == n);
}

} // namespace

void Tracer::start(std::optional<std::set<std::string>> names, bool deferred_scales)
{
    active_ = true;
    deferred_scales_ = deferred_scales;
    names_ = std::move(names);
    known_.clear();
    batch_.clear();
    records_.clear();
    broken_.clear();
}

void Tracer::next_batch(std::size_t n_tokens)
{
    end_batch();
    n_tokens_ = n_tokens;
}

std::vector<Record> Tracer::take()
{
    end_batch();
    active_ = false;
    std::vector<Record> out;
    for (auto &[key, record] : records_)
        if (!broken_.count(key)) out.push_back(std::move(record));
    records_.clear();
    return out;
}

void Tracer::end_batch()
{
    for (auto &[key, values] : batch_) {
        Record &r = records_[key];
        const std::size_t cols = values.size() / n_tokens_;
        if (r.rows != 0 && r.cols != cols) broken_.insert(key);
        r.op = order[key.second];
        // The last two come after all layers and have no layer.
        r.layer = key.first == std::numeric_limits<int>::max() ? -1 : key.first;
        r.rows += n_tokens_;
        r.cols = cols;
        r.values.insert(r.values.end(), values.begin(), values.end());
    }
    batch_.clear();
    known_.clear();
}

// Called twice per node: first to ask whether the values are needed, then when they are computed.
bool Tracer::visit(ggml_tensor *t, bool ask)
{
    if (!active_) return !ask;
    if (ask) {
        const std::optional<Meaning> m = meaning(t);
        if (!m) return false;
        known_[t] = *m;
        return wanted(t, *m);
    }
    if (const Meaning *m = known(t)) copy(t, *m);
    return true; // continue computing
}

const Tracer::Meaning *Tracer::known(const ggml_tensor *t) const
{
    const auto it = t ? known_.find(t) : known_.end();
    return it == known_.end() ? nullptr : &it->second;
}

std::optional<Tracer::Meaning> Tracer::meaning(const ggml_tensor *t) const
{
    const std::string_view op = ggml_op_name(t->op);
    int layer = 0;
    std::string name;
    if (has(op, "MUL_MAT") || op == "FUSED_UP_GATE") return product(t);
    if (has(op, "NORM") && t->src[1] && weight_of_layer(t->src[1]->name, layer, name))
        if (const char *norm = look_up(norms, name)) return Meaning{norm, layer, true};
    if (has(op, "NORM") && t->src[1] && !std::strcmp(t->src[1]->name, "output_norm.weight"))
        return Meaning{"output_norm", -1, true};
    if (op == "GET_ROWS" && !std::strcmp(t->src[0]->name, "token_embd.weight"))
        return Meaning{"embd", -1, true};
    if (op == "ADD") return sum(t);
    if (op == "CONT" || op == "RESHAPE") {
        // One fork also names the next projection kqv_out, but that is a product.
        int used = 0;
        if ((std::sscanf(t->name, "kqv_out-%d%n", &layer, &used) == 1 && t->name[used] == '\0') ||
            (std::sscanf(t->name, "kqv_merged_cont-%d%n", &layer, &used) == 1 && t->name[used] == '\0'))
            return Meaning{"attn_out", layer, true};
    }
    const Meaning *source = known(t->src[0]);
    if (has(op, "ROPE") && source && (source->op == "q" || source->op == "k"))
        return Meaning{source->op + "_rope", source->layer, true};
    if (op == "GET_ROWS" || op == "RESHAPE" || op == "VIEW" || op == "PERMUTE" || op == "CONT")
        return source ? std::optional<Meaning>(Meaning{source->op, source->layer, false}) : std::nullopt;
    return scaled_or_gated(t);
}

// A linear layer, or both layers of the gated half fused with their activation.
std::optional<Tracer::Meaning> Tracer::product(const ggml_tensor *t) const
{
    int layer = 0;
    std::string name;
    const char *weight = t->src[0]->name;
    if (!std::strcmp(weight, "output.weight") || !std::strcmp(weight, "token_embd.weight"))
        return Meaning{"logits", -1, true};
    if (!weight_of_layer(weight, layer, name)) return std::nullopt;
    if (!std::strcmp(ggml_op_name(t->op), "FUSED_UP_GATE")) return Meaning{"ffn_act", layer, true};
    const char *op = look_up(linears, name);
    return op ? std::optional<Meaning>(Meaning{op, layer, true}) : std::nullopt;
}

// A product with one number belongs to the linear layer before it. A product with a norm's weight is the
// norm. Anything else that combines `up` with another tensor is the activation times it.
std::optional<Tracer::Meaning> Tracer::scaled_or_gated(const ggml_tensor *t) const
{
    const std::string_view op = ggml_op_name(t->op);
    const Meaning *a = known(t->src[0]), *b = known(t->src[1]);
    if (op == "SCALE" && a && is_linear(a->op)) return *a;
    if (op == "MUL" && a && is_linear(a->op) && ggml_nelements(t->src[1]) == 1) return *a;
    if (op == "MUL") {
        int layer = 0;
        std::string name;
        for (int i = 0; i < 2; i++) {
            const char *weight = t->src[i]->name;
            if (!std::strcmp(weight, "output_norm.weight")) return Meaning{"output_norm", -1, true};
            const char *norm = weight_of_layer(weight, layer, name) ? look_up(norms, name) : nullptr;
            if (norm) return Meaning{norm, layer, true};
        }
    }
    const bool joins = op == "MUL" || has(op, "GLU") || has(op, "FUSED_MUL");
    if (joins && t->src[1])
        for (const Meaning *m : {a, b})
            if (m && m->op == "up") return Meaning{"ffn_act", m->layer, true};
    return std::nullopt;
}

// A sum with a bias belongs to the linear layer; any other sum is the residual stream after one.
std::optional<Tracer::Meaning> Tracer::sum(const ggml_tensor *t) const
{
    for (int i = 0; i < 2; i++) {
        const Meaning *m = known(t->src[i]);
        const ggml_tensor *other = t->src[1 - i];
        if (!m || !is_linear(m->op)) continue;
        if (has(other->name, ".bias")) return *m;
        if (m->op == "attn_o") return Meaning{"attn_res", m->layer, true};
        if (m->op == "down") return Meaning{"ffn_res", m->layer, true};
    }
    return std::nullopt;
}

bool Tracer::wanted(const ggml_tensor *t, const Meaning &m) const
{
    if (!m.recorded || (names_ && !names_->count(m.op)) || t->type != GGML_TYPE_F32 ||
        !rows_of_tokens(t, n_tokens_))
        return false;
    return !deferred_scales_ || (m.op != "v" && m.op != "attn_out" && m.op != "up" && m.op != "ffn_act");
}

void Tracer::copy(const ggml_tensor *t, const Meaning &m)
{
    const int at = place(m.op);
    const bool behind = m.layer < 0 && at > place("ffn_res");
    std::vector<float> &values = batch_[{behind ? std::numeric_limits<int>::max() : m.layer, at}];
    values.resize(static_cast<std::size_t>(ggml_nelements(t)));
    ggml_backend_tensor_get(t, values.data(), 0, ggml_nbytes(t));
}

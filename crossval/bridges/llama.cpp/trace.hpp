// SPDX-License-Identifier: MIT
//
// Intermediate tensors, taken from the evaluation callback and given the protocol's names.
//
// The names that graphs give their nodes differ between forks, and some are wrong (one calls the residual
// "ffn_norm"). Only the names of the weights are the same everywhere: the file sets them. So a node is
// identified by its inputs: the product with blk.3.attn_q.weight is q of layer 3, its rotation q_rope. Only
// the weighted values before a norm or the output projection have no weight; the node's name identifies them.
// A node of uncertain meaning or layout is left out.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "ggml.h"

struct Record {
    std::string op;
    int layer = -1;
    std::size_t rows = 0;
    std::size_t cols = 0;
    std::vector<float> values;
};

class Tracer
{
  public:
    // A run over several batches is one trace: start, then next_batch before each batch, then take. Without a
    // list of names everything is kept. deferred_scales: leave out values whose scale the engine applies at a
    // later node.
    void start(std::optional<std::set<std::string>> names, bool deferred_scales);
    void next_batch(std::size_t n_tokens);
    // In the order of computing.
    std::vector<Record> take();

    // The callback of the library; user_data is the Tracer. It returns bool in most trees, int in one.
    template <class R> static R callback(ggml_tensor *t, bool ask, void *user_data)
    {
        return static_cast<Tracer *>(user_data)->visit(t, ask);
    }

  private:
    // recorded: the values are those of the operation. Otherwise they are a view or a selection of its rows.
    struct Meaning {
        std::string op;
        int layer;
        bool recorded;
    };
    using Key = std::pair<int, int>; // layer, place in the table of operations

    bool visit(ggml_tensor *t, bool ask);
    std::optional<Meaning> meaning(const ggml_tensor *t) const;
    std::optional<Meaning> product(const ggml_tensor *t) const;
    std::optional<Meaning> scaled_or_gated(const ggml_tensor *t) const;
    std::optional<Meaning> sum(const ggml_tensor *t) const;
    const Meaning *known(const ggml_tensor *t) const;
    bool wanted(const ggml_tensor *t, const Meaning &m) const;
    void copy(const ggml_tensor *t, const Meaning &m);
    void end_batch();

    bool active_ = false;
    bool deferred_scales_ = false;
    std::optional<std::set<std::string>> names_;
    std::size_t n_tokens_ = 0;
    std::unordered_map<const ggml_tensor *, Meaning> known_; // of the present graph
    std::map<Key, std::vector<float>> batch_; // a later node of the same meaning replaces an earlier one
    std::map<Key, Record> records_;
    std::set<Key> broken_; // their width changed between batches
};

// SPDX-License-Identifier: MIT
//
// Intermediate tensors, taken from the evaluation callback and given the protocol's names.
//
// The names that graphs give their nodes differ between forks, and some are wrong (one calls the residual
// "ffn_norm"). What is the same everywhere is the names of the weights, which the file sets. So a node is
// known by its inputs: the product with blk.3.attn_q.weight is q of layer 3, its rotation q_rope. Only the
// weighted values in front of a norm or of the output projection have no weight, and go by the node's name. A
// node whose meaning or layout is not certain is left out.
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
    // A run over several batches is one trace: start, then next_batch in front of each, then take. Without a
    // list of names everything is kept. deferred_scales: leave out what the engine scales later than where it
    // stands.
    void start(std::optional<std::set<std::string>> names, bool deferred_scales);
    void next_batch(std::size_t n_tokens);
    // In the order of computing.
    std::vector<Record> take();

    // What the library calls; user_data is the Tracer. It returns bool in most trees, int in one.
    template <class R> static R callback(ggml_tensor *t, bool ask, void *user_data)
    {
        return static_cast<Tracer *>(user_data)->visit(t, ask);
    }

  private:
    // recorded: the values are those of the operation; otherwise a view or a selection of rows of them.
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
    std::unordered_map<const ggml_tensor *, Meaning> known_; // of the graph at hand
    std::map<Key, std::vector<float>> batch_; // a later node of the same meaning replaces an earlier
    std::map<Key, Record> records_;
    std::set<Key> broken_; // changed their width between batches
};

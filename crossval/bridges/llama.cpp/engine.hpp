// SPDX-License-Identifier: MIT
//
// The engine with llama.h, as the protocol needs it: each call starts with an empty context.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "compat.hpp"
#include "trace.hpp"

// The contents of an answer with "ok": false.
struct Failure : std::runtime_error {
    Failure(const char *kind_, const std::string &what) : std::runtime_error(what), kind(kind_)
    {
    }
    const char *kind;
};

struct Settings {
    int batch = 512;          // tokens evaluated together
    bool kv_f32 = false;      // keys and values in binary32 instead of the engine's default, binary16
    bool fused = false;       // the engine's own choice of fused operations and flash attention
    bool verbose = false;     // every message of the library
    std::string backend_path; // folder of backends that are loaded at run time
};

class Engine
{
  public:
    struct Times {
        long long prompt_ns, decode_ns;
    };

    explicit Engine(const Settings &settings);
    ~Engine();
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    void open(const std::string &path, int threads);
    bool is_open() const
    {
        return model_ != nullptr;
    }
    int n_vocab() const;
    int n_ctx() const;
    std::string arch() const;

    std::vector<llama_token> tokenize(const std::string &text, bool bos, bool special) const;
    // Rows of n_vocab numbers: one for each token, or for the last one.
    std::vector<float> logits(const std::vector<llama_token> &tokens, bool last);
    std::vector<Record> trace(const std::vector<llama_token> &tokens,
                              std::optional<std::set<std::string>> names);
    Times bench(int prompt, int decode, int threads);

  private:
    void close();
    // An empty context for that many tokens; reuses the present one if it is large enough.
    void prepare(std::size_t n_tokens, bool tracing, int batch, int threads);
    // Evaluates tokens after the present ones. Appends all rows, or the last, to `rows` unless that is null.
    void feed(const llama_token *tokens, std::size_t n, std::size_t start, bool last,
              std::vector<float> *rows);

    Settings settings_;
    Tracer tracer_;
    llama_model *model_ = nullptr;
    llama_context *context_ = nullptr;
    int threads_ = 0;
    std::size_t room_ = 0; // tokens that context_ holds
    bool tracing_ = false; // whether the callback is set
    int batch_ = 0;        // tokens that it evaluates at once
    int context_threads_ = 0;
};

// SPDX-License-Identifier: MIT
#include "engine.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

namespace
{

struct Log {
    bool verbose = false;
    std::string last; // the last warning or error, for the answer to a failed request
};
Log the_log;

void on_log(ggml_log_level level, const char *text, void *)
{
    const bool bad = level == GGML_LOG_LEVEL_ERROR || level == GGML_LOG_LEVEL_WARN;
    if (level == GGML_LOG_LEVEL_ERROR) {
        the_log.last = text;
        while (!the_log.last.empty() && the_log.last.back() == '\n')
            the_log.last.pop_back();
    }
    if (bad || the_log.verbose) std::fputs(text, stderr);
}

std::string with_log(const std::string &what)
{
    return the_log.last.empty() ? what : what + ": " + the_log.last;
}

// Frees the batch when its scope ends.
struct Batch {
    explicit Batch(int n) : b(llama_batch_init(n, 0, 1))
    {
    }
    ~Batch()
    {
        llama_batch_free(b);
    }
    Batch(const Batch &) = delete;
    Batch &operator=(const Batch &) = delete;
    llama_batch b;
};

void check_file(const std::string &path)
{
    std::ifstream f(path, std::ios::binary);
    char magic[4] = {};
    if (!f) throw Failure("not_found", path + " cannot be opened");
    if (!f.read(magic, 4) || std::memcmp(magic, "GGUF", 4) != 0)
        throw Failure("format", path + " is not a GGUF file");
}

} // namespace

Engine::Engine(const Settings &settings) : settings_(settings)
{
    the_log.verbose = settings.verbose;
    llama_log_set(on_log, nullptr);
    if (!settings.backend_path.empty() && ggml_backend_load_all_from_path)
        ggml_backend_load_all_from_path(settings.backend_path.c_str());
    else if (ggml_backend_load_all)
        ggml_backend_load_all();
    llama_backend_init();
}

Engine::~Engine()
{
    close();
    llama_backend_free();
}

void Engine::close()
{
    if (context_) llama_free(context_);
    if (model_) compat::free_model(model_, 0);
    context_ = nullptr;
    model_ = nullptr;
}

void Engine::open(const std::string &path, int threads)
{
    check_file(path);
    close();
    the_log.last.clear();
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    threads_ = threads > 0 ? threads : std::max(1, cores);
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    model_ = compat::load(path.c_str(), params, 0);
    if (!model_) throw Failure("unsupported", with_log("the engine did not load " + path));
}

int Engine::n_vocab() const
{
    return compat::n_vocab(model_, 0);
}

int Engine::n_ctx() const
{
    return static_cast<int>(compat::n_ctx_train(model_, 0));
}

std::string Engine::arch() const
{
    char name[128] = "";
    const int n = llama_model_meta_val_str(model_, "general.architecture", name, sizeof name);
    return n > 0 ? name : "";
}

std::vector<llama_token> Engine::tokenize(const std::string &text, bool bos, bool special) const
{
    std::vector<llama_token> tokens(text.size() + 8);
    int n = compat::tokenize(model_, text.data(), text.size(), tokens.data(), tokens.size(), bos, special, 0);
    if (n < 0) {
        tokens.resize(static_cast<std::size_t>(-n));
        n = compat::tokenize(model_, text.data(), text.size(), tokens.data(), tokens.size(), bos, special, 0);
    }
    if (n < 0) throw Failure("internal", "the engine could not tokenize the text");
    tokens.resize(static_cast<std::size_t>(n));
    return tokens;
}

void Engine::prepare(std::size_t n_tokens, bool tracing, int batch, int threads)
{
    if (context_ && room_ >= n_tokens && tracing_ == tracing && batch_ >= batch &&
        context_threads_ == threads) {
        compat::clear(context_, 0);
        return;
    }
    if (context_) llama_free(context_);
    // Some engines pad the visible positions of attention to 256, and need that much.
    room_ = std::max<std::size_t>(512, (n_tokens + 255) / 256 * 256);
    tracing_ = tracing;
    batch_ = batch;
    context_threads_ = threads;
    llama_context_params p = llama_context_default_params();
    p.n_ctx = static_cast<std::uint32_t>(room_);
    p.n_batch = static_cast<std::uint32_t>(batch);
    p.n_ubatch = static_cast<std::uint32_t>(std::min(batch, settings_.batch));
    compat::set_n_threads(p, threads, 0);
    compat::set_n_threads_batch(p, threads, 0);
    compat::set_op_offload(p, false, 0);
    if (!settings_.fused) compat::plain_graph(p);
    if (settings_.kv_f32) p.type_k = p.type_v = GGML_TYPE_F32;
    if (tracing) {
        p.cb_eval = Tracer::callback;
        p.cb_eval_user_data = &tracer_;
    }
    the_log.last.clear();
    context_ = compat::new_context(model_, p, 0);
    if (!context_)
        throw Failure("internal", with_log("the engine did not make a context for " +
                                           std::to_string(n_tokens) + " tokens"));
}

void Engine::feed(const llama_token *tokens, std::size_t n, std::size_t start, bool last,
                  std::vector<float> *rows)
{
    const auto width = static_cast<std::size_t>(n_vocab());
    Batch batch(batch_);
    for (std::size_t done = 0; done < n;) {
        const std::size_t now = std::min(n - done, static_cast<std::size_t>(batch_));
        llama_batch &b = batch.b;
        b.n_tokens = static_cast<int>(now);
        for (std::size_t i = 0; i < now; i++) {
            b.token[i] = tokens[done + i];
            b.pos[i] = static_cast<llama_pos>(start + done + i);
            b.n_seq_id[i] = 1;
            b.seq_id[i][0] = 0;
            b.logits[i] = !last || done + i + 1 == n;
        }
        tracer_.next_batch(now);
        the_log.last.clear();
        const int status = llama_decode(context_, b);
        if (status != 0)
            throw Failure("internal", with_log("llama_decode returned " + std::to_string(status)));
        for (std::size_t i = 0; rows && i < now; i++) {
            if (!b.logits[i]) continue;
            const float *row = llama_get_logits_ith(context_, static_cast<int>(i));
            if (!row) throw Failure("internal", "the engine has no logits for a requested position");
            rows->insert(rows->end(), row, row + width);
        }
        done += now;
    }
    llama_synchronize(context_);
}

std::vector<float> Engine::logits(const std::vector<llama_token> &tokens, bool last)
{
    prepare(tokens.size(), false, settings_.batch, threads_);
    std::vector<float> rows;
    rows.reserve((last ? 1 : tokens.size()) * static_cast<std::size_t>(n_vocab()));
    feed(tokens.data(), tokens.size(), 0, last, &rows);
    return rows;
}

std::vector<Record> Engine::trace(const std::vector<llama_token> &tokens,
                                  std::optional<std::set<std::string>> names)
{
    prepare(tokens.size(), true, settings_.batch, threads_);
    tracer_.start(std::move(names), compat::is_ik && arch() == "bitnet");
    // The engine drops rows of the last layer whose logits are not requested, so request all of them.
    feed(tokens.data(), tokens.size(), 0, false, nullptr);
    return tracer_.take();
}

Engine::Times Engine::bench(int prompt, int decode, int threads)
{
    using Clock = std::chrono::steady_clock;
    const auto ns = [](Clock::duration d) {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(d).count();
    };
    const auto n_prompt = static_cast<std::size_t>(prompt), n_decode = static_cast<std::size_t>(decode);
    std::vector<llama_token> tokens(n_prompt + n_decode + 1);
    for (std::size_t i = 0; i < tokens.size(); i++)
        tokens[i] = static_cast<llama_token>((i * 7919 + 1) % static_cast<std::size_t>(n_vocab()));
    // One call for the whole prompt; the engine splits it by itself.
    prepare(tokens.size(), false, std::max(prompt, settings_.batch), threads > 0 ? threads : threads_);
    feed(tokens.data(), 1, 0, true, nullptr); // touches the weights
    compat::clear(context_, 0);
    const auto t0 = Clock::now();
    feed(tokens.data(), n_prompt, 0, true, nullptr);
    const auto t1 = Clock::now();
    for (std::size_t i = 0; i < n_decode; i++)
        feed(tokens.data() + n_prompt + i, 1, n_prompt + i, true, nullptr);
    const auto t2 = Clock::now();
    return {ns(t1 - t0), ns(t2 - t1)};
}

// SPDX-License-Identifier: MIT
//
// Lets bn-crossval talk to an engine of the llama.cpp family: reads requests of bn.reference/1 from standard
// input and answers on standard output. See README.md for building it, docs/explain/crossval.md
// for the protocol.
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>

#include <pthread.h>
#include <unistd.h>

#include "engine.hpp"
#include "json.hpp"

#ifndef BRIDGE_NAME
#define BRIDGE_NAME "llama.cpp"
#endif

namespace
{

const char *const usage =
    R"(usage: bridge [options]

Speaks bn.reference/1 on standard input and output for its engine.

  --name NAME      the name in the answer to hello
  --batch N        tokens evaluated together in logits and trace; 1: one at a
                   time [512]
  --kv f16|f32     type of keys and values [f16, as in the engine]
  --fused          allow flash attention and fused operations; without it each
                   operation is computed separately, so that a trace can name it
  --backends DIR   folder with backends that the library loads at run time [of
                   the build]
  -v               print every message of the library on standard error
  --help           print this help
)";

constexpr std::size_t longest_line = 16U << 20;

struct Answer {
    std::string fields;        // what follows "ok": true, with a comma before each
    std::vector<float> floats; // after the line
    bool has_floats = false;
    bool last = false; // the program ends
};

// Output of the engine's libraries must not mix with the answers.
FILE *take_standard_output()
{
    const int own = dup(STDOUT_FILENO);
    if (own < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return nullptr;
    return fdopen(own, "wb");
}

const json::Value &member(const json::Value &request, const char *name, json::Kind kind, const char *what)
{
    const json::Value *v = request.find(name);
    if (!v || v->kind != kind) throw Failure("argument", std::string("\"") + name + "\" must be " + what);
    return *v;
}

bool flag(const json::Value &request, const char *name)
{
    const json::Value *v = request.find(name);
    if (v && v->kind != json::Kind::boolean)
        throw Failure("argument", std::string("\"") + name + "\" must be true or false");
    return v && v->boolean;
}

bool whole(double x, double least, double greatest)
{
    return std::floor(x) == x && x >= least && x <= greatest;
}

int count(const json::Value &request, const char *name, int greatest)
{
    const json::Value *v = request.find(name);
    if (!v) return 0;
    if (v->kind != json::Kind::number || !whole(v->number, 0, greatest))
        throw Failure("argument", std::string("\"") + name + "\" must be a whole number up to " +
                                      std::to_string(greatest));
    return static_cast<int>(v->number);
}

std::string text_or_null(const std::string &s)
{
    return s.empty() ? "null" : json::quote(s);
}

class Server
{
  public:
    Server(Engine &engine, std::string name, const Settings &settings)
        : engine_(engine), name_(std::move(name)), settings_(settings)
    {
    }

    Answer answer(const json::Value &request)
    {
        const std::string &op = member(request, "op", json::Kind::string, "a text").string;
        if (op == "hello") return hello();
        if (op == "open") return open(request);
        if (op == "close") return Answer{"", {}, false, true};
        if (op != "tokenize" && op != "logits" && op != "trace" && op != "bench")
            throw Failure("unsupported", "unknown operation " + json::quote(op));
        if (!engine_.is_open()) throw Failure("argument", "no model is open");
        if (op == "tokenize") return tokenize(request);
        if (op == "logits") return logits(request);
        return op == "trace" ? trace(request) : bench(request);
    }

  private:
    Answer hello() const
    {
        const char *commit = "";
#ifdef BRIDGE_COMMIT
        commit = BRIDGE_COMMIT;
#endif
        const std::string version = llama_version ? llama_version() : "";
        Answer a;
        a.fields = ", \"protocol\": \"bn.reference/1\", \"name\": " + json::quote(name_) +
                   ", \"version\": " + text_or_null(version) + ", \"commit\": " + text_or_null(commit) +
                   R"(, "capabilities": ["tokenize", "logits", "trace", "bench"], "details": {"system": )" +
                   json::quote(llama_print_system_info()) +
                   ", \"batch\": " + std::to_string(settings_.batch) + ", \"kv\": \"" +
                   (settings_.kv_f32 ? "f32" : "f16") +
                   "\", \"fused\": " + (settings_.fused ? "true" : "false") +
                   ", \"compiler\": " + json::quote(__VERSION__) + "}";
        return a;
    }

    Answer open(const json::Value &request)
    {
        const std::string &path = member(request, "model", json::Kind::string, "a path").string;
        engine_.open(path, count(request, "threads", 4096));
        Answer a;
        a.fields = ", \"n_vocab\": " + std::to_string(engine_.n_vocab()) +
                   ", \"n_ctx\": " + std::to_string(engine_.n_ctx()) +
                   ", \"arch\": " + text_or_null(engine_.arch());
        return a;
    }

    Answer tokenize(const json::Value &request) const
    {
        const std::string &text = member(request, "text", json::Kind::string, "a text").string;
        Answer a;
        for (const llama_token id : engine_.tokenize(text, flag(request, "bos"), flag(request, "special")))
            a.fields += (a.fields.empty() ? "" : ", ") + std::to_string(id);
        a.fields = ", \"tokens\": [" + a.fields + "]";
        return a;
    }

    std::vector<llama_token> tokens_of(const json::Value &request) const
    {
        std::vector<llama_token> tokens;
        for (const json::Value &v : member(request, "tokens", json::Kind::array, "a list of ids").array) {
            if (v.kind != json::Kind::number || !whole(v.number, 0, engine_.n_vocab() - 1))
                throw Failure("argument",
                              "\"tokens\" must be ids from 0 to " + std::to_string(engine_.n_vocab() - 1));
            tokens.push_back(static_cast<llama_token>(v.number));
        }
        if (tokens.empty()) throw Failure("argument", "\"tokens\" is empty");
        if (tokens.size() > static_cast<std::size_t>(engine_.n_ctx()))
            throw Failure("argument",
                          "more tokens than the model's context of " + std::to_string(engine_.n_ctx()));
        return tokens;
    }

    Answer logits(const json::Value &request)
    {
        Answer a;
        a.floats = engine_.logits(tokens_of(request), flag(request, "last"));
        a.has_floats = true;
        const auto cols = static_cast<std::size_t>(engine_.n_vocab());
        a.fields =
            ", \"rows\": " + std::to_string(a.floats.size() / cols) + ", \"cols\": " + std::to_string(cols);
        return a;
    }

    Answer trace(const json::Value &request)
    {
        std::optional<std::set<std::string>> names;
        const json::Value *list = request.find("names");
        if (list && list->kind != json::Kind::null) {
            names.emplace();
            for (const json::Value &v : member(request, "names", json::Kind::array, "a list or null").array)
                names->insert(v.string);
        }
        Answer a;
        a.has_floats = true;
        for (const Record &r : engine_.trace(tokens_of(request), std::move(names))) {
            a.fields += std::string(a.fields.empty() ? "" : ", ") + "{\"op\": " + json::quote(r.op) +
                        ", \"layer\": " + std::to_string(r.layer) + ", \"rows\": " + std::to_string(r.rows) +
                        ", \"cols\": " + std::to_string(r.cols) + "}";
            a.floats.insert(a.floats.end(), r.values.begin(), r.values.end());
        }
        a.fields = ", \"records\": [" + a.fields + "]";
        return a;
    }

    Answer bench(const json::Value &request)
    {
        const int prompt = count(request, "prompt", engine_.n_ctx()),
                  decode = count(request, "decode", engine_.n_ctx());
        const Engine::Times t = engine_.bench(prompt, decode, count(request, "threads", 4096));
        Answer a;
        a.fields = ", \"prompt_ns\": " + std::to_string(t.prompt_ns) +
                   ", \"decode_ns\": " + std::to_string(t.decode_ns);
        return a;
    }

    Engine &engine_;
    std::string name_;
    Settings settings_;
};

void write_answer(FILE *out, const std::string &id, const Answer &a)
{
    std::string line = "{\"id\": " + id + ", \"ok\": true" + a.fields;
    if (a.has_floats) line += ", \"floats\": " + std::to_string(a.floats.size());
    line += "}\n";
    std::fwrite(line.data(), 1, line.size(), out);
    // The protocol is little endian, and so are all machines that these engines run on.
    std::fwrite(a.floats.data(), sizeof(float), a.floats.size(), out);
    std::fflush(out);
}

void write_failure(FILE *out, const std::string &id, const char *kind, const std::string &what)
{
    const std::string line = "{\"id\": " + id + ", \"ok\": false, \"error\": " + json::quote(what) +
                             ", \"kind\": \"" + kind + "\"}\n";
    std::fwrite(line.data(), 1, line.size(), out);
    std::fflush(out);
}

std::string id_of(const json::Value &request)
{
    const json::Value *id = request.find("id");
    if (id && id->kind == json::Kind::string) return json::quote(id->string);
    if (id && id->kind == json::Kind::number && whole(id->number, -9e15, 9e15))
        return std::to_string(static_cast<long long>(id->number));
    return "null";
}

void serve(FILE *out, const Settings &settings, const std::string &name)
{
    Engine engine(settings);
    Server server(engine, name, settings);
    std::string line;
    while (std::getline(std::cin, line)) {
        std::string id = "null";
        try {
            if (line.size() > longest_line) throw Failure("argument", "the line is longer than 16 MiB");
            const json::Value request = json::parse(line);
            id = id_of(request);
            const Answer a = server.answer(request);
            write_answer(out, id, a);
            if (a.last) return;
        } catch (const Failure &f) {
            write_failure(out, id, f.kind, f.what());
        } catch (const json::Error &e) {
            write_failure(out, id, "argument", e.what());
        } catch (const std::exception &e) {
            write_failure(out, id, "internal", e.what());
        }
    }
}

// Some engines keep a batch's products on the stack of each thread. Wide layers need more than the usual
// 8 MiB.
void large_stacks()
{
#ifdef __GLIBC__
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, std::size_t{256} << 20);
    pthread_setattr_default_np(&a);
    pthread_attr_destroy(&a);
#endif
}

[[noreturn]] void bad_usage(const std::string &what)
{
    std::cerr << "error: " << what << "\n" << usage;
    std::exit(2);
}

Settings options(int argc, char **argv, std::string &name)
{
    Settings s;
#ifdef BRIDGE_BACKENDS
    s.backend_path = BRIDGE_BACKENDS;
#endif
    for (int i = 1; i < argc; i++) {
        const std::string a = argv[i];
        const auto value = [&]() -> std::string {
            return i + 1 < argc ? argv[++i] : (bad_usage(a + " needs a value"), "");
        };
        if (a == "--name") {
            name = value();
        } else if (a == "--batch") {
            s.batch = std::atoi(value().c_str());
            if (s.batch < 1 || s.batch > 65536) bad_usage("--batch takes 1 to 65536");
        } else if (a == "--kv") {
            const std::string kv = value();
            if (kv != "f16" && kv != "f32") bad_usage("--kv takes f16 or f32");
            s.kv_f32 = kv == "f32";
        } else if (a == "--fused") {
            s.fused = true;
        } else if (a == "--backends") {
            s.backend_path = value();
        } else if (a == "-v") {
            s.verbose = true;
        } else if (a == "--help") {
            std::cout << usage;
            std::exit(0);
        } else {
            bad_usage("unknown option " + a);
        }
    }
    return s;
}

} // namespace

int main(int argc, char **argv)
{
    std::string name = BRIDGE_NAME;
    const Settings settings = options(argc, argv, name);
    FILE *out = take_standard_output();
    if (!out) {
        std::cerr << "error: standard output: " << std::strerror(errno) << "\n";
        return 8;
    }
    large_stacks();
    std::thread(serve, out, settings, name).join();
    return std::fclose(out) == 0 ? 0 : 8;
}

// SPDX-License-Identifier: MIT
//
// One function for each operation of the protocol. A request that fails is answered with the reason. Only
// input that is not a request ends the program.
#include "serve.hpp"

#include <chrono>
#include <cmath>
#include <cstring>
#include <istream>
#include <memory>
#include <ostream>
#include <set>

#include "errors.hpp"
#include "json.hpp"

namespace ref
{

namespace
{

// The members of an answer besides id and ok, and the numbers after it.
struct Answer {
    std::string members; // ", \"rows\": 3"
    std::string floats;  // binary32, little endian
};

void append_floats(std::string &out, const Table &table)
{
    for (const double value : table.values) {
        const float x = static_cast<float>(value);
        std::uint32_t bits;
        std::memcpy(&bits, &x, sizeof bits);
        for (int shift = 0; shift < 32; shift += 8)
            out += static_cast<char>(static_cast<unsigned char>(bits >> shift));
    }
}

std::string sizes(const Table &table)
{
    return "\"rows\": " + std::to_string(table.rows) + ", \"cols\": " + std::to_string(table.cols);
}

class Server
{
  public:
    explicit Server(const Options &options) : options_(options)
    {
    }

    Answer hello() const
    {
        const char *arithmetic =
            options_.as == As::Engines ? "binary64, engines' roundings in ternary layers" : "binary64";
        return {", \"protocol\": \"bn.reference/1\", \"name\": \"bn-reference\", \"version\": \"1\", "
                "\"commit\": null, \"capabilities\": [\"logits\", \"trace\", \"bench\"], \"details\": "
                "{\"arithmetic\": " +
                    quoted(arithmetic) + ", \"bench\": \"each single token alone: there is no cache\"}",
                ""};
    }

    Answer open(const Json &request)
    {
        graph_.reset(); // it refers to the file
        file_.reset();
        file_ = std::make_unique<Gguf>(request.text("model"));
        graph_ = std::make_unique<Graph>(*file_, options_);
        const std::string arch = graph_->architecture();
        return {", \"n_vocab\": " + std::to_string(graph_->n_vocab()) +
                    ", \"n_ctx\": " + std::to_string(file_->integer(arch + ".context_length", 4096)) +
                    ", \"arch\": " + quoted(arch),
                ""};
    }

    Answer logits(const Json &request) const
    {
        const Table table = graph().forward(tokens(request), !request.flag("last", false));
        Answer answer{", " + sizes(table), ""};
        append_floats(answer.floats, table);
        return answer;
    }

    Answer trace(const Json &request) const
    {
        std::set<std::string> wanted;
        if (request.find("names") != nullptr) {
            for (const Json &name : request.list("names")) {
                if (!std::holds_alternative<std::string>(name.value))
                    throw Malformed("names must be strings");
                wanted.insert(std::get<std::string>(name.value));
            }
        }
        Answer answer;
        std::string records;
        graph().forward(tokens(request), true, [&](const std::string &name, const Table &value) {
            const std::size_t dot = name.find('.'); // "L3.q_rope", "G.embd"
            const std::string op = name.substr(dot + 1);
            if (!wanted.empty() && wanted.count(op) == 0) return;
            const std::string layer = name[0] == 'G' ? "-1" : name.substr(1, dot - 1);
            records += (records.empty() ? "" : ", ") + std::string("{\"op\": ") + quoted(op) +
                       ", \"layer\": " + layer + ", " + sizes(value) + "}";
            append_floats(answer.floats, value);
        });
        answer.members = ", \"records\": [" + records + "]";
        return answer;
    }

    Answer bench(const Json &request) const
    {
        const double n_prompt = request.number("prompt"), n_decode = request.number("decode");
        if (!(n_prompt >= 1 && n_prompt < 1e6 && n_decode >= 0 && n_decode < 1e6))
            throw Usage("prompt or decode is out of range");
        std::vector<std::uint32_t> ids;
        while (static_cast<double>(ids.size()) < n_prompt)
            ids.push_back(static_cast<std::uint32_t>(ids.size() * 37 % graph().n_vocab()));
        const auto start = std::chrono::steady_clock::now();
        graph().forward(ids, false);
        const auto middle = std::chrono::steady_clock::now();
        for (double i = 0; i < n_decode; i++)
            graph().forward({ids[0]}, false);
        const auto ns = [](auto time) {
            return std::to_string(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
        };
        return {", \"prompt_ns\": " + ns(middle - start) +
                    ", \"decode_ns\": " + ns(std::chrono::steady_clock::now() - middle),
                ""};
    }

    Answer answer(const Json &request)
    {
        const std::string &op = request.text("op");
        if (op == "hello") return hello();
        if (op == "open") return open(request);
        if (op == "logits") return logits(request);
        if (op == "trace") return trace(request);
        if (op == "bench") return bench(request);
        if (op == "close") return {};
        throw Unsupported("operation '" + op + "'");
    }

  private:
    const Graph &graph() const
    {
        if (!graph_) throw Usage("no model is open");
        return *graph_;
    }

    static std::vector<std::uint32_t> tokens(const Json &request)
    {
        std::vector<std::uint32_t> ids;
        for (const Json &element : request.list("tokens")) {
            const double *id = std::get_if<double>(&element.value);
            if (id == nullptr || *id < 0 || *id >= 4294967296.0 || *id != std::floor(*id))
                throw Usage("tokens must be whole numbers");
            ids.push_back(static_cast<std::uint32_t>(*id));
        }
        return ids;
    }

    Options options_;
    std::unique_ptr<Gguf> file_;
    std::unique_ptr<Graph> graph_;
};

const char *kind_of(int exit_code)
{
    switch (exit_code) {
    case 2:
        return "argument";
    case 3:
        return "not_found";
    case 4:
        return "format";
    case 9:
        return "unsupported";
    default:
        return "internal";
    }
}

} // namespace

int serve(const Options &options, std::istream &in, std::ostream &out)
{
    Server server(options);
    std::string line;
    while (std::getline(in, line)) {
        const Json request = parse_json(line);
        const std::string id = std::to_string(static_cast<std::uint64_t>(request.number("id")));
        try {
            const Answer answer = server.answer(request);
            out << "{\"id\": " << id << ", \"ok\": true" << answer.members;
            if (!answer.floats.empty()) out << ", \"floats\": " << answer.floats.size() / 4;
            out << "}\n" << answer.floats << std::flush;
        } catch (const Failure &e) {
            out << "{\"id\": " << id << ", \"ok\": false, \"error\": " << quoted(e.what()) << ", \"kind\": \""
                << kind_of(e.code) << "\"}\n"
                << std::flush;
        }
        if (!out) throw Disk("the answer cannot be written");
        if (request.text("op") == "close") return 0;
    }
    return 0; // the client has ended
}

} // namespace ref

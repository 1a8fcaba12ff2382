// SPDX-License-Identifier: MIT
//
// bn-reference: the independent oracle. A slow, plain implementation of the models that the engine runs, in
// binary64, that shares no line with the engine. Tests compare the engine with it.
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>

#include "errors.hpp"
#include "graph.hpp"
#include "operations.hpp"
#include "serve.hpp"
#include "trace.hpp"

namespace
{

using namespace ref;

const char *const help_text =
    R"(usage: bn-reference COMMAND [options]

The independent reference for ternary models: its own GGUF reader, binary64
arithmetic, no code of the engine.

commands
  logits -m FILE --tokens IDS -o FILE [--all]
                     write logits, raw little-endian float32; --all: one row
                     per position, else the last
  nll -m FILE --tokens IDS
                     print the mean negative log likelihood of the tokens after
                     the first
  trace -m FILE --tokens IDS -o DIR
                     write every intermediate: DIR/L<layer>.<op>.f32 and
                     DIR/G.<op>.f32
  check-trace -m FILE --trace DIR [--tokens IDS]
                     recompute each operation of a trace from its recorded
                     input
  info -m FILE       print architecture, vocabulary, layers, width
  op NAME            run one operation on numbers from standard input
  serve              answer bn-crossval (docs/explain/crossval.md)

options
  -m FILE            the model (GGUF)
  --tokens 1,2,3     token ids
  --tokens-file FILE token ids in a file, separated by commas or white space
  -o PATH            the file or folder of the result
  --float-quant      ternary layers with the binary32 roundings of the engines
                     (check-trace always uses them)
  --kv f16|f64       type of keys and values [f16, as in the engines]
  --tolerance X      check-trace: allowed relative error where bits need not
                     agree [1e-5]
  -v                 check-trace: print every step
  --fault NAME       make a deliberate mistake, for tests; listed at the end
  --help             print this help

exit status: 0 done; 1 the trace differs; 2 usage; 3 not found; 4 malformed;
8 I/O; 9 not supported; 10 internal

operations of `op`, and the numbers that each one reads
)";

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
    {"grouped-heads", [](Faults &f) -> bool & { return f.grouped_heads; }},
    {"late-update", [](Faults &f) -> bool & { return f.late_update; }},
    {"no-key-root", [](Faults &f) -> bool & { return f.no_key_root; }},
    {"gate-halves", [](Faults &f) -> bool & { return f.gate_halves; }},
    {"rope-all", [](Faults &f) -> bool & { return f.rope_all; }},
    {"unordered-out", [](Faults &f) -> bool & { return f.unordered_out; }},
    {"unnormed-experts", [](Faults &f) -> bool & { return f.unnormed_experts; }},
    {"swap-weights", [](Faults &f) -> bool & { return f.swap_weights; }},
    {"first-expert", [](Faults &f) -> bool & { return f.first_expert; }},
    {"router-input", [](Faults &f) -> bool & { return f.router_input; }},
    {"no-limit", [](Faults &f) -> bool & { return f.no_limit; }},
    {"rope-global", [](Faults &f) -> bool & { return f.rope_global; }},
    {"group-64", [](Faults &f) -> bool & { return f.weights.group_64; }},
    {"neighbour", [](Faults &f) -> bool & { return f.weights.neighbour; }},
    {"no-hadamard", [](Faults &f) -> bool & { return f.hadamard.ignored; }},
    {"no-signs", [](Faults &f) -> bool & { return f.hadamard.no_signs; }},
    {"signs-after", [](Faults &f) -> bool & { return f.hadamard.signs_after; }},
    {"no-inverse", [](Faults &f) -> bool & { return f.hadamard.no_inverse; }},
    {"head-unrotated", [](Faults &f) -> bool & { return f.hadamard.head_unrotated; }},
};

// Turns the fault of this name ("rope-norm") on, or throws Usage.
void plant(Faults &faults, const std::string &name)
{
    for (const Named &fault : faults_by_name) {
        if (name != fault.name) continue;
        fault.of(faults) = true;
        return;
    }
    throw Usage("unknown fault '" + name + "'");
}

// For the help text.
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

struct Arguments {
    std::string command, operation;
    std::string model, output, trace;
    std::optional<std::vector<std::uint32_t>> tokens;
    bool all = false, verbose = false;
    double tolerance = 1e-5;
    Options options;
};

std::vector<std::uint32_t> parse_ids(std::string text)
{
    for (char &c : text)
        if (c == ',') c = ' ';
    std::istringstream in(text);
    std::vector<std::uint32_t> ids;
    std::string word;
    while (in >> word) {
        if (word.size() > 9 || word.find_first_not_of("0123456789") != std::string::npos)
            throw Usage("not a token id: " + word);
        ids.push_back(static_cast<std::uint32_t>(std::stoul(word)));
    }
    if (ids.empty()) throw Usage("no tokens given");
    return ids;
}

std::string read_text(const std::string &path)
{
    std::ifstream in(path);
    if (!in) throw NotFound(path + ": cannot be opened");
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

double parse_real(const std::string &text)
{
    std::size_t used = 0;
    double x = 0;
    try {
        x = std::stod(text, &used);
    } catch (const std::exception &) {
        used = 0;
    }
    if (used == 0 || used != text.size() || !(x >= 0)) throw Usage("not a tolerance: " + text);
    return x;
}

Arguments parse(int argc, char **argv)
{
    Arguments a;
    int i = 1;
    if (i == argc) throw Usage("a command is missing");
    a.command = argv[i++];
    if (a.command == "op") {
        if (i == argc) throw Usage("op: the name of an operation is missing");
        a.operation = argv[i++];
    }
    const std::map<std::string, std::function<void(const std::string &)>> with_value = {
        {"-m", [&](const std::string &v) { a.model = v; }},
        {"-o", [&](const std::string &v) { a.output = v; }},
        {"--trace", [&](const std::string &v) { a.trace = v; }},
        {"--tokens", [&](const std::string &v) { a.tokens = parse_ids(v); }},
        {"--tokens-file", [&](const std::string &v) { a.tokens = parse_ids(read_text(v)); }},
        {"--tolerance", [&](const std::string &v) { a.tolerance = parse_real(v); }},
        {"--fault", [&](const std::string &v) { plant(a.options.faults, v); }},
        {"--kv",
         [&](const std::string &v) {
             if (v != "f16" && v != "f64") throw Usage("--kv takes f16 or f64");
             a.options.kv_in_half = v == "f16";
         }},
    };
    while (i < argc) {
        const std::string option = argv[i++];
        if (option == "--all") {
            a.all = true;
        } else if (option == "-v") {
            a.verbose = true;
        } else if (option == "--float-quant") {
            a.options.as = As::Engines;
        } else if (const auto it = with_value.find(option); it != with_value.end()) {
            if (i == argc) throw Usage("option '" + option + "' needs a value");
            it->second(argv[i++]);
        } else {
            throw Usage("unknown option '" + option + "'");
        }
    }
    return a;
}

const std::string &needed(const std::string &value, const char *option)
{
    if (value.empty()) throw Usage(std::string("option '") + option + "' is missing");
    return value;
}

const std::vector<std::uint32_t> &needed_tokens(const Arguments &a)
{
    if (!a.tokens) throw Usage("option '--tokens' or '--tokens-file' is missing");
    return *a.tokens;
}

int logits(const Arguments &a, const Graph &graph)
{
    write_f32(needed(a.output, "-o"), graph.forward(needed_tokens(a), a.all));
    return 0;
}

// -1/(n-1) * sum over positions p of log softmax(logits of p)[token p+1].
int nll(const Arguments &a, const Graph &graph)
{
    const std::vector<std::uint32_t> &tokens = needed_tokens(a);
    if (tokens.size() < 2) throw Usage("nll needs at least two tokens");
    const Table table = graph.forward(tokens, true);
    double sum = 0;
    for (std::size_t p = 0; p + 1 < tokens.size(); p++)
        sum -= std::log(softmax(table.row(p))[tokens[p + 1]]);
    std::printf("%.5f\n", sum / static_cast<double>(tokens.size() - 1));
    return 0;
}

int trace(const Arguments &a, const Graph &graph)
{
    write_trace(graph, needed_tokens(a), needed(a.output, "-o"));
    return 0;
}

int check(const Arguments &a, const Graph &graph)
{
    const bool same = check_trace(graph, a.tokens.value_or(std::vector<std::uint32_t>{}),
                                  needed(a.trace, "--trace"), a.tolerance, a.verbose);
    return same ? 0 : 1;
}

int info(const Arguments &, const Graph &graph)
{
    std::printf("architecture=%s vocab=%zu layers=%zu width=%zu\n", graph.architecture().c_str(),
                graph.n_vocab(), graph.n_layers(), graph.n_embd());
    return 0;
}

int run(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (std::string(argv[i]) == "--help") {
            std::cout << help_text << operations_help() << "\nfaults\n" << fault_names() << "\n";
            return 0;
        }
    }
    Arguments a = parse(argc, argv);
    if (a.command == "op") {
        run_operation(a.operation, std::cin, a.options.as);
        return 0;
    }
    if (a.command == "serve") return serve(a.options, std::cin, std::cout);
    const std::map<std::string, int (*)(const Arguments &, const Graph &)> commands = {
        {"logits", logits}, {"nll", nll}, {"trace", trace}, {"check-trace", check}, {"info", info}};
    const auto command = commands.find(a.command);
    if (command == commands.end()) throw Usage("unknown command '" + a.command + "'");
    if (a.command == "check-trace") a.options.as = As::Engines;
    const Gguf file(needed(a.model, "-m"));
    const Graph graph(file, a.options);
    return command->second(a, graph);
}

} // namespace

int main(int argc, char **argv)
{
    try {
        const int status = run(argc, argv);
        if (std::fflush(stdout) != 0 || !std::cout.flush()) throw Disk("standard output cannot be written");
        return status;
    } catch (const Failure &e) {
        std::cerr << "bn-reference: error: " << e.what() << "\n";
        return e.code;
    } catch (const std::exception &e) {
        std::cerr << "bn-reference: error: internal: " << e.what() << "\n";
        return 10;
    }
}

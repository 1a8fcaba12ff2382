// SPDX-License-Identifier: MIT
//
// bn-compare-logits A B --vocab N: compares two files of logits (raw little-endian float32, one row of N per
// position). B is the reference: KL is that of softmax(B) relative to softmax(A), and margins are B's. Exit
// status 0, or 1 when a limit is not met or there was nothing to compare.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

struct Stop {
    int code;
    std::string message;
};

using Row = const float *;

std::vector<float> read_floats(const std::string &path)
{
    std::ifstream in(path, std::ios::binary);
    if (!in) throw Stop{3, path + ": cannot be opened"};
    const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (bytes.size() % 4 != 0) throw Stop{4, path + ": not a whole number of float32 values"};
    std::vector<float> x(bytes.size() / 4);
    for (std::size_t i = 0; i < x.size(); i++) {
        std::uint32_t bits = 0;
        for (std::size_t b = 0; b < 4; b++)
            bits |= std::uint32_t{static_cast<std::uint8_t>(bytes[4 * i + b])} << (8 * b);
        std::memcpy(&x[i], &bits, sizeof bits);
    }
    return x;
}

double cosine(Row a, Row b, std::size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < n; i++) {
        ab += double{a[i]} * b[i];
        aa += double{a[i]} * a[i];
        bb += double{b[i]} * b[i];
    }
    return ab / std::sqrt(aa * bb);
}

// log of the sum of exp(x_i), without overflow.
double log_sum_exp(Row x, std::size_t n)
{
    const double top = *std::max_element(x, x + n);
    double sum = 0;
    for (std::size_t i = 0; i < n; i++)
        sum += std::exp(x[i] - top);
    return top + std::log(sum);
}

// sum over i of p_i * (log p_i - log q_i) with p = softmax(b), q = softmax(a).
double divergence(Row a, Row b, std::size_t n)
{
    const double log_a = log_sum_exp(a, n), log_b = log_sum_exp(b, n);
    double sum = 0;
    for (std::size_t i = 0; i < n; i++) {
        const double log_p = b[i] - log_b;
        sum += std::exp(log_p) * (log_p - (a[i] - log_a));
    }
    return sum;
}

// The lowest index of the greatest value.
std::size_t argmax(Row x, std::size_t n)
{
    return static_cast<std::size_t>(std::max_element(x, x + n) - x);
}

// The difference of the greatest value and the second.
double margin(Row x, std::size_t n)
{
    const std::size_t best = argmax(x, n);
    double second = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < n; i++)
        if (i != best) second = std::max(second, double{x[i]});
    return x[best] - second;
}

struct Result {
    std::size_t rows = 0;
    double cosine_min = std::numeric_limits<double>::infinity(), cosine_mean = 0;
    std::size_t cosine_min_row = 0;
    double max_abs = 0, rms = 0, kl_mean = 0;
    std::size_t argmax_equal = 0;
    std::size_t clear = 0, clear_equal = 0; // rows whose margin in B is greater than --margin
    bool finite = true;
};

Result compare(const std::vector<float> &a, const std::vector<float> &b, std::size_t n, double clear_margin)
{
    Result r;
    r.rows = b.size() / n;
    double squares = 0, cosines = 0, kl = 0;
    for (std::size_t p = 0; p < r.rows; p++) {
        Row x = a.data() + p * n, y = b.data() + p * n;
        const auto finite = [](float v) { return std::isfinite(v); };
        if (!std::all_of(x, x + n, finite) || !std::all_of(y, y + n, finite)) r.finite = false;
        const double c = cosine(x, y, n);
        if (c < r.cosine_min) {
            r.cosine_min = c;
            r.cosine_min_row = p;
        }
        cosines += c;
        kl += divergence(x, y, n);
        for (std::size_t i = 0; i < n; i++) {
            const double d = std::fabs(double{x[i]} - double{y[i]});
            r.max_abs = std::max(r.max_abs, d);
            squares += d * d;
        }
        const bool same = argmax(x, n) == argmax(y, n);
        const bool clear = margin(y, n) > clear_margin;
        r.argmax_equal += same;
        r.clear += clear;
        r.clear_equal += clear && same;
    }
    const double rows = static_cast<double>(r.rows);
    r.cosine_mean = cosines / rows;
    r.kl_mean = kl / rows;
    r.rms = std::sqrt(squares / (rows * static_cast<double>(n)));
    return r;
}

void print(const Result &r, bool json)
{
    std::printf(json
                    ? "{\"rows\": %zu, \"cosine_min\": %.9f, \"cosine_min_row\": %zu, \"cosine_mean\": %.9f, "
                      "\"max_abs\": %.6g, \"rms\": %.6g, \"argmax_equal\": %zu, \"clear\": %zu, "
                      "\"clear_equal\": %zu, \"kl_mean\": %.6g}\n"
                    : "rows=%zu cosine_min=%.9f cosine_min_row=%zu cosine_mean=%.9f max_abs=%.6g rms=%.6g "
                      "argmax_equal=%zu clear=%zu clear_equal=%zu kl_mean=%.6g\n",
                r.rows, r.cosine_min, r.cosine_min_row, r.cosine_mean, r.max_abs, r.rms, r.argmax_equal,
                r.clear, r.clear_equal, r.kl_mean);
}

const char *const help_text =
    R"(usage: bn-compare-logits A.f32 B.f32 --vocab N [--json] [limits]

Compares two files of logits, raw little-endian float32, N per row; B is the reference.

  --margin X       a row is clear when B's best logit is more than X above its
                   second [0]
  --skip-rows N    leave out the first N rows

limits: when one is not met, or nothing was compared, the exit status is 1
  --min-cosine X   smallest cosine of a row
  --min-argmax K   rows with the same best token
  --max-abs X      greatest difference of two logits
  --max-kl X       mean divergence of the distributions
  --clear-equal    every clear row has the same best token, and there is at least one
)";

struct Arguments {
    std::vector<std::string> files;
    std::size_t vocab = 0, skip = 0;
    bool json = false, clear_equal = false;
    double margin = 0;
    std::optional<double> min_cosine, min_argmax, max_abs, max_kl;
};

double parse_number(const std::string &text)
{
    std::size_t used = 0;
    double x = 0;
    try {
        x = std::stod(text, &used);
    } catch (const std::exception &) {
        used = 0;
    }
    if (used == 0 || used != text.size() || std::isnan(x)) throw Stop{2, "not a number: " + text};
    return x;
}

std::size_t parse_count(const std::string &text)
{
    if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos)
        throw Stop{2, "not a count: " + text};
    return std::stoul(text);
}

Arguments parse(int argc, char **argv)
{
    Arguments a;
    const std::map<std::string, std::function<void(const std::string &)>> with_value = {
        {"--vocab", [&](const std::string &v) { a.vocab = parse_count(v); }},
        {"--skip-rows", [&](const std::string &v) { a.skip = parse_count(v); }},
        {"--margin", [&](const std::string &v) { a.margin = parse_number(v); }},
        {"--min-cosine", [&](const std::string &v) { a.min_cosine = parse_number(v); }},
        {"--min-argmax", [&](const std::string &v) { a.min_argmax = parse_number(v); }},
        {"--max-abs", [&](const std::string &v) { a.max_abs = parse_number(v); }},
        {"--max-kl", [&](const std::string &v) { a.max_kl = parse_number(v); }},
    };
    for (int i = 1; i < argc; i++) {
        const std::string word = argv[i];
        if (word == "--json") {
            a.json = true;
        } else if (word == "--clear-equal") {
            a.clear_equal = true;
        } else if (const auto it = with_value.find(word); it != with_value.end()) {
            if (++i == argc) throw Stop{2, "option '" + word + "' needs a value"};
            it->second(argv[i]);
        } else if (word.rfind("-", 0) == 0) {
            throw Stop{2, "unknown option '" + word + "'"};
        } else {
            a.files.push_back(word);
        }
    }
    if (a.files.size() != 2) throw Stop{2, "two files are needed"};
    if (a.vocab == 0) throw Stop{2, "option '--vocab' is missing"};
    return a;
}

int run(int argc, char **argv)
{
    if (argc > 1 && std::string(argv[1]) == "--help") {
        std::cout << help_text;
        return 0;
    }
    const Arguments args = parse(argc, argv);
    std::vector<float> a = read_floats(args.files[0]), b = read_floats(args.files[1]);
    if (a.size() != b.size() || a.size() % args.vocab != 0)
        throw Stop{4, "the files have " + std::to_string(a.size()) + " and " + std::to_string(b.size()) +
                          " values: not the same whole number of rows"};
    if (a.size() / args.vocab <= args.skip) throw Stop{1, "no rows to compare"};
    const auto skipped = static_cast<std::ptrdiff_t>(args.skip * args.vocab);
    a.erase(a.begin(), a.begin() + skipped);
    b.erase(b.begin(), b.begin() + skipped);

    const Result r = compare(a, b, args.vocab, args.margin);
    if (!r.finite) throw Stop{1, "a logit is not finite"};
    print(r, args.json);
    const bool met = (!args.min_cosine || r.cosine_min >= *args.min_cosine) &&
                     (!args.min_argmax || static_cast<double>(r.argmax_equal) >= *args.min_argmax) &&
                     (!args.max_abs || r.max_abs <= *args.max_abs) &&
                     (!args.max_kl || r.kl_mean <= *args.max_kl) &&
                     (!args.clear_equal || (r.clear > 0 && r.clear == r.clear_equal));
    return met ? 0 : 1;
}

} // namespace

int main(int argc, char **argv)
{
    try {
        return run(argc, argv);
    } catch (const Stop &stop) {
        std::cerr << "bn-compare-logits: error: " << stop.message << "\n";
        return stop.code;
    } catch (const std::exception &e) {
        std::cerr << "bn-compare-logits: error: internal: " << e.what() << "\n";
        return 10;
    }
}

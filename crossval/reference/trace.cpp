// SPDX-License-Identifier: MIT
//
// Writes and checks traces.
#include "trace.hpp"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include "errors.hpp"
#include "numbers.hpp"

namespace ref
{

void write_f32(const std::string &path, const Table &table)
{
    std::vector<std::uint8_t> bytes;
    bytes.reserve(4 * table.values.size());
    for (const double value : table.values) {
        const float x = static_cast<float>(value);
        std::uint32_t bits;
        std::memcpy(&bits, &x, sizeof bits);
        for (int shift = 0; shift < 32; shift += 8)
            bytes.push_back(static_cast<std::uint8_t>(bits >> shift));
    }
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) throw Disk(path + ": cannot be written");
}

Table read_f32_table(const std::string &path, std::size_t columns)
{
    std::ifstream in(path, std::ios::binary);
    if (!in) throw NotFound(path + ": no such record");
    const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (bytes.size() % (4 * columns) != 0)
        throw Malformed(path + ": not a whole number of rows of " + std::to_string(columns) + " values");
    Table table(bytes.size() / 4 / columns, columns);
    for (std::size_t i = 0; i < table.values.size(); i++)
        table.values[i] = read_f32(reinterpret_cast<const std::uint8_t *>(bytes.data()) + 4 * i);
    return table;
}

void write_trace(const Graph &graph, const std::vector<std::uint32_t> &tokens, const std::string &folder)
{
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw Disk(folder + ": " + error.message());
    graph.forward(tokens, true, [&](const std::string &name, const Table &value) {
        write_f32(folder + "/" + name + ".f32", value);
    });
}

namespace
{

struct Difference {
    std::size_t compared = 0, unequal = 0; // values
    double worst = 0;                      // over rows: max |a - b| / max |b|
    std::size_t worst_row = 0;
};

Difference difference(const Table &engine, const Table &ours)
{
    Difference d;
    for (std::size_t r = 0; r < ours.rows; r++) {
        double apart = 0, size = 0;
        for (std::size_t c = 0; c < ours.cols; c++) {
            const double a = engine.at(r)[c];
            const double b = ours.at(r)[c];
            d.compared++;
            // -0 and +0 count as equal: no result depends on the sign of zero.
            if (static_cast<float>(b) != static_cast<float>(a)) d.unequal++;
            if (!std::isfinite(a) || !std::isfinite(b)) apart = std::numeric_limits<double>::infinity();
            apart = std::max(apart, std::fabs(a - b));
            size = std::max(size, std::fabs(b));
        }
        const double relative = apart == 0 ? 0 : apart / std::max(size, 1e-30);
        if (relative > d.worst || std::isnan(relative)) {
            d.worst = std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative;
            d.worst_row = r;
        }
    }
    return d;
}

// The recorded tables. Each is read once, and dropped after its layer.
class Records
{
  public:
    Records(const std::string &folder, std::size_t positions) : folder_(folder), positions_(positions)
    {
    }

    const Table &get(const std::string &name, std::size_t columns)
    {
        auto it = tables_.find(name);
        if (it == tables_.end())
            it = tables_.emplace(name, read_f32_table(folder_ + "/" + name + ".f32", columns)).first;
        Table &table = it->second;
        if (table.rows == 0) throw Malformed(name + ": the record is empty");
        if (positions_ == 0) positions_ = table.rows;
        // After the last layer an engine may continue with the last position only.
        const bool shorter = name == "G.output_norm" || name == "G.logits";
        if (table.rows != positions_ && !(shorter && table.rows < positions_))
            throw Malformed(name + ": " + std::to_string(table.rows) + " rows, expected " +
                            std::to_string(positions_));
        return table;
    }
    void keep_only(const std::string &name)
    {
        for (auto it = tables_.begin(); it != tables_.end();)
            it = it->first == name ? std::next(it) : tables_.erase(it);
    }

  private:
    std::string folder_;
    std::size_t positions_;
    std::map<std::string, Table> tables_;
};

Table last_rows(const Table &table, std::size_t n)
{
    Table out(n, table.cols);
    for (std::size_t r = 0; r < n; r++)
        out.set_row(r, table.row(table.rows - n + r));
    return out;
}

struct Summary {
    std::size_t steps = 0, failed = 0;
    Difference total;
    bool exact = false;
};

class Checker
{
  public:
    Checker(Records &records, double tolerance, bool verbose)
        : records_(records), tolerance_(tolerance), verbose_(verbose)
    {
    }

    void compare(const std::string &name, bool exact, const Table &engine, const Table &ours)
    {
        const Difference d = difference(engine, ours);
        const bool ok = exact ? d.unequal == 0 : d.worst <= tolerance_;
        if (!ok || verbose_)
            std::printf("%s %s rows=%zu cols=%zu unequal=%zu max_rel=%.3g at_row=%zu demanded=%s\n",
                        ok ? "same" : "DIFFERS", name.c_str(), ours.rows, ours.cols, d.unequal, d.worst,
                        d.worst_row, exact ? "every_bit" : "tolerance");
        Summary &s = summary_of(name);
        s.exact = exact;
        s.failed += !ok;
        s.total.compared += d.compared;
        s.total.unequal += d.unequal;
        s.total.worst = std::max(s.total.worst, d.worst);
    }

    void check(const Step &step, const std::map<std::string, std::size_t> &columns)
    {
        try {
            const Table &engine = records_.get(step.output, step.columns);
            std::vector<Table> tails;
            tails.reserve(step.inputs.size());
            std::vector<const Table *> inputs;
            for (const std::string &name : step.inputs) {
                const Table &input = records_.get(name, columns.at(name));
                if (input.rows > engine.rows) {
                    tails.push_back(last_rows(input, engine.rows));
                    inputs.push_back(&tails.back());
                } else {
                    inputs.push_back(&input);
                }
            }
            if (inputs[0]->rows != engine.rows) throw Malformed(step.output + ": more rows than its input");
            compare(step.output, step.exact, engine, step.apply(inputs));
        } catch (const Failure &e) {
            missing(step.output, e.what());
        }
    }

    void missing(const std::string &name, const std::string &why)
    {
        std::printf("MISSING %s %s\n", name.c_str(), why.c_str());
        summary_of(name).failed++;
    }

    bool report() const
    {
        std::size_t steps = 0, failed = 0, compared = 0;
        double worst = 0;
        for (const std::string &op : order_) {
            const Summary &s = summaries_.at(op);
            std::printf("op=%s steps=%zu failed=%zu values=%zu unequal=%zu max_rel=%.3g demanded=%s\n",
                        op.c_str(), s.steps, s.failed, s.total.compared, s.total.unequal, s.total.worst,
                        s.exact ? "every_bit" : "tolerance");
            steps += s.steps;
            failed += s.failed;
            compared += s.total.compared;
            worst = std::max(worst, s.total.worst);
        }
        const bool ok = failed == 0 && compared > 0;
        std::printf("%s steps=%zu failed=%zu values=%zu max_rel=%.3g tolerance=%.3g\n", ok ? "ok" : "FAILED",
                    steps, failed, compared, worst, tolerance_);
        return ok;
    }

  private:
    Summary &summary_of(const std::string &name)
    {
        const std::string op = name.substr(name.find('.') + 1);
        if (summaries_.count(op) == 0) order_.push_back(op);
        Summary &s = summaries_[op];
        s.steps++;
        return s;
    }

    Records &records_;
    double tolerance_;
    bool verbose_;
    std::vector<std::string> order_; // of operations, by their first occurrence
    std::map<std::string, Summary> summaries_;
};

} // namespace

bool check_trace(const Graph &graph, const std::vector<std::uint32_t> &tokens, const std::string &folder,
                 double tolerance, bool verbose)
{
    if (!std::filesystem::is_directory(folder)) throw NotFound(folder + ": no such folder");
    Records records(folder, tokens.size());
    Checker checker(records, tolerance, verbose);
    if (!tokens.empty()) {
        try {
            checker.compare("G.embd", true, records.get("G.embd", graph.n_embd()), graph.embed(tokens));
        } catch (const Failure &e) {
            checker.missing("G.embd", e.what());
        }
    }
    std::map<std::string, std::size_t> columns{{"G.embd", graph.n_embd()}};
    const auto check_all = [&](const std::vector<Step> &steps) {
        for (const Step &step : steps)
            columns[step.output] = step.columns;
        for (const Step &step : steps)
            checker.check(step, columns);
    };
    for (std::size_t layer = 0; layer < graph.n_layers(); layer++) {
        check_all(graph.layer_steps(layer));
        records.keep_only("L" + std::to_string(layer) + ".ffn_res");
    }
    check_all(graph.output_steps());
    return checker.report();
}

} // namespace ref

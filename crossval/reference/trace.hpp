// SPDX-License-Identifier: MIT
//
// Traces: a folder with one file of raw little-endian binary32 per step, "L3.q_rope.f32", rows in the order
// of positions. This program or an engine writes them; this program checks them step by step.
#ifndef REFERENCE_TRACE_HPP
#define REFERENCE_TRACE_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "graph.hpp"

namespace ref
{

void write_f32(const std::string &path, const Table &table);
Table read_f32_table(const std::string &path, std::size_t columns);

void write_trace(const Graph &graph, const std::vector<std::uint32_t> &tokens, const std::string &folder);

// For each step, this program's own operation runs on the recorded inputs, and the result is compared with
// the recorded output. Ternary layers and sums must agree in every bit, everything else to `tolerance`,
// measured in each row as max |a - b| / max |b|. Every step starts from the engine's own input, so errors do
// not add up, and a failure names the layer and the operation. With tokens, the embedding is checked too (to
// the bit). Prints what differs (with verbose, every step), then one line for each operation and a summary.
// True when something was compared and nothing failed; a missing record fails.
bool check_trace(const Graph &graph, const std::vector<std::uint32_t> &tokens, const std::string &folder,
                 double tolerance, bool verbose);

} // namespace ref

#endif

// SPDX-License-Identifier: MIT
//
// `bn-reference serve`: the oracle as a reference of bn-crossval. The protocol is described in
// docs/explain/crossval.md; this side has the capabilities logits and trace.
#ifndef REFERENCE_SERVE_HPP
#define REFERENCE_SERVE_HPP

#include <iosfwd>

#include "graph.hpp"

namespace ref
{

// Answers one request per line until `close` or the end of the input. Returns the exit status.
int serve(const Options &options, std::istream &in, std::ostream &out);

} // namespace ref

#endif

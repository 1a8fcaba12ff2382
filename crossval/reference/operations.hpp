// SPDX-License-Identifier: MIT
//
// `bn-reference op NAME`: one operation on numbers from a stream, for tests of single operations of an
// engine.
#ifndef REFERENCE_OPERATIONS_HPP
#define REFERENCE_OPERATIONS_HPP

#include <iosfwd>
#include <string>

#include "ops.hpp"

namespace ref
{

// Reads white-space separated numbers (decimal or hexadecimal floats), prints one result a line with 17
// digits.
void run_operation(const std::string &name, std::istream &in, As as);

// The lines of --help: each operation and what it reads.
std::string operations_help();

} // namespace ref

#endif

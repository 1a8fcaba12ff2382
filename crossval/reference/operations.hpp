// SPDX-License-Identifier: MIT
//
// `bn-reference op NAME`: one operation on numbers from a stream, to test single operations of an engine.
#ifndef REFERENCE_OPERATIONS_HPP
#define REFERENCE_OPERATIONS_HPP

#include <iosfwd>
#include <string>

#include "ops.hpp"

namespace ref
{

// Reads numbers separated by white space (decimal or hexadecimal floats). Prints one result per line with 17
// digits.
void run_operation(const std::string &name, std::istream &in, As as);

// The lines of --help: each operation and what it reads.
std::string operations_help();

} // namespace ref

#endif

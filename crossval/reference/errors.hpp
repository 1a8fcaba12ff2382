// SPDX-License-Identifier: MIT
//
// Errors, one type per exit code. Unlike in the engine, errors are exceptions: the reference is a program,
// not a library for other programs.
#ifndef REFERENCE_ERRORS_HPP
#define REFERENCE_ERRORS_HPP

#include <stdexcept>
#include <string>

namespace ref
{

struct Failure : std::runtime_error {
    Failure(int exit_code, const std::string &what) : std::runtime_error(what), code(exit_code)
    {
    }
    int code;
};

struct Usage : Failure {
    explicit Usage(const std::string &what) : Failure(2, what)
    {
    }
};
struct NotFound : Failure {
    explicit NotFound(const std::string &what) : Failure(3, what)
    {
    }
};
struct Malformed : Failure {
    explicit Malformed(const std::string &what) : Failure(4, what)
    {
    }
};
struct Disk : Failure {
    explicit Disk(const std::string &what) : Failure(8, what)
    {
    }
};
struct Unsupported : Failure {
    explicit Unsupported(const std::string &what) : Failure(9, what)
    {
    }
};

} // namespace ref

#endif

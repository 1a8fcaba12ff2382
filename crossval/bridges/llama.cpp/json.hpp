// SPDX-License-Identifier: MIT
//
// The part of JSON that the protocol needs: reading one object per line, and writing text. A bridge is
// compiled in other projects' trees, so it needs no library.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace json
{

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

enum class Kind { null, boolean, number, string, array, object };

struct Value {
    Kind kind = Kind::null;
    bool boolean = false;
    double number = 0;
    std::string string;
    std::vector<Value> array;
    std::map<std::string, Value> object;

    // The member of an object, or null if it is missing.
    const Value *find(const std::string &key) const;
};

// One value and nothing after it; throws Error with the offset of the fault.
Value parse(std::string_view text);

// The text in quotes. Bytes that are not UTF-8 become U+FFFD, since a log message may contain anything.
std::string quote(std::string_view text);

} // namespace json

// SPDX-License-Identifier: MIT
//
// As much JSON as the protocol needs: reading one object a line, and writing text. A bridge is compiled in
// other people's trees, so that it asks for no library.
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

    // The member of an object, or null where there is none.
    const Value *find(const std::string &key) const;
};

// One value and nothing behind it; throws Error with the offset of what is wrong.
Value parse(std::string_view text);

// The text with quotes around it. Bytes that are no UTF-8 become U+FFFD, as a log message may hold anything.
std::string quote(std::string_view text);

} // namespace json

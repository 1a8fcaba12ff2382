// SPDX-License-Identifier: MIT
//
// The part of JSON (RFC 8259) that the reference protocol needs: a request is read into a tree, an answer is
// written as text. Numbers are binary64.
#ifndef REFERENCE_JSON_HPP
#define REFERENCE_JSON_HPP

#include <map>
#include <string>
#include <variant>
#include <vector>

namespace ref
{

struct Json;
using JsonList = std::vector<Json>;
using JsonObject = std::map<std::string, Json>;

struct Json {
    std::variant<std::nullptr_t, bool, double, std::string, JsonList, JsonObject> value = nullptr;

    // nullptr when this is not an object, lacks the member, or the member is null.
    const Json *find(const std::string &name) const;
    // A required member of this kind; throws Malformed.
    const std::string &text(const std::string &name) const;
    double number(const std::string &name) const;
    bool flag(const std::string &name, bool otherwise) const;
    const JsonList &list(const std::string &name) const;
};

// One value and nothing after it; throws Malformed.
Json parse_json(const std::string &text);
// The text in quotes, escaped.
std::string quoted(const std::string &text);

} // namespace ref

#endif

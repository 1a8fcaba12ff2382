// SPDX-License-Identifier: MIT
//
// Reads JSON by recursive descent, one function for each kind of value.
#include "json.hpp"

#include <cstdint>
#include <cstdio>

#include "errors.hpp"

namespace ref
{

namespace
{

class Reader
{
  public:
    explicit Reader(const std::string &text) : text_(text)
    {
    }

    Json document()
    {
        Json value = read(0);
        skip_space();
        if (at_ != text_.size()) fail("something follows the value");
        return value;
    }

  private:
    [[noreturn]] void fail(const std::string &what) const
    {
        throw Malformed("JSON: " + what + " (at byte " + std::to_string(at_) + ")");
    }
    char peek() const
    {
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    void skip_space()
    {
        while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')
            at_++;
    }
    void expect(const std::string &word)
    {
        if (text_.compare(at_, word.size(), word) != 0) fail("'" + word + "' expected");
        at_ += word.size();
    }

    Json read(unsigned depth)
    {
        if (depth > 32) fail("nested too deeply");
        skip_space();
        switch (peek()) {
        case '{':
            return {read_object(depth)};
        case '[':
            return {read_list(depth)};
        case '"':
            return {read_string()};
        case 't':
            expect("true");
            return {true};
        case 'f':
            expect("false");
            return {false};
        case 'n':
            expect("null");
            return {};
        default:
            return {read_number()};
        }
    }

    // True at the closing mark. Otherwise it reads a comma, except before the first element.
    bool ends(char mark, bool first)
    {
        skip_space();
        if (peek() == mark) {
            at_++;
            return true;
        }
        if (!first) expect(",");
        return false;
    }

    JsonObject read_object(unsigned depth)
    {
        JsonObject members;
        expect("{");
        while (!ends('}', members.empty())) {
            skip_space();
            const std::string name = read_string();
            skip_space();
            expect(":");
            if (!members.emplace(name, read(depth + 1)).second) fail("duplicate name");
        }
        return members;
    }

    JsonList read_list(unsigned depth)
    {
        JsonList elements;
        expect("[");
        while (!ends(']', elements.empty()))
            elements.push_back(read(depth + 1));
        return elements;
    }

    double read_number()
    {
        const std::size_t end = text_.find_first_not_of("+-.0123456789eE", at_);
        const std::string word = text_.substr(at_, end == std::string::npos ? end : end - at_);
        if (word.empty() || (word[0] != '-' && (word[0] < '0' || word[0] > '9'))) fail("value expected");
        std::size_t used = 0;
        double x = 0;
        try {
            x = std::stod(word, &used);
        } catch (const std::exception &) {
            used = 0;
        }
        if (used != word.size()) fail("not a number");
        at_ += used;
        return x;
    }

    unsigned read_hex4()
    {
        unsigned code = 0;
        for (int i = 0; i < 4; i++) {
            const std::size_t digit = std::string("0123456789abcdef").find(static_cast<char>(peek() | 32));
            if (digit == std::string::npos) fail("four hexadecimal digits expected");
            code = code * 16 + static_cast<unsigned>(peek() < 'A' ? peek() - '0' : (peek() | 32) - 'a' + 10);
            at_++;
        }
        return code;
    }

    static void append_utf8(std::string &out, unsigned c)
    {
        const auto byte = [&](unsigned b) { out += static_cast<char>(static_cast<unsigned char>(b)); };
        if (c < 0x80) {
            byte(c);
        } else if (c < 0x800) {
            byte(0xC0 | c >> 6);
            byte(0x80 | (c & 63));
        } else if (c < 0x10000) {
            byte(0xE0 | c >> 12);
            byte(0x80 | (c >> 6 & 63));
            byte(0x80 | (c & 63));
        } else {
            byte(0xF0 | c >> 18);
            byte(0x80 | (c >> 12 & 63));
            byte(0x80 | (c >> 6 & 63));
            byte(0x80 | (c & 63));
        }
    }

    void read_escape(std::string &out)
    {
        const char c = peek();
        at_++;
        const std::string plain = "\"\\/bfnrt", means = "\"\\/\b\f\n\r\t";
        if (const std::size_t i = plain.find(c); c != '\0' && i != std::string::npos) {
            out += means[i];
            return;
        }
        if (c != 'u') fail("unknown escape");
        unsigned code = read_hex4();
        if (code >= 0xD800 && code < 0xDC00) { // the first half of a pair
            expect("\\u");
            const unsigned second = read_hex4();
            if (second < 0xDC00 || second > 0xDFFF) fail("half of a surrogate pair");
            code = 0x10000 + ((code - 0xD800) << 10) + (second - 0xDC00);
        }
        append_utf8(out, code);
    }

    std::string read_string()
    {
        std::string out;
        expect("\"");
        while (peek() != '"') {
            if (static_cast<unsigned char>(peek()) < 0x20) fail("a control character in a string");
            if (peek() == '\\') {
                at_++;
                read_escape(out);
            } else {
                out += text_[at_++];
            }
        }
        at_++;
        return out;
    }

    const std::string &text_;
    std::size_t at_ = 0;
};

template <typename Kind> const Kind &member(const Json &object, const std::string &name, const char *kind)
{
    const Json *found = object.find(name);
    if (found == nullptr || !std::holds_alternative<Kind>(found->value))
        throw Malformed("member '" + name + "' is missing or is not a " + kind);
    return std::get<Kind>(found->value);
}

} // namespace

const Json *Json::find(const std::string &name) const
{
    const JsonObject *members = std::get_if<JsonObject>(&value);
    if (members == nullptr) return nullptr;
    const auto it = members->find(name);
    if (it == members->end() || std::holds_alternative<std::nullptr_t>(it->second.value)) return nullptr;
    return &it->second;
}

const std::string &Json::text(const std::string &name) const
{
    return member<std::string>(*this, name, "text");
}

double Json::number(const std::string &name) const
{
    return member<double>(*this, name, "number");
}

bool Json::flag(const std::string &name, bool otherwise) const
{
    return find(name) == nullptr ? otherwise : member<bool>(*this, name, "truth value");
}

const JsonList &Json::list(const std::string &name) const
{
    return member<JsonList>(*this, name, "list");
}

Json parse_json(const std::string &text)
{
    return Reader(text).document();
}

std::string quoted(const std::string &text)
{
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
            out += escape;
        } else {
            out += c;
        }
    }
    return out + "\"";
}

} // namespace ref

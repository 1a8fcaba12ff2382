// SPDX-License-Identifier: MIT
#include "json.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace json
{

namespace
{

constexpr int max_depth = 32;

class Parser
{
  public:
    explicit Parser(std::string_view text) : text_(text)
    {
    }

    Value document()
    {
        Value v = value(0);
        space();
        if (at_ != text_.size()) fail("something follows the value");
        return v;
    }

  private:
    [[noreturn]] void fail(const char *what) const
    {
        throw Error(std::string("JSON, byte ") + std::to_string(at_) + ": " + what);
    }

    void space()
    {
        while (at_ < text_.size() &&
               (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
            at_++;
    }

    bool take(char c)
    {
        if (at_ >= text_.size() || text_[at_] != c) return false;
        at_++;
        return true;
    }

    bool word(std::string_view w)
    {
        if (text_.substr(at_, w.size()) != w) return false;
        at_ += w.size();
        return true;
    }

    Value value(int depth)
    {
        if (depth > max_depth) fail("nested too deeply");
        space();
        Value v;
        if (take('{'))
            members(v, depth);
        else if (take('['))
            elements(v, depth);
        else if (take('"'))
            v.kind = Kind::string, v.string = text();
        else if (word("true"))
            v.kind = Kind::boolean, v.boolean = true;
        else if (word("false"))
            v.kind = Kind::boolean;
        else if (!word("null"))
            v.kind = Kind::number, v.number = number();
        return v;
    }

    void members(Value &v, int depth)
    {
        v.kind = Kind::object;
        space();
        if (take('}')) return;
        do {
            space();
            if (!take('"')) fail("a name is missing");
            std::string key = text();
            space();
            if (!take(':')) fail("a colon is missing");
            v.object[std::move(key)] = value(depth + 1);
            space();
        } while (take(','));
        if (!take('}')) fail("the object is not closed");
    }

    void elements(Value &v, int depth)
    {
        v.kind = Kind::array;
        space();
        if (take(']')) return;
        do {
            v.array.push_back(value(depth + 1));
            space();
        } while (take(','));
        if (!take(']')) fail("the array is not closed");
    }

    double number()
    {
        std::size_t end = at_;
        while (end < text_.size() &&
               std::string_view("+-.0123456789eE").find(text_[end]) != std::string_view::npos)
            end++;
        const std::string digits(text_.substr(at_, end - at_));
        char *stop = nullptr;
        const double x = std::strtod(digits.c_str(), &stop);
        if (digits.empty() || *stop != '\0') fail("value expected");
        at_ = end;
        return x;
    }

    std::uint32_t hex4()
    {
        std::uint32_t x = 0;
        for (int i = 0; i < 4; i++, at_++) {
            const char c = at_ < text_.size() ? text_[at_] : '\0';
            const char *const digits = "0123456789abcdefABCDEF";
            const std::size_t d = c ? std::string_view(digits).find(c) : std::string_view::npos;
            if (d == std::string_view::npos) fail("four hexadecimal digits expected");
            x = x * 16 + static_cast<std::uint32_t>(d < 16 ? d : d - 6);
        }
        return x;
    }

    void escaped_code_point(std::string &out)
    {
        std::uint32_t c = hex4();
        if (c >= 0xd800 && c < 0xdc00 && word("\\u")) {
            const std::uint32_t low = hex4();
            if (low < 0xdc00 || low > 0xdfff) fail("half of a surrogate pair");
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        } else if (c >= 0xd800 && c <= 0xdfff) {
            fail("half of a surrogate pair");
        }
        const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
        if (c < 0x80) {
            put(c);
        } else if (c < 0x800) {
            put(0xc0 | c >> 6), put(0x80 | (c & 63));
        } else if (c < 0x10000) {
            put(0xe0 | c >> 12), put(0x80 | (c >> 6 & 63)), put(0x80 | (c & 63));
        } else {
            put(0xf0 | c >> 18), put(0x80 | (c >> 12 & 63)), put(0x80 | (c >> 6 & 63)), put(0x80 | (c & 63));
        }
    }

    std::string text()
    {
        std::string out;
        while (at_ < text_.size() && text_[at_] != '"') {
            const char c = text_[at_++];
            if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
            if (c != '\\') {
                out += c;
                continue;
            }
            const char e = at_ < text_.size() ? text_[at_++] : '\0';
            const std::size_t known = e ? std::string_view("\"\\/bfnrt").find(e) : std::string_view::npos;
            if (e == 'u')
                escaped_code_point(out);
            else if (known != std::string_view::npos)
                out += "\"\\/\b\f\n\r\t"[known];
            else
                fail("unknown escape");
        }
        if (!take('"')) fail("the string is not closed");
        return out;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

// The length of the UTF-8 sequence that starts here; 0 if none starts here.
std::size_t sequence(std::string_view s)
{
    const auto byte = [&s](std::size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0U; };
    const unsigned first = byte(0);
    const std::size_t n = first < 0x80   ? 1
                          : first < 0xc2 ? 0
                          : first < 0xe0 ? 2
                          : first < 0xf0 ? 3
                          : first < 0xf5 ? 4
                                         : 0;
    for (std::size_t i = 1; i < n; i++)
        if ((byte(i) & 0xc0) != 0x80) return 0;
    // Overlong forms, surrogates, values beyond U+10FFFF.
    const unsigned second = byte(1);
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
        return 0;
    return n;
}

} // namespace

const Value *Value::find(const std::string &key) const
{
    const auto it = object.find(key);
    return it == object.end() ? nullptr : &it->second;
}

Value parse(std::string_view text)
{
    return Parser(text).document();
}

std::string quote(std::string_view text)
{
    std::string out = "\"";
    while (!text.empty()) {
        const unsigned char c = static_cast<unsigned char>(text[0]);
        const std::size_t n = sequence(text);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += text[0];
        } else if (c < 0x20 || c == 0x7f) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", c);
            out += escape;
        } else if (n == 0) {
            out += "\xef\xbf\xbd";
        } else {
            out += text.substr(0, n);
        }
        text.remove_prefix(n ? n : 1);
    }
    return out + '"';
}

} // namespace json

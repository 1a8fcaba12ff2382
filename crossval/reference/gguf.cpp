// SPDX-License-Identifier: MIT
//
// Reads a GGUF file. Every read is compared with the remaining bytes; a file that is too short is malformed.
#include "gguf.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "errors.hpp"
#include "numbers.hpp"

namespace ref
{

namespace
{

enum ValueType : std::uint32_t {
    UINT8 = 0,
    INT8 = 1,
    UINT16 = 2,
    INT16 = 3,
    UINT32 = 4,
    INT32 = 5,
    FLOAT32 = 6,
    BOOL = 7,
    STRING = 8,
    ARRAY = 9,
    UINT64 = 10,
    INT64 = 11,
    FLOAT64 = 12,
};

constexpr std::uint64_t largest_dimension = std::uint64_t{1} << 40;

std::vector<std::uint8_t> read_whole_file(const std::string &path)
{
    std::ifstream in(path, std::ios::binary | std::ios::ate);
    if (!in) throw NotFound(path + ": " + std::strerror(errno));
    const std::streamoff size = in.tellg();
    if (size < 0) throw NotFound(path + ": not a regular file");
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
    in.seekg(0);
    in.read(reinterpret_cast<char *>(bytes.data()), size);
    if (!in) throw Disk(path + ": cannot be read");
    return bytes;
}

} // namespace

// A position in the file that only moves forward.
class Gguf::Cursor
{
  public:
    explicit Cursor(const std::vector<std::uint8_t> &bytes) : bytes_(bytes)
    {
    }

    const std::uint8_t *take(std::uint64_t n)
    {
        if (n > bytes_.size() - position_)
            throw Malformed("the file ends too early, at byte " + std::to_string(position_));
        const std::uint8_t *p = bytes_.data() + position_;
        position_ += static_cast<std::size_t>(n);
        return p;
    }
    std::uint32_t u32()
    {
        return read_u32(take(4));
    }
    std::uint64_t u64()
    {
        return read_u64(take(8));
    }
    std::string string()
    {
        const std::uint64_t n = u64();
        const std::uint8_t *p = take(n);
        return std::string(reinterpret_cast<const char *>(p), static_cast<std::size_t>(n));
    }
    std::uint64_t position() const
    {
        return position_;
    }

  private:
    const std::vector<std::uint8_t> &bytes_;
    std::size_t position_ = 0;
};

Gguf::Gguf(const std::string &path) : bytes_(read_whole_file(path))
{
    try {
        parse();
    } catch (const Malformed &e) {
        throw Malformed(path + ": " + e.what());
    }
}

Gguf::Value Gguf::read_value(Cursor &at, std::uint32_t type)
{
    switch (type) {
    case UINT8:
        return std::uint64_t{*at.take(1)};
    case INT8:
        return std::int64_t{static_cast<std::int8_t>(*at.take(1))};
    case UINT16:
        return std::uint64_t{read_u16(at.take(2))};
    case INT16:
        return std::int64_t{static_cast<std::int16_t>(read_u16(at.take(2)))};
    case UINT32:
        return std::uint64_t{at.u32()};
    case INT32:
        return std::int64_t{static_cast<std::int32_t>(at.u32())};
    case FLOAT32:
        return double{read_f32(at.take(4))};
    case BOOL:
        return *at.take(1) != 0;
    case STRING:
        return at.string();
    case UINT64:
        return at.u64();
    case INT64:
        return static_cast<std::int64_t>(at.u64());
    case FLOAT64: {
        const std::uint64_t bits = at.u64();
        double x;
        std::memcpy(&x, &bits, sizeof x);
        return x;
    }
    case ARRAY: {
        const std::uint32_t element = at.u32();
        const std::uint64_t length = at.u64();
        if (element == ARRAY) throw Malformed("an array of arrays is not supported");
        Array elements;
        for (std::uint64_t i = 0; i < length; i++)
            elements.push_back(read_value(at, element));
        return elements;
    }
    default:
        throw Malformed("unknown value type " + std::to_string(type) + " before byte " +
                        std::to_string(at.position()));
    }
}

void Gguf::parse()
{
    Cursor at(bytes_);
    if (std::memcmp(at.take(4), "GGUF", 4) != 0) throw Malformed("not a GGUF file");
    const std::uint32_t version = at.u32();
    if (version != 2 && version != 3) throw Unsupported("GGUF version " + std::to_string(version));
    const std::uint64_t n_tensors = at.u64();
    const std::uint64_t n_keys = at.u64();
    for (std::uint64_t i = 0; i < n_keys; i++) {
        const std::string name = at.string();
        const std::uint32_t type = at.u32();
        if (!values_.emplace(name, read_value(at, type)).second)
            throw Malformed("duplicate key '" + name + "'");
    }

    std::vector<std::pair<Tensor, std::uint64_t>> found; // with the offset of each
    for (std::uint64_t i = 0; i < n_tensors; i++) {
        Tensor t;
        t.name = at.string();
        const std::uint32_t n_dimensions = at.u32();
        if (n_dimensions < 1 || n_dimensions > 4)
            throw Malformed("tensor '" + t.name + "': the number of dimensions is not 1 to 4");
        for (std::uint32_t d = 0; d < n_dimensions; d++) {
            const std::uint64_t n = at.u64();
            std::uint64_t &total = d == 0 ? t.columns : t.rows;
            if (n == 0 || n > largest_dimension / total)
                throw Malformed("tensor '" + t.name + "': a dimension is 0, or the tensor is too large");
            total *= n;
        }
        t.type = at.u32();
        const std::uint64_t offset = at.u64();
        found.emplace_back(std::move(t), offset);
    }

    const std::uint64_t alignment = integer("general.alignment", 32);
    if (alignment == 0 || alignment > 1 << 20) throw Malformed("general.alignment");
    const std::uint64_t start = (at.position() + alignment - 1) / alignment * alignment;
    for (auto &[t, offset] : found) {
        if (start > bytes_.size() || offset > bytes_.size() - start)
            throw Malformed("tensor '" + t.name + "' is beyond the end of the file");
        t.data = bytes_.data() + start + offset;
        t.available = bytes_.size() - start - offset;
        t.room = t.available;
        for (const auto &other : found)
            if (other.second > offset) t.room = std::min(t.room, other.second - offset);
        const std::string name = t.name;
        if (!tensors_.emplace(name, std::move(t)).second) throw Malformed("duplicate tensor '" + name + "'");
    }
    settle_groups();
}

// Type 42 is one number for two sizes of groups, and no key says which: 18 bytes for 64 weights, or 34 for 128.
// The distance to the next tensor does. All tensors of a file have the same.
void Gguf::settle_groups()
{
    const std::uint64_t alignment = integer("general.alignment", 32);
    std::uint64_t group = 0;
    for (const std::uint64_t candidate : {std::uint64_t{64}, std::uint64_t{128}}) {
        bool fits = true;
        for (const auto &[name, t] : tensors_) {
            if (t.type != Q2_0) continue;
            const std::uint64_t bytes = t.columns / candidate * (candidate / 4 + 2) * t.rows;
            // The last tensor may end without padding.
            const bool last = t.room == t.available;
            fits = fits && t.columns % candidate == 0 && bytes <= t.room &&
                   (t.room - bytes < alignment || (last && t.room == bytes));
        }
        if (fits && group == 0) group = candidate;
    }
    for (auto &[name, t] : tensors_) {
        if (t.type != Q2_0) continue;
        if (group == 0)
            throw Malformed("tensor '" + name + "' of type 42 has groups of neither 64 nor 128 weights");
        t.group = group;
    }
}

const Tensor *Gguf::find(const std::string &name) const
{
    const auto it = tensors_.find(name);
    return it == tensors_.end() ? nullptr : &it->second;
}

const Tensor &Gguf::tensor(const std::string &name) const
{
    const Tensor *t = find(name);
    if (t == nullptr) throw Malformed("tensor '" + name + "' is missing");
    return *t;
}

bool Gguf::has(const std::string &key) const
{
    return values_.count(key) != 0;
}

bool Gguf::has_prefix(const std::string &prefix) const
{
    const auto it = values_.lower_bound(prefix);
    return it != values_.end() && it->first.compare(0, prefix.size(), prefix) == 0;
}

const Gguf::Value &Gguf::value(const std::string &key) const
{
    const auto it = values_.find(key);
    if (it == values_.end()) throw Malformed("key '" + key + "' is missing");
    return it->second;
}

std::string Gguf::text(const std::string &key) const
{
    if (const auto *s = std::get_if<std::string>(&value(key))) return *s;
    throw Malformed("key '" + key + "' is not a string");
}

std::string Gguf::text(const std::string &key, const std::string &otherwise) const
{
    return has(key) ? text(key) : otherwise;
}

std::uint64_t Gguf::integer(const std::string &key) const
{
    const Value &v = value(key);
    if (const auto *u = std::get_if<std::uint64_t>(&v)) return *u;
    if (const auto *b = std::get_if<bool>(&v)) return *b;
    if (const auto *i = std::get_if<std::int64_t>(&v); i != nullptr && *i >= 0)
        return static_cast<std::uint64_t>(*i);
    throw Malformed("key '" + key + "' is not a count");
}

std::uint64_t Gguf::integer(const std::string &key, std::uint64_t otherwise) const
{
    return has(key) ? integer(key) : otherwise;
}

double Gguf::real(const std::string &key) const
{
    if (const auto *d = std::get_if<double>(&value(key))) return *d;
    if (const auto *n = std::get_if<std::uint64_t>(&value(key))) return static_cast<double>(*n);
    throw Malformed("key '" + key + "' is not a number");
}

double Gguf::real(const std::string &key, double otherwise) const
{
    return has(key) ? real(key) : otherwise;
}

const Gguf::Array &Gguf::array(const std::string &key) const
{
    if (const auto *a = std::get_if<Array>(&value(key))) return *a;
    throw Malformed("key '" + key + "' is not an array");
}

std::vector<std::int64_t> Gguf::integers(const std::string &key) const
{
    std::vector<std::int64_t> out;
    for (const Value &v : array(key)) {
        if (const auto *i = std::get_if<std::int64_t>(&v))
            out.push_back(*i);
        else if (const auto *u = std::get_if<std::uint64_t>(&v); u != nullptr && *u <= INT64_MAX)
            out.push_back(static_cast<std::int64_t>(*u));
        else if (const auto *b = std::get_if<bool>(&v))
            out.push_back(*b);
        else
            throw Malformed("key '" + key + "' is not an array of integers");
    }
    return out;
}

std::vector<double> Gguf::reals(const std::string &key) const
{
    std::vector<double> out;
    for (const Value &v : array(key)) {
        const auto *x = std::get_if<double>(&v);
        if (x == nullptr) throw Malformed("key '" + key + "' is not an array of floating-point numbers");
        out.push_back(*x);
    }
    return out;
}

std::vector<std::string> Gguf::texts(const std::string &key) const
{
    std::vector<std::string> out;
    for (const Value &v : array(key)) {
        const auto *s = std::get_if<std::string>(&v);
        if (s == nullptr) throw Malformed("key '" + key + "' is not an array of strings");
        out.push_back(*s);
    }
    return out;
}

} // namespace ref

// SPDX-License-Identifier: MIT
//
// A GGUF file (versions 2 and 3, little endian): keys with values, and tensors by name.
//
//   "GGUF" | u32 version | u64 number of tensors | u64 number of keys
//   key:    string name, u32 type, value           (string: u64 length, bytes)
//   tensor: string name, u32 n, u64 ne[n], u32 type, u64 offset from the start of the data
//   padding to the alignment (general.alignment, else 32), then the data
//
// ne[0] is the length of a row, that is, the contracted dimension of a weight matrix.
#ifndef REFERENCE_GGUF_HPP
#define REFERENCE_GGUF_HPP

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace ref
{

// Type numbers of tensors that this program reads.
enum TensorType : std::uint32_t {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q8_0 = 8,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    BF16 = 30,
    TQ1_0 = 34,
    TQ2_0 = 35,
    I2_S = 36,
    Q2_0 = 42, // groups of 64 weights, or of 128 in older files
    PQ2_0 = 142,
    PTQ1_0 = 143,
};

struct Tensor {
    std::string name;
    std::uint64_t columns = 1; // ne[0]
    std::uint64_t rows = 1;    // ne[1] * ne[2] * ne[3]
    std::uint32_t type = 0;
    const std::uint8_t *data = nullptr;
    std::uint64_t available = 0; // bytes from data to the end of the file
    std::uint64_t room = 0;      // bytes from data to the next tensor or the end of the file
    std::uint64_t group = 0;     // Q2_0: 64 or 128
};

class Gguf
{
  public:
    explicit Gguf(const std::string &path);
    Gguf(const Gguf &) = delete;
    Gguf &operator=(const Gguf &) = delete;

    const Tensor *find(const std::string &name) const; // nullptr when there is none
    const Tensor &tensor(const std::string &name) const;

    bool has(const std::string &key) const;
    bool has_prefix(const std::string &prefix) const; // a key that begins so
    std::string text(const std::string &key) const;
    std::string text(const std::string &key, const std::string &otherwise) const;
    std::uint64_t integer(const std::string &key) const;
    std::uint64_t integer(const std::string &key, std::uint64_t otherwise) const;
    double real(const std::string &key) const;
    double real(const std::string &key, double otherwise) const;
    // Arrays. An empty one has no type, so it is an array of any.
    std::vector<std::int64_t> integers(const std::string &key) const;
    std::vector<double> reals(const std::string &key) const;
    std::vector<std::string> texts(const std::string &key) const;

  private:
    struct Value;
    using Array = std::vector<Value>;
    struct Value : std::variant<std::uint64_t, std::int64_t, double, bool, std::string, Array> {
        using variant::variant;
    };
    class Cursor;

    void parse();
    void settle_groups();
    static Value read_value(Cursor &at, std::uint32_t type);
    const Array &array(const std::string &key) const;
    const Value &value(const std::string &key) const;

    std::vector<std::uint8_t> bytes_;
    std::map<std::string, Value> values_;
    std::map<std::string, Tensor> tensors_;
};

} // namespace ref

#endif

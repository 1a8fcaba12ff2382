// SPDX-License-Identifier: MIT
//
// Runs single operations on a stream of numbers.
#include "operations.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <istream>
#include <vector>

#include "errors.hpp"
#include "numbers.hpp"

namespace ref
{

namespace
{

// The numbers that were read, taken in order.
class Numbers
{
  public:
    explicit Numbers(std::istream &in)
    {
        std::string word;
        while (in >> word) {
            char *end = nullptr;
            values_.push_back(std::strtod(word.c_str(), &end));
            if (end == word.c_str() || *end != 0) throw Malformed("not a number: " + word);
        }
    }
    double next()
    {
        if (at_ == values_.size()) throw Malformed("too few numbers");
        return values_[at_++];
    }
    std::size_t count()
    {
        const double n = next();
        if (!(n >= 0 && n <= 1e9) || n != std::floor(n)) throw Malformed("not a count");
        return static_cast<std::size_t>(n);
    }
    Row take(std::size_t n)
    {
        if (n > values_.size() - at_) throw Malformed("too few numbers");
        const auto from = values_.begin() + static_cast<std::ptrdiff_t>(at_);
        at_ += n;
        return Row(from, from + static_cast<std::ptrdiff_t>(n));
    }
    template <class Integer> std::vector<Integer> integers(std::size_t n, double least, double greatest)
    {
        std::vector<Integer> out;
        for (const double v : take(n)) {
            if (!(v >= least && v <= greatest) || v != std::floor(v))
                throw Malformed("an integer is out of range");
            out.push_back(static_cast<Integer>(v));
        }
        return out;
    }
    std::size_t left() const
    {
        return values_.size() - at_;
    }
    Row rest()
    {
        return take(left());
    }
    Row half_of_rest()
    {
        return take(left() / 2);
    }

  private:
    Row values_;
    std::size_t at_ = 0;
};

Row each(const Row &x, const std::function<double(double)> &f)
{
    Row y;
    for (const double v : x)
        y.push_back(f(v));
    return y;
}

Row product(const Row &a, const Row &b)
{
    if (a.size() != b.size()) throw Malformed("two rows have different lengths");
    Row y;
    for (std::size_t i = 0; i < a.size(); i++)
        y.push_back(a[i] * b[i]);
    return y;
}

Row op_rmsnorm(Numbers &in, As)
{
    const double eps = in.next();
    const Row x = in.half_of_rest(), w = in.rest();
    if (x.size() != w.size() || x.empty()) throw Malformed("two rows have different lengths");
    return rmsnorm(x, w, eps);
}

Row op_rope(Numbers &in, As, RopeStyle style)
{
    const double position = in.next(), base = in.next();
    const std::size_t n_rot = in.count();
    Row head = in.rest();
    if (n_rot % 2 != 0 || n_rot > head.size()) throw Malformed("n_rot does not fit the head");
    rope(head.data(), rope_frequencies(n_rot, base, 1, {}), position, style);
    return head;
}

Row op_yarn(Numbers &in, As)
{
    const std::size_t n = in.count();
    const double base = in.next();
    Yarn yarn;
    yarn.factor = in.next();
    yarn.original = in.next();
    Row out = yarn_frequencies(n, base, yarn);
    out.push_back(yarn_magnitude(yarn));
    return out;
}

Row op_quantise(Numbers &in, As as)
{
    const Quantised x = quantise(in.rest(), as);
    Row out{x.scale};
    out.insert(out.end(), x.q.begin(), x.q.end());
    return out;
}

// rows, columns, block (0: one scale for the whole matrix), then scales, codes, x.
Row op_linear(Numbers &in, As as)
{
    const std::size_t rows = in.count(), columns = in.count(), block = in.count();
    if (columns == 0 || (block != 0 && columns % block != 0))
        throw Malformed("the row is not a whole number of blocks");
    const Row scales = in.take(block == 0 ? 1 : rows * columns / block);
    const auto codes = in.integers<std::int8_t>(rows * columns, -1, 1);
    const Quantised x = quantise(in.take(columns), as);
    Row out;
    for (std::size_t r = 0; r < rows; r++) {
        TernaryRow w;
        w.block = block == 0 ? columns : block;
        const std::size_t n = columns / w.block;
        for (std::size_t b = 0; b < n; b++)
            w.scales.push_back(block == 0 ? scales[0] : scales[r * n + b]);
        for (std::size_t i = 0; i < columns; i++)
            w.codes.push_back(codes[r * columns + i]);
        out.push_back(ternary_dot(w, block != 0, x, as));
    }
    return out;
}

Row op_attention(Numbers &in, As)
{
    const std::size_t n = in.count(), d = in.count();
    const Row q = in.take(d), k = in.take(n * d), v = in.take(n * d);
    if (n == 0) throw Malformed("no positions");
    return attention(q.data(), k.data(), v.data(), n, d, d);
}

// One row of a stored matrix: the type's number in GGUF files, the number of elements, its bytes.
Row op_decode(Numbers &in, As)
{
    Tensor tensor;
    tensor.type = static_cast<std::uint32_t>(in.count());
    tensor.columns = in.count();
    const std::vector<std::uint8_t> bytes = in.integers<std::uint8_t>(in.left(), 0, 255);
    tensor.data = bytes.data();
    tensor.available = tensor.room = bytes.size();
    tensor.group = bytes.size() * 64 == tensor.columns * 18 ? 64 : 128; // of Q2_0
    return Matrix(tensor).dense_row(0);
}

struct Operation {
    const char *name, *reads;
    std::function<Row(Numbers &, As)> run;
};

const std::vector<Operation> &operations()
{
    static const std::vector<Operation> all = {
        {"rmsnorm", "eps x[n] weight[n]", op_rmsnorm},
        {"softmax", "x[n], n >= 1",
         [](Numbers &in, As) {
             const Row x = in.rest();
             if (x.empty()) throw Malformed("too few numbers");
             return softmax(x);
         }},
        {"exp", "x[n]",
         [](Numbers &in, As) { return each(in.rest(), [](double x) { return std::exp(x); }); }},
        {"silu", "x[n]", [](Numbers &in, As) { return each(in.rest(), silu); }},
        {"relu2", "x[n]", [](Numbers &in, As) { return each(in.rest(), relu2); }},
        {"gelu", "x[n]; the approximation by tanh", [](Numbers &in, As) { return each(in.rest(), gelu); }},
        {"gelu-erf", "x[n]", [](Numbers &in, As) { return each(in.rest(), gelu_erf); }},
        {"silu-mul", "gate[n] up[n]",
         [](Numbers &in, As) {
             const Row gate = each(in.half_of_rest(), silu);
             return product(gate, in.rest());
         }},
        {"relu2-mul", "gate[n] up[n]",
         [](Numbers &in, As) {
             const Row gate = each(in.half_of_rest(), relu2);
             return product(gate, in.rest());
         }},
        {"gelu-mul", "gate[n] up[n]",
         [](Numbers &in, As) {
             const Row gate = each(in.half_of_rest(), gelu);
             return product(gate, in.rest());
         }},
        {"rope-neox", "position base n_rot head[n]",
         [](Numbers &in, As as) { return op_rope(in, as, RopeStyle::Neox); }},
        {"rope-norm", "position base n_rot head[n]",
         [](Numbers &in, As as) { return op_rope(in, as, RopeStyle::Norm); }},
        {"hadamard", "n x[k*n]; the transform in blocks of n",
         [](Numbers &in, As) {
             const std::size_t n = in.count();
             if (n == 0 || (n & (n - 1)) != 0 || in.left() % n != 0)
                 throw Malformed("n is not a power of two, or x is not a whole number of blocks");
             return hadamard(in.rest(), n);
         }},
        {"yarn", "n base factor original; frequencies, then the magnitude", op_yarn},
        {"quantise", "x[n]; prints the scale, then the codes", op_quantise},
        {"linear",
         "rows columns block scales codes[rows*columns] x[columns];\n              block 0: one scale",
         op_linear},
        {"dot", "a[n] b[n]",
         [](Numbers &in, As) {
             const Row a = in.half_of_rest(), b = in.rest();
             if (a.size() != b.size()) throw Malformed("two rows have different lengths");
             return Row{dot(a, b)};
         }},
        {"decode", "type n bytes; a row of n weights from its bytes in a file", op_decode},
        {"attention", "n d q[d] k[n*d] v[n*d]", op_attention},
        {"half", "x[n]; rounds to binary16", [](Numbers &in, As) { return each(in.rest(), round_to_half); }},
    };
    return all;
}

} // namespace

std::string operations_help()
{
    std::string text;
    for (const Operation &op : operations()) {
        std::string name = op.name;
        name.resize(12, ' ');
        text += "  " + name + op.reads + "\n";
    }
    return text;
}

void run_operation(const std::string &name, std::istream &in, As as)
{
    for (const Operation &op : operations()) {
        if (name != op.name) continue;
        Numbers numbers(in);
        for (const double y : op.run(numbers, as))
            std::printf("%.17g\n", y);
        if (numbers.left() != 0) throw Malformed("too many numbers");
        return;
    }
    throw Usage("unknown operation '" + name + "'");
}

} // namespace ref

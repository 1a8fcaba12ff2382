// SPDX-License-Identifier: MIT
//
// Reads the keys of the Hadamard transform and applies it. What is unknown is refused: a wrong transform gives
// fluent nonsense.
#include "hadamard.hpp"

#include "errors.hpp"

namespace ref
{

namespace
{

const std::string prefix = "prism.hadamard.";

void expect(const Gguf &file, const std::string &key, const std::string &wanted)
{
    const std::string found = file.text(prefix + key);
    if (found != wanted) throw Unsupported("key '" + prefix + key + "' is '" + found + "'");
}

} // namespace

Hadamard::Hadamard(const Gguf &file, HadamardFault fault) : fault_(fault)
{
    if (!file.has_prefix(prefix)) return;
    const std::uint64_t version = file.integer(prefix + "version");
    const bool tied = file.integer(prefix + "tied_output", 0) != 0;
    if (version != (tied ? 2 : 1))
        throw Unsupported("key '" + prefix + "version' is " + std::to_string(version));
    expect(file, "transform", "normalized-sylvester-walsh-hadamard");
    expect(file, "axis", "input-last-dimension");
    block_ = static_cast<std::size_t>(file.integer(prefix + "block_size"));
    if (block_ == 0 || block_ > 1 << 20 || (block_ & (block_ - 1)) != 0)
        throw Malformed("key '" + prefix + "block_size' is not a power of two");
    if (file.text(prefix + "sign_mode") != "identity") {
        expect(file, "sign_mode", "explicit");
        read_signs(file);
    }
    for (const std::string &name : file.texts(prefix + "weight_names")) {
        if (!names_.insert(name).second) throw Malformed("duplicate '" + name + "' in the rotated weights");
        if (file.tensor(name).columns % block_ != 0)
            throw Malformed("rows of '" + name + "' are not a whole number of blocks of the transform");
    }
    const std::string inverse = prefix + "inverse_weight_names";
    for (const std::string &name : file.has(inverse) ? file.texts(inverse) : std::vector<std::string>{}) {
        if (name != "token_embd.weight" || inverse_ || has(name))
            throw Unsupported("the inverse transform of '" + name + "'");
        inverse_ = true;
    }
    grouped_heads_ = file.integer(prefix + "gdn_v_grouped", 0) != 0;
    if (fault_.ignored) {
        grouped_heads_ = false;
        names_.clear();
        inverse_ = false;
    }
}

void Hadamard::read_signs(const Gguf &file)
{
    const std::vector<std::int64_t> values = file.integers(prefix + "sign_values");
    std::size_t at = 0;
    for (const std::int64_t width : file.integers(prefix + "sign_widths")) {
        const auto n = static_cast<std::size_t>(width);
        if (width <= 0 || n % block_ != 0 || n > values.size() - at)
            throw Malformed("key '" + prefix + "sign_widths' does not fit the block or the signs");
        Row row;
        for (std::size_t i = 0; i < n; i++, at++) {
            if (values[at] != 1 && values[at] != -1) throw Malformed("a sign is neither 1 nor -1");
            row.push_back(fault_.no_signs ? 1.0 : static_cast<double>(values[at]));
        }
        if (!signs_.emplace(n, row).second) throw Malformed("a width has signs twice");
    }
    if (at != values.size()) throw Malformed("there are more signs than the widths need");
}

const Row &Hadamard::signs(std::size_t width) const
{
    static const Row none;
    const auto it = signs_.find(width);
    if (it == signs_.end() && !signs_.empty())
        throw Malformed("no signs for inputs of " + std::to_string(width));
    return it == signs_.end() ? none : it->second;
}

static Row times(Row x, const Row &signs)
{
    for (std::size_t i = 0; i < signs.size(); i++)
        x[i] *= signs[i];
    return x;
}

Row Hadamard::transform(const Row &x, As as) const
{
    return as == As::Engines ? hadamard_binary32(x, block_) : hadamard(x, block_);
}

Row Hadamard::input(const Row &x, As as) const
{
    if (fault_.signs_after) return times(transform(x, as), signs(x.size()));
    return transform(times(x, signs(x.size())), as);
}

Row Hadamard::embedding(const Row &z, As as) const
{
    return fault_.no_inverse ? z : times(transform(z, as), signs(z.size()));
}

} // namespace ref

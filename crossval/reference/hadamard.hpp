// SPDX-License-Identifier: MIT
//
// The keys prism.hadamard.* of a file whose matrices are stored as W S H: H is the normalised Walsh-Hadamard
// transform in blocks along the input, S a diagonal of signs, one for each width of an input. The product with
// such a matrix is that with W when its input x is replaced by H S x. The embedding is stored in the same way,
// so that its row z stands for S H z.
#ifndef REFERENCE_HADAMARD_HPP
#define REFERENCE_HADAMARD_HPP

#include <map>
#include <set>
#include <string>

#include "gguf.hpp"
#include "ops.hpp"

namespace ref
{

// Deliberate mistakes, for tests.
struct HadamardFault {
    bool ignored = false;        // nothing is transformed
    bool no_signs = false;       // all signs are +1
    bool signs_after = false;    // the signs are applied after the transform of an input
    bool no_inverse = false;     // the row of the embedding is used as it is
    bool head_unrotated = false; // the input of a head that is the embedding is not transformed
};

class Hadamard
{
  public:
    Hadamard() = default;
    // A file without these keys transforms nothing. A name in the lists must be that of a tensor of the file.
    Hadamard(const Gguf &file, HadamardFault fault);

    bool has(const std::string &tensor) const
    {
        return names_.count(tensor) != 0;
    }
    bool has_inverse() const
    {
        return inverse_;
    }
    // Whether the input of the head is transformed; tied: the head is the embedding.
    bool has_head(const std::string &tensor, bool tied) const
    {
        return tied ? inverse_ && !fault_.head_unrotated : has(tensor);
    }
    std::size_t size() const
    {
        return names_.size();
    }
    // qwen35: the inputs of ssm_out keep the value heads of a key head together.
    bool grouped_heads() const
    {
        return grouped_heads_;
    }
    Row input(const Row &x, As as) const;     // H S x
    Row embedding(const Row &z, As as) const; // S H z

  private:
    Row transform(const Row &x, As as) const; // H x
    void read_signs(const Gguf &file);
    const Row &signs(std::size_t width) const;

    HadamardFault fault_;
    std::size_t block_ = 0;
    bool inverse_ = false, grouped_heads_ = false;
    std::set<std::string> names_;
    std::map<std::size_t, Row> signs_;
};

} // namespace ref

#endif

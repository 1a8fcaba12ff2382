// SPDX-License-Identifier: MIT
//
// Weight matrices as numbers. A matrix is either *dense*, rows of binary64, or *ternary*, codes -1, 0, +1
// with scales (and +2 in Q2_0 and PQ2_0). Rows are decoded from the file's bytes at each call; nothing is
// repacked.
#ifndef REFERENCE_WEIGHTS_HPP
#define REFERENCE_WEIGHTS_HPP

#include <cstdint>
#include <vector>

#include "gguf.hpp"

namespace ref
{

// One row of a ternary matrix: w[i] = scales[i / block] * codes[i].
struct TernaryRow {
    std::vector<std::int8_t> codes;
    std::vector<double> scales;
    std::size_t block = 0; // elements that share a scale
};

// Deliberate mistakes, for tests that must detect them.
struct WeightFault {
    bool code_map = false;  // reads 0, 1, 2 as 0, +1, -1
    bool scale = false;     // takes every scale of I2_S as 1
    bool block_64 = false;  // reads I2_S in the layout of another machine: 64 elements in 16 bytes
    bool group_64 = false;  // reads groups of 128 two-bit codes as groups of 64
    bool neighbour = false; // takes the scale of the next group of the row
};

class Matrix
{
  public:
    Matrix() = default;
    // The tensor's memory must outlive the matrix.
    explicit Matrix(const Tensor &tensor, WeightFault fault = {});

    std::size_t rows() const
    {
        return static_cast<std::size_t>(tensor_->rows);
    }
    std::size_t columns() const
    {
        return static_cast<std::size_t>(tensor_->columns);
    }
    std::uint32_t type() const
    {
        return tensor_->type;
    }
    // Some files store a ternary matrix as floats, all of them -s, 0 or +s, with one s for the matrix or, by
    // groups, for each 64 weights of a row. This function detects that; the matrix then counts as ternary.
    void recognise_ternary(bool by_groups);
    bool is_ternary() const;
    // I2_S: one scale for the whole matrix. TQ1_0, TQ2_0: one per 256 elements; Q2_0: 64 or 128; PQ2_0,
    // PTQ1_0: 128.
    bool has_block_scales() const;

    std::vector<double> dense_row(std::size_t row) const; // of any type
    TernaryRow ternary_row(std::size_t row) const;        // of a ternary type

  private:
    TernaryRow block_row(std::size_t row) const;       // of a type with block scales
    std::vector<double> floats(std::size_t row) const; // of a type that is not ternary

    const Tensor *tensor_ = nullptr;
    std::uint64_t row_bytes_ = 0;
    std::size_t spelt_out_group_ = 0; // weights of a row that share s in a ternary matrix of floats, else 0
    WeightFault fault_;
};

// A vector, such as the weights of a norm.
std::vector<double> dense_vector(const Tensor &tensor);

} // namespace ref

#endif

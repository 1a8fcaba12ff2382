// SPDX-License-Identifier: MIT
//
// Decodes the tensor types. Each decoder states the formula of one element and is not made for speed.
#include "weights.hpp"

#include <algorithm>
#include <cmath>

#include "errors.hpp"
#include "numbers.hpp"

namespace ref
{

namespace
{

struct Format {
    std::uint64_t block;       // elements
    std::uint64_t block_bytes; // 0 for I2_S: one flat run of codes, no blocks
    // Of the types with block scales: the code of element i of a block, 0, 1, 2 or 3; and where
    // the binary16 scale is.
    int (*code)(const std::uint8_t *block, std::size_t i) = nullptr;
    std::uint64_t scale_at = 0;
};

// Q4_0: binary16 d, 16 bytes; the low nibbles are elements 0..15, the high ones 16..31; value d * (nibble -
// 8).
double q4_0(const std::uint8_t *block, std::size_t i)
{
    const std::uint8_t byte = block[2 + i % 16];
    const int nibble = i < 16 ? byte & 15 : byte >> 4;
    return half_to_double(read_u16(block)) * (nibble - 8);
}

// Q8_0: binary16 d, 32 signed bytes; value d * byte.
double q8_0(const std::uint8_t *block, std::size_t i)
{
    return half_to_double(read_u16(block)) * static_cast<std::int8_t>(block[2 + i]);
}

// Q6_K, 256 elements: 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales, binary16 d.
// The two halves of 128 elements are alike. In a half, element 32 * part + l has its low four bits in byte
// l + 32 * (part mod 2), low nibble for parts 0 and 1, high for 2 and 3; its upper two bits are pair `part`
// of high byte l. Each 16 elements share a scale. Value d * scale * (six bits - 32).
double q6_k(const std::uint8_t *block, std::size_t i)
{
    const std::uint8_t *low_bits = block;
    const std::uint8_t *high_bits = block + 128;
    const std::uint8_t *scales = block + 192;
    const std::size_t half = i / 128, part = i % 128 / 32, l = i % 32;
    const int low = (low_bits[64 * half + 32 * (part % 2) + l] >> (part < 2 ? 0 : 4)) & 15;
    const int high = (high_bits[32 * half + l] >> (2 * part)) & 3;
    const int scale = static_cast<std::int8_t>(scales[i / 16]);
    return half_to_double(read_u16(block + 208)) * scale * (low + 16 * high - 32);
}

// Q4_K, Q5_K, 256 elements in eight groups of 32: binary16 d and m, 12 bytes with a scale and an offset of six bits
// for each group, in Q5_K 32 bytes of fifth bits, then 128 bytes of low nibbles. The first four groups have their
// scales in bytes 0..3 and their offsets in bytes 4..7, both in the low six bits; the others have the low nibbles of
// both in bytes 8..11, scales first, and the upper bits above the six of the first groups. Two groups share 32 bytes
// of nibbles, the first the low ones. The fifth bit of element l of group g is bit g of byte l. Value d * scale * q -
// m * offset.
double k_quant(const std::uint8_t *block, std::size_t i, bool five)
{
    const std::uint8_t *packed = block + 4, *nibbles = block + (five ? 48 : 16);
    const std::size_t g = i / 32, l = i % 32;
    int scale = packed[g] & 63, offset = packed[g + 4] & 63;
    if (g >= 4) {
        scale = (packed[g + 4] & 15) + 16 * (packed[g - 4] >> 6);
        offset = (packed[g + 4] >> 4) + 16 * (packed[g] >> 6);
    }
    int q = nibbles[g / 2 * 32 + l] >> (g % 2 == 0 ? 0 : 4) & 15;
    if (five) q += 16 * (block[16 + l] >> g & 1);
    return half_to_double(read_u16(block)) * scale * q - half_to_double(read_u16(block + 2)) * offset;
}

// I2_S: the matrix is one flat run of elements; 128 consecutive ones take 32 bytes, and byte p of these holds
// elements p, 32 + p, 64 + p, 96 + p, the first in the highest two bits. Codes 0, 1, 2 are -1, 0, +1.
int i2_s_code(const std::uint8_t *data, std::uint64_t element)
{
    const std::uint64_t j = element % 128;
    return data[element / 128 * 32 + j % 32] >> (6 - 2 * (j / 32)) & 3;
}

// TQ2_0: 64 bytes, binary16 d. Byte 32 h + m holds elements 128 h + m, +32, +64, +96, the first in the LOWEST
// two bits.
int tq2_0_code(const std::uint8_t *block, std::size_t i)
{
    return block[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
}

// TQ1_0: 48 bytes of five digits in base 3, 4 bytes of four digits, binary16 d. The number v of a byte, first
// digit most significant, is stored as the fraction ceil(v * 256 / 243) / 256; multiplying by 3 moves the
// next digit before the point.
int tq1_0_code(const std::uint8_t *block, std::size_t i)
{
    std::size_t byte, digit;
    if (i < 160) {
        byte = i % 32;
        digit = i / 32;
    } else if (i < 240) {
        byte = 32 + (i - 160) % 16;
        digit = (i - 160) / 16;
    } else {
        byte = 48 + (i - 240) % 4;
        digit = (i - 240) / 4;
    }
    unsigned fraction = block[byte];
    for (std::size_t d = 0; d < digit; d++)
        fraction = fraction * 3 % 256;
    return static_cast<int>(fraction * 3 / 256);
}

// Q2_0, PQ2_0: binary16 d, then two bits for each element, the first in the LOWEST two bits of the first byte.
// The code 3, which ternary files do not use, is +2.
int q2_0_code(const std::uint8_t *block, std::size_t i)
{
    return block[2 + i / 4] >> (2 * (i % 4)) & 3;
}

// PTQ1_0, 128 elements: 24 bytes of five digits, 2 bytes of four digits, binary16 d. Digits are stored as in
// TQ1_0. Bytes 0..15 hold elements 0..79, each digit 16 further on; bytes 16..23 elements 80..119, 8 further
// on; bytes 24 and 25 elements 120..127, 2 further on.
int ptq1_0_code(const std::uint8_t *block, std::size_t i)
{
    static const struct {
        std::size_t first_element, first_byte, bytes;
    } parts[] = {{120, 24, 2}, {80, 16, 8}, {0, 0, 16}};
    for (const auto &part : parts) {
        if (i < part.first_element) continue;
        const std::size_t j = i - part.first_element;
        unsigned fraction = block[part.first_byte + j % part.bytes];
        for (std::size_t digit = 0; digit < j / part.bytes; digit++)
            fraction = fraction * 3 % 256;
        return static_cast<int>(fraction * 3 / 256);
    }
    return 3;
}

// The mistake of WeightFault::block_64: the order of I2_S files made on ARM.
int i2_s_code_64(const std::uint8_t *data, std::uint64_t element)
{
    const std::uint64_t j = element % 64;
    return data[element / 64 * 16 + j % 16] >> (6 - 2 * (j / 16)) & 3;
}

// group_64: the mistake of that name.
Format format_of(const Tensor &t, bool group_64)
{
    switch (t.type) {
    case F32:
        return {1, 4};
    case F16:
    case BF16:
        return {1, 2};
    case Q4_0:
        return {32, 18};
    case Q8_0:
        return {32, 34};
    case Q4_K:
        return {256, 144};
    case Q5_K:
        return {256, 176};
    case Q6_K:
        return {256, 210};
    case TQ1_0:
        return {256, 54, tq1_0_code, 52};
    case TQ2_0:
        return {256, 66, tq2_0_code, 64};
    case I2_S:
        return {4, 0};
    case Q2_0:
        if (t.group == 64 || group_64) return {64, 18, q2_0_code, 0};
        return {128, 34, q2_0_code, 0};
    case PQ2_0:
        if (group_64) return {64, 18, q2_0_code, 0};
        return {128, 34, q2_0_code, 0};
    case PTQ1_0:
        return {128, 28, ptq1_0_code, 26};
    default:
        throw Unsupported("tensor '" + t.name + "': type " + std::to_string(t.type) + " is not supported");
    }
}

} // namespace

Matrix::Matrix(const Tensor &tensor, WeightFault fault) : tensor_(&tensor), fault_(fault)
{
    const Format format = format_of(tensor, false);
    if (tensor.columns % format.block != 0)
        throw Malformed("tensor '" + tensor.name + "': rows of " + std::to_string(tensor.columns) +
                        " elements, but its type has blocks of " + std::to_string(format.block));
    row_bytes_ = tensor.columns / format.block * format.block_bytes;
    std::uint64_t bytes = row_bytes_ * tensor.rows;
    if (tensor.type == I2_S) {
        if (tensor.columns * tensor.rows % 128 != 0)
            throw Malformed("tensor '" + tensor.name + "': not a multiple of 128 elements");
        bytes = tensor.columns * tensor.rows / 4 + 4; // the scale follows the codes
    }
    if (bytes > tensor.available)
        throw Malformed("tensor '" + tensor.name + "' is incomplete: the file ends too early");
}

bool Matrix::is_ternary() const
{
    return tensor_->type == I2_S || has_block_scales() || spelt_out_group_ > 0;
}

bool Matrix::has_block_scales() const
{
    return format_of(*tensor_, false).code != nullptr;
}

void Matrix::recognise_ternary(bool by_groups)
{
    const std::size_t group = by_groups ? 64 : columns();
    if (tensor_->type != F32 && tensor_->type != F16 && tensor_->type != BF16) return;
    if (columns() % group != 0) return;
    double s = 0;
    for (std::size_t r = 0; r < rows(); r++) {
        const std::vector<double> row = floats(r);
        for (std::size_t i = 0; i < row.size(); i++) {
            if (by_groups && i % group == 0) s = 0;
            if (row[i] == 0) continue;
            if (s == 0) s = std::fabs(row[i]);
            if (std::fabs(row[i]) != s) return;
        }
    }
    spelt_out_group_ = group;
}

TernaryRow Matrix::block_row(std::size_t row) const
{
    const Format format = format_of(*tensor_, fault_.group_64);
    // A wrong size of the groups moves every row; the last ones must not be beyond the end.
    const std::uint64_t row_bytes = columns() / format.block * format.block_bytes;
    if (row_bytes > tensor_->available) throw Malformed("tensor '" + tensor_->name + "' is incomplete");
    const std::uint8_t *start =
        tensor_->data + std::min<std::uint64_t>(row * row_bytes, tensor_->available - row_bytes);
    const std::size_t n_blocks = columns() / format.block;
    TernaryRow out;
    out.block = format.block;
    for (std::size_t b = 0; b < n_blocks; b++) {
        const std::uint8_t *block = start + b * format.block_bytes;
        const std::uint8_t *scaled =
            fault_.neighbour ? start + (b + 1) % n_blocks * format.block_bytes : block;
        out.scales.push_back(half_to_double(read_u16(scaled + format.scale_at)));
        for (std::size_t i = 0; i < format.block; i++)
            out.codes.push_back(static_cast<std::int8_t>(format.code(block, i)));
    }
    return out;
}

TernaryRow Matrix::ternary_row(std::size_t row) const
{
    const std::size_t n = columns();
    TernaryRow out;
    if (spelt_out_group_ > 0) {
        out.block = spelt_out_group_;
        out.scales.resize(n / out.block);
        for (const double w : floats(row)) {
            double &scale = out.scales[out.codes.size() / out.block];
            scale = std::max(scale, std::fabs(w));
            out.codes.push_back(static_cast<std::int8_t>((w > 0) - (w < 0)));
        }
        return out;
    }
    if (tensor_->type == I2_S) {
        const double scale = read_f32(tensor_->data + tensor_->columns * tensor_->rows / 4);
        out.block = n;
        out.scales.push_back(fault_.scale ? 1.0 : scale);
        for (std::uint64_t element = std::uint64_t{row} * n; element < (std::uint64_t{row} + 1) * n;
             element++)
            out.codes.push_back(static_cast<std::int8_t>(
                fault_.block_64 ? i2_s_code_64(tensor_->data, element) : i2_s_code(tensor_->data, element)));
    } else {
        out = block_row(row);
    }
    for (std::int8_t &code : out.codes) {
        if (code == 3 && tensor_->type != Q2_0 && tensor_->type != PQ2_0)
            throw Malformed("tensor '" + tensor_->name + "' contains the unused code 3");
        if (fault_.code_map) code = static_cast<std::int8_t>((code + 1) % 3);
        code = static_cast<std::int8_t>(code - 1);
    }
    return out;
}

std::vector<double> Matrix::dense_row(std::size_t row) const
{
    if (tensor_->type == I2_S || has_block_scales()) {
        const TernaryRow w = ternary_row(row);
        std::vector<double> out(columns());
        for (std::size_t i = 0; i < out.size(); i++)
            out[i] = w.scales[i / w.block] * w.codes[i];
        return out;
    }
    return floats(row);
}

std::vector<double> Matrix::floats(std::size_t row) const
{
    std::vector<double> out(columns());
    const std::uint8_t *p = tensor_->data + row * row_bytes_;
    for (std::size_t i = 0; i < out.size(); i++) {
        switch (tensor_->type) {
        case F32:
            out[i] = read_f32(p + 4 * i);
            break;
        case F16:
            out[i] = half_to_double(read_u16(p + 2 * i));
            break;
        case BF16:
            out[i] = bfloat16_to_double(read_u16(p + 2 * i));
            break;
        case Q4_0:
            out[i] = q4_0(p + i / 32 * 18, i % 32);
            break;
        case Q8_0:
            out[i] = q8_0(p + i / 32 * 34, i % 32);
            break;
        case Q4_K:
            out[i] = k_quant(p + i / 256 * 144, i % 256, false);
            break;
        case Q5_K:
            out[i] = k_quant(p + i / 256 * 176, i % 256, true);
            break;
        default: // Q6_K: format_of refuses all other types
            out[i] = q6_k(p + i / 256 * 210, i % 256);
            break;
        }
    }
    return out;
}

std::vector<double> dense_vector(const Tensor &tensor)
{
    const Matrix m(tensor);
    std::vector<double> out;
    for (std::size_t r = 0; r < m.rows(); r++) {
        const std::vector<double> row = m.dense_row(r);
        out.insert(out.end(), row.begin(), row.end());
    }
    return out;
}

} // namespace ref

// SPDX-License-Identifier: MIT
//
// Converts the small number formats to binary64, which holds each of their values exactly.
#ifndef REFERENCE_NUMBERS_HPP
#define REFERENCE_NUMBERS_HPP

#include <cstdint>

namespace ref
{

// IEEE-754 binary16: 1 sign bit, 5 exponent bits (bias 15), 10 fraction bits.
double half_to_double(std::uint16_t bits);
// bfloat16: the upper half of a binary32.
double bfloat16_to_double(std::uint16_t bits);

// The nearest value that binary16 can hold, ties to even; infinity from 65520 on.
double round_to_half(double x);
// The nearest integer, ties to even, in any rounding mode of the machine.
double round_half_even(double x);

// Little-endian bytes in a file, at any alignment.
std::uint16_t read_u16(const std::uint8_t *p);
std::uint32_t read_u32(const std::uint8_t *p);
std::uint64_t read_u64(const std::uint8_t *p);
float read_f32(const std::uint8_t *p);

} // namespace ref

#endif

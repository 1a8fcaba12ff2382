// SPDX-License-Identifier: MIT
//
// The small number formats, implemented by their definitions, not by shifts and masks on binary32.
#include "numbers.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace ref
{

double half_to_double(std::uint16_t bits)
{
    const int sign = bits >> 15;
    const int exponent = (bits >> 10) & 31;
    const int fraction = bits & 1023;
    double magnitude;
    if (exponent == 31) {
        magnitude = fraction == 0 ? std::numeric_limits<double>::infinity()
                                  : std::numeric_limits<double>::quiet_NaN();
    } else if (exponent == 0) {
        magnitude = std::ldexp(fraction, -24); // subnormal: 0.fraction * 2^-14
    } else {
        magnitude = std::ldexp(1024 + fraction, exponent - 25); // 1.fraction * 2^(exponent - 15)
    }
    return sign ? -magnitude : magnitude;
}

double bfloat16_to_double(std::uint16_t bits)
{
    const std::uint32_t wide = std::uint32_t{bits} << 16;
    float x;
    std::memcpy(&x, &wide, sizeof x);
    return x;
}

double round_half_even(double x)
{
    const double below = std::floor(x);
    const double distance = x - below; // exact: they differ by at most one unit
    if (distance < 0.5) return below;
    if (distance > 0.5) return below + 1.0;
    return std::fmod(below, 2.0) == 0.0 ? below : below + 1.0;
}

double round_to_half(double x)
{
    const double magnitude = std::fabs(x);
    if (std::isnan(x) || magnitude == 0.0) return x;
    if (magnitude >= 65520.0) return std::copysign(std::numeric_limits<double>::infinity(), x);
    // Near x, neighbouring binary16 values differ by one quantum: 2^(e-10) for 2^e <= |x| < 2^(e+1), and
    // 2^-24 for everything below 2^-14. Dividing by a power of two is exact, so there is one rounding in all.
    const int e = std::max(std::ilogb(magnitude), -14);
    const double quantum = std::ldexp(1.0, e - 10);
    return std::copysign(round_half_even(magnitude / quantum) * quantum, x);
}

std::uint16_t read_u16(const std::uint8_t *p)
{
    return static_cast<std::uint16_t>(p[0] | p[1] << 8);
}

std::uint32_t read_u32(const std::uint8_t *p)
{
    return std::uint32_t{read_u16(p)} | std::uint32_t{read_u16(p + 2)} << 16;
}

std::uint64_t read_u64(const std::uint8_t *p)
{
    return std::uint64_t{read_u32(p)} | std::uint64_t{read_u32(p + 4)} << 32;
}

float read_f32(const std::uint8_t *p)
{
    const std::uint32_t bits = read_u32(p);
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

} // namespace ref

// SPDX-License-Identifier: MIT
//
// The operations of a transformer, one function each, on single rows of binary64. These are the definitions;
// nothing is fused, cached or reordered. The one exception to binary64 is `As::Engines` in the ternary layer:
// it repeats the binary32 roundings of the engines, so that results can be compared bit for bit.
#ifndef REFERENCE_OPS_HPP
#define REFERENCE_OPS_HPP

#include <cstdint>
#include <vector>

#include "weights.hpp"

namespace ref
{

using Row = std::vector<double>;

// Root-mean-square norm (Zhang and Sennrich 2019): y_i = w_i * x_i / sqrt(mean(x^2) + eps).
Row rmsnorm(const Row &x, const Row &weight, double eps);

// p_i = exp(x_i) / sum_j exp(x_j). Numerator and denominator are divided by exp(max x), so nothing overflows.
Row softmax(const Row &x);

// silu(x) = x / (1 + exp(-x)); relu2(x) = max(x, 0)^2, the activation of BitNet b1.58 2B4T. gelu is the
// approximation by tanh that Gemma was trained with (Hendrycks and Gimpel 2016), gelu_erf the function itself.
double silu(double x);
double relu2(double x);
double gelu(double x);
double gelu_erf(double x);

// Rotary position embedding (Su et al. 2021). A head's elements are taken in pairs (a, b), and pair i is
// rotated by the angle position * frequency_i, so that the product of a query and a key depends only on
// their distance. Neox pairs element i with i + n/2; Norm pairs 2i with 2i + 1.
enum class RopeStyle { Neox, Norm };
// frequency_i = base^(-2i/n) / factor_i * scale, i < n/2. No factors: all are 1.
Row rope_frequencies(std::size_t n, double base, double scale, const Row &factors);
// YaRN (Peng et al. 2023), the extension of a rotation that was trained for `original` positions by `factor`.
// A pair turns r = original * frequency / (2 pi) times over that length. From beta_fast turns on it keeps its
// frequency, up to beta_slow its frequency is divided by the factor, and in between it gets a mixture that is
// linear in the number of the pair. ext: the share of all this, 1 in full.
struct Yarn {
    double factor = 1, original = 0, beta_fast = 32, beta_slow = 1, ext = 1, attn = 1;
};
Row yarn_frequencies(std::size_t n, double base, const Yarn &yarn);
// What rotated elements are multiplied by: attn * (1 + 0.1 ln factor).
double yarn_magnitude(const Yarn &yarn);
// The normalised Sylvester-Walsh-Hadamard transform in blocks of n, a power of two: in each block
// y_r = sum_c (-1)^popcount(r and c) x_c / sqrt(n).
Row hadamard(const Row &x, std::size_t n);
// The same as engines compute it: sums and differences of pairs 1, 2, 4 ... apart, then the factor, with one
// rounding to binary32 after each operation.
Row hadamard_binary32(const Row &x, std::size_t n);
// Rotates the first 2 * |frequencies| elements of the head; the others do not change.
void rope(double *head, const Row &frequencies, double position, RopeStyle style);

// How a ternary layer computes.
enum class As {
    Binary64, // 127 / amax, products, and results in binary64
    Engines   // binary32 with one rounding after each operation, as in the engines
};

// Activations of one row in eight bits: q_i = round(x_i * scale), scale = 127 / max(1e-5, max_j |x_j|), so
// that the largest becomes 127. Ties go to the even neighbour (Ma et al. 2024, "The Era of 1-bit LLMs",
// absmax).
struct Quantised {
    std::vector<std::int8_t> q;
    double scale = 0;
};
Quantised quantise(const Row &x, As as);

// One output of a ternary layer. The weights are scale_b * code with code in {-1, 0, +1}, one scale b per
// block (I2_S: one block), the activations q / s; so y = sum_b scale_b * t_b / s with t_b = sum over the
// block of code_i * q_i, a sum of integers and therefore exact in any order.
double ternary_dot(const TernaryRow &w, bool block_scales, const Quantised &x, As as);

// The same as engines compute it for scales of groups when the inputs have 16 bits: in each group the step is
// the greatest power of two that is not above the largest |x|, divided by 8192, inputs are rounded to whole
// steps, and fma(scale, t * step, sum) adds the group's exact sum t.
double grouped_dot(const TernaryRow &w, const Row &x);

double dot(const Row &a, const Row &b);

// Attention of one query head over keys and values 0..n-1 (Vaswani et al. 2017):
// out = sum_p softmax_p(q . k_p / sqrt(d)) v_p. Keys and values are rows `stride` apart.
Row attention(const double *query, const double *keys, const double *values, std::size_t n, std::size_t d,
              std::size_t stride);

} // namespace ref

#endif

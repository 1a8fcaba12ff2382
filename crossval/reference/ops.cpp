// SPDX-License-Identifier: MIT
//
// The operations, each written as its formula.
#include "ops.hpp"

#include <algorithm>
#include <cmath>

#include "numbers.hpp"

namespace ref
{

Row rmsnorm(const Row &x, const Row &weight, double eps)
{
    double squares = 0;
    for (const double v : x)
        squares += v * v;
    const double root = std::sqrt(squares / static_cast<double>(x.size()) + eps);
    Row y(x.size());
    for (std::size_t i = 0; i < x.size(); i++)
        y[i] = weight[i] * x[i] / root;
    return y;
}

Row softmax(const Row &x)
{
    const double top = *std::max_element(x.begin(), x.end());
    Row p(x.size());
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); i++)
        sum += p[i] = std::exp(x[i] - top);
    for (double &v : p)
        v /= sum;
    return p;
}

double silu(double x)
{
    return x / (1 + std::exp(-x));
}

double relu2(double x)
{
    return x > 0 ? x * x : 0;
}

double gelu(double x)
{
    const double inner = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
    return x / 2 * (1 + std::tanh(inner));
}

double gelu_erf(double x)
{
    return x / 2 * std::erfc(-x / std::sqrt(2.0));
}

Row rope_frequencies(std::size_t n, double base, double scale, const Row &factors)
{
    Row frequencies(n / 2);
    for (std::size_t i = 0; i < n / 2; i++) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(n);
        frequencies[i] = std::pow(base, exponent) * scale / (factors.empty() ? 1.0 : factors[i]);
    }
    return frequencies;
}

// The number of the pair that makes that many turns, as a real number.
static double pair_of_turns(double turns, std::size_t n, double base, double original)
{
    const double pi = std::acos(-1.0);
    return static_cast<double>(n) * std::log(original / (turns * 2 * pi)) / (2 * std::log(base));
}

Row yarn_frequencies(std::size_t n, double base, const Yarn &yarn)
{
    const double low = std::max(0.0, std::floor(pair_of_turns(yarn.beta_fast, n, base, yarn.original)));
    const double high = std::min(static_cast<double>(n) - 1,
                                 std::ceil(pair_of_turns(yarn.beta_slow, n, base, yarn.original)));
    Row frequencies = rope_frequencies(n, base, 1, {});
    for (std::size_t i = 0; i < frequencies.size(); i++) {
        const double along = (static_cast<double>(i) - low) / std::max(0.001, high - low);
        const double kept = (1 - std::clamp(along, 0.0, 1.0)) * yarn.ext;
        frequencies[i] *= kept + (1 - kept) / yarn.factor;
    }
    return frequencies;
}

double yarn_magnitude(const Yarn &yarn)
{
    return yarn.attn * (yarn.ext != 0 && yarn.factor > 1 ? 1 + 0.1 * std::log(yarn.factor) : 1);
}

Row hadamard(const Row &x, std::size_t n)
{
    Row y(x.size());
    for (std::size_t block = 0; block + n <= x.size(); block += n)
        for (std::size_t r = 0; r < n; r++) {
            double sum = 0;
            for (std::size_t c = 0; c < n; c++) {
                bool odd = false;
                for (std::size_t both = r & c; both != 0; both >>= 1)
                    odd ^= (both & 1) != 0;
                sum += odd ? -x[block + c] : x[block + c];
            }
            y[block + r] = sum / std::sqrt(static_cast<double>(n));
        }
    return y;
}

Row hadamard_binary32(const Row &x, std::size_t n)
{
    const auto rounded = [](double v) { return double{static_cast<float>(v)}; };
    Row y = x;
    for (std::size_t apart = 1; apart < n; apart *= 2)
        for (std::size_t i = 0; i < y.size(); i++) {
            if ((i & apart) != 0) continue;
            const double sum = y[i] + y[i + apart], difference = y[i] - y[i + apart];
            y[i] = rounded(sum);
            y[i + apart] = rounded(difference);
        }
    const double factor = rounded(1 / std::sqrt(static_cast<double>(n)));
    for (double &v : y)
        v = rounded(v * factor);
    return y;
}

void rope(double *head, const Row &frequencies, double position, RopeStyle style)
{
    const std::size_t pairs = frequencies.size();
    for (std::size_t i = 0; i < pairs; i++) {
        double &a = style == RopeStyle::Neox ? head[i] : head[2 * i];
        double &b = style == RopeStyle::Neox ? head[i + pairs] : head[2 * i + 1];
        const double angle = position * frequencies[i];
        const double turned_a = a * std::cos(angle) - b * std::sin(angle);
        const double turned_b = a * std::sin(angle) + b * std::cos(angle);
        a = turned_a;
        b = turned_b;
    }
}

Quantised quantise(const Row &x, As as)
{
    double amax = 1e-5;
    for (const double v : x)
        amax = std::max(amax, std::fabs(as == As::Engines ? static_cast<float>(v) : v));
    Quantised out;
    out.scale = 127.0 / amax;
    if (as == As::Engines) out.scale = static_cast<float>(out.scale);
    out.q.reserve(x.size());
    for (const double v : x) {
        // In binary32 the product is rounded once before it is rounded to an integer.
        const double product =
            as == As::Engines ? double{static_cast<float>(v) * static_cast<float>(out.scale)} : v * out.scale;
        out.q.push_back(static_cast<std::int8_t>(std::clamp(round_half_even(product), -127.0, 127.0)));
    }
    return out;
}

double ternary_dot(const TernaryRow &w, bool block_scales, const Quantised &x, As as)
{
    double wide = 0;
    float narrow = 0;
    std::int32_t t = 0;
    for (std::size_t b = 0; b < w.scales.size(); b++) {
        t = 0;
        for (std::size_t i = b * w.block; i < (b + 1) * w.block; i++)
            t += std::int32_t{w.codes[i]} * x.q[i];
        wide += t * w.scales[b];
        // Blocks are added in ascending order, each with one rounding.
        narrow = std::fma(static_cast<float>(t), static_cast<float>(w.scales[b]), narrow);
    }
    if (as == As::Binary64) return wide / x.scale;
    const float s = static_cast<float>(x.scale);
    if (block_scales) return narrow / s;
    const float quotient = static_cast<float>(t) / s; // |t| < 2^24, so it is exact in binary32
    return quotient * static_cast<float>(w.scales[0]);
}

double grouped_dot(const TernaryRow &w, const Row &x)
{
    float sum = 0;
    for (std::size_t b = 0; b < w.scales.size(); b++) {
        double amax = std::ldexp(1.0, -100);
        for (std::size_t i = b * w.block; i < (b + 1) * w.block; i++)
            amax = std::max(amax, std::fabs(static_cast<double>(static_cast<float>(x[i]))));
        const double step = std::ldexp(1.0, std::ilogb(amax) - 13);
        double t = 0; // a whole number below 2^24
        for (std::size_t i = b * w.block; i < (b + 1) * w.block; i++)
            t += w.codes[i] * round_half_even(static_cast<float>(x[i]) / step);
        sum = std::fma(static_cast<float>(w.scales[b]), static_cast<float>(t * step), sum);
    }
    return sum;
}

double dot(const Row &a, const Row &b)
{
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); i++)
        sum += a[i] * b[i];
    return sum;
}

Row attention(const double *query, const double *keys, const double *values, std::size_t n, std::size_t d,
              std::size_t stride)
{
    Row scores(n);
    for (std::size_t p = 0; p < n; p++) {
        for (std::size_t i = 0; i < d; i++)
            scores[p] += query[i] * keys[p * stride + i];
        scores[p] /= std::sqrt(static_cast<double>(d));
    }
    const Row share = softmax(scores);
    Row out(d);
    for (std::size_t p = 0; p < n; p++)
        for (std::size_t i = 0; i < d; i++)
            out[i] += share[p] * values[p * stride + i];
    return out;
}

} // namespace ref

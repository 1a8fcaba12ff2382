/* SPDX-License-Identifier: MIT
 *
 * Distribution functions. Student's t and the binomial are incomplete beta functions, by the continued
 * fraction of Abramowitz and Stegun 26.5.8 in Lentz's form. Quantiles are found by bisection.
 */
#include "lab/stats/distribution.h"

#include <math.h>

#define ONE_OVER_SQRT2 0.70710678118654752440

double bn_normal_cdf(double z)
{
    return 0.5 * erfc(-z * ONE_OVER_SQRT2);
}

/* A step of Lentz's method must not divide by nothing. */
static double not_zero(double x)
{
    return fabs(x) < 1e-300 ? 1e-300 : x;
}

/* The continued fraction; converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double x, double a, double b)
{
    double c = 1, d = 1 / not_zero(1 - (a + b) * x / (a + 1)), h = d;
    for (int i = 1; i < 10000; i++) {
        double m = i, even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 / not_zero(1 + even * d);
        c = not_zero(1 + even / c);
        h *= c * d;
        d = 1 / not_zero(1 + odd * d);
        c = not_zero(1 + odd / c);
        h *= c * d;
        if (fabs(c * d - 1) < 1e-15) break;
    }
    return h;
}

/* I_x(a, b), regularised; y is 1 - x, given apart since it may be tiny. */
static double incomplete_beta(double x, double y, double a, double b)
{
    if (x <= 0) return 0;
    if (y <= 0) return 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(y));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(x, a, b) / a;
    return 1 - front * beta_fraction(y, b, a) / b;
}

double bn_student_cdf(double t, double df)
{
    double whole = df + t * t;
    double tail = 0.5 * incomplete_beta(df / whole, t * t / whole, 0.5 * df, 0.5);
    return t > 0 ? 1 - tail : tail;
}

double bn_binomial_cdf(size_t k, size_t n, double p)
{
    if (k >= n) return 1;
    return incomplete_beta(1 - p, p, (double)(n - k), (double)k + 1);
}

/* Of a distribution that is symmetric about 0: the lower half, mirrored for the upper. */
static double quantile(double (*cdf)(double, double), double df, double p)
{
    if (p > 0.5) return -quantile(cdf, df, 1 - p);
    if (!(p > 0)) return (double)-INFINITY;
    double low = -1, high = 0;
    while (cdf(low, df) > p && low > -1e300)
        low *= 2;
    for (int i = 0; i < 200 && low < high; i++) {
        double middle = low + 0.5 * (high - low);
        if (middle <= low || middle >= high) break;
        if (cdf(middle, df) < p)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static double normal(double z, double ignored)
{
    (void)ignored;
    return bn_normal_cdf(z);
}

double bn_normal_quantile(double p)
{
    return quantile(normal, 0, p);
}

double bn_student_quantile(double p, double df)
{
    return quantile(bn_student_cdf, df, p);
}

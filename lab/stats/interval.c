/* SPDX-License-Identifier: MIT
 *
 * Distributions, intervals of medians and shares, and the comparison of two shares.
 *
 * Student's t and the binomial are incomplete beta functions, by the continued fraction of Abramowitz and Stegun
 * 26.5.8 in Lentz's form; quantiles are found by bisection. An interval of a median is a pair of order statistics, so it assumes nothing about the distribution.
 * Fisher's test: given both margins, the number of hits among the samples of a is hypergeometric when the
 * shares are equal. A tail is summed outwards from the observed number, where its terms only get smaller.
 */
#include "lab/stats/interval.h"

#include <math.h>

#include "base/error.h"
#include "lab/stats/summary.h"

#define NOT_A_NUMBER (double)NAN

/* ---- distributions ---- */

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

/* ---- medians ---- */

/* The number of samples below the median is binomial of n and 1/2: the least k <= n with P(X <= k) > tail. Ranks
 * count from 1. */
static size_t binomial_rank(size_t n, double tail)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t k = low + (high - low) / 2;
        if (bn_binomial_cdf(k, n, 0.5) > tail)
            high = k;
        else
            low = k + 1;
    }
    return low;
}

bn_status bn_interval_median(struct bn_interval *out, const double *samples, size_t n, double confidence,
                             bn_error *err)
{
    *out = (struct bn_interval){NOT_A_NUMBER, NOT_A_NUMBER, NOT_A_NUMBER, "order statistics"};
    for (size_t i = 0; i < n; i++)
        if (!isfinite(samples[i])) return bn_fail(err, BN_ERR_ARG, "sample %zu is not finite", i);
    if (n == 0) return BN_OK;
    double *sorted = bn_sorted_copy(samples, n);
    if (sorted == NULL) return bn_nomem(err);
    size_t rank = binomial_rank(n, (1 - confidence) / 2);
    out->estimate = bn_sorted_quantile(sorted, n, 0.5);
    if (rank > 0) {
        out->low = sorted[rank - 1];
        out->high = sorted[n - rank];
    }
    bn_free(sorted);
    return BN_OK;
}

/* ---- shares ---- */

struct bn_interval bn_interval_wilson(double share, double n, double confidence)
{
    struct bn_interval out = {share, NOT_A_NUMBER, NOT_A_NUMBER, "Wilson"};
    if (!(n > 0) || !(share >= 0 && share <= 1)) return out;
    double z = bn_normal_quantile(0.5 + 0.5 * confidence), zz = z * z / n;
    double middle = (share + 0.5 * zz) / (1 + zz);
    double half = z * sqrt(share * (1 - share) / n + 0.25 * zz / n) / (1 + zz);
    out.low = fmax(0, middle - half);
    out.high = fmin(1, middle + half);
    return out;
}

#define MOST_SAMPLES 0x1p24

/* k hits and m misses in total; n of these samples are a's. */
struct margins {
    double k, m, n;
};

static double log_choose(double n, double k)
{
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1);
}

/* The probability that x of a's samples are hits. */
static double probability(const struct margins *g, double x)
{
    return exp(log_choose(g->k, x) + log_choose(g->m, g->n - x) - log_choose(g->k + g->m, g->n));
}

/* The probability of at most x hits; x is not above the expected number. */
static double lower_tail(const struct margins *g, double x)
{
    double term = probability(g, x), sum = term;
    for (; x > 0 && term > sum * 0x1p-56; x--) {
        term *= x * (g->m - g->n + x) / ((g->k - x + 1) * (g->n - x + 1));
        if (!(term > 0)) break;
        sum += term;
    }
    return sum;
}

/* The side with fewer hits than expected becomes a: the other tail is the same event. */
static double fisher(double hits_a, double n_a, double hits_b, double n_b)
{
    double k = hits_a + hits_b, all = n_a + n_b;
    struct margins of_a = {k, all - k, n_a}, of_b = {k, all - k, n_b};
    double p = hits_a * all <= n_a * k ? lower_tail(&of_a, hits_a) : lower_tail(&of_b, hits_b);
    return fmax(fmin(2 * p, 1), 0x1p-1000);
}

struct bn_fisher bn_fisher(double a, double n_a, double b, double n_b)
{
    if (!(n_a >= 1 && n_b >= 1)) return (struct bn_fisher){NOT_A_NUMBER, NOT_A_NUMBER};
    n_a = round(fmin(n_a, MOST_SAMPLES));
    n_b = round(fmin(n_b, MOST_SAMPLES));
    double hits_a = round(a * n_a), hits_b = round(b * n_b), hits = hits_a + hits_b;
    double least_a = fmax(0, hits - n_b), most_a = fmin(hits, n_a);
    return (struct bn_fisher){
        fisher(hits_a, n_a, hits_b, n_b),
        fmin(fisher(least_a, n_a, hits - least_a, n_b), fisher(most_a, n_a, hits - most_a, n_b))};
}

struct bn_interval bn_interval_difference(double a, double n_a, double b, double n_b, double confidence)
{
    struct bn_interval out = {NOT_A_NUMBER, NOT_A_NUMBER, NOT_A_NUMBER, "Newcombe"};
    if (!(n_a >= 1 && n_b >= 1)) return out;
    struct bn_interval of_a = bn_interval_wilson(a, fmin(n_a, MOST_SAMPLES), confidence);
    struct bn_interval of_b = bn_interval_wilson(b, fmin(n_b, MOST_SAMPLES), confidence);
    out.estimate = b - a;
    out.low = out.estimate - hypot(b - of_b.low, of_a.high - a);
    out.high = out.estimate + hypot(of_b.high - b, a - of_a.low);
    return out;
}

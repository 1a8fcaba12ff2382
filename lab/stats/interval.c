/* SPDX-License-Identifier: MIT
 *
 * Intervals of medians, quantiles and shares, and the comparison of two shares.
 *
 * An interval of a quantile is a pair of order statistics, so it assumes nothing about the distribution.
 * Fisher's test: given both margins, the number of hits among the samples of a is hypergeometric when the
 * shares are equal. A tail is summed outwards from the observed number, where its terms only get smaller.
 */
#include "lab/stats/interval.h"

#include <math.h>

#include "base/error.h"
#include "lab/stats/distribution.h"
#include "lab/stats/summary.h"

#define NOT_A_NUMBER (double)NAN

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

/* SPDX-License-Identifier: MIT
 *
 * See proportions.h. Given both margins, the number of hits among the samples of a is hypergeometric when
 * the shares are alike. A tail is summed from what was seen outwards, where its terms only get smaller, and
 * ends when they add nothing.
 */
#include "lab/stats/proportions.h"

#include <math.h>

#define MOST_SAMPLES 0x1p24

/* k hits and m misses in all; n of these samples are a's. */
struct margins {
    double k, m, n;
};

static double log_choose(double n, double k)
{
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1);
}

/* That x of a's samples are hits. */
static double probability(const struct margins *g, double x)
{
    return exp(log_choose(g->k, x) + log_choose(g->m, g->n - x) - log_choose(g->k + g->m, g->n));
}

/* Of at most x hits, for an x that is not above the expected number. */
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

/* The side that has fewer hits than expected is made a: the other tail is the same event. */
static double fisher(double hits_a, double n_a, double hits_b, double n_b)
{
    double k = hits_a + hits_b, all = n_a + n_b;
    struct margins of_a = {k, all - k, n_a}, of_b = {k, all - k, n_b};
    double p = hits_a * all <= n_a * k ? lower_tail(&of_a, hits_a) : lower_tail(&of_b, hits_b);
    return fmax(fmin(2 * p, 1), 0x1p-1000);
}

struct bn_fisher bn_fisher(double a, double n_a, double b, double n_b)
{
    if (!(n_a >= 1 && n_b >= 1)) return (struct bn_fisher){(double)NAN, (double)NAN};
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
    struct bn_interval out = {(double)NAN, (double)NAN, (double)NAN, "Newcombe"};
    if (!(n_a >= 1 && n_b >= 1)) return out;
    struct bn_interval of_a = bn_interval_wilson(a, fmin(n_a, MOST_SAMPLES), confidence);
    struct bn_interval of_b = bn_interval_wilson(b, fmin(n_b, MOST_SAMPLES), confidence);
    out.estimate = b - a;
    out.low = out.estimate - hypot(b - of_b.low, of_a.high - a);
    out.high = out.estimate + hypot(of_b.high - b, a - of_a.low);
    return out;
}

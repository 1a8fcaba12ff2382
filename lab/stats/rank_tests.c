/* SPDX-License-Identifier: MIT
 *
 * Rank tests: Wilcoxon's signed ranks, and Mann and Whitney's U. Exact distributions are counted by dynamic
 * programming over doubled midranks, which are whole numbers, so ties need no special case. The shifts are
 * order statistics of all pairs of samples, found by bisection on the value with a count in linear time; no
 * list of pairs is made.
 */
#include "lab/stats/interval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "lab/stats/summary.h"

#define NONE (double)NAN
#define SIGNED_RANK_EXACT 25u
#define RANK_SUM_EXACT 20u

/* ---- midranks ---- */

struct ranked {
    double value;
    size_t index;
};

static int by_value(const void *a, const void *b)
{
    double x = ((const struct ranked *)a)->value, y = ((const struct ranked *)b)->value;
    return (x > y) - (x < y);
}

/* Twice the midrank of each of n values; returns the sum of t^3 - t over the groups of t equal ones. */
static double double_midranks(size_t *ranks, const double *values, size_t n, struct ranked *scratch)
{
    double ties = 0;
    for (size_t i = 0; i < n; i++)
        scratch[i] = (struct ranked){values[i], i};
    qsort(scratch, n, sizeof *scratch, by_value);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && scratch[to].value <= scratch[from].value;)
            to++;
        for (size_t i = from; i < to; i++)
            ranks[scratch[i].index] = from + to + 1; /* of ranks from + 1 .. to */
        double t = (double)(to - from);
        ties += t * t * t - t;
    }
    return ties;
}

/* Two-sided p of a normal distance, with a continuity correction of half_step. */
static double normal_p(double distance, double half_step, double variance)
{
    if (variance <= 0) return 1;
    double z = fmax(fabs(distance) - half_step, 0) / sqrt(variance);
    return fmax(fmin(2 * bn_normal_cdf(-z), 1), 0x1p-1000);
}

static bn_status check(const double *x, size_t n, bn_error *err)
{
    if (n > BN_RANKS_MAX) return bn_fail(err, BN_ERR_LIMIT, "more than %u samples", BN_RANKS_MAX);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return bn_fail(err, BN_ERR_ARG, "sample %zu is not finite", i);
    return BN_OK;
}

/* ---- order statistics of pairs ---- */

/* All differences b[j] - a[i]; without b, all Walsh averages (a[i] + a[j]) / 2 for i <= j. Both ascend. */
struct pairs {
    const double *a, *b;
    size_t n_a, n_b;
};

static uint64_t walsh_up_to(const struct pairs *p, double v)
{
    uint64_t count = 0;
    size_t j = p->n_a;
    for (size_t i = 0; i < p->n_a; i++) {
        while (j > i && 0.5 * (p->a[i] + p->a[j - 1]) > v)
            j--;
        if (j <= i) break;
        count += j - i;
    }
    return count;
}

static uint64_t differences_up_to(const struct pairs *p, double v)
{
    uint64_t count = 0;
    size_t i = 0;
    for (size_t j = 0; j < p->n_b; j++) {
        while (i < p->n_a && p->b[j] - p->a[i] > v)
            i++;
        count += p->n_a - i;
    }
    return count;
}

/* Doubles as integers of the same order, and back. */
static uint64_t key_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static double of_key(uint64_t key)
{
    double x;
    uint64_t bits = key >> 63 ? key & ~(UINT64_C(1) << 63) : ~key;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The k-th smallest, from 1: exact, since it is the least number that k pairs do not exceed. */
static double kth_pair(const struct pairs *p, uint64_t k)
{
    double least = p->b == NULL ? p->a[0] : p->b[0] - p->a[p->n_a - 1];
    double most = p->b == NULL ? p->a[p->n_a - 1] : p->b[p->n_b - 1] - p->a[0];
    uint64_t low = key_of(least), high = key_of(most);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        double v = of_key(middle);
        if ((p->b == NULL ? walsh_up_to(p, v) : differences_up_to(p, v)) >= k)
            high = middle;
        else
            low = middle + 1;
    }
    return of_key(low) + 0.0;
}

/* The median of the pairs, and the pairs of rank k from both ends; k 0: no interval. */
static struct bn_interval pair_interval(const struct pairs *p, uint64_t k, const char *method)
{
    uint64_t n = p->b == NULL ? (uint64_t)p->n_a * (p->n_a + 1) / 2 : (uint64_t)p->n_a * p->n_b;
    double middle = kth_pair(p, (n + 1) / 2);
    struct bn_interval out = {middle, (double)NAN, (double)NAN, method};
    if (n % 2 == 0) out.estimate = middle + 0.5 * (kth_pair(p, n / 2 + 1) - middle);
    if (k == 0) return out;
    out.low = kth_pair(p, k);
    out.high = kth_pair(p, n + 1 - k);
    return out;
}

/* The largest k for which the ends of rank k leave out no more than 1 - confidence: by the distribution of
 * the test's statistic without ties (count[s] ways for s), or by the normal one. */
static uint64_t rank_by_count(const double *count, size_t n_count, double confidence)
{
    double all = 0, below = 0;
    uint64_t k = 0;
    for (size_t s = 0; s < n_count; s++)
        all += count[s];
    for (size_t s = 0; s < n_count; s++, k++) {
        below += count[s];
        if (2 * below > (1 - confidence) * all * (1 + 1e-12)) break;
    }
    return k;
}

static uint64_t rank_by_normal(double n_pairs, double variance, double confidence)
{
    double z = bn_normal_quantile(0.5 + 0.5 * confidence);
    double k = floor(0.5 * n_pairs + 0.5 - z * sqrt(variance));
    return k >= 1 ? (uint64_t)k : 0;
}

/* Of all ways, those whose statistic is at least as far from the middle; both in doubled ranks. */
static double p_by_count(const double *count, size_t n_count, double middle, double seen)
{
    double all = 0, extreme = 0;
    for (size_t s = 0; s < n_count; s++) {
        all += count[s];
        if (fabs((double)s - middle) >= fabs(seen - middle)) extreme += count[s];
    }
    return extreme / all;
}

/* ---- room to work in ---- */

struct work {
    double *values; /* signed ranks: sizes of the differences that are not 0; rank sums: a, then b */
    double *sorted; /* the samples; of rank sums each half ascends */
    double *count;  /* ways for each value of the statistic */
    size_t *ranks;
    struct ranked *scratch;
};

static bool open_work(struct work *w, size_t n, size_t n_count)
{
    *w = (struct work){.values = bn_alloc(n, sizeof *w->values),
                       .sorted = bn_alloc(n, sizeof *w->sorted),
                       .count = bn_alloc(n_count, sizeof *w->count),
                       .ranks = bn_alloc(n, sizeof *w->ranks),
                       .scratch = bn_alloc(n, sizeof *w->scratch)};
    return w->values != NULL && w->sorted != NULL && w->count != NULL && w->ranks != NULL &&
           w->scratch != NULL;
}

static void close_work(struct work *w)
{
    bn_free(w->values);
    bn_free(w->sorted);
    bn_free(w->count);
    bn_free(w->ranks);
    bn_free(w->scratch);
}

/* ---- signed ranks ---- */

/* count[s]: subsets of the ranks whose sum is s; sums go up to n_count - 1. */
static void count_subsets(double *count, size_t n_count, const size_t *ranks, size_t n)
{
    memset(count, 0, n_count * sizeof *count);
    count[0] = 1;
    for (size_t i = 0; i < n; i++)
        for (size_t s = n_count; s-- > ranks[i];)
            count[s] += count[s - ranks[i]];
}

static void test_signs(struct bn_rank_test *out, const double *d, size_t n, struct work *w)
{
    size_t m = 0, sum = 0;
    for (size_t i = 0; i < n; i++)
        if (d[i] < 0 || d[i] > 0) w->values[m++] = fabs(d[i]);
    double ties = double_midranks(w->ranks, w->values, m, w->scratch);
    for (size_t i = 0, at = 0; i < n; i++) {
        if (d[i] > 0) sum += w->ranks[at];
        at += d[i] < 0 || d[i] > 0;
    }
    double k = (double)m, middle = k * (k + 1) / 4;
    out->statistic = 0.5 * (double)sum;
    if (m <= SIGNED_RANK_EXACT) {
        count_subsets(w->count, m * (m + 1) + 1, w->ranks, m);
        out->p = p_by_count(w->count, m * (m + 1) + 1, 2 * middle, (double)sum);
    } else {
        out->p = normal_p(out->statistic - middle, 0.5, k * (k + 1) * (2 * k + 1) / 24 - ties / 48);
    }
}

/* Pairs without a difference count here: they are evidence for a shift near 0. */
static void shift_of_pairs(struct bn_rank_test *out, size_t n, double confidence, const struct work *w)
{
    double k = (double)n;
    uint64_t rank;
    if (n <= SIGNED_RANK_EXACT) {
        for (size_t i = 0; i < n; i++)
            w->ranks[i] = i + 1;
        count_subsets(w->count, n * (n + 1) / 2 + 1, w->ranks, n);
        rank = rank_by_count(w->count, n * (n + 1) / 2 + 1, confidence);
    } else {
        rank = rank_by_normal(k * (k + 1) / 2, k * (k + 1) * (2 * k + 1) / 24, confidence);
    }
    struct pairs walsh = {.a = w->sorted, .n_a = n};
    out->shift = pair_interval(&walsh, rank, "signed ranks");
}

bn_status bn_signed_rank(struct bn_rank_test *out, const double *d, size_t n, double confidence,
                         bn_error *err)
{
    *out = (struct bn_rank_test){.p = 1, .shift = {(double)NAN, (double)NAN, (double)NAN, "signed ranks"}};
    BN_TRY(check(d, n, err));
    if (n == 0) return BN_OK;
    struct work w;
    bool ok = open_work(&w, n, SIGNED_RANK_EXACT * (SIGNED_RANK_EXACT + 1) + 1);
    if (ok) {
        memcpy(w.sorted, d, n * sizeof *d);
        bn_sort(w.sorted, n);
        test_signs(out, d, n, &w);
        shift_of_pairs(out, n, confidence, &w);
    }
    close_work(&w);
    return ok ? BN_OK : bn_nomem(err);
}

/* ---- two samples ---- */

/* count[s] of the ways to choose k of the n ranks so that their sum is s; rows holds k + 1 rows of n_count,
 * the last one of which it is. */
static const double *count_choices(double *rows, size_t n_count, const size_t *ranks, size_t n, size_t k)
{
    memset(rows, 0, (k + 1) * n_count * sizeof *rows);
    rows[0] = 1;
    for (size_t i = 0; i < n; i++)
        for (size_t taken = k < i + 1 ? k : i + 1; taken > 0; taken--) {
            double *to = rows + taken * n_count;
            for (size_t s = ranks[i]; s < n_count; s++)
                to[s] += (to - n_count)[s - ranks[i]];
        }
    return rows + k * n_count;
}

/* Doubled ranks of n samples sum up to n * (n + 1). */
static void test_sums(struct bn_rank_test *out, size_t n_a, size_t n_b, bool exact, struct work *w)
{
    size_t n = n_a + n_b, sum = 0, n_count = n * (n + 1) + 1;
    double ties = double_midranks(w->ranks, w->values, n, w->scratch);
    for (size_t i = 0; i < n_a; i++)
        sum += w->ranks[i];
    double a = (double)n_a, b = (double)n_b, all = (double)n;
    out->statistic = 0.5 * (double)sum - a * (a + 1) / 2;
    if (exact)
        out->p = p_by_count(count_choices(w->count, n_count, w->ranks, n, n_a), n_count, a * (all + 1),
                            (double)sum);
    else
        out->p = normal_p(out->statistic - a * b / 2, 0.5, a * b / 12 * (all + 1 - ties / (all * (all - 1))));
}

static void shift_of_samples(struct bn_rank_test *out, size_t n_a, size_t n_b, bool exact, double confidence,
                             const struct work *w)
{
    double a = (double)n_a, b = (double)n_b;
    size_t n = n_a + n_b, least = n_a * (n_a + 1) / 2;
    uint64_t rank;
    if (exact) {
        for (size_t i = 0; i < n; i++)
            w->ranks[i] = i + 1;
        const double *count = count_choices(w->count, n * (n + 1) / 2 + 1, w->ranks, n, n_a);
        rank = rank_by_count(count + least, n_a * n_b + 1, confidence);
    } else {
        rank = rank_by_normal(a * b, a * b * (a + b + 1) / 12, confidence);
    }
    struct pairs differences = {w->sorted, w->sorted + n_a, n_a, n_b};
    out->shift = pair_interval(&differences, rank, "rank sum");
}

bn_status bn_rank_sum(struct bn_rank_test *out, const double *a, size_t n_a, const double *b, size_t n_b,
                      double confidence, bn_error *err)
{
    size_t n = n_a + n_b;
    bool exact = n_a <= RANK_SUM_EXACT && n_b <= RANK_SUM_EXACT;
    *out = (struct bn_rank_test){.p = 1, .shift = {(double)NAN, (double)NAN, (double)NAN, "rank sum"}};
    BN_TRY(check(a, n_a, err));
    BN_TRY(check(b, n_b, err));
    if (n_a == 0 || n_b == 0) return BN_OK;
    struct work w;
    bool ok = open_work(&w, n, exact ? (n_a + 1) * (n * (n + 1) + 1) : 0);
    if (ok) {
        memcpy(w.values, a, n_a * sizeof *a);
        memcpy(w.values + n_a, b, n_b * sizeof *b);
        memcpy(w.sorted, w.values, n * sizeof *a);
        bn_sort(w.sorted, n_a);
        bn_sort(w.sorted + n_a, n_b);
        test_sums(out, n_a, n_b, exact, &w);
        shift_of_samples(out, n_a, n_b, exact, confidence, &w);
    }
    close_work(&w);
    return ok ? BN_OK : bn_nomem(err);
}

/* ---- many tests ---- */

bn_status bn_false_discovery(double *q, const double *p, size_t n, bn_error *err)
{
    struct ranked *order = bn_alloc(n, sizeof *order);
    if (order == NULL) return bn_nomem(err);
    for (size_t i = 0; i < n; i++)
        order[i] = (struct ranked){p[i], i};
    qsort(order, n, sizeof *order, by_value);
    double least = 1;
    for (size_t i = n; i-- > 0;) {
        least = fmin(least, order[i].value * (double)n / (double)(i + 1));
        q[order[i].index] = least;
    }
    bn_free(order);
    return BN_OK;
}

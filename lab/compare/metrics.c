/* SPDX-License-Identifier: MIT
 *
 * Measures of the difference between two rows of numbers.
 */
#include "lab/compare/metrics.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    bool likeness;
} METRICS[BN_METRIC_COUNT] = {
    [BN_METRIC_COSINE] = {"cosine", true},    [BN_METRIC_NRMSE] = {"nrmse", false},
    [BN_METRIC_MSE] = {"mse", false},         [BN_METRIC_MAX_ABS] = {"max_abs", false},
    [BN_METRIC_MAX_REL] = {"max_rel", false}, [BN_METRIC_RMS] = {"rms_ratio", false},
    [BN_METRIC_KL] = {"kl", false},           [BN_METRIC_TOP_K] = {"top_k", true},
    [BN_METRIC_KENDALL] = {"kendall", true},  [BN_METRIC_ARGMAX] = {"argmax", true},
    [BN_METRIC_MARGIN] = {"margin", false},
};

const char *bn_metric_name(enum bn_metric metric)
{
    return (unsigned)metric < BN_METRIC_COUNT ? METRICS[metric].name : "?";
}

enum bn_metric bn_metric_from_name(const char *name)
{
    unsigned i = 0;
    while (i < BN_METRIC_COUNT && strcmp(METRICS[i].name, name) != 0)
        i++;
    return (enum bn_metric)i;
}

size_t bn_argmax(const float *x, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

double bn_log_sum_exp(const float *x, size_t n)
{
    size_t best = bn_argmax(x, n);
    double top = (double)x[best], sum = 1; /* its own share */
    for (size_t i = 0; i < n; i++)
        if (i != best) sum += exp((double)x[i] - top);
    return top + log(sum);
}

double bn_log_softmax(const float *x, size_t n, size_t i)
{
    return (double)x[i] - bn_log_sum_exp(x, n);
}

/* Insertion into a short sorted list: k is small. */
void bn_best(const float *x, size_t n, size_t k, size_t *out)
{
    size_t have = 0;
    for (size_t i = 0; i < n; i++) {
        if (have == k && (k == 0 || x[i] <= x[out[k - 1]])) continue;
        size_t at = have < k ? have++ : k - 1;
        for (; at > 0 && x[out[at - 1]] < x[i]; at--)
            out[at] = out[at - 1];
        out[at] = i;
    }
}

double bn_kendall(const float *a, const float *b, size_t n)
{
    double score = 0, pairs = 0, ties_a = 0, ties_b = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            int in_a = (a[i] > a[j]) - (a[i] < a[j]), in_b = (b[i] > b[j]) - (b[i] < b[j]);
            score += in_a * in_b;
            ties_a += in_a == 0;
            ties_b += in_b == 0;
            pairs += 1;
        }
    }
    if (ties_a >= pairs || ties_b >= pairs) return ties_a >= pairs && ties_b >= pairs ? 1 : 0;
    return score / sqrt((pairs - ties_a) * (pairs - ties_b));
}

/* ---- one row ---- */

static size_t first_not_finite(const float *x, size_t n)
{
    size_t i = 0;
    while (i < n && isfinite(x[i]))
        i++;
    return i;
}

/* x / y where y may be 0: no difference means no error, whatever it is relative to. */
static double ratio(double x, double y)
{
    if (y > 0) return x / y;
    return x > 0 ? HUGE_VAL : 0.0;
}

static void measure_distance(struct bn_metrics *out, const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0, dd = 0, far = 0, greatest = 0;
    for (size_t i = 0; i < n; i++) {
        double x = (double)a[i], y = (double)b[i], d = x - y;
        ab += x * y;
        aa += x * x;
        bb += y * y;
        dd += d * d;
        if (fabs(d) > far) far = fabs(d);
        if (fabs(y) > greatest) greatest = fabs(y);
    }
    double cosine = aa > 0 && bb > 0 ? ab / (sqrt(aa) * sqrt(bb)) : (aa > 0) == (bb > 0) ? 1.0 : 0.0;
    out->of[BN_METRIC_COSINE] = cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
    out->of[BN_METRIC_NRMSE] = ratio(sqrt(dd), sqrt(bb));
    out->of[BN_METRIC_MSE] = dd / (double)n;
    out->of[BN_METRIC_MAX_ABS] = far;
    out->of[BN_METRIC_MAX_REL] = ratio(far, greatest);
    out->of[BN_METRIC_RMS] = aa > 0 || bb > 0 ? ratio(sqrt(aa), sqrt(bb)) : 1.0;
}

/* Never below 0 but for rounding, which is taken off. */
static double divergence(const float *a, const float *b, size_t n)
{
    double log_a = bn_log_sum_exp(a, n), log_b = bn_log_sum_exp(b, n), sum = 0;
    for (size_t i = 0; i < n; i++) {
        double log_p = (double)b[i] - log_b;
        sum += exp(log_p) * (log_p - ((double)a[i] - log_a));
    }
    return sum > 0 ? sum : 0;
}

static void measure_order(struct bn_metrics *out, const float *a, const float *b, size_t n)
{
    size_t k = bn_min_size(BN_METRICS_K, n), best_a[BN_METRICS_K], best_b[BN_METRICS_K], common = 0;
    float of_a[BN_METRICS_K] = {0}, of_b[BN_METRICS_K] = {0};
    bn_best(a, n, k, best_a);
    bn_best(b, n, k, best_b);
    for (size_t i = 0; i < k; i++) {
        for (size_t j = 0; j < k; j++)
            common += best_a[j] == best_b[i];
        of_a[i] = a[best_b[i]];
        of_b[i] = b[best_b[i]];
    }
    out->of[BN_METRIC_TOP_K] = (double)common / (double)k;
    out->of[BN_METRIC_KENDALL] = k > 1 ? bn_kendall(of_a, of_b, k) : 1.0;
    out->argmax_a = best_a[0];
    out->argmax_b = best_b[0];
    out->of[BN_METRIC_ARGMAX] = best_a[0] == best_b[0];
    out->of[BN_METRIC_MARGIN] = (double)b[best_b[0]] - (double)b[best_a[0]];
}

void bn_metrics_of(struct bn_metrics *out, const float *a, const float *b, size_t n)
{
    *out = (struct bn_metrics){.bad_a = first_not_finite(a, n), .bad_b = first_not_finite(b, n)};
    out->same_bits = memcmp(a, b, n * sizeof *a) == 0;
    if (out->bad_a < n || out->bad_b < n) {
        for (size_t m = 0; m < BN_METRIC_COUNT; m++)
            out->of[m] = nan("");
        return;
    }
    measure_distance(out, a, b, n);
    measure_order(out, a, b, n);
    out->of[BN_METRIC_KL] = divergence(a, b, n);
}

/* ---- many rows ---- */

/* How bad a value is, for one measure: the greater the worse. */
static double badness(size_t metric, double x)
{
    if (isnan(x)) return HUGE_VAL;
    if (metric == BN_METRIC_RMS) return fabs(x - 1);
    return METRICS[metric].likeness ? -x : x;
}

void bn_metrics_add(struct bn_metrics_sum *sum, const struct bn_metrics *row, size_t index, size_t n_values)
{
    for (size_t m = 0; m < BN_METRIC_COUNT; m++) {
        double x = row->of[m];
        sum->of[m].sum += x;
        if (sum->n_rows > 0 && badness(m, x) <= badness(m, sum->of[m].worst)) continue;
        sum->of[m].worst = x;
        sum->of[m].worst_row = index;
    }
    sum->n_rows++;
    sum->n_values += n_values;
    sum->n_same_bits += row->same_bits;
}

double bn_metrics_mean(const struct bn_metrics_sum *sum, enum bn_metric metric)
{
    return sum->n_rows > 0 ? sum->of[metric].sum / (double)sum->n_rows : nan("");
}

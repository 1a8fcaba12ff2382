/* SPDX-License-Identifier: MIT
 *
 * See interval.h.
 */
#include "measure/interval.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "measure/distribution.h"
#include "measure/summary.h"

static bn_status check(const double *x, size_t n, bn_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return bn_fail(err, BN_ERR_ARG, "sample %zu is not finite", i);
    return BN_OK;
}

/* ---- of the median, of the mean, of a share ---- */

size_t bn_median_rank(size_t n, double confidence)
{
    size_t low = 0, high = n / 2; /* the largest k in between for which rank k is still sure enough */
    while (low < high) {
        size_t k = low + (high - low + 1) / 2;
        if (1 - 2 * bn_binomial_cdf(k - 1, n, 0.5) >= confidence)
            low = k;
        else
            high = k - 1;
    }
    return low;
}

bn_status bn_interval_median(struct bn_interval *out, const double *samples, size_t n, double confidence,
                             bn_error *err)
{
    size_t k = bn_median_rank(n, confidence);
    *out = (struct bn_interval){(double)NAN, (double)NAN, (double)NAN, "order statistics"};
    BN_TRY(check(samples, n, err));
    if (n == 0) return BN_OK;
    double *sorted = bn_alloc(n, sizeof *sorted);
    if (sorted == NULL) return bn_fail(err, BN_ERR_NOMEM, "out of memory");
    memcpy(sorted, samples, n * sizeof *sorted);
    out->estimate = bn_median_of(sorted, n, NULL);
    if (k > 0) {
        out->low = sorted[k - 1];
        out->high = sorted[n - k];
    }
    bn_free(sorted);
    return BN_OK;
}

bn_status bn_interval_log_mean(struct bn_interval *out, const double *samples, size_t n, double confidence,
                               bn_error *err)
{
    *out = (struct bn_interval){(double)NAN, (double)NAN, (double)NAN, "Student's t of logarithms"};
    BN_TRY(check(samples, n, err));
    double *logs = bn_alloc(n, sizeof *logs), sd;
    if (logs == NULL) return bn_fail(err, BN_ERR_NOMEM, "out of memory");
    bn_status status = BN_OK;
    for (size_t i = 0; i < n && status == BN_OK; i++) {
        if (!(samples[i] > 0)) status = bn_fail(err, BN_ERR_ARG, "sample %zu is not positive", i);
        logs[i] = log(samples[i]);
    }
    double mean = bn_mean(logs, n, &sd);
    bn_free(logs);
    BN_TRY(status);
    if (n > 0) out->estimate = exp(mean);
    if (n < 2) return BN_OK;
    double half = bn_student_quantile(0.5 + 0.5 * confidence, (double)(n - 1)) * sd / sqrt((double)n);
    out->low = exp(mean - half);
    out->high = exp(mean + half);
    return BN_OK;
}

struct bn_interval bn_interval_wilson(double share, double n, double confidence)
{
    struct bn_interval out = {share, (double)NAN, (double)NAN, "Wilson"};
    if (!(n > 0) || !(share >= 0 && share <= 1)) return out;
    double z = bn_normal_quantile(0.5 + 0.5 * confidence), zz = z * z / n;
    double middle = (share + 0.5 * zz) / (1 + zz);
    double half = z * sqrt(share * (1 - share) / n + 0.25 * zz / n) / (1 + zz);
    out.low = fmax(0, middle - half);
    out.high = fmin(1, middle + half);
    return out;
}

double bn_effective_n(const double *weights, size_t n)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        sum += weights[i];
        squares += weights[i] * weights[i];
    }
    return squares > 0 ? sum * sum / squares : 0;
}

/* ---- statistics ---- */

double bn_mean_of(double *rows, size_t n, void *context)
{
    (void)context;
    return bn_mean(rows, n, NULL);
}

double bn_median_of(double *rows, size_t n, void *context)
{
    (void)context;
    bn_sort(rows, n);
    return bn_sorted_quantile(rows, n, 0.5);
}

double bn_slope_of(double *rows, size_t n, void *context)
{
    (void)context;
    double xy = 0, xx = 0;
    for (size_t i = 0; i < n; i++) {
        xy += rows[2 * i] * rows[2 * i + 1];
        xx += rows[2 * i] * rows[2 * i];
    }
    return xx > 0 ? xy / xx : (double)NAN;
}

/* ---- bootstrap ---- */

/* `how` with its defaults filled in, and room to draw into. */
struct draw {
    struct bn_bootstrap how;
    const double *rows;
    size_t n;
    double *drawn;
    double *values;  /* of each draw, n_draws */
    double *without; /* of the rows but one, n */
};

static bn_status prepare(struct draw *d, size_t *n_drawn_max, bn_error *err)
{
    struct bn_bootstrap *h = &d->how;
    size_t sum = 0, largest = 0;
    if (h->width == 0) h->width = 1;
    if (h->block == 0) h->block = 1;
    if (h->n_draws == 0) h->n_draws = BN_BOOTSTRAP_DRAWS;
    if (!(h->confidence > 0)) h->confidence = 0.95;
    if (h->bca && (h->block > 1 || h->groups != NULL))
        return bn_fail(err, BN_ERR_ARG, "the corrected bootstrap is of independent rows");
    if (h->confidence >= 1) return bn_fail(err, BN_ERR_ARG, "the confidence is not below 1");
    for (size_t i = 0; i < h->n_groups; i++) {
        if (h->groups[i] == 0 || h->groups[i] > d->n - sum)
            return bn_fail(err, BN_ERR_ARG, "group %zu has %zu of %zu rows", i, h->groups[i], d->n - sum);
        sum += h->groups[i];
        if (h->groups[i] > largest) largest = h->groups[i];
    }
    if (h->groups != NULL && sum != d->n)
        return bn_fail(err, BN_ERR_ARG, "the groups have %zu of %zu rows", sum, d->n);
    *n_drawn_max = h->groups != NULL ? h->n_groups * largest : d->n;
    return check(d->rows, d->n * h->width, err);
}

/* Draws as many rows as there are into `to`, block by block; the last block is cut. */
static void draw_rows(double *to, const double *rows, size_t n, const struct bn_bootstrap *how,
                      uint64_t *state)
{
    size_t block = bn_min_size(how->block, n);
    for (size_t at = 0; at < n; at += block) {
        size_t from = (size_t)bn_splitmix64_below(state, n - block + 1);
        memcpy(to + at * how->width, rows + from * how->width,
               bn_min_size(block, n - at) * how->width * sizeof *to);
    }
}

/* Draws once; returns the number of rows drawn. */
static size_t draw(struct draw *d, uint64_t *state)
{
    const struct bn_bootstrap *h = &d->how;
    size_t at = 0;
    if (h->groups == NULL) {
        draw_rows(d->drawn, d->rows, d->n, h, state);
        return d->n;
    }
    for (size_t i = 0; i < h->n_groups; i++) {
        size_t which = (size_t)bn_splitmix64_below(state, h->n_groups), from = 0;
        for (size_t j = 0; j < which; j++)
            from += h->groups[j];
        draw_rows(d->drawn + at * h->width, d->rows + from * h->width, h->groups[which], h, state);
        at += h->groups[which];
    }
    return at;
}

struct bn_bca bn_bca_levels(double share, size_t n_draws, const double *jackknife, size_t n,
                            double confidence)
{
    double least = 1 / ((double)n_draws + 1), mean = bn_mean(jackknife, n, NULL), cubes = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        double distance = mean - jackknife[i];
        squares += distance * distance;
        cubes += distance * distance * distance;
    }
    struct bn_bca out = {.z0 = bn_normal_quantile(fmin(fmax(share, least), 1 - least))};
    if (squares > 0) out.a = cubes / (6 * squares * sqrt(squares));
    double z = bn_normal_quantile(0.5 + 0.5 * confidence);
    out.low = bn_normal_cdf(out.z0 + (out.z0 - z) / (1 - out.a * (out.z0 - z)));
    out.high = bn_normal_cdf(out.z0 + (out.z0 + z) / (1 - out.a * (out.z0 + z)));
    return out;
}

/* Leaves out each row in turn. */
static void jackknife(struct draw *d)
{
    size_t width = d->how.width;
    for (size_t i = 0; i < d->n; i++) {
        memcpy(d->drawn, d->rows, i * width * sizeof *d->drawn);
        memcpy(d->drawn + i * width, d->rows + (i + 1) * width, (d->n - i - 1) * width * sizeof *d->drawn);
        d->without[i] = d->how.of(d->drawn, d->n - 1, d->how.context);
    }
}

static bn_status draw_all(struct bn_interval *out, struct draw *d, bn_error *err)
{
    const struct bn_bootstrap *h = &d->how;
    uint64_t state = h->seed;
    double low = 0.5 - 0.5 * h->confidence, high = 0.5 + 0.5 * h->confidence, below = 0;
    memcpy(d->drawn, d->rows, d->n * h->width * sizeof *d->drawn);
    out->estimate = h->of(d->drawn, d->n, h->context);
    if (d->n < 2) return BN_OK;
    for (size_t i = 0; i < h->n_draws; i++) {
        size_t n = draw(d, &state);
        d->values[i] = h->of(d->drawn, n, h->context);
        if (isnan(d->values[i])) return bn_fail(err, BN_ERR_ARG, "the statistic of a draw cannot be had");
        below += d->values[i] < out->estimate ? 1 : d->values[i] <= out->estimate ? 0.5 : 0;
    }
    bn_sort(d->values, h->n_draws);
    if (h->bca) {
        jackknife(d);
        struct bn_bca level =
            bn_bca_levels(below / (double)h->n_draws, h->n_draws, d->without, d->n, h->confidence);
        low = level.low;
        high = level.high;
    }
    out->low = bn_sorted_quantile(d->values, h->n_draws, low);
    out->high = bn_sorted_quantile(d->values, h->n_draws, high);
    return BN_OK;
}

bn_status bn_interval_bootstrap(struct bn_interval *out, const double *rows, size_t n,
                                const struct bn_bootstrap *how, bn_error *err)
{
    struct draw d = {.how = *how, .rows = rows, .n = n};
    size_t n_drawn = 0;
    *out = (struct bn_interval){(double)NAN, (double)NAN, (double)NAN, "bootstrap"};
    BN_TRY(prepare(&d, &n_drawn, err));
    if (d.how.bca) out->method = "bootstrap, bias-corrected and accelerated";
    if (d.how.block > 1) out->method = "bootstrap of blocks";
    if (d.how.groups != NULL) out->method = "bootstrap of processes";
    if (n == 0) return BN_OK;
    d.drawn = bn_alloc(n_drawn, d.how.width * sizeof *d.drawn);
    d.values = bn_alloc(d.how.n_draws, sizeof *d.values);
    d.without = bn_alloc(n, sizeof *d.without);
    bn_status status = d.drawn != NULL && d.values != NULL && d.without != NULL
                           ? draw_all(out, &d, err)
                           : bn_fail(err, BN_ERR_NOMEM, "out of memory");
    bn_free(d.drawn);
    bn_free(d.values);
    bn_free(d.without);
    return status;
}

/* ---- samples that hang together ---- */

/* With correlation r from one to the next, what disturbs one sample is felt for about (1 + r) / (1 - r). */
size_t bn_block_length(const double *samples, size_t n)
{
    double r = bn_autocorrelation(samples, n), size = (double)n;
    if (n < 10 || !(fabs(r) > 2 / sqrt(size))) return 1;
    double length = ceil(cbrt(size) - 1e-9), felt = ceil((1 + r) / (1 - r));
    return (size_t)fmin(fmax(length, felt), fmax(length, floor(size / 4)));
}

bn_status bn_interval_of_series(struct bn_interval *out, const double *samples, size_t n, double confidence,
                                uint64_t seed, bn_error *err)
{
    struct bn_bootstrap how = {.of = bn_median_of, .n_draws = 2000, .seed = seed, .confidence = confidence};
    how.block = bn_block_length(samples, n);
    if (how.block > 1) return bn_interval_bootstrap(out, samples, n, &how, err);
    return bn_interval_median(out, samples, n, confidence, err);
}

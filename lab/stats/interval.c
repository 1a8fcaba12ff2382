/* SPDX-License-Identifier: MIT
 *
 * See interval.h.
 */
#include "lab/stats/interval.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "lab/stats/distribution.h"
#include "lab/stats/summary.h"

static bn_status check(const double *x, size_t n, bn_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return bn_fail(err, BN_ERR_ARG, "sample %zu is not finite", i);
    return BN_OK;
}

/* ---- of the median, of a share ---- */

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
    if (sorted == NULL) return bn_nomem(err);
    memcpy(sorted, samples, n * sizeof *sorted);
    out->estimate = bn_median_of(sorted, n, NULL);
    if (k > 0) {
        out->low = sorted[k - 1];
        out->high = sorted[n - k];
    }
    bn_free(sorted);
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

/* ---- statistics ---- */

double bn_median_of(double *rows, size_t n, void *context)
{
    (void)context;
    bn_sort(rows, n);
    return bn_sorted_quantile(rows, n, 0.5);
}

/* ---- bootstrap ---- */

/* `how` with its defaults filled in, and room to draw into. */
struct draw {
    struct bn_bootstrap how;
    const double *rows;
    size_t n;
    double *drawn;
    double *values; /* of each draw, n_draws */
};

static bn_status prepare(struct draw *d, bn_error *err)
{
    struct bn_bootstrap *h = &d->how;
    if (h->width == 0) h->width = 1;
    if (h->n_draws == 0) h->n_draws = BN_BOOTSTRAP_DRAWS;
    if (!(h->confidence > 0)) h->confidence = 0.95;
    if (h->confidence >= 1) return bn_fail(err, BN_ERR_ARG, "the confidence is not below 1");
    return check(d->rows, d->n * h->width, err);
}

/* Draws as many rows as there are. */
static void draw(struct draw *d, uint64_t *state)
{
    size_t width = d->how.width;
    for (size_t at = 0; at < d->n; at++) {
        size_t from = (size_t)bn_splitmix64_below(state, d->n);
        memcpy(d->drawn + at * width, d->rows + from * width, width * sizeof *d->drawn);
    }
}

static bn_status draw_all(struct bn_interval *out, struct draw *d, bn_error *err)
{
    const struct bn_bootstrap *h = &d->how;
    uint64_t state = h->seed;
    memcpy(d->drawn, d->rows, d->n * h->width * sizeof *d->drawn);
    out->estimate = h->of(d->drawn, d->n, h->context);
    if (d->n < 2) return BN_OK;
    for (size_t i = 0; i < h->n_draws; i++) {
        draw(d, &state);
        d->values[i] = h->of(d->drawn, d->n, h->context);
        if (isnan(d->values[i])) return bn_fail(err, BN_ERR_ARG, "the statistic of a draw is not a number");
    }
    bn_sort(d->values, h->n_draws);
    out->low = bn_sorted_quantile(d->values, h->n_draws, 0.5 - 0.5 * h->confidence);
    out->high = bn_sorted_quantile(d->values, h->n_draws, 0.5 + 0.5 * h->confidence);
    return BN_OK;
}

bn_status bn_interval_bootstrap(struct bn_interval *out, const double *rows, size_t n,
                                const struct bn_bootstrap *how, bn_error *err)
{
    struct draw d = {.how = *how, .rows = rows, .n = n};
    *out = (struct bn_interval){(double)NAN, (double)NAN, (double)NAN, "bootstrap"};
    BN_TRY(prepare(&d, err));
    if (n == 0) return BN_OK;
    d.drawn = bn_alloc(n, d.how.width * sizeof *d.drawn);
    d.values = bn_alloc(d.how.n_draws, sizeof *d.values);
    bn_status status = d.drawn != NULL && d.values != NULL ? draw_all(out, &d, err) : bn_nomem(err);
    bn_free(d.drawn);
    bn_free(d.values);
    return status;
}

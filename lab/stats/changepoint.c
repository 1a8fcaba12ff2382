/* SPDX-License-Identifier: MIT
 *
 * Changes in a sequence of samples: is it steady at its end (Theil and Sen's slope), and where did it change
 * (E-divisive, with a permutation test for each split).
 */
#include "lab/stats/changepoint.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "lab/stats/interval.h"
#include "lab/stats/summary.h"

#define N_REDRAWS 199u
#define N_SHUFFLES 999u
#define ALPHA 0.01

/* ---- is it steady? ---- */

/* The median of the slopes between all pairs; scratch holds n * (n - 1) / 2. */
static double robust_slope(const double *y, size_t n, double *scratch)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            scratch[m++] = (y[j] - y[i]) / (double)(j - i);
    return bn_median_in_place(scratch, m);
}

/* The standard deviation of one sample, from the differences of neighbours, which a trend shifts but does not
 * widen. */
static double noise_of(const double *y, size_t n, double *scratch)
{
    for (size_t i = 0; i + 1 < n; i++)
        scratch[i] = y[i + 1] - y[i];
    double middle = bn_median_in_place(scratch, n - 1);
    for (size_t i = 0; i + 1 < n; i++)
        scratch[i] = fabs(scratch[i] - middle);
    return BN_MAD_SIGMA / sqrt(2) * bn_median_in_place(scratch, n - 1);
}

bn_status bn_steady(struct bn_steady *out, const double *times, size_t n, size_t window, double tolerance,
                    bn_error *err)
{
    *out = (struct bn_steady){.change = (double)NAN, .allowed = tolerance};
    if (window < 3 || !(tolerance >= 0)) return bn_fail(err, BN_ERR_ARG, "the window is too short");
    for (size_t i = 0; i < n; i++)
        if (!(times[i] > 0 && isfinite(times[i])))
            return bn_fail(err, BN_ERR_ARG, "time %zu is not a positive number", i);
    if (n / 2 < window) return BN_OK;
    double *scratch = bn_alloc(window * (2 * window - 1), sizeof *scratch);
    if (scratch == NULL) return bn_nomem(err);
    size_t m = 2 * window;
    const double *last = times + n - m;
    double slope = robust_slope(last, m, scratch), noise = noise_of(last, m, scratch);
    memcpy(scratch, last, m * sizeof *scratch);
    double level = bn_median_in_place(scratch, m);
    bn_free(scratch);
    out->change = slope * (double)window / level;
    /* Twice the deviation that noise gives the slope of m samples, sigma * sqrt(12 / m^3), times the window.
     */
    out->allowed = tolerance + 2 * noise / level * sqrt(1.5 / (double)window);
    out->steady = fabs(out->change) <= out->allowed;
    return BN_OK;
}

/* ---- where did it change? ---- */

struct search {
    const double *x;
    size_t least;
    double *shuffled, *gain; /* as many as there are samples */
    struct bn_changepoint *found;
    size_t n_found;
    uint64_t state;
};

static double mean_pair(double sum, size_t n)
{
    return sum / (0.5 * (double)n * (double)(n - 1));
}

/* q[t], for t from 2 to n - 2, of the split into the first t samples and the rest; 0 elsewhere. q has room
 * for n. One sample after the other moves from the second side to the first, with its distances. */
static void split_gain(double *q, const double *x, size_t n)
{
    double before = 0, between = 0, after = 0; /* sums of distances of pairs */
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            after += fabs(x[i] - x[j]);
    for (size_t t = 0; t < n; t++) {
        double a = (double)t, b = (double)(n - t), to_before = 0, to_after = 0;
        q[t] = 0;
        if (t >= 2 && n - t >= 2)
            q[t] = a * b / (a + b) * (2 * between / (a * b) - mean_pair(before, t) - mean_pair(after, n - t));
        for (size_t j = 0; j < t; j++)
            to_before += fabs(x[t] - x[j]);
        for (size_t j = t + 1; j < n; j++)
            to_after += fabs(x[t] - x[j]);
        before += to_before;
        between += to_after - to_before;
        after -= to_after;
    }
}

/* The best split that leaves enough on either side. */
static size_t best_split(struct search *s, const double *x, size_t n, double *gain)
{
    size_t best = s->least;
    split_gain(s->gain, x, n);
    for (size_t t = best; t + s->least <= n; t++)
        if (s->gain[t] > s->gain[best]) best = t;
    *gain = s->gain[best];
    return best;
}

static void shuffle(double *x, size_t n, uint64_t *state)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)bn_splitmix64_below(state, i);
        double t = x[i - 1];
        x[i - 1] = x[j];
        x[j] = t;
    }
}

/* Of n_drawn permutations n_extreme were at least as extreme as what was observed, which counts as one of
 * them: a p that cannot be 0 (Phipson and Smyth, 2010). */
static double permutation_p(size_t n_extreme, size_t n_drawn)
{
    return ((double)n_extreme + 1) / ((double)n_drawn + 1);
}

/* Ends early when p can no longer become small. */
static double split_p(struct search *s, const double *x, size_t n, double gain)
{
    size_t n_extreme = 0, drawn = 0;
    memcpy(s->shuffled, x, n * sizeof *x);
    while (drawn < N_SHUFFLES && permutation_p(n_extreme, N_SHUFFLES) <= ALPHA) {
        double other;
        shuffle(s->shuffled, n, &s->state);
        best_split(s, s->shuffled, n, &other);
        n_extreme += other >= gain * (1 - 1e-12); /* equal but for rounding */
        drawn++;
    }
    return permutation_p(n_extreme, N_SHUFFLES);
}

/* Finds the changes of n samples from `from` on, ascending: those of the left side, the split, those of the
 * right side. */
static void search(struct search *s, size_t from, size_t n)
{
    double gain;
    if (n < 2 * s->least) return;
    size_t split = best_split(s, s->x + from, n, &gain);
    if (!(gain > 0)) return;
    double p = split_p(s, s->x + from, n, gain);
    if (p > ALPHA) return;
    search(s, from, split);
    s->found[s->n_found++] = (struct bn_changepoint){.at = from + split, .p = p};
    search(s, from + split, n - split);
}

/* Resamples both sides and records where the best split falls. */
static void locate(struct search *s, struct bn_changepoint *c)
{
    size_t from = c->at - c->n_before, n = c->n_before + c->n_after;
    double positions[N_REDRAWS], ignored;
    for (size_t k = 0; k < N_REDRAWS; k++) {
        for (size_t i = 0; i < n; i++)
            s->shuffled[i] = i < c->n_before
                                 ? s->x[from + (size_t)bn_splitmix64_below(&s->state, c->n_before)]
                                 : s->x[c->at + (size_t)bn_splitmix64_below(&s->state, c->n_after)];
        positions[k] = (double)(from + best_split(s, s->shuffled, n, &ignored));
    }
    bn_sort(positions, N_REDRAWS);
    c->low = bn_min_size(c->at, (size_t)floor(bn_sorted_quantile(positions, N_REDRAWS, 0.025)));
    size_t high = (size_t)ceil(bn_sorted_quantile(positions, N_REDRAWS, 0.975));
    c->high = high > c->at ? high : c->at;
}

/* A change is measured between its neighbours. */
static bn_status measure(struct search *s, size_t n, bn_error *err)
{
    for (size_t i = 0; i < s->n_found; i++) {
        struct bn_changepoint *c = &s->found[i];
        struct bn_rank_test sides;
        size_t from = i > 0 ? c[-1].at : 0, to = i + 1 < s->n_found ? c[1].at : n;
        c->n_before = c->at - from;
        c->n_after = to - c->at;
        locate(s, c);
        BN_TRY(bn_rank_sum(&sides, s->x + from, c->n_before, s->x + c->at, c->n_after, 0.95, err));
        c->shift = sides.shift;
    }
    return BN_OK;
}

bn_status bn_changepoints(struct bn_changepoint **list, size_t *n_found, const double *x, size_t n,
                          size_t least, bn_error *err)
{
    struct search s = {
        .x = x, .least = least > BN_CHANGEPOINT_LEAST ? least : BN_CHANGEPOINT_LEAST, .state = 1};
    *list = NULL;
    *n_found = 0;
    if (n > BN_CHANGEPOINT_SAMPLES_MAX)
        return bn_fail(err, BN_ERR_LIMIT, "more than %u samples", BN_CHANGEPOINT_SAMPLES_MAX);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return bn_fail(err, BN_ERR_ARG, "sample %zu is not finite", i);
    s.shuffled = bn_alloc(n, sizeof *s.shuffled);
    s.gain = bn_alloc(n + 1, sizeof *s.gain);
    s.found = bn_alloc(n, sizeof *s.found);
    bool ok = s.shuffled != NULL && s.gain != NULL && s.found != NULL;
    if (ok) search(&s, 0, n);
    bn_status status = ok ? measure(&s, n, err) : bn_nomem(err);
    bn_free(s.shuffled);
    bn_free(s.gain);
    if (status != BN_OK) {
        bn_free(s.found);
        return status;
    }
    *list = s.found;
    *n_found = s.n_found;
    return BN_OK;
}

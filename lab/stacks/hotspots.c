/* SPDX-License-Identifier: MIT
 *
 * Sums weights and samples of each function over all paths, and computes the intervals of their shares.
 */
#include "lab/stacks/hotspots.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "lab/stats/distribution.h"

#define CONFIDENCE 0.95
#define UNKNOWN ((double)NAN)

void bn_hotspots_release(struct bn_hotspots *hotspots)
{
    bn_free(hotspots->list);
    *hotspots = (struct bn_hotspots){0};
}

/* Whether an ancestor of this node has the same frame, and counts it. */
static bool repeats(const bn_stacks *s, uint32_t node)
{
    for (uint32_t at = s->nodes[node].parent; at != BN_STACKS_ROOT; at = s->nodes[at].parent)
        if (s->nodes[at].frame == s->nodes[node].frame) return true;
    return false;
}

/* Self weights and totals of all frames in one run, or over all of them: self[n_frames], total[n_frames];
 * work[n_nodes]. Returns the whole. */
static double sum_frames(const bn_stacks *s, const bool *again, size_t run, double *self, double *total,
                         double *work)
{
    bn_stacks_totals(s, run, work);
    for (size_t i = 0; i < s->n_frames; i++)
        self[i] = total[i] = 0;
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        self[s->nodes[i].frame] += bn_stacks_self(s, i, run);
        if (!again[i]) total[s->nodes[i].frame] += work[i];
    }
    return work[BN_STACKS_ROOT];
}

static bn_status sum_samples(struct bn_hotspots *out, const bn_stacks *s, const bool *again, bn_error *err)
{
    uint64_t *below = bn_alloc(s->n_nodes, sizeof *below);
    if (below == NULL) return bn_nomem(err);
    bn_stacks_total_samples(s, BN_STACKS_ALL_RUNS, below);
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        struct bn_hotspot *h = &out->list[s->nodes[i].frame];
        h->self_samples += bn_stacks_samples(s, i, BN_STACKS_ALL_RUNS);
        if (!again[i]) h->total_samples += below[i];
    }
    out->samples = below[BN_STACKS_ROOT];
    bn_free(below);
    return BN_OK;
}

/* The number of samples of equal weight that are as informative: (sum w)^2 / sum w^2, where the samples of a
 * path are equal. */
static double equal_samples(const bn_stacks *s, double whole)
{
    double squares = 0;
    for (size_t r = 0; r < s->n_runs; r++)
        for (size_t i = 0; i < s->n_nodes; i++) {
            double w = s->runs[r].self[i], n = (double)s->runs[r].samples[i];
            if (w > 0) squares += w * w / (n > 0 ? n : 1);
        }
    return whole * whole / squares;
}

/* ---- shares ---- */

static struct bn_interval sampled_share(double part, double whole, double n)
{
    if (whole > 0 && n > 0) return bn_interval_wilson(fmin(part / whole, 1), n, CONFIDENCE);
    return (struct bn_interval){UNKNOWN, UNKNOWN, UNKNOWN, "none"};
}

/* Of what was measured: the mean of the runs' shares, by Student's t. */
static struct bn_interval measured_share(double part, double whole, const double *shares, size_t n)
{
    struct bn_interval out = {whole > 0 ? part / whole : UNKNOWN, UNKNOWN, UNKNOWN, "none"};
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += shares[i];
    for (size_t i = 0; i < n; i++)
        squares += (shares[i] - sum / (double)n) * (shares[i] - sum / (double)n);
    if (n < 2 || !isfinite(sum)) return out;
    double half = bn_student_quantile(0.5 + CONFIDENCE / 2, (double)(n - 1)) *
                  sqrt(squares / (double)(n - 1) / (double)n);
    return (struct bn_interval){sum / (double)n, sum / (double)n - half, sum / (double)n + half, "student"};
}

/* The shares of each frame in each run: of frame f in run r selfs[f * n_runs + r]. */
struct by_run {
    double *selfs, *totals;
};

static void set_shares(struct bn_hotspots *out, const bn_stacks *s, const struct by_run *runs)
{
    double n = equal_samples(s, out->whole);
    for (size_t i = 0; i < s->n_frames; i++) {
        struct bn_hotspot *h = &out->list[i];
        if (out->samples > 0) {
            h->self_share = sampled_share(h->self, out->whole, n);
            h->total_share = sampled_share(h->total, out->whole, n);
        } else {
            h->self_share = measured_share(h->self, out->whole, runs->selfs + i * s->n_runs, s->n_runs);
            h->total_share = measured_share(h->total, out->whole, runs->totals + i * s->n_runs, s->n_runs);
        }
    }
}

static bn_status fill(struct bn_hotspots *out, const bn_stacks *s, const bool *again, struct by_run *runs,
                      double *sums, double *work, bn_error *err)
{
    double *selfs = sums, *totals = sums + s->n_frames;
    BN_TRY(sum_samples(out, s, again, err));
    for (size_t r = 0; r < s->n_runs && out->samples == 0; r++) {
        double whole = sum_frames(s, again, r, selfs, totals, work);
        for (size_t i = 0; i < s->n_frames; i++) {
            runs->selfs[i * s->n_runs + r] = whole > 0 ? selfs[i] / whole : UNKNOWN;
            runs->totals[i * s->n_runs + r] = whole > 0 ? totals[i] / whole : UNKNOWN;
        }
    }
    out->whole = sum_frames(s, again, BN_STACKS_ALL_RUNS, selfs, totals, work);
    for (uint32_t i = 0; i < s->n_frames; i++) {
        out->list[i].frame = i;
        out->list[i].self = selfs[i];
        out->list[i].total = totals[i];
    }
    set_shares(out, s, runs);
    return BN_OK;
}

/* ---- order ---- */

struct row {
    struct bn_hotspot spot;
    const struct bn_frame *frame;
};

static int by_self(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->spot.self != y->spot.self) return x->spot.self > y->spot.self ? -1 : 1;
    return bn_frame_compare(x->frame, y->frame);
}

/* Leaves those of the kinds that are wanted and were seen, in their order. */
static bn_status arrange(struct bn_hotspots *out, const bn_stacks *s, unsigned kinds, bn_error *err)
{
    struct row *rows = bn_alloc(s->n_frames, sizeof *rows);
    if (rows == NULL) return bn_nomem(err);
    for (size_t i = 0; i < s->n_frames; i++) {
        const struct bn_hotspot *h = &out->list[i];
        if ((kinds & BN_FRAME_BIT(s->frames[i].kind)) != 0 && (h->total > 0 || h->total_samples > 0))
            rows[out->n++] = (struct row){*h, &s->frames[i]};
    }
    if (out->n > 0) qsort(rows, out->n, sizeof *rows, by_self);
    for (size_t i = 0; i < out->n; i++)
        out->list[i] = rows[i].spot;
    bn_free(rows);
    return BN_OK;
}

bn_status bn_hotspots(struct bn_hotspots *out, const bn_stacks *stacks, unsigned kinds, bn_error *err)
{
    *out = (struct bn_hotspots){.list = bn_alloc(stacks->n_frames, sizeof *out->list)};
    size_t n_shares = stacks->n_frames * stacks->n_runs;
    bool *again = bn_alloc(stacks->n_nodes, sizeof *again);
    double *numbers = bn_alloc(2 * stacks->n_frames + stacks->n_nodes + 2 * n_shares, sizeof *numbers);
    bn_status status = out->list != NULL && again != NULL && numbers != NULL ? BN_OK : bn_nomem(err);
    for (uint32_t i = 1; i < stacks->n_nodes && status == BN_OK; i++)
        again[i] = repeats(stacks, i);
    if (status == BN_OK) {
        double *work = numbers + 2 * stacks->n_frames, *shares = work + stacks->n_nodes;
        struct by_run runs = {shares, shares + n_shares};
        status = fill(out, stacks, again, &runs, numbers, work, err);
    }
    if (status == BN_OK) status = arrange(out, stacks, kinds, err);
    bn_free(again);
    bn_free(numbers);
    if (status != BN_OK) bn_hotspots_release(out);
    return status;
}

bn_status bn_class_shares(double out[BN_CLASSES], const bn_stacks *stacks, bn_error *err)
{
    const struct bn_stacks_view view = {.drop = BN_FRAME_TAGS};
    bn_stacks *functions = NULL;
    double whole = 0;
    BN_TRY(bn_stacks_copy(&functions, stacks, &view, err));
    memset(out, 0, BN_CLASSES * sizeof *out);
    for (uint32_t i = 1; i < functions->n_nodes; i++) {
        double self = bn_stacks_self(functions, i, BN_STACKS_ALL_RUNS);
        out[bn_class_at(functions, i)] += self;
        whole += self;
    }
    for (unsigned c = 0; c < BN_CLASSES && whole > 0; c++)
        out[c] /= whole;
    bn_stacks_close(functions);
    return BN_OK;
}

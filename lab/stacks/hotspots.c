/* SPDX-License-Identifier: MIT
 *
 * Sums weights and samples of each function over all paths, and computes the intervals of their shares.
 */
#include "lab/stacks/hotspots.h"

#include <math.h>
#include <stdlib.h>

#include "lab/stats/summary.h"

#define CONFIDENCE 0.95
#define UNKNOWN ((double)NAN)

void bn_hotspots_release(struct bn_hotspots *hotspots)
{
    bn_free(hotspots->list);
    *hotspots = (struct bn_hotspots){0};
}

bool *bn_stacks_repeated(const bn_stacks *s)
{
    bool *again = bn_alloc(s->n_nodes, sizeof *again);
    for (uint32_t i = 1; again != NULL && i < s->n_nodes; i++)
        for (uint32_t at = s->nodes[i].parent; at != BN_STACKS_ROOT && !again[i]; at = s->nodes[at].parent)
            again[i] = s->nodes[at].frame == s->nodes[i].frame;
    return again;
}

void bn_stacks_sum_frames(const bn_stacks *s, const bool *again, size_t run, double *self, double *total,
                          double *nodes)
{
    bn_stacks_totals(s, run, nodes);
    for (size_t i = 0; i < s->n_frames; i++)
        self[i] = total[i] = 0;
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        self[s->nodes[i].frame] += bn_stacks_self(s, i, run);
        if (!again[i]) total[s->nodes[i].frame] += nodes[i];
    }
}

static bn_status sum_samples(struct bn_hotspots *out, const bn_stacks *s, const bool *again, bn_error *err)
{
    uint64_t *below = bn_alloc(s->n_nodes, sizeof *below);
    if (below == NULL) return bn_nomem(err);
    for (uint32_t i = 0; i < s->n_nodes; i++)
        below[i] = bn_stacks_samples(s, i, BN_STACKS_ALL_RUNS);
    for (size_t i = s->n_nodes; i-- > 1;)
        below[s->nodes[i].parent] += below[i];
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        struct bn_hotspot *h = &out->list[s->nodes[i].frame];
        h->self_samples += bn_stacks_samples(s, i, BN_STACKS_ALL_RUNS);
        if (!again[i]) h->total_samples += below[i];
    }
    out->samples = below[BN_STACKS_ROOT];
    bn_free(below);
    return BN_OK;
}

double bn_stacks_equal_samples(const bn_stacks *s, size_t run)
{
    double squares = 0, whole = 0;
    for (size_t r = 0; r < s->n_runs; r++)
        for (size_t i = 0; (run == BN_STACKS_ALL_RUNS || r == run) && i < s->n_nodes; i++) {
            double w = s->runs[r].self[i];
            if (w > 0) squares += w * (w / (double)s->runs[r].samples[i]);
            whole += w;
        }
    return isfinite(squares) && squares > 0 ? whole * (whole / squares) : 0;
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
    double sd, mean = bn_mean(shares, n, &sd);
    if (n < 2 || !isfinite(mean)) return out;
    double half = bn_student_quantile(0.5 + CONFIDENCE / 2, (double)(n - 1)) * sd / sqrt((double)n);
    return (struct bn_interval){mean, mean - half, mean + half, "student"};
}

/* shares: of each frame f in run r selfs at [f * n_runs + r], and totals n_frames * n_runs further. */
static bn_status fill(struct bn_hotspots *out, const bn_stacks *s, const bool *again, double *sums,
                      double *shares, bn_error *err)
{
    double *selfs = sums, *totals = sums + s->n_frames, *work = sums + 2 * s->n_frames;
    size_t n_runs = s->n_runs, n_shares = s->n_frames * n_runs;
    BN_TRY(sum_samples(out, s, again, err));
    for (size_t r = 0; r < n_runs && out->samples == 0; r++) {
        bn_stacks_sum_frames(s, again, r, selfs, totals, work);
        for (size_t i = 0; i < s->n_frames; i++) {
            shares[i * n_runs + r] = work[0] > 0 ? selfs[i] / work[0] : UNKNOWN;
            shares[n_shares + i * n_runs + r] = work[0] > 0 ? totals[i] / work[0] : UNKNOWN;
        }
    }
    bn_stacks_sum_frames(s, again, BN_STACKS_ALL_RUNS, selfs, totals, work);
    out->whole = work[0];
    double n = bn_stacks_equal_samples(s, BN_STACKS_ALL_RUNS);
    for (uint32_t i = 0; i < s->n_frames; i++) {
        struct bn_hotspot *h = &out->list[i];
        h->frame = &s->frames[i];
        h->self = selfs[i];
        h->total = totals[i];
        if (out->samples > 0) {
            h->self_share = sampled_share(h->self, out->whole, n);
            h->total_share = sampled_share(h->total, out->whole, n);
        } else {
            h->self_share = measured_share(h->self, out->whole, shares + i * n_runs, n_runs);
            h->total_share = measured_share(h->total, out->whole, shares + n_shares + i * n_runs, n_runs);
        }
    }
    return BN_OK;
}

/* ---- order ---- */

static int by_self(const void *a, const void *b)
{
    const struct bn_hotspot *x = a, *y = b;
    if (x->self != y->self) return x->self > y->self ? -1 : 1;
    return bn_frame_compare(x->frame, y->frame);
}

/* Leaves those that were seen, in their order. */
static void arrange(struct bn_hotspots *out, const bn_stacks *s)
{
    for (size_t i = 0; i < s->n_frames; i++) {
        const struct bn_hotspot *h = &out->list[i];
        if (h->total > 0 || h->total_samples > 0) out->list[out->n++] = *h;
    }
    if (out->n > 0) qsort(out->list, out->n, sizeof *out->list, by_self);
}

bn_status bn_hotspots(struct bn_hotspots *out, const bn_stacks *stacks, bn_error *err)
{
    *out = (struct bn_hotspots){.list = bn_alloc(stacks->n_frames, sizeof *out->list)};
    size_t n_sums = 2 * stacks->n_frames + stacks->n_nodes;
    bool *again = bn_stacks_repeated(stacks);
    double *numbers = bn_alloc(n_sums + 2 * stacks->n_frames * stacks->n_runs, sizeof *numbers);
    bn_status status = out->list != NULL && again != NULL && numbers != NULL ? BN_OK : bn_nomem(err);
    if (status == BN_OK) status = fill(out, stacks, again, numbers, numbers + n_sums, err);
    if (status == BN_OK) arrange(out, stacks);
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
        out[bn_class_at(functions, i, false)] += self;
        whole += self;
    }
    for (unsigned c = 0; c < BN_CLASSES && whole > 0; c++)
        out[c] /= whole;
    bn_stacks_close(functions);
    return BN_OK;
}

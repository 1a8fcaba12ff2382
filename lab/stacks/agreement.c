/* SPDX-License-Identifier: MIT
 *
 * Compares samples with measured times. Samples are taken at times that are independent of the work, so
 * their number in each brick is binomial with the brick's share of time; periodic samples (one per
 * millisecond) vary less. Intervals are exact, because small bricks have few samples.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lab/kit/put_counts.h"
#include "lab/stacks/bricks.h"
#include "lab/stats/interval.h"

#define MAX_ROWS 256u
#define CONFIDENCE 0.95
#define LEAST_P 0.001
#define OTHER_FLOOR 0.001 /* of samples: a stamp may be early by some nanoseconds */
#define NO_ROW UINT32_MAX

enum { WEIGHT, SAMPLES, MEASURED, SUMS }; /* what is summed: weight of samples, their number, measured time */

struct work {
    const bn_stacks *sampled, *measured;
    size_t n_runs; /* 1: the runs of both are not the same, and are taken together */
    bool paired;
    bool *busy;                    /* [runs of measured]: left out */
    double waited;                 /* share of time, of the calmest run */
    struct bn_agreement_row *rows; /* of the result, in the order in which they were met */
    size_t n;
    double *sums;   /* [MAX_ROWS + 1][SUMS][n_runs]; the last row: of all that are compared of a kind */
    double squares; /* of weights, of samples in bricks that are compared */
};

static double *sums_of(const struct work *w, size_t row, int what)
{
    return w->sums + (row * SUMS + (size_t)what) * w->n_runs;
}

static double total_of(const struct work *w, size_t row, int what)
{
    double total = 0;
    for (size_t r = 0; r < w->n_runs; r++)
        total += sums_of(w, row, what)[r];
    return total;
}

/* ---- rows ---- */

static bn_status find_row(struct work *w, uint32_t *out, enum bn_frame_kind kind, const char *name, bool make,
                          bn_error *err)
{
    struct bn_agreement_row row = {.kind = kind, .compared = true};
    snprintf(row.name, sizeof row.name, "%s", name);
    for (*out = 0; *out < w->n; ++*out)
        if (w->rows[*out].kind == kind && strcmp(w->rows[*out].name, row.name) == 0) return BN_OK;
    *out = NO_ROW;
    if (!make || strcmp(name, BN_BRICKS_UNATTRIBUTED) == 0) return BN_OK;
    if (w->n == MAX_ROWS) return bn_fail(err, BN_ERR_LIMIT, "more than %u bricks and kernels", MAX_ROWS);
    bool waits = strcmp(name, "BarrierWait") == 0 || strcmp(name, "Team") == 0;
    if (kind == BN_FRAME_BRICK && waits && strcmp(w->sampled->what, "cpu") == 0) row.compared = false;
    *out = (uint32_t)w->n;
    w->rows[w->n++] = row;
    return BN_OK;
}

/* The row of a frame: of a brick, of a kernel by the profiler, and of a function that is a measured
 * kernel's: bn_ternary_gemv_avx2, or a part of it that the compiler split off, with a dot after its name. */
static bn_status row_of(struct work *w, uint32_t *out, const struct bn_frame *f, bool measured, bn_error *err)
{
    char name[128];
    *out = NO_ROW;
    if (f->kind == BN_FRAME_BRICK || f->kind == BN_FRAME_SLOT)
        return find_row(w, out, f->kind, f->name, measured || f->kind == BN_FRAME_BRICK, err);
    if (BN_FRAME_IS_TAG(f->kind) || strncmp(f->name, "bn_", 3) != 0) return BN_OK;
    snprintf(name, sizeof name, "%.*s", (int)bn_min_size(strcspn(f->name + 3, "."), 127), f->name + 3);
    return find_row(w, out, BN_FRAME_SLOT, name, false, err);
}

/* What a node lies in: the innermost brick and kernel by the profiler, the outermost kernel by function. */
struct place {
    uint32_t brick, slot, function;
};

static void add(struct work *w, uint32_t row, size_t run, double weight, double n, bool sampled)
{
    if (row == NO_ROW) return;
    sums_of(w, row, sampled ? WEIGHT : MEASURED)[run] += weight;
    sums_of(w, row, SAMPLES)[run] += n;
}

static void add_node(struct work *w, struct bn_agreement *out, const bn_stacks *stacks, uint32_t node,
                     const struct place *place)
{
    bool sampled = stacks == w->sampled;
    for (size_t r = 0; r < stacks->n_runs; r++) {
        double weight = stacks->runs[r].self[node];
        uint64_t n = stacks->runs[r].samples[node];
        size_t run = w->n_runs == 1 ? 0 : r;
        if (!(weight > 0) || (sampled && n == 0) || (w->paired && w->busy[r])) continue;
        add(w, place->brick, run, weight, (double)n, sampled);
        add(w, sampled ? place->function : place->slot, run, weight, (double)n, sampled);
        if (!sampled) continue;
        if (place->brick != NO_ROW && w->rows[place->brick].compared)
            w->squares += weight * weight / (double)n;
        if (place->slot == NO_ROW || place->function == NO_ROW) continue;
        out->both += n;
        if (place->slot != place->function) out->other += n;
    }
}

static bn_status collect(struct work *w, struct bn_agreement *out, const bn_stacks *stacks, bn_error *err)
{
    uint32_t *rows = bn_alloc(stacks->n_frames, sizeof *rows);
    struct place *places = bn_alloc(stacks->n_nodes, sizeof *places);
    bn_status status = rows != NULL && places != NULL ? BN_OK : bn_nomem(err);
    for (size_t i = 0; status == BN_OK && i < stacks->n_frames; i++)
        status = row_of(w, &rows[i], &stacks->frames[i], stacks == w->measured, err);
    if (status == BN_OK) places[0] = (struct place){NO_ROW, NO_ROW, NO_ROW};
    for (uint32_t i = 1; status == BN_OK && i < stacks->n_nodes; i++) {
        uint32_t row = rows[stacks->nodes[i].frame];
        enum bn_frame_kind kind = stacks->frames[stacks->nodes[i].frame].kind;
        places[i] = places[stacks->nodes[i].parent];
        if (kind == BN_FRAME_BRICK) places[i].brick = row;
        if (kind == BN_FRAME_SLOT) places[i].slot = row;
        if (!BN_FRAME_IS_TAG(kind) && places[i].function == NO_ROW) places[i].function = row;
        add_node(w, out, stacks, i, &places[i]);
    }
    bn_free(rows);
    bn_free(places);
    return status;
}

/* ---- judging ---- */

/* The share p for which P(X <= k) of n is this. */
static double share_of(size_t k, size_t n, double probability)
{
    double low = 0, high = 1;
    for (int i = 0; i < 60; i++) {
        double middle = 0.5 * (low + high);
        if (bn_binomial_cdf(k, n, middle) > probability)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}

static bool counts(const struct bn_agreement_row *row, enum bn_frame_kind kind)
{
    return row->kind == kind && row->compared;
}

/* Sums the rows of a kind that are compared into the row after the last. */
static void sum_kind(const struct work *w, enum bn_frame_kind kind)
{
    memset(sums_of(w, MAX_ROWS, 0), 0, SUMS * w->n_runs * sizeof *w->sums);
    for (size_t i = 0; i < w->n; i++)
        for (size_t k = 0; k < SUMS * w->n_runs && counts(&w->rows[i], kind); k++)
            sums_of(w, MAX_ROWS, 0)[k] += sums_of(w, i, 0)[k];
}

/* How many times more the runs differ from each other than their samples explain (Pearson's statistic over
 * its expectation), each run's measured shares allowed for. */
static double dispersion(const struct work *w, enum bn_frame_kind kind)
{
    const double *weights = sums_of(w, MAX_ROWS, WEIGHT), *samples = sums_of(w, MAX_ROWS, SAMPLES),
                 *measured = sums_of(w, MAX_ROWS, MEASURED);
    double statistic = 0, df = 0, per_run = total_of(w, MAX_ROWS, SAMPLES) / (double)w->n_runs;
    for (size_t i = 0; i < w->n; i++) {
        const struct bn_agreement_row *row = &w->rows[i];
        double terms = 0;
        size_t n = 0;
        for (size_t r = 0; r < w->n_runs && counts(&w->rows[i], kind) && row->sampled * per_run >= 5; r++) {
            if (!(weights[r] > 0) || !(measured[r] > 0)) continue;
            double here = sums_of(w, i, MEASURED)[r] / measured[r] - row->measured;
            double expected = samples[r] * fmax(row->sampled + here, 0);
            double got = samples[r] * sums_of(w, i, WEIGHT)[r] / weights[r];
            if (expected < 1) continue;
            terms += (got - expected) * (got - expected) / expected;
            n++;
        }
        if (n < 2) continue;
        statistic += terms;
        df += (double)(n - 1) * (1 - row->sampled);
    }
    return df > 0 && statistic > df ? statistic / df : 1;
}

static void judge_row(struct bn_agreement_row *out, double n_equal, size_t n_rows)
{
    if (!out->compared) {
        out->low = out->high = (double)NAN;
        out->agrees = true;
        return;
    }
    size_t n = (size_t)(n_equal + 0.5), k = bn_min_size((size_t)(out->sampled * n_equal + 0.5), n);
    double tail = (1 - CONFIDENCE) / (2 * (double)n_rows);
    out->low = k == 0 ? 0 : share_of(k - 1, n, 1 - tail);
    out->high = k == n ? 1 : share_of(k, n, tail);
    out->agrees = out->low <= out->measured_high && out->high >= out->measured_low;
}

/* Shares of all rows of a kind, and what readings of the clock leave open of them. A row's measured share is that of
 * each run, as much as the run has samples. */
static void fill_shares(struct work *w, enum bn_frame_kind kind)
{
    double weight = total_of(w, MAX_ROWS, WEIGHT), measured = total_of(w, MAX_ROWS, MEASURED), stamps = 0;
    for (size_t i = 0; i < w->n; i++)
        if (counts(&w->rows[i], kind)) stamps += w->rows[i].stamps_ns;
    for (size_t i = 0; i < w->n; i++) {
        struct bn_agreement_row *out = &w->rows[i];
        double share = 0, known = 0, own = w->rows[i].stamps_ns;
        if (out->kind != kind) continue;
        for (size_t r = 0; r < w->n_runs; r++) {
            double whole = sums_of(w, MAX_ROWS, MEASURED)[r], here = sums_of(w, MAX_ROWS, WEIGHT)[r];
            if (!(whole > 0)) continue;
            share += here * sums_of(w, i, MEASURED)[r] / whole;
            known += here;
        }
        out->measured = known > 0 ? share / known : 0;
        out->measured_low = out->measured_high = out->measured;
        if (measured > 0) {
            out->measured_low = fmax(out->measured - own / measured, 0) / fmax(1 - own / measured, 1e-9);
            out->measured_high = fmin(out->measured / fmax(1 - (stamps - own) / measured, 1e-9), 1);
        }
        out->sampled = weight > 0 ? total_of(w, i, WEIGHT) / weight : 0;
        out->samples = (uint64_t)(total_of(w, i, SAMPLES) + 0.5);
    }
}

/* equal: the number of samples of equal weight that are as informative as one of these. */
static void judge_kind(struct work *w, struct bn_agreement *out, enum bn_frame_kind kind, double equal,
                       size_t n_rows)
{
    sum_kind(w, kind);
    fill_shares(w, kind);
    double samples = total_of(w, MAX_ROWS, SAMPLES);
    for (size_t i = 0; i < w->n && kind == BN_FRAME_SLOT && samples < BN_AGREEMENT_MIN_SAMPLES; i++)
        if (w->rows[i].kind == kind) w->rows[i].compared = false;
    double spread = dispersion(w, kind);
    for (size_t i = 0; i < w->n; i++)
        if (w->rows[i].kind == kind) judge_row(&w->rows[i], samples * equal / spread, n_rows);
    if (kind != BN_FRAME_BRICK) return;
    out->samples = (uint64_t)(samples + 0.5);
    out->dispersion = spread;
}

/* What the readings of the clock may be of each kernel's time. */
static void read_stamps(struct work *w)
{
    double each = 0, count;
    const bn_json *events = bn_json_path(w->sampled->about, "stamps.events");
    (void)bn_json_number(bn_json_path(w->sampled->about, "stamps.ns_each"), &each);
    for (size_t i = 0; i < w->n; i++)
        if (w->rows[i].kind == BN_FRAME_SLOT && bn_json_number(bn_json_get(events, w->rows[i].name), &count))
            w->rows[i].stamps_ns = fmin(fmax(each * count, 0), total_of(w, i, MEASURED));
}

/* Runs whose threads waited for too much of their time. */
static void find_busy(struct work *w, struct bn_agreement *out)
{
    const bn_json *about = bn_json_get(w->sampled->about, "scheduling");
    const bn_json *cpu = bn_json_first(bn_json_get(about, "cpu_ns"));
    const bn_json *waited = bn_json_first(bn_json_get(about, "waited_ns"));
    double calmest = (double)INFINITY;
    for (size_t r = 0; r < w->measured->n_runs; r++) {
        double on = 0, off = 0;
        if (bn_json_number(cpu, &on) && bn_json_number(waited, &off) && on >= 0 && off > 0) {
            w->busy[r] = off > BN_AGREEMENT_MAX_WAIT * (on + off);
            out->busy_runs += w->busy[r];
        }
        calmest = fmin(calmest, off > 0 ? off / (on + off) : 0);
        cpu = cpu != NULL ? bn_json_next(cpu) : NULL;
        waited = waited != NULL ? bn_json_next(waited) : NULL;
    }
    w->waited = calmest;
    if (out->busy_runs == w->measured->n_runs) /* nothing is compared, so all of it is shown */
        memset(w->busy, 0, w->measured->n_runs * sizeof *w->busy);
}

/* Says why nothing can be compared; leaves it empty when something can. */
static void look_for_reasons(const struct work *w, struct bn_agreement *out)
{
    sum_kind(w, BN_FRAME_BRICK);
    size_t n_busy = w->paired ? w->measured->n_runs : 1;
    if (out->busy_runs >= n_busy)
        snprintf(
            out->why, sizeof out->why,
            "the machine was too busy: in each run threads waited for a processor for %.1f %% of their time "
            "or more, which is measured and not sampled; up to %.0f %% can be compared",
            100 * w->waited, 100 * BN_AGREEMENT_MAX_WAIT);
    else if (strcmp(w->sampled->unit, "ns") != 0)
        snprintf(out->why, sizeof out->why, "the samples are of %s, not of time", w->sampled->unit);
    else if (!(total_of(w, MAX_ROWS, MEASURED) > 0))
        snprintf(out->why, sizeof out->why, "no brick was measured");
    else if (out->samples < BN_AGREEMENT_MIN_SAMPLES)
        snprintf(out->why, sizeof out->why, "%llu samples lie in bricks, and it takes %u",
                 (unsigned long long)out->samples, BN_AGREEMENT_MIN_SAMPLES);
}

static void judge(struct work *w, struct bn_agreement *out)
{
    double stamps = 0;
    size_t n_rows = 0;
    read_stamps(w);
    for (size_t i = 0; i < w->n; i++) {
        n_rows += w->rows[i].compared;
        stamps += w->rows[i].stamps_ns;
    }
    sum_kind(w, BN_FRAME_SLOT);
    double kernels = total_of(w, MAX_ROWS, MEASURED);
    out->other_allowed = fmin(OTHER_FLOOR + (kernels > 0 ? stamps / kernels : 0), 1);
    sum_kind(w, BN_FRAME_BRICK);
    double weight = total_of(w, MAX_ROWS, WEIGHT), samples = total_of(w, MAX_ROWS, SAMPLES);
    double equal = w->squares > 0 && samples > 0 ? fmin(weight * weight / w->squares / samples, 1) : 1;
    judge_kind(w, out, BN_FRAME_BRICK, equal, n_rows);
    judge_kind(w, out, BN_FRAME_SLOT, equal, n_rows);
}

static int by_share(const void *a, const void *b)
{
    const struct bn_agreement_row *x = a, *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->measured < y->measured || x->measured > y->measured) return x->measured > y->measured ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void finish(struct work *w, struct bn_agreement *out)
{
    /* No more samples contradict the profiler than readings of the clock account for. */
    out->agrees =
        out->other == 0 ||
        1 - bn_binomial_cdf((size_t)out->other - 1, (size_t)out->both, out->other_allowed) >= LEAST_P;
    for (; out->n < w->n; out->n++)
        out->agrees = out->agrees && out->rows[out->n].agrees;
    look_for_reasons(w, out);
    if (out->why[0] != '\0') out->agrees = false;
    qsort(out->rows, out->n, sizeof *out->rows, by_share);
}

bn_status bn_agreement(struct bn_agreement *out, const bn_stacks *sampled, const bn_stacks *measured,
                       bn_error *err)
{
    bool paired = sampled->n_runs == measured->n_runs;
    struct work w = {
        .sampled = sampled, .measured = measured, .n_runs = paired ? sampled->n_runs : 1, .paired = paired};
    *out = (struct bn_agreement){.dispersion = 1};
    w.rows = out->rows = bn_alloc(MAX_ROWS, sizeof *w.rows);
    w.sums = bn_alloc((MAX_ROWS + 1) * SUMS * w.n_runs, sizeof *w.sums);
    w.busy = bn_alloc(measured->n_runs, sizeof *w.busy);
    bn_status status = w.rows != NULL && w.sums != NULL && w.busy != NULL ? BN_OK : bn_nomem(err);
    if (status == BN_OK) find_busy(&w, out);
    if (status == BN_OK) status = collect(&w, out, measured, err);
    if (status == BN_OK) status = collect(&w, out, sampled, err);
    if (status == BN_OK) {
        judge(&w, out);
        finish(&w, out);
    }
    bn_free(w.sums);
    bn_free(w.busy);
    if (status != BN_OK) bn_agreement_release(out);
    return status;
}

void bn_agreement_release(struct bn_agreement *agreement)
{
    bn_free(agreement->rows);
    *agreement = (struct bn_agreement){0};
}

/* ---- as a document ---- */

static void put_row(bn_json *array, const struct bn_agreement_row *row)
{
    bn_json *o = bn_json_add_object(array);
    BN_PUT(o, BN_STRING("name", row->name), BN_STRING("kind", bn_frame_kind_name(row->kind)),
           BN_NUMBER("measured", row->measured), BN_NUMBER("measured_low", row->measured_low),
           BN_NUMBER("measured_high", row->measured_high), BN_NUMBER("sampled", row->sampled),
           BN_U64("samples", row->samples), BN_FLAG("compared", row->compared));
    const char *reason = row->kind == BN_FRAME_SLOT ? "too few samples have a kernel's function"
                                                    : "a wait, which samples of processor time may not see";
    bn_json_put_finite(o, "low", row->low, reason);
    bn_json_put_finite(o, "high", row->high, reason);
    if (row->compared)
        bn_json_put_bool(o, "agrees", row->agrees);
    else
        bn_json_put_unavailable(o, "agrees", reason);
}

void bn_agreement_put(bn_json *document, const struct bn_agreement *agreement)
{
    bn_json *o = bn_json_put_object(document, "agreement");
    if (agreement->why[0] == '\0') {
        bn_json_put_bool(o, "agrees", agreement->agrees);
    } else {
        bn_json_put_unavailable(o, "agrees", agreement->why);
        bn_json_put_string(o, "why", agreement->why);
    }
    BN_PUT(o, BN_U64("busy_runs", agreement->busy_runs), BN_U64("samples", agreement->samples),
           BN_NUMBER("dispersion", agreement->dispersion), BN_U64("kernels_by_both", agreement->both),
           BN_U64("kernels_that_differ", agreement->other),
           BN_NUMBER("kernels_may_differ", agreement->other_allowed));
    bn_json *rows = bn_json_put_array(o, "rows");
    for (size_t i = 0; i < agreement->n; i++)
        put_row(rows, &agreement->rows[i]);
}

/* SPDX-License-Identifier: MIT
 *
 * Compares two sides as the runs of one tree. Each list (paths; functions, self and total) is a table of weights
 * with one row per run; each column is tested in the same way, as shares of its run's whole, or, to compare
 * weights, of the longest run's whole.
 */
#include "lab/stacks/diff.h"

#include <math.h>

#include "lab/stacks/hotspots.h"
#include "lab/stats/summary.h"

#define CONFIDENCE 0.95
#define POWER 0.8
#define MOST_WHOLE 0x1p53 /* integers up to here are exact */

/* ---- one tree ---- */

static bn_status same_recording(const bn_stacks *before, const bn_stacks *after, bn_error *err)
{
    if (strcmp(before->unit, after->unit) != 0)
        return bn_fail(err, BN_ERR_ARG, "cannot compare stacks of %s with stacks of %s", before->unit,
                       after->unit);
    if (before->what[0] != '\0' && after->what[0] != '\0' && strcmp(before->what, after->what) != 0)
        return bn_fail(err, BN_ERR_ARG, "cannot compare recordings of %s with recordings of %s", before->what,
                       after->what);
    return BN_OK;
}

static bn_status join(bn_stacks **out, const bn_stacks *before, const bn_stacks *after, bn_error *err)
{
    static const struct bn_stacks_view by_name = {.drop_modules = true};
    bn_stacks *both = NULL, *other = NULL;
    bn_status status = bn_stacks_copy(&both, before, &by_name, err);
    if (status == BN_OK) status = bn_stacks_copy(&other, after, &by_name, err);
    if (status == BN_OK) status = bn_stacks_append(both, other, err);
    if (status == BN_OK) status = bn_stacks_copy(out, both, &by_name, err);
    bn_stacks_close(both);
    bn_stacks_close(other);
    return status;
}

/* Folded text counts samples and has nowhere to say so. */
static void count_weights(bn_stacks *tree, struct bn_stacks_run *run)
{
    if (strcmp(tree->unit, "samples") != 0) return;
    for (size_t i = 0; i < tree->n_nodes; i++)
        if (run->samples[i] != 0 || run->self[i] > MOST_WHOLE || trunc(run->self[i]) < run->self[i]) return;
    for (size_t i = 0; i < tree->n_nodes; i++)
        run->samples[i] = (uint64_t)run->self[i];
}

/* ---- judging ---- */

/* A side of one comparison: the values of its runs, and the samples that their mean is as good as. */
struct side {
    double mean, sd;
    double runs, samples; /* samples 0: not known */
};

static void judge_by_runs(struct bn_diff_value *v, const struct side *b, const struct side *a)
{
    double of_mean_b = b->sd * b->sd / b->runs, of_mean_a = a->sd * a->sd / a->runs;
    if (b->samples > 0 && a->samples > 0) {
        double pooled = (b->mean * b->samples + a->mean * a->samples) / (b->samples + a->samples);
        of_mean_b = fmax(of_mean_b, pooled * (1 - pooled) / b->samples);
        of_mean_a = fmax(of_mean_a, pooled * (1 - pooled) / a->samples);
    }
    double variance = of_mean_b + of_mean_a;
    if (!(variance > 0)) return;
    v->error = sqrt(variance);
    v->df =
        variance * variance / (of_mean_b * of_mean_b / (b->runs - 1) + of_mean_a * of_mean_a / (a->runs - 1));
    v->p = 2 * bn_student_cdf(-fabs(a->mean - b->mean) / v->error, v->df);
    double half = bn_student_quantile(0.5 + 0.5 * CONFIDENCE, v->df) * v->error;
    v->low = a->mean - b->mean - half;
    v->high = a->mean - b->mean + half;
}

static void judge_by_samples(struct bn_diff_value *v, const struct side *b, const struct side *a)
{
    struct bn_interval difference =
        bn_interval_difference(b->mean, b->samples, a->mean, a->samples, CONFIDENCE);
    double pooled = (b->mean * b->samples + a->mean * a->samples) / (b->samples + a->samples);
    v->error = sqrt(pooled * (1 - pooled) * (1 / b->samples + 1 / a->samples));
    v->df = (double)INFINITY;
    v->low = difference.low;
    v->high = difference.high;
}

static void judge(struct bn_diff_value *v, struct side b, struct side a, bool by_runs, double level)
{
    b.mean = fmin(b.mean, 1); /* sums of a whole's parts may exceed it by their rounding */
    a.mean = fmin(a.mean, 1);
    struct bn_fisher exact = bn_fisher(b.mean, b.samples, a.mean, a.samples);
    if (exact.least_p > level) return;
    if (by_runs)
        judge_by_runs(v, &b, &a);
    else if (!isnan(exact.p))
        judge_by_samples(v, &b, &a);
    v->p = fmax(v->p, exact.p); /* which is the other one where one is NaN */
    if (isnan(v->error)) v->p = (double)NAN;
}

/* ---- the lists ---- */

struct work {
    struct bn_stacks_diff *d;
    double min_share;
    size_t n_runs;
    double *wholes, *divisors, *values; /* [n_runs] */
    double scale;                       /* of the result: the divisor over the mean whole before */
    double samples[2];                  /* that a side's mean is as good as */
};

static struct side side_of(const struct work *w, bool after, double samples)
{
    size_t first = after ? w->d->n_before : 0, n = after ? w->d->n_after : w->d->n_before;
    struct side out = {.runs = (double)n, .samples = samples};
    out.mean = bn_mean(w->values + first, n, &out.sd);
    return out;
}

#define NONE ((double)NAN)

/* Compares what has the weight weights[r * stride] in run r. Samples say nothing of how long a run is, so weights of
 * a single run cannot be judged; nor do they add to the whole's own variance. */
static struct bn_diff_value compare(const struct work *w, const double *weights, size_t stride, bool is_whole)
{
    struct bn_diff_value v = {.low = NONE, .high = NONE, .p = NONE, .q = NONE, .error = NONE, .df = NONE};
    for (size_t r = 0; r < w->n_runs; r++)
        w->values[r] = weights[r * stride] / w->divisors[r];
    struct side b = side_of(w, false, is_whole ? 0 : w->samples[0]),
                a = side_of(w, true, is_whole ? 0 : w->samples[1]);
    v.before = b.mean * w->scale;
    v.after = a.mean * w->scale;
    bool judged = w->d->same_work ? w->d->by_runs : !is_whole;
    if (judged && 0.5 * (v.before + v.after) >= w->min_share) judge(&v, b, a, w->d->by_runs, w->d->level);
    v.low *= w->scale;
    v.high *= w->scale;
    v.error *= w->scale;
    return v;
}

static bn_status compare_all(struct work *w, bn_error *err)
{
    struct bn_stacks_diff *d = w->d;
    size_t n_nodes = d->tree->n_nodes, n_frames = d->tree->n_frames;
    uint64_t cells = 0;
    bool *again = bn_stacks_repeated(d->tree);
    double *paths = NULL;
    if (bn_mul_ok(w->n_runs, n_nodes + 2 * n_frames, &cells)) paths = bn_alloc(cells, sizeof *paths);
    d->paths = bn_alloc(n_nodes, sizeof *d->paths);
    d->self = bn_alloc(2 * n_frames, sizeof *d->self);
    bool memory = again != NULL && paths != NULL && d->paths != NULL && d->self != NULL;
    if (memory) {
        double *self = paths + w->n_runs * n_nodes, *total = self + w->n_runs * n_frames;
        for (size_t r = 0; r < w->n_runs; r++)
            bn_stacks_sum_frames(d->tree, again, r, self + r * n_frames, total + r * n_frames,
                                 paths + r * n_nodes);
        for (size_t i = 0; i < n_nodes; i++)
            d->paths[i] = compare(w, paths + i, n_nodes, i == BN_STACKS_ROOT);
        d->total = d->self + n_frames;
        for (size_t i = 0; i < n_frames; i++) {
            d->self[i] = compare(w, self + i, n_frames, false);
            d->total[i] = compare(w, total + i, n_frames, false);
        }
    }
    bn_free(again);
    bn_free(paths);
    return memory ? BN_OK : bn_nomem(err);
}

/* ---- many tests ---- */

static bn_status correct(struct bn_diff_value *values, size_t n, double level, size_t *n_judged,
                         bn_error *err)
{
    double *p = bn_alloc(n, sizeof *p);
    size_t m = 0;
    for (size_t i = 0; p != NULL && i < n; i++)
        if (!isnan(values[i].p)) p[m++] = values[i].p;
    bn_status status = p != NULL ? bn_false_discovery(p, p, m, err) : bn_nomem(err);
    *n_judged = m;
    for (size_t i = n; status == BN_OK && i-- > 0;) {
        if (isnan(values[i].p)) continue;
        values[i].q = p[--m];
        values[i].significant = values[i].q < level;
    }
    bn_free(p);
    return status;
}

double bn_stacks_diff_detectable(const struct bn_stacks_diff *diff, const struct bn_diff_value *value)
{
    double each = diff->level / (double)(diff->n_judged > 0 ? diff->n_judged : 1), df = value->df;
    if (isnan(value->error)) return (double)NAN;
    if (isinf(df)) return value->error * (bn_normal_quantile(1 - 0.5 * each) + bn_normal_quantile(POWER));
    return value->error * (bn_student_quantile(1 - 0.5 * each, df) + bn_student_quantile(POWER, df));
}

/* ---- the whole comparison ---- */

static const char *method_of(const struct work *w)
{
    bool sampled = w->samples[0] > 0 && w->samples[1] > 0;
    if (w->d->by_runs && sampled)
        return "Welch's t over runs, its error at least that of sampling, and Fisher's exact test of samples";
    if (w->d->by_runs) return "Welch's t over runs";
    if (sampled)
        return "Fisher's exact test of (effective) samples as if they were independent; with one run on a "
               "side nothing is known of how runs differ";
    return "not judged: one run on a side, and no samples";
}

/* Of the mean of n runs whose samples are these. */
static double samples_of_mean(const double *samples, const double *wholes, const double *divisors, size_t n)
{
    double inverse = 0;
    for (size_t r = 0; r < n; r++)
        inverse += wholes[r] / divisors[r] / samples[r];
    return isfinite(inverse) ? (double)n * (double)n / inverse : 0;
}

static bn_status measure_runs(struct work *w, bn_error *err)
{
    struct bn_stacks_diff *d = w->d;
    double longest = 0;
    for (size_t r = 0; r < w->n_runs; r++) {
        struct bn_stacks_run *run = &d->tree->runs[r];
        bool after = r >= d->n_before;
        for (size_t i = 0; i < d->tree->n_nodes; i++)
            w->wholes[r] += run->self[i];
        if (!(w->wholes[r] > 0 && isfinite(w->wholes[r])))
            return bn_fail(err, BN_ERR_MISMATCH, "run %zu %s has no weight",
                           r - (after ? d->n_before : 0) + 1, after ? "after" : "before");
        count_weights(d->tree, run);
        for (size_t i = 0; i < d->tree->n_nodes; i++)
            d->samples[after] += run->samples[i];
        w->values[r] = bn_stacks_equal_samples(d->tree, r);
        longest = fmax(longest, w->wholes[r]);
    }
    d->weight[0] = bn_mean(w->wholes, d->n_before, NULL);
    d->weight[1] = bn_mean(w->wholes + d->n_before, d->n_after, NULL);
    w->scale = d->same_work ? longest / d->weight[0] : 1;
    for (size_t r = 0; r < w->n_runs; r++)
        w->divisors[r] = d->same_work ? longest : w->wholes[r];
    for (int after = 0; after < 2; after++) {
        size_t first = after ? d->n_before : 0;
        w->samples[after] = samples_of_mean(w->values + first, w->wholes + first, w->divisors + first,
                                            after ? d->n_after : d->n_before);
    }
    return BN_OK;
}

static bn_status run(struct work *w, bn_error *err)
{
    struct bn_stacks_diff *d = w->d;
    size_t n_paths;
    BN_TRY(measure_runs(w, err));
    d->method = method_of(w);
    BN_TRY(compare_all(w, err));
    d->paths[0].q = d->paths[0].p;
    d->paths[0].significant = d->paths[0].q < d->level;
    BN_TRY(correct(d->paths + 1, d->tree->n_nodes - 1, d->level, &n_paths, err));
    return correct(d->self, 2 * d->tree->n_frames, d->level, &d->n_judged, err);
}

bn_status bn_stacks_diff(struct bn_stacks_diff *out, const bn_stacks *before, const bn_stacks *after,
                         const struct bn_stacks_diff_options *options, bn_error *err)
{
    *out = (struct bn_stacks_diff){.n_before = before->n_runs,
                                   .n_after = after->n_runs,
                                   .same_work = options->same_work,
                                   .level = options->level > 0 ? options->level : 0.05};
    out->by_runs = out->n_before >= 2 && out->n_after >= 2;
    BN_TRY(same_recording(before, after, err));
    struct work w = {.d = out, .min_share = options->min_share, .n_runs = out->n_before + out->n_after};
    w.wholes = bn_alloc(3 * w.n_runs, sizeof *w.wholes);
    bn_status status = w.wholes != NULL ? join(&out->tree, before, after, err) : bn_nomem(err);
    if (status == BN_OK) {
        w.divisors = w.wholes + w.n_runs;
        w.values = w.divisors + w.n_runs;
        status = run(&w, err);
    }
    bn_free(w.wholes);
    if (status != BN_OK) bn_stacks_diff_release(out);
    return status;
}

void bn_stacks_diff_release(struct bn_stacks_diff *diff)
{
    bn_stacks_close(diff->tree);
    bn_free(diff->paths);
    bn_free(diff->self); /* and total, which is after it */
    *diff = (struct bn_stacks_diff){0};
}

/* SPDX-License-Identifier: MIT
 *
 * Compares two sides as the runs of one tree. Each list (nodes and functions, self and total) is a table of
 * weights with one row per run; each column is tested in the same way, as shares of its run's whole and as
 * shares of the longest run's whole, which compares weights.
 */
#include "lab/stacks/diff.h"

#include <math.h>

#include "base/error.h"
#include "lab/stats/distribution.h"
#include "lab/stats/interval.h"
#include "lab/stats/rank_tests.h"
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

/* The number of samples of equal weight that are as informative as the run's: (sum w)^2 / sum w^2, those of
 * a node being equal. 0 when something has a weight and no samples. */
static double effective_samples(const bn_stacks *tree, const struct bn_stacks_run *run, double whole)
{
    double squares = 0;
    for (size_t i = 0; i < tree->n_nodes; i++)
        if (run->self[i] > 0) squares += run->self[i] * (run->self[i] / (double)run->samples[i]);
    return isfinite(squares) && squares > 0 ? whole * (whole / squares) : 0;
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

/* All in units of scale, which the result is given without. */
static void judge(struct bn_diff_value *v, struct side b, struct side a, bool by_runs, double level,
                  double scale)
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
    v->low *= scale;
    v->high *= scale;
    v->error *= scale;
}

/* ---- the lists ---- */

struct work {
    struct bn_stacks_diff *d;
    double level, min_share;
    size_t n_runs;
    double *wholes, *values; /* [n_runs] */
    double longest;          /* the greatest whole */
    /* That a side's mean is as good as: in shares of each whole, and of the longest. */
    double samples[2], samples_of_longest[2];
};

/* weights[r * n + i] of what is i-th in run r. */
struct table {
    double *weights;
    uint64_t *samples;
    size_t n;
};

static struct side side_of(const struct work *w, bool after, double samples)
{
    size_t first = after ? w->d->n_before : 0, n = after ? w->d->n_after : w->d->n_before;
    struct side out = {.runs = (double)n, .samples = samples};
    out.mean = bn_mean(w->values + first, n, &out.sd);
    return out;
}

#define NONE ((double)NAN)
static const struct bn_diff_value UNJUDGED = {
    .low = NONE, .high = NONE, .p = NONE, .q = NONE, .error = NONE, .df = NONE};

static void compare_shares(const struct work *w, struct bn_diff_value *v, const struct table *t, size_t i,
                           bool judged)
{
    for (size_t r = 0; r < w->n_runs; r++)
        w->values[r] = t->weights[r * t->n + i] / w->wholes[r];
    struct side b = side_of(w, false, w->samples[0]), a = side_of(w, true, w->samples[1]);
    *v = UNJUDGED;
    v->before = b.mean;
    v->after = a.mean;
    if (judged && 0.5 * (b.mean + a.mean) >= w->min_share) judge(v, b, a, w->d->by_runs, w->level, 1);
}

/* Samples say nothing of how long a run is, so a single run cannot be judged; nor do they add to the whole's
 * own variance. */
static void compare_weights(const struct work *w, struct bn_diff_value *v, const double *weights,
                            size_t stride, bool is_whole, bool judged)
{
    *v = UNJUDGED;
    for (size_t r = 0; r < w->n_runs; r++)
        w->values[r] = weights[r * stride];
    v->before = side_of(w, false, 0).mean;
    v->after = side_of(w, true, 0).mean;
    for (size_t r = 0; r < w->n_runs; r++)
        w->values[r] /= w->longest;
    struct side b = side_of(w, false, is_whole ? 0 : w->samples_of_longest[0]);
    struct side a = side_of(w, true, is_whole ? 0 : w->samples_of_longest[1]);
    if (judged && w->d->same_work && w->d->by_runs) judge(v, b, a, true, w->level, w->longest);
}

static void compare(const struct work *w, struct bn_diff_entry *entries, const struct table *t,
                    bool first_is_whole)
{
    for (size_t i = 0; i < t->n; i++) {
        struct bn_diff_entry *e = &entries[i];
        bool judged = i > 0 || !first_is_whole;
        for (size_t r = 0; r < w->n_runs; r++)
            *(r < w->d->n_before ? &e->before_samples : &e->after_samples) += t->samples[r * t->n + i];
        compare_shares(w, &e->share, t, i, judged);
        judged = judged && 0.5 * (e->share.before + e->share.after) >= w->min_share;
        compare_weights(w, &e->weight, t->weights + i, t->n, false, judged);
        e->before = e->weight.before;
        e->after = e->weight.after;
    }
}

static bn_status table_open(struct table *t, size_t n_runs, size_t n, bn_error *err)
{
    uint64_t cells;
    *t = (struct table){.n = n};
    if (!bn_mul_ok(n_runs, n, &cells)) return bn_nomem(err);
    t->weights = bn_alloc(cells, sizeof *t->weights);
    t->samples = bn_alloc(cells, sizeof *t->samples);
    return t->weights != NULL && t->samples != NULL ? BN_OK : bn_nomem(err);
}

static void table_close(struct table *t)
{
    bn_free(t->weights);
    bn_free(t->samples);
}

static bn_status compare_nodes(const struct work *w, bool total, struct bn_diff_entry **out,
                               struct table *nodes, bn_error *err)
{
    const bn_stacks *tree = w->d->tree;
    BN_TRY(table_open(nodes, w->n_runs, tree->n_nodes, err));
    for (size_t r = 0; r < w->n_runs; r++) {
        double *weights = nodes->weights + r * nodes->n;
        uint64_t *samples = nodes->samples + r * nodes->n;
        memcpy(weights, tree->runs[r].self, nodes->n * sizeof *weights);
        memcpy(samples, tree->runs[r].samples, nodes->n * sizeof *samples);
        if (total) bn_stacks_totals(tree, r, weights);
        if (total) bn_stacks_total_samples(tree, r, samples);
    }
    *out = bn_alloc(nodes->n, sizeof **out);
    if (*out == NULL) return bn_nomem(err);
    compare(w, *out, nodes, total);
    return BN_OK;
}

/* A function's total is that of the nodes in which it is not below itself. outermost: NULL for self. */
static bn_status compare_functions(const struct work *w, const struct table *nodes, const bool *outermost,
                                   struct bn_diff_entry **out, bn_error *err)
{
    const bn_stacks *tree = w->d->tree;
    struct table functions;
    bn_status status = table_open(&functions, w->n_runs, tree->n_frames, err);
    *out = bn_alloc(tree->n_frames, sizeof **out);
    if (status == BN_OK && *out == NULL) status = bn_nomem(err);
    for (size_t r = 0; status == BN_OK && r < w->n_runs; r++)
        for (size_t i = 1; i < nodes->n; i++) {
            if (outermost != NULL && !outermost[i]) continue;
            size_t to = r * functions.n + tree->nodes[i].frame, from = r * nodes->n + i;
            functions.weights[to] += nodes->weights[from];
            functions.samples[to] += nodes->samples[from];
        }
    if (status == BN_OK) compare(w, *out, &functions, false);
    table_close(&functions);
    return status;
}

/* Nodes come depth first, so that those above one are the last ones of each lesser depth. */
static bool *find_outermost(const bn_stacks *tree)
{
    bool *outermost = bn_alloc(tree->n_nodes, sizeof *outermost);
    uint32_t *open = bn_alloc(tree->n_frames, sizeof *open), path[BN_STACKS_MAX_DEPTH + 1], depth = 0;
    for (size_t i = 1; outermost != NULL && open != NULL && i < tree->n_nodes; i++) {
        const struct bn_stacks_node *node = &tree->nodes[i];
        for (; depth >= node->depth; depth--)
            open[path[depth]]--;
        depth = node->depth;
        path[depth] = node->frame;
        outermost[i] = open[node->frame]++ == 0;
    }
    if (open == NULL) {
        bn_free(outermost);
        outermost = NULL;
    }
    bn_free(open);
    return outermost;
}

static bn_status compare_all(const struct work *w, bn_error *err)
{
    struct bn_stacks_diff *d = w->d;
    struct table self = {0}, total = {0};
    bool *outermost = find_outermost(d->tree);
    bn_status status = outermost != NULL ? BN_OK : bn_nomem(err);
    if (status == BN_OK) status = compare_nodes(w, false, &d->self, &self, err);
    if (status == BN_OK) status = compare_functions(w, &self, NULL, &d->functions_self, err);
    table_close(&self);
    if (status == BN_OK) status = compare_nodes(w, true, &d->total, &total, err);
    if (status == BN_OK) status = compare_functions(w, &total, outermost, &d->functions_total, err);
    table_close(&total);
    bn_free(outermost);
    return status;
}

/* ---- many tests ---- */

static bn_status correct(struct bn_diff_entry *self, struct bn_diff_entry *total, size_t n, bool weights,
                         double level, size_t *n_judged, bn_error *err)
{
    struct bn_diff_value **values = bn_alloc(2 * n, sizeof *values);
    double *p = bn_alloc(2 * n, sizeof *p);
    size_t m = 0;
    bool memory = values != NULL && p != NULL;
    for (size_t i = 0; memory && i < 2 * n; i++) {
        struct bn_diff_entry *e = i < n ? &self[i] : &total[i - n];
        values[m] = weights ? &e->weight : &e->share;
        p[m] = values[m]->p;
        if (!isnan(p[m])) m++;
    }
    bn_status status = memory ? bn_false_discovery(p, p, m, err) : bn_nomem(err);
    for (size_t i = 0; status == BN_OK && i < m; i++) {
        values[i]->q = p[i];
        values[i]->significant = p[i] < level;
    }
    *n_judged = m;
    bn_free(values);
    bn_free(p);
    return status;
}

double bn_stacks_diff_detectable(const struct bn_diff_value *value, double level, size_t n_judged)
{
    double each = level / (double)(n_judged > 0 ? n_judged : 1), df = value->df;
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
               "side "
               "nothing is known of how runs differ";
    return "not judged: one run on a side, and no samples";
}

/* Of the mean of n runs whose samples are these. */
static double samples_of_mean(const double *samples, const double *scale, size_t n)
{
    double inverse = 0;
    for (size_t r = 0; r < n; r++)
        inverse += (scale != NULL ? scale[r] : 1) / samples[r];
    return isfinite(inverse) ? (double)n * (double)n / inverse : 0;
}

static bn_status measure_runs(struct work *w, bn_error *err)
{
    bn_stacks *tree = w->d->tree;
    for (size_t r = 0; r < w->n_runs; r++) {
        struct bn_stacks_run *run = &tree->runs[r];
        bool after = r >= w->d->n_before;
        for (size_t i = 0; i < tree->n_nodes; i++)
            w->wholes[r] += run->self[i];
        if (!(w->wholes[r] > 0 && isfinite(w->wholes[r])))
            return bn_fail(err, BN_ERR_MISMATCH, "run %zu %s has no weight",
                           r - (after ? w->d->n_before : 0) + 1, after ? "after" : "before");
        count_weights(tree, run);
        w->values[r] = effective_samples(tree, run, w->wholes[r]);
        w->longest = fmax(w->longest, w->wholes[r]);
    }
    for (int after = 0; after < 2; after++) {
        size_t first = after ? w->d->n_before : 0, n = after ? w->d->n_after : w->d->n_before;
        w->samples[after] = samples_of_mean(w->values + first, NULL, n);
        w->samples_of_longest[after] = samples_of_mean(w->values + first, w->wholes + first, n) * w->longest;
    }
    return BN_OK;
}

static bn_status run(struct work *w, bn_error *err)
{
    struct bn_stacks_diff *d = w->d;
    BN_TRY(measure_runs(w, err));
    d->method = method_of(w);
    BN_TRY(compare_all(w, err));
    compare_weights(w, &d->whole, w->wholes, 1, true, true);
    d->whole.q = d->whole.p;
    d->whole.significant = d->whole.q < w->level;
    BN_TRY(correct(d->self, d->total, d->tree->n_nodes, false, w->level, &d->n_judged, err));
    BN_TRY(correct(d->functions_self, d->functions_total, d->tree->n_frames, false, w->level,
                   &d->n_judged_functions, err));
    if (!d->same_work) return BN_OK;
    BN_TRY(correct(d->self, d->total, d->tree->n_nodes, true, w->level, &d->n_judged, err));
    return correct(d->functions_self, d->functions_total, d->tree->n_frames, true, w->level,
                   &d->n_judged_functions, err);
}

bn_status bn_stacks_diff(struct bn_stacks_diff *out, const bn_stacks *before, const bn_stacks *after,
                         const struct bn_stacks_diff_options *options, bn_error *err)
{
    double level = options->level > 0 ? options->level : 0.05;
    *out = (struct bn_stacks_diff){.n_before = before->n_runs,
                                   .n_after = after->n_runs,
                                   .same_work = options->same_work,
                                   .level = level};
    out->by_runs = out->n_before >= 2 && out->n_after >= 2;
    BN_TRY(same_recording(before, after, err));
    struct work w = {.d = out, .level = level, .min_share = options->min_share};
    w.n_runs = out->n_before + out->n_after;
    w.wholes = bn_alloc(w.n_runs, sizeof *w.wholes);
    w.values = bn_alloc(w.n_runs, sizeof *w.values);
    bn_status status = w.wholes != NULL && w.values != NULL ? BN_OK : bn_nomem(err);
    if (status == BN_OK) status = join(&out->tree, before, after, err);
    if (status == BN_OK) status = run(&w, err);
    bn_free(w.wholes);
    bn_free(w.values);
    if (status != BN_OK) bn_stacks_diff_release(out);
    return status;
}

void bn_stacks_diff_release(struct bn_stacks_diff *diff)
{
    bn_stacks_close(diff->tree);
    bn_free(diff->self);
    bn_free(diff->total);
    bn_free(diff->functions_self);
    bn_free(diff->functions_total);
    *diff = (struct bn_stacks_diff){0};
}

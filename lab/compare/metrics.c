/* SPDX-License-Identifier: MIT
 *
 * Measures of the difference between two rows of numbers; reading their limits, and judging by them.
 */
#include "lab/compare/metrics.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

static const struct {
    const char *name;
    bool likeness; /* more is better */
    bool from_one; /* limits are distances from 1 */
    double power;  /* of the number of layers, with which they grow */
} METRICS[BN_METRIC_COUNT] = {
    [BN_METRIC_COSINE] = {"cosine", true, true, 2},
    [BN_METRIC_NRMSE] = {"nrmse", false, false, 1},
    [BN_METRIC_MSE] = {"mse", false, false, 2},
    [BN_METRIC_MAX_ABS] = {"max_abs", false, false, 1},
    [BN_METRIC_RMS] = {"rms_ratio", false, true, 1},
    [BN_METRIC_KL] = {"kl", false, false, 2},
    [BN_METRIC_TOP_K] = {"top_k", true, true, 1},
    [BN_METRIC_ARGMAX] = {"argmax", true, true, 1},
    [BN_METRIC_MARGIN] = {"margin", false, false, 1},
    [BN_METRIC_TIE] = {"tie", false, false, 0},
    [BN_METRIC_DELTA_NLL] = {"delta_nll", false, false, 1},
};
static const char *const RUNGS[BN_RUNG_COUNT] = {"tokens", "first",      "positions",
                                                 "decode", "likelihood", "mask"};
static const char *const BOUNDS[BN_BOUNDS] = {"min", "max", "min_mean", "max_mean"};
static const char *const KINDS[BN_OP_KIND_COUNT] = {"embd",      "norm",       "linear", "rope",
                                                    "attention", "activation", "sum",    "head"};

const char *bn_metric_name(enum bn_metric metric)
{
    return (unsigned)metric < BN_METRIC_COUNT ? METRICS[metric].name : "?";
}

const char *bn_rung_name(enum bn_rung rung)
{
    return (unsigned)rung < BN_RUNG_COUNT ? RUNGS[rung] : "?";
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

/* The k <= n greatest, by descending value, lower indices first among equals. Insertion into a short sorted
 * list: k is small. */
static void find_best(const float *x, size_t n, size_t k, size_t *out)
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
    double ab = 0, aa = 0, bb = 0, dd = 0, far = 0;
    for (size_t i = 0; i < n; i++) {
        double x = (double)a[i], y = (double)b[i], d = x - y;
        ab += x * y;
        aa += x * x;
        bb += y * y;
        dd += d * d;
        if (fabs(d) > far) far = fabs(d);
    }
    double cosine = aa > 0 && bb > 0 ? ab / (sqrt(aa) * sqrt(bb)) : (aa > 0) == (bb > 0) ? 1.0 : 0.0;
    out->of[BN_METRIC_COSINE] = cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
    out->of[BN_METRIC_NRMSE] = ratio(sqrt(dd), sqrt(bb));
    out->of[BN_METRIC_MSE] = dd / (double)n;
    out->of[BN_METRIC_MAX_ABS] = far;
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
    find_best(a, n, k, best_a);
    find_best(b, n, k, best_b);
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++)
            common += best_a[j] == best_b[i];
    out->of[BN_METRIC_TOP_K] = (double)common / (double)k;
    out->argmax_a = best_a[0];
    out->argmax_b = best_b[0];
    out->of[BN_METRIC_ARGMAX] = best_a[0] == best_b[0];
    out->of[BN_METRIC_MARGIN] = (double)b[best_b[0]] - (double)b[best_a[0]];
    out->of[BN_METRIC_TIE] = ratio(out->of[BN_METRIC_MARGIN], out->of[BN_METRIC_MAX_ABS]);
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

/* ---- reading limits ---- */

static unsigned find(const char *const *names, unsigned n, const bn_json *member)
{
    return (unsigned)bn_find_text(names, n, sizeof *names, bn_json_name(member));
}

static bn_status wrong(bn_error *err, const char *what, const bn_json *member)
{
    char name[64];
    const char *raw = bn_json_name(member) != NULL ? bn_json_name(member) : "";
    return bn_fail(err, BN_ERR_FORMAT, "thresholds: %s \"%s\"", what,
                   bn_escape(name, sizeof name, raw, strlen(raw)));
}

static bn_status read_limit(double limit[BN_BOUNDS], const bn_json *measure, bn_error *err)
{
    if (bn_json_kind(measure) != BN_JSON_OBJECT)
        return wrong(err, "the bounds are not an object, of", measure);
    for (const bn_json *b = bn_json_first(measure); b != NULL; b = bn_json_next(b)) {
        unsigned bound = find(BOUNDS, BN_BOUNDS, b);
        if (bound == BN_BOUNDS) return wrong(err, "unknown bound", b);
        if (!bn_json_number(b, &limit[bound])) return wrong(err, "not a number: a bound of", measure);
    }
    return BN_OK;
}

/* Whether a rung has this measure: the likelihood of a text is not one of rows, and tokens have none. */
static bool fits(unsigned rung, unsigned metric)
{
    return rung != BN_RUNG_TOKENS && (rung == BN_RUNG_LIKELIHOOD) == (metric == BN_METRIC_DELTA_NLL) &&
           (rung == BN_RUNG_DECODE || metric != BN_METRIC_TIE);
}

static bn_status read_rungs(struct bn_thresholds *t, const bn_json *rungs, bn_error *err)
{
    for (const bn_json *r = bn_json_first(rungs); r != NULL; r = bn_json_next(r)) {
        unsigned rung = bn_json_name(r) != NULL ? find(RUNGS, BN_RUNG_COUNT, r) : BN_RUNG_COUNT;
        if (rung == BN_RUNG_COUNT) return wrong(err, "unknown rung", r);
        if (bn_json_kind(r) != BN_JSON_OBJECT) return wrong(err, "not an object: the rung", r);
        for (const bn_json *m = bn_json_first(r); m != NULL; m = bn_json_next(m)) {
            unsigned metric = (unsigned)BN_FIND(METRICS, bn_json_name(m));
            if (metric == BN_METRIC_COUNT || !fits(rung, metric)) return wrong(err, "unknown measure", m);
            BN_TRY(read_limit(t->limit[rung][metric], m, err));
        }
    }
    return BN_OK;
}

static bn_status read_growth(struct bn_thresholds *t, const bn_json *trace, bn_error *err)
{
    for (const bn_json *k = bn_json_first(trace); k != NULL; k = bn_json_next(k))
        if (bn_json_name(k) == NULL || find(KINDS, BN_OP_KIND_COUNT, k) == BN_OP_KIND_COUNT)
            return wrong(err, "unknown kind of operation", k);
    for (unsigned i = 0; i < BN_OP_KIND_COUNT; i++) {
        const bn_json *kind = bn_json_get(trace, KINDS[i]);
        struct bn_growth *g = &t->growth[i];
        if (!bn_json_number(bn_json_get(kind, "floor"), &g->floor) ||
            !bn_json_number(bn_json_get(kind, "gain"), &g->gain) ||
            !bn_json_number(bn_json_get(kind, "flip"), &g->flip))
            return bn_fail(err, BN_ERR_FORMAT, "thresholds: trace.%s wants the numbers floor, gain, flip",
                           KINDS[i]);
    }
    return BN_OK;
}

static bn_status read_document(struct bn_thresholds *t, const bn_json *doc, const char *reference,
                               bn_error *err)
{
    struct bn_thresholds other = {0}; /* mistakes in what is said of other references are found, too */
    const bn_json *references = bn_json_get(doc, "references"), *layers = bn_json_get(doc, "layers");
    if (!bn_json_text_is(doc, "schema", "bn.thresholds/1"))
        return bn_fail(err, BN_ERR_FORMAT, "thresholds: schema is not \"bn.thresholds/1\"");
    if (layers != NULL && (!bn_json_number(layers, &t->layers) || !(t->layers >= 0)))
        return bn_fail(err, BN_ERR_FORMAT, "thresholds: layers is not a number of layers");
    BN_TRY(read_rungs(t, bn_json_get(doc, "rungs"), err));
    for (const bn_json *r = bn_json_first(references); r != NULL; r = bn_json_next(r)) {
        const char *name = bn_json_name(r) != NULL ? bn_json_name(r) : "";
        BN_TRY(read_rungs(reference != NULL && strcmp(name, reference) == 0 ? t : &other, r, err));
    }
    return read_growth(t, bn_json_get(doc, "trace"), err);
}

bn_status bn_thresholds_parse(struct bn_thresholds *out, const char *text, size_t n, const char *reference,
                              bn_error *err)
{
    bn_json *doc = NULL;
    *out = (struct bn_thresholds){0};
    for (size_t r = 0; r < BN_RUNG_COUNT; r++)
        for (size_t m = 0; m < BN_METRIC_COUNT; m++)
            for (size_t b = 0; b < BN_BOUNDS; b++)
                out->limit[r][m][b] = b % 2 == 0 ? -HUGE_VAL : HUGE_VAL;
    out->limit[BN_RUNG_MASK][BN_METRIC_NRMSE][BN_MAX] = BN_MASK_NRMSE;
    BN_TRY(bn_json_parse(&doc, text, n, err));
    bn_status status = read_document(out, doc, reference, err);
    bn_json_free(doc);
    return status;
}

void bn_thresholds_deepen(struct bn_thresholds *t, uint32_t n_layers)
{
    if (t->layers <= 0 || n_layers <= t->layers) return;
    for (size_t r = 0; r < BN_RUNG_COUNT; r++)
        for (size_t m = 0; m < BN_METRIC_COUNT; m++)
            for (size_t b = 0; b < BN_BOUNDS; b++) {
                double *bound = &t->limit[r][m][b], one = METRICS[m].from_one ? 1 : 0;
                if (!isinf(*bound))
                    *bound = one + (*bound - one) * pow(n_layers / t->layers, METRICS[m].power);
            }
}

/* ---- judging ---- */

size_t bn_thresholds_judge(const struct bn_thresholds *t, enum bn_rung rung, const struct bn_metrics_sum *sum,
                           struct bn_threshold_verdict out[BN_VERDICTS_MAX])
{
    size_t n = 0;
    for (size_t m = 0; m < BN_METRIC_COUNT; m++)
        for (size_t b = 0; b < BN_BOUNDS; b++) {
            if (isinf(t->limit[rung][m][b])) continue;
            struct bn_threshold_verdict *v = &out[n++];
            *v = (struct bn_threshold_verdict){.metric = (enum bn_metric)m,
                                               .is_mean = b >= BN_MIN_MEAN,
                                               .is_min = b % 2 == 0,
                                               .bound = t->limit[rung][m][b],
                                               .row = sum->of[m].worst_row};
            v->value = v->is_mean || sum->n_rows == 0 ? bn_metrics_mean(sum, v->metric) : sum->of[m].worst;
            v->margin = v->is_min ? v->value - v->bound : v->bound - v->value;
            v->holds = v->margin >= 0; /* false for NaN */
        }
    return n;
}

bool bn_thresholds_hold(const struct bn_thresholds *t, enum bn_rung rung, const struct bn_metrics_sum *sum)
{
    struct bn_threshold_verdict verdicts[BN_VERDICTS_MAX];
    size_t n = bn_thresholds_judge(t, rung, sum, verdicts), i = 0;
    while (i < n && verdicts[i].holds)
        i++;
    return n > 0 && i == n;
}

/* SPDX-License-Identifier: MIT
 *
 * Reads thresholds and judges measurements by them.
 */
#include "lab/compare/thresholds.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

static const char *const RUNGS[BN_RUNG_COUNT] = {"tokens", "first",      "positions",
                                                 "decode", "likelihood", "mask"};
static const char *const KINDS[BN_OP_KIND_COUNT] = {"embd",      "norm",       "linear", "rope",
                                                    "attention", "activation", "sum",    "head"};

const char *bn_rung_name(enum bn_rung rung)
{
    return (unsigned)rung < BN_RUNG_COUNT ? RUNGS[rung] : "?";
}

static unsigned find(const char *const *names, unsigned n, const char *name)
{
    unsigned i = 0;
    while (i < n && strcmp(names[i], name) != 0)
        i++;
    return i;
}

/* ---- reading ---- */

static bn_status unknown(bn_error *err, const char *what, const bn_json *member)
{
    char name[64];
    const char *raw = bn_json_name(member);
    if (raw == NULL) raw = "";
    return bn_fail(err, BN_ERR_FORMAT, "thresholds: unknown %s \"%s\"", what,
                   bn_escape(name, sizeof name, raw, strlen(raw)));
}

static bn_status read_number(const bn_json *value, const char *inside, double *out, bn_error *err)
{
    if (bn_json_number(value, out)) return BN_OK;
    return bn_fail(err, BN_ERR_FORMAT, "thresholds: a bound of %s is not a number", inside);
}

static bn_status read_limit(struct bn_limit *limit, const bn_json *bounds, bn_error *err)
{
    const char *name = bn_json_name(bounds);
    if (bn_json_kind(bounds) != BN_JSON_OBJECT)
        return bn_fail(err, BN_ERR_FORMAT, "thresholds: the bounds of %s are not an object", name);
    for (const bn_json *b = bn_json_first(bounds); b != NULL; b = bn_json_next(b)) {
        static const char *const BOUNDS[] = {"min", "max", "min_mean", "max_mean"};
        double *const slots[] = {&limit->min, &limit->max, &limit->min_mean, &limit->max_mean};
        unsigned which = find(BOUNDS, BN_ARRAY_LEN(BOUNDS), bn_json_name(b));
        if (which == BN_ARRAY_LEN(BOUNDS)) return unknown(err, "bound", b);
        BN_TRY(read_number(b, name, slots[which], err));
    }
    return BN_OK;
}

static bn_status read_rung(struct bn_thresholds *t, const bn_json *measures, bn_error *err)
{
    unsigned rung = find(RUNGS, BN_RUNG_COUNT, bn_json_name(measures));
    if (rung == BN_RUNG_COUNT) return unknown(err, "rung", measures);
    if (bn_json_kind(measures) != BN_JSON_OBJECT)
        return bn_fail(err, BN_ERR_FORMAT, "thresholds: rung %s is not an object", RUNGS[rung]);
    for (const bn_json *m = bn_json_first(measures); m != NULL; m = bn_json_next(m)) {
        const char *name = bn_json_name(m);
        if (rung == BN_RUNG_LIKELIHOOD && strcmp(name, "delta_nll") == 0) {
            BN_TRY(read_number(bn_json_get(m, "max"), name, &t->max_delta_nll, err));
            continue;
        }
        if (rung == BN_RUNG_DECODE && strcmp(name, "tie") == 0) {
            BN_TRY(read_number(m, name, &t->tie, err));
            continue;
        }
        enum bn_metric metric = bn_metric_from_name(name);
        bool has_rows = rung == BN_RUNG_FIRST || rung == BN_RUNG_POSITIONS || rung == BN_RUNG_DECODE ||
                        rung == BN_RUNG_MASK;
        if (metric == BN_METRIC_COUNT || !has_rows) return unknown(err, "measure", m);
        BN_TRY(read_limit(&t->limit[rung][metric], m, err));
    }
    return BN_OK;
}

static bn_status read_growth(struct bn_thresholds *t, const bn_json *trace, bn_error *err)
{
    for (const bn_json *k = bn_json_first(trace); k != NULL; k = bn_json_next(k))
        if (find(KINDS, BN_OP_KIND_COUNT, bn_json_name(k)) == BN_OP_KIND_COUNT)
            return unknown(err, "kind of operation", k);
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

static bn_status read_rungs(struct bn_thresholds *t, const bn_json *rungs, bn_error *err)
{
    for (const bn_json *r = bn_json_first(rungs); r != NULL; r = bn_json_next(r))
        BN_TRY(read_rung(t, r, err));
    return BN_OK;
}

/* What is said of other references is read too, into nothing: a mistake there is found all the same. */
static bn_status read_references(struct bn_thresholds *t, const bn_json *references, const char *reference,
                                 bn_error *err)
{
    struct bn_thresholds other = {0};
    for (const bn_json *r = bn_json_first(references); r != NULL; r = bn_json_next(r)) {
        bool meant = reference != NULL && strcmp(bn_json_name(r), reference) == 0;
        BN_TRY(read_rungs(meant ? t : &other, r, err));
    }
    return BN_OK;
}

static bn_status read_document(struct bn_thresholds *t, const bn_json *doc, const char *reference,
                               bn_error *err)
{
    if (!bn_json_text_is(doc, "schema", "bn.crossval-thresholds/1"))
        return bn_fail(err, BN_ERR_FORMAT, "thresholds: schema is not \"bn.crossval-thresholds/1\"");
    const bn_json *layers = bn_json_get(doc, "layers");
    if (layers != NULL && (!bn_json_number(layers, &t->layers) || !(t->layers >= 0)))
        return bn_fail(err, BN_ERR_FORMAT, "thresholds: layers is not a number of layers");
    BN_TRY(read_rungs(t, bn_json_get(doc, "rungs"), err));
    BN_TRY(read_references(t, bn_json_get(doc, "references"), reference, err));
    return read_growth(t, bn_json_get(doc, "trace"), err);
}

bn_status bn_thresholds_parse(struct bn_thresholds *out, const char *text, size_t n, const char *reference,
                              bn_error *err)
{
    bn_json *doc = NULL;
    *out = (struct bn_thresholds){.max_delta_nll = HUGE_VAL};
    for (size_t r = 0; r < BN_RUNG_COUNT; r++)
        for (size_t m = 0; m < BN_METRIC_COUNT; m++)
            out->limit[r][m] = (struct bn_limit){-HUGE_VAL, HUGE_VAL, -HUGE_VAL, HUGE_VAL};
    out->limit[BN_RUNG_MASK][BN_METRIC_NRMSE].max = BN_MASK_NRMSE;
    BN_TRY(bn_json_parse(&doc, text, n, err));
    bn_status status = read_document(out, doc, reference, err);
    bn_json_free(doc);
    return status;
}

/* ---- deeper models ---- */

/* A bound for a model f times as deep. Those of ratios are distances from 1. */
static double widen(enum bn_metric metric, double bound, double f)
{
    if (isinf(bound)) return bound;
    switch ((int)metric) {
    case BN_METRIC_COSINE:
        return 1 + (bound - 1) * f * f;
    case BN_METRIC_RMS:
    case BN_METRIC_TOP_K:
    case BN_METRIC_KENDALL:
        return 1 + (bound - 1) * f;
    case BN_METRIC_MSE:
    case BN_METRIC_KL:
        return bound * f * f;
    default:
        return bound * f;
    }
}

void bn_thresholds_deepen(struct bn_thresholds *t, uint32_t n_layers)
{
    if (t->layers <= 0 || n_layers <= t->layers) return;
    double f = n_layers / t->layers;
    for (size_t r = 0; r < BN_RUNG_COUNT; r++)
        for (size_t m = 0; m < BN_METRIC_COUNT; m++) {
            struct bn_limit *l = &t->limit[r][m];
            *l = (struct bn_limit){widen((enum bn_metric)m, l->min, f), widen((enum bn_metric)m, l->max, f),
                                   widen((enum bn_metric)m, l->min_mean, f),
                                   widen((enum bn_metric)m, l->max_mean, f)};
        }
    t->max_delta_nll *= f;
}

/* ---- judging ---- */

static void judge(struct bn_threshold_verdict *v, const struct bn_metrics_sum *sum)
{
    if (v->is_mean)
        v->value = bn_metrics_mean(sum, v->metric);
    else
        v->value = sum->n_rows > 0 ? sum->of[v->metric].worst : nan("");
    v->row = sum->of[v->metric].worst_row;
    v->margin = v->is_min ? v->value - v->bound : v->bound - v->value;
    v->holds = v->margin >= 0; /* false for NaN */
}

size_t bn_thresholds_judge(const struct bn_thresholds *t, enum bn_rung rung, const struct bn_metrics_sum *sum,
                           struct bn_threshold_verdict out[BN_VERDICTS_MAX])
{
    size_t n = 0;
    for (size_t m = 0; m < BN_METRIC_COUNT; m++) {
        const struct bn_limit *l = &t->limit[rung][m];
        const double bounds[] = {l->min, l->max, l->min_mean, l->max_mean};
        for (size_t b = 0; b < BN_ARRAY_LEN(bounds); b++) {
            if (isinf(bounds[b])) continue;
            out[n] = (struct bn_threshold_verdict){
                .metric = (enum bn_metric)m, .is_mean = b >= 2, .is_min = b % 2 == 0, .bound = bounds[b]};
            judge(&out[n++], sum);
        }
    }
    return n;
}

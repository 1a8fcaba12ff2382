/* SPDX-License-Identifier: MIT
 *
 * The parts of a report, and their tables, filled cell by cell.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lab/stats/summary.h"
#include "tools/bench/bench.h"
#include "tools/bench/report/report.h"

/* The first cell of a row: in a report of several documents, the document is named. */
static void put_name(struct bn_table *t, const struct bn_report *r, const struct bn_report_source *source,
                     const char *name)
{
    bn_table_row(t, "");
    bn_table_test(t, r->n_sources > 1 ? source->label : "", name);
}

void bn_report_fill_series(struct bn_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {
        "test", "metric", "median", "95 % interval", "MAD",  "n",   "outliers", "min \xE2\x80\x93 max",
        "unit", "better", "exact",  "low",           "high", "min", "max",      "mad",
        "p5",   "q1",     "q3",     "p95",           "p99"};
    bn_table_begin(t, HEADS, "llrhhrrhccccccccccccc");
    for (size_t i = 0; i < r->n_series; i++) {
        const struct bn_report_series *s = &r->series[i];
        const double *f = s->figure, median = f[BN_FIGURE_MEDIAN];
        const char *unit = bn_units_of(s->s->metric, s->s->unit);
        put_name(t, r, s->source, s->s->test);
        bn_table_text(t, s->s->metric);
        bn_table_value(t, median, unit);
        bn_table_range(t, f[BN_FIGURE_LOW], f[BN_FIGURE_HIGH], median, unit);
        bn_table_percent(t, median > 0 ? f[BN_FIGURE_MAD] / median : (double)NAN, false);
        bn_table_count(t, s->s->n);
        bn_table_count(t, s->n_outliers);
        bn_table_range(t, f[BN_FIGURE_MIN], f[BN_FIGURE_MAX], median, unit);
        bn_table_text(t, unit);
        bn_table_text(t, s->s->higher ? "higher" : "lower");
        bn_table_text(t, s->s->exact ? "true" : "false");
        for (size_t k = BN_FIGURE_LOW; k < BN_FIGURES; k++)
            bn_table_number(t, f[k]);
    }
}

void bn_report_fill_comparisons(struct bn_table *t, const struct bn_report *r)
{
    bn_comparisons_fill(t, r->comparisons, r->n_comparisons);
}

static void fill_points(struct bn_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"kernel",   "shape",         "per call",     "threads", "no",
                                        "of limit", "95 % interval", "MAC per byte", "rate",    "limit"};
    bn_table_begin(t, HEADS, "llrrrrhrrl");
    for (size_t i = 0; i < r->n_points; i++) {
        const struct bn_report_point *p = &r->points[i];
        put_name(t, r, p->source, p->kernel);
        bn_table_text(t, p->shape);
        bn_table_value(t, p->ns, "ns");
        bn_table_count(t, p->threads);
        bn_table_count(t, i + 1);
        bn_table_percent(t, p->share, false);
        bn_table_range(t, p->low, p->high, p->ns, "ns");
        bn_table_value(t, p->bytes > 0 ? p->macs / p->bytes : (double)NAN, "1");
        bn_table_value(t, p->macs > 0 ? p->macs * 1e9 / p->ns : (double)NAN, "MAC/s");
        bn_table_text(t, p->limit);
    }
}

static void fill_bricks(struct bn_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"brick", "category", "exclusive", "share", "count"};
    bn_table_begin(t, HEADS, "llrrr");
    for (size_t i = 0; i < r->n_bricks; i++) {
        const struct bn_report_brick *b = &r->bricks[i];
        put_name(t, r, b->source, b->name);
        bn_table_text(t, b->category);
        bn_table_value(t, b->ns, "ns");
        bn_table_percent(t, b->share, false);
        if (b->count > 0) bn_table_count(t, b->count);
    }
}

/* The first and the last run of each series, and where its level changed. */
static void fill_trends(struct bn_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"test", "metric", "last", "first", "entries", "changes", "runs"};
    bn_table_begin(t, HEADS, "llrrrln");
    for (size_t i = 0; i < r->n_trends; i++) {
        const struct bn_report_trend *h = &r->trends[i];
        const bn_json *points = bn_json_get(h->json, "points"), *changes = bn_json_get(h->json, "changes");
        const char *metric = bn_json_text_of(h->json, "metric"),
                   *unit = bn_units_of(metric, bn_json_text_of(h->json, "unit"));
        struct bn_buf text = {.max = 1u << 16};
        char percent[BN_UNITS_ROOM];
        for (const bn_json *c = bn_json_first(changes); c != NULL; c = bn_json_next(c))
            bn_buf_printf(&text, "%s%s at %.10s", text.len > 0 ? ", " : "",
                          bn_units_percent_text(percent, bn_json_number_of(c, "change"), true),
                          bn_json_text_of(bn_json_at(points, bn_json_count_of(c, "at")), "commit"));
        put_name(t, r, h->source, bn_json_text_of(h->json, "test"));
        bn_table_text(t, metric);
        bn_table_value(t, bn_json_number_of(bn_json_at(points, h->n - 1), "median"), unit);
        bn_table_value(t, bn_json_number_of(bn_json_first(points), "median"), unit);
        bn_table_count(t, h->n);
        bn_table_text(t, text.len > 0 ? text.data : "none found");
        bn_table_printf(t, "%.20s of %.60s, settings %.12s", bn_json_text_of(h->json, "suite"),
                        bn_json_text_of(h->json, "machine"), bn_json_text_of(h->json, "settings_sha256"));
        bn_buf_release(&text);
    }
}

/* ---- other engines ---- */

/* The median of the series of a test and an engine, "prompt n=128 t=2 reference llama.cpp"; NaN without one. */
static double median_of(const struct bn_report *r, const struct bn_report_source *source, const char *test,
                        const char *metric, const char *engine)
{
    for (size_t i = 0; i < r->n_series; i++) {
        const struct bn_report_series *s = &r->series[i];
        const char *threads = strstr(s->s->test, " t="), *name = threads;
        if (s->source != source || strcmp(s->s->metric, metric) != 0 || threads == NULL) continue;
        name += 3 + strspn(threads + 3, "0123456789");
        if (strncmp(s->s->test, test, strlen(test)) == 0 && *name == ' ' && strcmp(name + 1, engine) == 0)
            return s->figure[BN_FIGURE_MEDIAN];
    }
    return (double)NAN;
}

static void put_engine(struct bn_table *t, const struct bn_report *r, const struct bn_report_source *source,
                       const char *prefix, const char *name)
{
    char label[400], engine[500]; /* as tests are named */
    snprintf(engine, sizeof engine, "%s%s", prefix, bn_escape(label, sizeof label, name, strlen(name)));
    bn_table_row(t, "");
    bn_table_text(t, name);
    bn_table_percent(t, median_of(r, source, "text", "agreement", engine), false);
    bn_table_value(t, 1e9 / median_of(r, source, "prompt", "ns_per_token", engine), "tok/s");
    bn_table_value(t, 1e9 / median_of(r, source, "decode", "ns_per_token", engine), "tok/s");
    bn_table_value(t, median_of(r, source, "open", "load_ns", engine), "ns");
    bn_table_value(t, median_of(r, source, "process", "peak_rss_bytes", engine), "bytes");
    bn_table_percent(t, median_of(r, source, "text", "accuracy", engine), false);
}

static void fill_engines(struct bn_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"engine",       "agreement",   "prompt",  "decode",
                                        "time to open", "peak memory", "accuracy"};
    bn_table_begin(t, HEADS, "lrrrrrr");
    for (size_t i = 0; i < r->n_sources; i++) {
        const bn_json *doc = r->sources[i].doc, *references = bn_json_get(doc, "references");
        const char *own = bn_json_text_of(doc, "engine");
        if (own[0] == '\0') continue;
        put_engine(t, r, &r->sources[i], "", own);
        for (const bn_json *e = bn_json_first(references); e != NULL; e = bn_json_next(e))
            put_engine(t, r, &r->sources[i], "reference ", bn_json_text_of(e, "reference"));
    }
}

static void fill_results(struct bn_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"text",     "reference",          "result",          "tokens",
                                        "mean KLD", "largest difference", "first difference"};
    bn_table_begin(t, HEADS, "lllrrrl");
    for (size_t i = 0; i < r->n_results; i++) {
        const struct bn_report_result *one = &r->results[i];
        const bn_json *rungs = bn_json_get(one->json, "rungs"), *ids = bn_json_find(rungs, "rung", "tokens"),
                      *logits = bn_json_find(rungs, "rung", "positions"),
                      *first = bn_json_path(one->json, "trace.first");
        const char *name = bn_json_text_of(one->of, "name"), *result = bn_json_text_of(one->json, "result");
        put_name(t, r, one->source, name[0] != '\0' ? name : bn_json_text_of(one->of, "command"));
        t->kinds[t->n_rows - 1] = strcmp(result, "agree") == 0 ? "ok" : "bad";
        bn_table_text(t, bn_json_text_of(one->json, "reference"));
        bn_table_text(t, result);
        if (bn_json_get(ids, "index") != NULL)
            bn_table_printf(t, "differ at %zu", bn_json_count_of(ids, "index"));
        else
            bn_table_text(t, bn_json_text_is(ids, "status", "pass") ? "equal" : "-");
        bn_table_rounded(t, bn_json_get(logits, "kl_mean"));
        bn_table_rounded(t, bn_json_get(logits, "max_abs"));
        bn_table_printf(
            t, first != NULL ? "%s of layer %.0f" : "%s",
            bn_json_text_of(first != NULL ? first : one->json, first != NULL ? "op" : "parted_at"),
            bn_json_number_of(first, "layer"));
    }
}

/* ---- models ---- */

bool bn_report_is_speed(const struct bn_report_series *s, const char *word)
{
    return strcmp(s->s->metric, "ns_per_token") == 0 && strncmp(s->s->test, word, strlen(word)) == 0 &&
           s->figure[BN_FIGURE_MEDIAN] > 0;
}

const struct bn_report_series *bn_report_fastest(const struct bn_report *r,
                                                 const struct bn_report_source *source, const char *word,
                                                 bool busy)
{
    const struct bn_report_series *best = NULL;
    for (size_t i = 0; i < r->n_series; i++) {
        const struct bn_report_series *s = &r->series[i];
        if (s->source == source && bn_report_is_speed(s, word) &&
            (strstr(s->s->test, " busy=") != NULL) == busy &&
            (best == NULL || s->figure[BN_FIGURE_MEDIAN] < best->figure[BN_FIGURE_MEDIAN]))
            best = s;
    }
    return best;
}

/* The document of a run of a model. */
static bool is_model(const struct bn_report_source *source)
{
    return bn_json_text_is(source->doc, "command", "run") && bn_json_get(source->doc, "model") != NULL;
}

/* Whether there are several models, by digest. */
static bool has_models(const struct bn_report *r)
{
    const char *first = NULL;
    for (size_t i = 0; i < r->n_sources; i++) {
        if (!is_model(&r->sources[i])) continue;
        if (first == NULL) first = bn_json_text_of(r->sources[i].doc, "model.sha256");
        if (!bn_json_text_is(r->sources[i].doc, "model.sha256", first)) return true;
    }
    return false;
}

static int by_size(const void *a, const void *b)
{
    const struct bn_report_source *x = *(const struct bn_report_source *const *)a,
                                  *y = *(const struct bn_report_source *const *)b;
    double p = bn_json_number_of(x->doc, "model.parameters"),
           q = bn_json_number_of(y->doc, "model.parameters");
    return p < q ? -1 : p > q ? 1 : (x > y) - (x < y);
}

/* "2.413 G": a count with a decimal prefix. */
static void put_parameters(struct bn_table *t, double n)
{
    static const char *const PREFIXES[] = {"", " k", " M", " G"};
    double scaled = n;
    size_t i = 0;
    for (; scaled >= 1000 && i + 1 < BN_ARRAY_LEN(PREFIXES); i++)
        scaled /= 1000;
    if (isfinite(n))
        bn_table_printf(t, "%.4g%s", scaled, PREFIXES[i]);
    else
        bn_table_text(t, "-");
    bn_table_exact(t, n, "1");
}

static void put_median(struct bn_table *t, const struct bn_report_source *source, const char *test,
                       const char *metric, const char *unit)
{
    const struct bn_series *s = bn_series_find(&source->series, test, metric);
    double median = s != NULL ? bn_median(s->samples, s->n) : (double)NAN;
    if (unit != NULL)
        bn_table_value(t, median, unit);
    else
        bn_table_percent(t, median, false);
}

static void put_rate(struct bn_table *t, const struct bn_report_series *s)
{
    bn_table_value(t, s != NULL ? 1e9 / s->figure[BN_FIGURE_MEDIAN] : (double)NAN, "tok/s");
}

static void put_model(struct bn_table *t, const struct bn_report *r, const struct bn_report_source *source,
                      bool busy)
{
    const struct bn_report_series *prompt = bn_report_fastest(r, source, "prompt", false),
                                  *decode = bn_report_fastest(r, source, "decode", false);
    put_rate(t, decode);
    if (busy) put_rate(t, bn_report_fastest(r, source, "decode", true));
    put_rate(t, prompt);
    put_median(t, source, "process", "peak_rss_bytes", "bytes");
    put_median(t, source, prompt != NULL ? prompt->s->test : "", "first_token_ns", "ns");
    bn_table_value(t, bn_json_number_of(source->doc, "model.file_bytes"), "bytes");
    put_median(t, source, decode != NULL ? decode->s->test : "", "share_of_bandwidth", NULL);
}

/* A row for each model. The column of busy processes is there when some model was measured next to them. */
void bn_report_fill_models(struct bn_table *t, const struct bn_report *r)
{
    static const char *const ALL[] = {"model",       "params",      "decode", "next to busy", "prompt",
                                      "peak memory", "first token", "file",   "of bandwidth"};
    static const char *const HEADS[] = {"model",       "params",      "decode", "prompt",
                                        "peak memory", "first token", "file",   "of bandwidth"};
    const struct bn_report_source **list = bn_alloc(r->n_sources, sizeof *list);
    size_t n = 0;
    bool busy = false;
    for (size_t i = 0; i < r->n_sources; i++)
        busy = busy || bn_report_fastest(r, &r->sources[i], "decode", true) != NULL;
    bn_table_begin(t, busy ? ALL : HEADS, busy ? "lrrrrrrrr" : "lrrrrrrr");
    t->failed = list == NULL;
    for (size_t i = 0; i < r->n_sources && has_models(r) && list != NULL; i++)
        if (is_model(&r->sources[i])) list[n++] = &r->sources[i];
    if (n > 0) qsort(list, n, sizeof *list, by_size);
    for (size_t i = 0; i < n; i++) {
        const char *label = bn_json_text_of(list[i]->doc, "suite.label"),
                   *name = bn_bench_base_name(bn_json_text_of(list[i]->doc, "model.name"));
        if (label[0] != '\0') name = label + (strncmp(label, "run ", 4) == 0 ? 4 : 0);
        size_t length = strlen(name);
        if (length > 5 && strcmp(name + length - 5, ".gguf") == 0) length -= 5;
        bn_table_row(t, "");
        bn_table_printf(t, "%.*s", (int)length, name);
        put_parameters(t, bn_json_number_of(list[i]->doc, "model.parameters"));
        put_model(t, r, list[i], busy);
    }
    bn_free(list);
}

/* ---- ranks ---- */

static uint64_t ranks_of(const struct bn_report_series *s)
{
    uint64_t n = bn_json_count_of(s->source->doc, "settings.ranks");
    return n > 0 ? n : 1;
}

/* Tokens a second of a test of bn-bench run, or of the steps of bn-bench train; NaN of other series. */
static double rate_of(const struct bn_report_series *s)
{
    double ns = s->figure[BN_FIGURE_MEDIAN];
    if (strcmp(s->s->metric, "ns_per_token") == 0) return 1e9 / ns;
    if (strcmp(s->s->metric, "ns_per_step") != 0 || strncmp(s->s->test, "step ", 5) != 0) return (double)NAN;
    const bn_json *test = bn_json_find(bn_json_get(s->source->doc, "tests"), "name", s->s->test);
    return bn_json_number_of(test, "batch") * 1e9 / ns;
}

static bool is_same(const struct bn_report_series *s, const struct bn_report_series *other)
{
    return strcmp(s->s->test, other->s->test) == 0 && strcmp(s->s->metric, other->s->metric) == 0 &&
           bn_json_text_is(other->source->doc, "model.sha256",
                           bn_json_text_of(s->source->doc, "model.sha256"));
}

/* Each test that some document has of several ranks, with those of the others. */
static void fill_ranks(struct bn_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"test", "ranks", "rate", "efficiency", "exchange", "share"};
    bn_table_begin(t, HEADS, "lrrrrr");
    t->side_by_side = true;
    for (size_t i = 0; i < r->n_series; i++) {
        const struct bn_report_series *s = &r->series[i];
        double rate = rate_of(s), alone = (double)NAN;
        uint64_t most = 1;
        for (size_t k = 0; k < r->n_series; k++) {
            if (!is_same(s, &r->series[k])) continue;
            if (ranks_of(&r->series[k]) > most) most = ranks_of(&r->series[k]);
            if (ranks_of(&r->series[k]) == 1) alone = rate_of(&r->series[k]);
        }
        if (isnan(rate) || most == 1) continue;
        const struct bn_series *ns = bn_series_find(&s->source->series, s->s->test, "exchange_ns_per_token");
        bn_table_row(t, "");
        bn_table_test(t, "", s->s->test);
        bn_table_count(t, ranks_of(s));
        bn_table_value(t, rate, "tok/s");
        bn_table_percent(t, rate / ((double)ranks_of(s) * alone), false);
        put_median(t, s->source, s->s->test, "exchange_bytes_per_token", "bytes");
        bn_table_percent(t, ns != NULL ? bn_median(ns->samples, ns->n) * rate / 1e9 : (double)NAN, false);
    }
}

/* ---- machines ---- */

size_t bn_report_machines(const struct bn_report_source *list[BN_REPORT_MACHINES], const struct bn_report *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_sources && n < BN_REPORT_MACHINES; i++) {
        const char *key = bn_json_text_of(r->sources[i].doc, "machine.key");
        size_t k = 0;
        while (k < n && !bn_json_text_is(list[k]->doc, "machine.key", key))
            k++;
        if (key[0] != '\0' && k == n) list[n++] = &r->sources[i];
    }
    return n;
}

/* The machines that have columns: none when there is only one, unless its document is that of a suite. */
static size_t columns_of(const struct bn_report_source *list[BN_REPORT_MACHINES], const struct bn_report *r)
{
    size_t n = bn_report_machines(list, r);
    return n > 1 || (n == 1 && bn_json_text_is(list[0]->doc, "command", "suite")) ? n : 0;
}

static void fill_machines(struct bn_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"column", "machine", "CPUs", "memory"};
    const struct bn_report_source *list[BN_REPORT_MACHINES];
    size_t n = columns_of(list, r);
    bn_table_begin(t, HEADS, "llrr");
    for (size_t i = 0; i < n; i++) {
        bn_table_row(t, "");
        bn_table_printf(t, "%c", (char)('A' + i));
        bn_table_text(t, bn_json_text_of(list[i]->doc, "machine.label"));
        bn_table_count(t, bn_json_count_of(list[i]->doc, "machine.cpus_usable"));
        bn_table_value(t, bn_json_number_of(list[i]->doc, "machine.memory_bytes"), "bytes");
    }
}

/* The first of the series from i on that is the same one of the same model, on that machine or on any; NULL
 * without one. */
static const struct bn_report_series *same_series(const struct bn_report *r, size_t i,
                                                  const struct bn_report_series *s, const char *machine)
{
    for (; i < r->n_series; i++)
        if (is_same(s, &r->series[i]) &&
            (machine == NULL || bn_json_text_is(r->series[i].source->doc, "machine.key", machine)))
            return &r->series[i];
    return NULL;
}

/* A row for each series: the medians of all machines, times of a token as rates. Different models of one name have rows of their
 * own. */
static void fill_medians(struct bn_table *t, const struct bn_report *r)
{
    static const char *const HEADS[] = {"test", "metric", "A", "B", "C", "D", "E", "F", "G", "H"};
    _Static_assert(BN_ARRAY_LEN(HEADS) == BN_REPORT_MACHINES + 2, "a column for each machine");
    const struct bn_report_source *list[BN_REPORT_MACHINES];
    size_t n = columns_of(list, r);
    bn_table_begin(t, HEADS, "llrrrrrrrr");
    t->n_cols = t->n_shown = 2 + n;
    t->side_by_side = true;
    for (size_t i = 0; i < r->n_series && n > 0; i++) {
        const struct bn_report_series *s = &r->series[i];
        const char *model = bn_json_text_of(s->source->doc, "model.name");
        if (same_series(r, 0, s, NULL) != s) continue;
        bn_table_row(t, "");
        bn_table_test(t, has_models(r) ? model : "", s->s->test);
        bool limit = strcmp(s->s->metric, "limit_ns_per_token") == 0,
             rate = limit || strcmp(s->s->metric, "ns_per_token") == 0;
        bn_table_text(t, limit ? "limit" : rate ? "rate" : s->s->metric);
        for (size_t k = 0; k < n; k++) {
            const struct bn_report_series *there =
                same_series(r, i, s, bn_json_text_of(list[k]->doc, "machine.key"));
            double median = there != NULL ? there->figure[BN_FIGURE_MEDIAN] : (double)NAN;
            bn_table_value(t, rate ? 1e9 / median : median,
                           rate ? "tok/s" : bn_units_of(s->s->metric, s->s->unit));
        }
    }
}

const struct bn_report_part bn_report_parts[BN_REPORT_PARTS] = {
    {"Engines", "engines",
     "This engine, and the references next to it. Agreement: the percentage of positions where both have the "
     "same likeliest token.",
     fill_engines, NULL},
    {"Agreement", "agreement",
     "Differences are those of the logits of all positions. The first difference is the operation that a trace "
     "names, or else the step of the ladder.",
     fill_results, NULL},
    {"Comparisons", "comparisons", "", bn_report_fill_comparisons, bn_report_plot_forest},
    {"Models by size", "models",
     "The fastest decode and prompt test of each model. Peak memory is that of the process. The last column is the "
     "percentage of the bandwidth that was measured in the same rounds.",
     bn_report_fill_models, NULL},
    {"Ranks", "ranks",
     "The efficiency is the rate of n ranks by n times that of one. The exchange is per token; its share of the time "
     "includes waiting for slower ranks.",
     fill_ranks, NULL},
    {"Machines", "machines", "The documents come from these machines.", fill_machines, NULL},
    {"Machines side by side", "medians",
     "Medians, a column for each machine: a difference between columns is not a change of the program.",
     fill_medians, NULL},
    {"Kernels and their limits", "kernels", "", fill_points, bn_report_plot_rooflines},
    {"Bricks", "bricks", "", fill_bricks, bn_report_plot_bricks},
    {"Over time", "trends", "", fill_trends, bn_report_plot_trends},
    {"Measurements", "measurements", "Point at a number to see it exactly.", bn_report_fill_series,
     bn_report_plot_bars},
    {"Findings", "findings", "", bn_report_fill_findings, NULL},
};

/* SPDX-License-Identifier: MIT
 *
 * Lists of series, and their form in documents.
 */
#include "lab/history/series.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/kit/put_counts.h"
#include "lab/stats/summary.h"

#define MAX_SERIES 100000u

static void drop(const void *p)
{
    bn_free((void *)(uintptr_t)p); /* const to all but the list */
}

static void release(struct bn_series *s)
{
    drop(s->test);
    drop(s->metric);
    drop(s->unit);
    if (s->samples != NULL) drop(s->samples - s->n_warmup);
}

void bn_series_release(struct bn_series_list *all)
{
    for (size_t i = 0; i < all->n; i++)
        release(&all->list[i]);
    bn_free(all->list);
    *all = (struct bn_series_list){0};
}

static bn_status check(const struct bn_series_list *all, const struct bn_series *s, bn_error *err)
{
    if (all->n >= MAX_SERIES) return bn_fail(err, BN_ERR_LIMIT, "more than %u series", MAX_SERIES);
    if (s->n == 0) return bn_fail(err, BN_ERR_ARG, "series '%s' of '%s' has no samples", s->metric, s->test);
    const double *all_samples = s->samples - s->n_warmup;
    for (size_t i = 0; i < s->n_warmup + s->n; i++) {
        double x = all_samples[i];
        if (!isfinite(x) || x < 0 || (x == 0 && !s->exact && !s->neutral))
            return bn_fail(err, BN_ERR_ARG, "series '%s' of '%s': sample %zu is %g", s->metric, s->test, i,
                           x);
    }
    return BN_OK;
}

bn_status bn_series_add(struct bn_series_list *all, const struct bn_series *series, bn_error *err)
{
    BN_TRY(check(all, series, err));
    if (bn_series_find(all, series->test, series->metric) != NULL)
        return bn_fail(err, BN_ERR_ARG, "duplicate series '%s' of '%s'", series->metric, series->test);
    struct bn_series copy = *series;
    copy.test = bn_strndup(series->test, strlen(series->test));
    copy.metric = bn_strndup(series->metric, strlen(series->metric));
    copy.unit = bn_strndup(series->unit, strlen(series->unit));
    double *samples = bn_alloc(series->n_warmup + series->n, sizeof *samples);
    copy.samples = samples != NULL ? samples + series->n_warmup : NULL;
    if (copy.test == NULL || copy.metric == NULL || copy.unit == NULL || copy.samples == NULL ||
        bn_array_grow(&all->list, &all->room, all->n + 1, sizeof *all->list, err) != BN_OK) {
        release(&copy);
        return bn_nomem(err);
    }
    memcpy(samples, series->samples - series->n_warmup, (series->n_warmup + series->n) * sizeof *samples);
    all->list[all->n++] = copy;
    return BN_OK;
}

bn_status bn_series_extend(struct bn_series_list *all, const struct bn_series *one, bn_error *err)
{
    const struct bn_series *found = bn_series_find(all, one->test, one->metric);
    if (found == NULL) return bn_series_add(all, one, err);
    struct bn_series *s = &all->list[found - all->list];
    if (strcmp(s->unit, one->unit) != 0 || s->higher != one->higher || s->exact != one->exact)
        return bn_fail(err, BN_ERR_ARG, "series '%s' of '%s' changed its unit", s->metric, s->test);
    BN_TRY(check(all, one, err));
    size_t n = s->n_warmup + s->n;
    double *samples = bn_realloc((void *)(uintptr_t)(s->samples - s->n_warmup), n + one->n, sizeof *samples);
    if (samples == NULL) return bn_nomem(err);
    memcpy(samples + n, one->samples, one->n * sizeof *samples);
    s->samples = samples + s->n_warmup;
    s->n += one->n;
    return BN_OK;
}

bn_status bn_series_add_medians(struct bn_series_list *all, const struct bn_series_list *from,
                                const char *label, bn_error *err)
{
    for (size_t i = 0; i < from->n; i++) {
        char test[512];
        struct bn_series one = from->list[i];
        double median = bn_median(one.samples, one.n);
        if (isnan(median)) return bn_nomem(err);
        snprintf(test, sizeof test, "%.120s%s%.380s", label != NULL ? label : "", label != NULL ? ": " : "",
                 one.test);
        one.test = test;
        one.samples = &median;
        one.n = 1;
        one.n_warmup = 0;
        BN_TRY(bn_series_add(all, &one, err));
    }
    return BN_OK;
}

const struct bn_series *bn_series_find(const struct bn_series_list *all, const char *test, const char *metric)
{
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->list[i].test, test) == 0 && strcmp(all->list[i].metric, metric) == 0)
            return &all->list[i];
    return NULL;
}

double bn_series_cost(const struct bn_series *series, double sample)
{
    return series->higher ? 1.0 / sample : sample;
}

static const char *const BETTER[] = {"lower", "higher", "none"};

void bn_series_put(bn_json *document, const struct bn_series_list *all)
{
    bn_json *array = bn_json_put_array(document, "series");
    for (size_t i = 0; i < all->n; i++) {
        const struct bn_series *s = &all->list[i];
        bn_json *o = bn_json_add_object(array);
        BN_PUT(o, BN_STRING("test", s->test), BN_STRING("metric", s->metric), BN_STRING("unit", s->unit),
               BN_STRING("better", BETTER[s->neutral ? 2 : s->higher]), BN_FLAG("exact", s->exact),
               BN_U64("warmup", s->n_warmup));
        bn_json_put_numbers(o, "samples", s->samples - s->n_warmup, s->n_warmup + s->n);
    }
}

/* The samples of a series are read into the room, which has room for all of them. */
static bn_status read_samples(struct bn_series *s, const bn_json *samples, double *room, uint64_t n_warmup,
                              bn_error *err)
{
    size_t n = 0;
    for (const bn_json *v = bn_json_first(samples); v != NULL; v = bn_json_next(v))
        if (!bn_json_number(v, &room[n++]))
            return bn_fail(err, BN_ERR_FORMAT, "series '%s' of '%s': a sample is not a number", s->metric,
                           s->test);
    if (n_warmup > n)
        return bn_fail(err, BN_ERR_FORMAT, "series '%s' of '%s' has only warm-up", s->metric, s->test);
    s->n_warmup = (size_t)n_warmup;
    s->samples = room + s->n_warmup;
    s->n = n - s->n_warmup;
    return BN_OK;
}

static bn_status read_one(struct bn_series_list *all, const bn_json *o, bn_error *err)
{
    struct bn_series s = {0};
    const char *better;
    uint64_t n_warmup;
    const bn_json *samples = bn_json_get(o, "samples");
    if (!bn_json_string(bn_json_get(o, "test"), &s.test) ||
        !bn_json_string(bn_json_get(o, "metric"), &s.metric))
        return bn_fail(err, BN_ERR_FORMAT, "series %zu has no test or no metric", all->n);
    if (bn_json_get(o, "warmup") == NULL)
        return bn_hint(
            bn_fail(err, BN_ERR_FORMAT, "series '%s' of '%s' is of an older form", s.metric, s.test), err,
            "measure again with this version");
    if (!bn_json_string(bn_json_get(o, "unit"), &s.unit) ||
        !bn_json_string(bn_json_get(o, "better"), &better) ||
        !bn_json_bool(bn_json_get(o, "exact"), &s.exact) ||
        !bn_json_u64(bn_json_get(o, "warmup"), &n_warmup) || bn_json_kind(samples) != BN_JSON_ARRAY)
        better = "";
    size_t way = BN_FIND(BETTER, better);
    if (way == BN_ARRAY_LEN(BETTER))
        return bn_fail(err, BN_ERR_FORMAT, "series '%s' of '%s' is malformed", s.metric, s.test);
    s.higher = way == 1;
    s.neutral = way == 2;
    double *room = bn_alloc(bn_json_size(samples), sizeof *room);
    if (room == NULL) return bn_nomem(err);
    bn_status status = read_samples(&s, samples, room, n_warmup, err);
    if (status == BN_OK) {
        bn_error why = {0};
        status = bn_series_add(all, &s, &why);
        /* An invalid argument is an invalid document here. */
        if (status != BN_OK)
            status = bn_fail(err, status == BN_ERR_ARG ? BN_ERR_FORMAT : status, "%s", why.msg);
    }
    bn_free(room);
    return status;
}

bn_status bn_series_read(struct bn_series_list *all, const bn_json *document, bn_error *err)
{
    const bn_json *array = bn_json_get(document, "series");
    if (bn_json_kind(array) != BN_JSON_ARRAY)
        return bn_fail(err, BN_ERR_FORMAT, "the document has no member 'series'");
    if (bn_json_size(array) == 0)
        return bn_fail(err, BN_ERR_FORMAT, "the document has no series: nothing was measured");
    for (const bn_json *o = bn_json_first(array); o != NULL; o = bn_json_next(o))
        BN_TRY(read_one(all, o, err));
    return BN_OK;
}

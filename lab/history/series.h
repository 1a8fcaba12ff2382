/* SPDX-License-Identifier: MIT
 *
 * A list of series, each one quantity of one test, sampled in the order of time. Every document of bn-bench
 * has its samples in this form only (member "series"), which comparing, saving and plotting read.
 */
#ifndef BN_HISTORY_SERIES_H
#define BN_HISTORY_SERIES_H

#include "base/error.h"
#include "base/json.h"

struct bn_series {
    const char *test;   /* "decode n=32 d=0 t=2", "add_avx2 2560 memory t=1": the same words in every run */
    const char *metric; /* "ns_per_token" */
    const char *unit;   /* "ns", "bytes", "1/s", "1" */
    bool higher;        /* more is better; else less */
    bool exact;         /* without noise, so that any difference is a change: bytes, counts */
    const double *samples; /* n, positive and finite; not negative where exact or neutral */
    size_t n;
    size_t n_warmup; /* samples that do not count, just before these in memory */
    bool neutral;    /* neither more nor less is better: it explains other series, and is not judged */
};

/* Zeroed before use. */
struct bn_series_list {
    struct bn_series *list;
    size_t n, room;
};
void bn_series_release(struct bn_series_list *all);

/* Appends a copy of a series. BN_ERR_ARG for a duplicate test and metric, or a sample out of range. */
BN_MUST_CHECK bn_status bn_series_add(struct bn_series_list *all, const struct bn_series *series,
                                      bn_error *err);
/* Appends its samples to those of the series of its test and metric, which may be new. BN_ERR_ARG also when the
 * two differ in unit, direction or exactness. */
BN_MUST_CHECK bn_status bn_series_extend(struct bn_series_list *all, const struct bn_series *series,
                                         bn_error *err);
/* Appends the median of each series of a list as its only sample. label: put before the names of the tests; NULL: none. */
BN_MUST_CHECK bn_status bn_series_add_medians(struct bn_series_list *all, const struct bn_series_list *from,
                                              const char *label, bn_error *err);
/* Appends a series of a metric of the table (metrics.c), which has its unit and direction: n samples, of which the first
 * n_warmup do not count. A series without samples that count is left out. BN_ERR_INTERNAL for a metric that the table does
 * not have. */
BN_MUST_CHECK bn_status bn_metric_add(struct bn_series_list *all, const char *test, const char *metric,
                                      const double *samples, size_t n, size_t n_warmup, bn_error *err);
/* NULL when there is none. */
const struct bn_series *bn_series_find(const struct bn_series_list *all, const char *test,
                                       const char *metric);
/* One sample as a cost: of rates, the reciprocal. */
double bn_series_cost(const struct bn_series *series, double sample);

/* Puts the member "series" into a document. */
void bn_series_put(bn_json *document, const struct bn_series_list *all);
/* Reads it and appends its series; on failure bn_series_release frees those that were appended. BN_ERR_FORMAT
 * when it is missing, empty (nothing was measured) or malformed; the message names the series. */
BN_MUST_CHECK bn_status bn_series_read(struct bn_series_list *all, const bn_json *document, bn_error *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * What all measurements have in common: a list of series, each one quantity of one test, sampled in the order
 * of time. Every document of bn-bench carries its samples in this form too (member "series"), so comparing,
 * keeping and plotting need to know nothing else about them.
 */
#ifndef BN_HISTORY_SERIES_H
#define BN_HISTORY_SERIES_H

#include "base/json.h"

struct bn_series {
    const char *test;      /* "decode n=32 d=0 t=2", "i2s_gemv_avx2 640x2560 t=1": the same words each time */
    const char *metric;    /* "ns_per_token" */
    const char *unit;      /* "ns", "bytes", "1/s", "1" */
    bool higher;           /* more is better; else less */
    bool exact;            /* the same each time, so that any difference is a change: bytes, counts */
    const double *samples; /* n, positive and finite unless exact, then not negative */
    size_t n;
};

/* Zeroed before use. */
struct bn_series_list {
    struct bn_series *list;
    size_t n, room;
};
void bn_series_release(struct bn_series_list *all);

/* Appends a series, copying everything. BN_ERR_ARG when test and metric are there already, or when a sample
 * is out of range. */
BN_MUST_CHECK bn_status bn_series_add(struct bn_series_list *all, const struct bn_series *series,
                                      bn_error *err);
/* NULL when there is none. */
const struct bn_series *bn_series_find(const struct bn_series_list *all, const char *test,
                                       const char *metric);
/* One sample as a cost: of rates, the reciprocal. */
double bn_series_cost(const struct bn_series *series, double sample);

/* Puts the member "series" into a document. */
void bn_series_put(bn_json *document, const struct bn_series_list *all);
/* Reads it. Appends; on failure what was appended stays, for bn_series_release. BN_ERR_FORMAT when there is
 * none, when it is empty (nothing was measured) or malformed; the message names the series. */
BN_MUST_CHECK bn_status bn_series_read(struct bn_series_list *all, const bn_json *document, bn_error *err);

#endif

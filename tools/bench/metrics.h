/* SPDX-License-Identifier: MIT
 *
 * The metrics of bn-bench: what a number of a series is called, its unit, and which direction is better.
 */
#ifndef BN_BENCH_METRICS_H
#define BN_BENCH_METRICS_H

#include "lab/history/series.h"

/* Appends a series of a metric of the table: n samples, of which the first n_warmup do not count. A series without samples
 * that count is left out. BN_ERR_INTERNAL for a metric that the table does not have. */
BN_MUST_CHECK bn_status bn_metric_add(struct bn_series_list *all, const char *test, const char *metric,
                                      const double *samples, size_t n, size_t n_warmup, bn_error *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Levels: how large a regression has to be to be called a warning, or critical. They label what the
 * statistics found (judge.h); they never decide whether something changed. Read from
 *
 *     {"schema": "bn.thresholds/1",
 *      "levels": [{"metric": "*_bytes", "warning_percent": 1, "critical_percent": 5},
 *                 {"metric": "*", "better": "higher", "warning_percent": 8, "critical_percent": 15},
 *                 {"metric": "*", "warning_percent": 15, "critical_percent": 25}]}
 *
 * The first row that fits counts: metric is a pattern (*, ?, [...]), better is "higher" or "lower" and may be
 * left out, test is a pattern and may be left out. Names are strict: a row that is spelt wrongly would label
 * nothing.
 */
#ifndef BN_MEASURE_LEVELS_H
#define BN_MEASURE_LEVELS_H

#include "measure/comparison.h"

#define BN_LEVELS_MAX 64u

struct bn_level {
    char test[96], metric[64];
    int better;               /* 1: of metrics of which more is better, -1: less, 0: any */
    double warning, critical; /* per cent */
};

struct bn_levels {
    struct bn_level list[BN_LEVELS_MAX];
    size_t n;
};

/* BN_ERR_FORMAT names the row. Every metric has to have a level: the last row is for all of them. */
BN_MUST_CHECK bn_status bn_levels_parse(struct bn_levels *out, const char *text, size_t n, bn_error *err);
/* The two that lists of point values carry (result.h): thresholds.critical and .warning, each with
 * throughput_decrease_percent and latency_increase_percent. */
BN_MUST_CHECK bn_status bn_levels_import(struct bn_levels *out, const bn_json *thresholds, bn_error *err);

/* How much worse, in per cent of the value before, as people say it: of rates the decrease of the rate, else
 * the increase. change is that of the cost (judge.h); negative when it is better. */
double bn_worse_percent(bool higher, double change);
/* The label of so much: a level is exceeded by more than its number, not by the number itself. */
enum bn_severity bn_levels_severity(const struct bn_levels *levels, const char *test, const char *metric,
                                    bool higher, double worse_percent);

#endif

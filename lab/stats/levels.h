/* SPDX-License-Identifier: MIT
 *
 * Regression levels: how large a regression is a warning or critical. They label regressions that statistics
 * found (judge.h), and they alone judge single values, which have no statistics. Read from
 *
 *     {"schema": "bn.thresholds/1",
 *      "levels": [{"metric": "accuracy*", "warning_absolute": 0.002, "critical_absolute": 0.005},
 *                 {"metric": "jitter*", "drift_percent": 50, "warning_percent": 100, "critical_percent": 200},
 *                 {"metric": "*_bytes", "warning_percent": 20, "critical_percent": 30},
 *                 {"metric": "ns_per_*", "as": "rate", "warning_percent": 8, "critical_percent": 15},
 *                 {"metric": "*", "better": "higher", "warning_percent": 8, "critical_percent": 15},
 *                 {"metric": "*", "warning_percent": 15, "critical_percent": 25}]}
 *
 * The first row that fits counts: metric is a pattern (*, ?, [...]), better is "higher" or "lower" and may be
 * left out, test is a pattern and may be left out. Percentages are of the value before. With "as": "rate"
 * they are of its reciprocal: a time that grows by 8.7 % is a rate that falls by 8 %. Absolute levels are in
 * the unit of the metric; they judge medians, also of samples with statistics. drift_percent, which may be
 * left out and is below 100, is by how much the metric differs between two runs of the same program.
 * Unknown names are errors.
 */
#ifndef BN_STATS_LEVELS_H
#define BN_STATS_LEVELS_H

#include "lab/stats/comparison.h"

#define BN_LEVELS_MAX 64u

struct bn_level {
    char test[96], metric[64];
    int better;    /* 1: of metrics of which more is better, -1: less, 0: any */
    bool absolute; /* the levels are in the metric's unit; else per cent of the value before, */
    bool rate;     /* or of its reciprocal */
    double warning, critical;
    double drift; /* share, 0.08 is eight per cent; 0: not given */
};

struct bn_levels {
    struct bn_level list[BN_LEVELS_MAX];
    size_t n;
};

/* Reads the form above. BN_ERR_FORMAT names the row. Every metric has to have a level: the last row is for all
 * of them. */
BN_MUST_CHECK bn_status bn_levels_parse(struct bn_levels *out, const char *text, size_t n, bn_error *err);

/* The row for a metric; NULL without one. */
const struct bn_level *bn_levels_find(const struct bn_levels *levels, const char *test, const char *metric,
                                      bool higher);
/* The severity of a change of this metric from one value to another. A level is exceeded by more than its
 * number, not by the number itself. */
enum bn_severity bn_levels_severity(const struct bn_levels *levels, const char *test, const char *metric,
                                    bool higher, double before, double after);

#endif

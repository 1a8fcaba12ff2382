/* SPDX-License-Identifier: MIT
 *
 * The comparison of one series: the medians of both sides, the judgement, its severity. A session has a list
 * of comparisons; its table, its JSON (member "comparisons") and its exit code are made here from that list.
 */
#ifndef BN_STATS_COMPARISON_H
#define BN_STATS_COMPARISON_H

#include "base/json.h"
#include "lab/report/table.h"
#include "lab/stats/judge.h"

/* The severity of a regression: a label in addition to the judgement, by the levels that are configured. */
enum bn_severity { BN_SEVERITY_NONE, BN_SEVERITY_WARNING, BN_SEVERITY_CRITICAL };

/* Texts are borrowed. A side that is missing has n 0, and its medians are NaN. */
struct bn_comparison {
    const char *document; /* that it comes from, where a table has several; NULL */
    const char *test, *metric, *unit;
    bool higher, exact;
    size_t n_a, n_b;
    double median_a, median_b;
    bool secondary; /* measured, but not decisive: see bn_comparisons_worst */
    struct bn_judgement j;
    enum bn_severity severity;
};

/* The values of A and B that belong to the estimated change, for display next to it. The estimated change is
 * the median of ratios, not the ratio of medians; the two can differ even in sign when samples have several
 * modes. So the geometric mean of the medians is split by the change: *b / *a - 1 is the change of the
 * series. Where no change was estimated (exact values, single values), these are the medians. */
void bn_comparison_sides(const struct bn_comparison *c, double *a, double *b);

/* The judgement as it is shown and written: change, low and high are of the figure, as A and B are, not of its cost. */
struct bn_judgement bn_comparison_shown(const struct bn_comparison *c);

/* Puts a member, an array of
 * {"test", "metric", "unit", "better", "exact", "primary", "a": {"n", "median"}, "b": {"n", "median"},
 * "verdict", "reason", "change", "low", "high", "p", "q", "agreement", "band", "mde", "n", "n_needed",
 * "severity"}. */
void bn_comparisons_put(bn_json *document, const char *name, const struct bn_comparison *list, size_t n);
/* Reads one element; texts point into it. BN_ERR_FORMAT when it is malformed. */
BN_MUST_CHECK bn_status bn_comparison_read(struct bn_comparison *out, const bn_json *element, bn_error *err);
/* "bad" for REGRESSED, "warn" for INCONCLUSIVE, else "ok". */
const char *bn_comparison_kind(const struct bn_comparison *c);
/* The table of comparisons. The smallest detectable change is in the reason where one was tested for. */
void bn_comparisons_fill(struct bn_table *table, const struct bn_comparison *list, size_t n);
/* Appends the table as text. */
void bn_comparisons_print(struct bn_buf *out, const struct bn_comparison *list, size_t n);
/* Counts the outcomes of series that decide, the worst first: "1 REGRESSED, 3 SAME"; nothing without such series. */
void bn_comparisons_count(struct bn_buf *out, const struct bn_comparison *list, size_t n);
/* Of the series that decide and that both sides have the one with the worst outcome, of these the one that changed
 * most. NULL when there is none. */
const struct bn_comparison *bn_comparisons_main(const struct bn_comparison *list, size_t n);
/* Appends one sentence about it, and the counts when several decide: "B is 3.1 % slower (2.0 to 4.2 %): SLOWER". */
void bn_comparisons_verdict(struct bn_buf *out, const struct bn_comparison *list, size_t n);
/* The worst outcome of a session (the order of enum bn_outcome). INCONCLUSIVE for an empty session, since a gate without
 * data does not pass. A secondary series counts only when its regression is critical. */
enum bn_outcome bn_comparisons_worst(const struct bn_comparison *list, size_t n);

/* ---- levels (levels.c) ----
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

/* SPDX-License-Identifier: MIT
 *
 * What a comparison says of one series: the medians on both sides, the judgement, how grave it is. A session
 * has a list of them; its printed table, its JSON (member "comparisons") and its exit code come from here, so
 * that no two renderings can differ.
 */
#ifndef BN_STATS_COMPARISON_H
#define BN_STATS_COMPARISON_H

#include "base/json.h"
#include "lab/stats/judge.h"

/* How grave a regression is: a label on top of the judgement, by the levels that somebody set. */
enum bn_severity { BN_SEVERITY_NONE, BN_SEVERITY_WARNING, BN_SEVERITY_CRITICAL };

/* Texts are borrowed. A side that is missing has n 0, and its medians are NaN. */
struct bn_comparison {
    const char *test, *metric, *unit;
    bool higher, exact;
    size_t n_a, n_b;
    double median_a, median_b;
    bool secondary; /* it is watched, and does not decide: see bn_comparisons_worst */
    struct bn_judgement j;
    enum bn_severity severity;
};

/* Sizes of memory and files, which other work on the machine does not change. */
bool bn_comparison_is_memory(const struct bn_comparison *c);
/* The values of A and B that belong to the estimated change, for showing next to it. The estimate of a change
 * is the median of ratios, not the ratio of medians, and the two may even differ in sign when samples have
 * several modes. So the medians' geometric mean is parted by the change: *b / *a - 1 is the change of the
 * series. Where nothing was estimated (values without noise, single values, no change) they are the medians.
 */
void bn_comparison_sides(const struct bn_comparison *c, double *a, double *b);

/* Puts the member "comparisons": an array of
 * {"test", "metric", "unit", "better", "exact", "primary", "a": {"n", "median"}, "b": {"n", "median"},
 * "verdict", "reason", "change", "low", "high", "p", "q", "agreement", "band", "mde", "n", "n_needed",
 * "severity"}. */
void bn_comparisons_put(bn_json *document, const struct bn_comparison *list, size_t n);
/* Reads one element; texts point into it. BN_ERR_FORMAT when it is malformed. */
BN_MUST_CHECK bn_status bn_comparison_read(struct bn_comparison *out, const bn_json *element, bn_error *err);
/* Appends a table for people, a line each; under it the reasons, each once, with the series that it stands
 * for; and a last line that counts the outcomes: "3 SAME, 1 REGRESSED". */
void bn_comparisons_print(struct bn_buf *out, const struct bn_comparison *list, size_t n);
/* The worst outcome of a session (bn_outcome_rank); INCONCLUSIVE of an empty one, since a gate without data
 * does not pass. A secondary series counts when its regression is critical, otherwise not. */
enum bn_outcome bn_comparisons_worst(const struct bn_comparison *list, size_t n);

#endif

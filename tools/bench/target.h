/* SPDX-License-Identifier: MIT
 *
 * Targets, such as "decode>=30" and "first-token<=200ms". A target names a quantity, which is the median of one
 * metric of some tests, or its 95 % quantile. Every test that has it must meet the target; words after the name
 * restrict the tests ("decode t=2>=30"); with "fastest" only the best one must ("decode fastest>=30"). Tests next to busy processes count only when they are named
 * ("decode busy=1>=20"). A target without data is missed.
 */
#ifndef BN_BENCH_TARGET_H
#define BN_BENCH_TARGET_H

#include "lab/history/series.h"

struct bn_bench_quantity {
    const char *name, *tests, *metric; /* tests: the first words of tests, with bars between them */
    const char *unit;                  /* of the target; "tok/s" of a metric in ns is its reciprocal */
    bool p95;
};

struct bn_bench_target {
    const char *text; /* borrowed */
    const struct bn_bench_quantity *quantity;
    const char *unit;     /* of the quantity */
    char words[48];       /* that the test must have, too */
    bool least;           /* at least wanted, else at most */
    double wanted, found; /* in this unit; found is NaN without data */
    char test[80];        /* the worst test, or the best one; empty without one */
    bool met;             /* by the median, or the quantile */
};

/* Reads a target. BN_ERR_ARG, with a hint, for one that is not understood. */
BN_MUST_CHECK bn_status bn_bench_target_read(struct bn_bench_target *target, const char *text, bn_error *err);
/* Judges it by the worst of its tests, or the best one. */
BN_MUST_CHECK bn_status bn_bench_target_judge(struct bn_bench_target *target,
                                              const struct bn_series_list *all, bn_error *err);

#endif

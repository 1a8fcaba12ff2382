/* SPDX-License-Identifier: MIT
 *
 * Whether times can be believed: the clock that took them, and the samples themselves. A measurement that
 * fails here has no figures.
 */
#ifndef BN_BENCH_CHECK_H
#define BN_BENCH_CHECK_H

#include "base/mem.h"

enum bn_bench_verdict { BN_BENCH_VALID, BN_BENCH_INVALID, BN_BENCH_TIMEOUT };
/* "valid", "invalid", "timeout". */
const char *bn_bench_verdict_name(enum bn_bench_verdict verdict);

/* The clock of samples, measured. */
struct bn_bench_clock {
    uint64_t step_ns; /* smallest difference of two readings that differ */
    uint64_t cost_ns; /* of one reading */
    uint64_t n_backwards;
};
void bn_bench_clock_measure(struct bn_bench_clock *clock);

#define BN_BENCH_REASON 160u

/* A sample shorter than this many steps of its clock is no measurement, */
#define BN_BENCH_LEAST_STEPS 20u
/* and so many samples of exactly the same length were taken by a clock that stands still. */
#define BN_BENCH_MOST_EQUAL 10u
/* Reading faster than this multiple of what a plain loop reads is hard to believe. */
#define BN_BENCH_MOST_SHARE 1.05

/* False, with the reason, for samples that are no measurement. */
bool bn_bench_believable(const double *ns, size_t n, uint64_t step_ns, char reason[BN_BENCH_REASON]);

#endif

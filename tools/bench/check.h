/* SPDX-License-Identifier: MIT
 *
 * Checks of timings: the clock that took them, the samples themselves, and the limits of the machine. A
 * measurement that fails is INVALID: it has no figures, and the reason is printed.
 */
#ifndef BN_BENCH_CHECK_H
#define BN_BENCH_CHECK_H

#include "base/mem.h"
#include "lab/host/clocks.h"

enum bn_bench_verdict { BN_BENCH_VALID, BN_BENCH_INVALID, BN_BENCH_TIMEOUT };
/* "valid", "invalid", "timeout". */
const char *bn_bench_verdict_name(enum bn_bench_verdict verdict);

#define BN_BENCH_REASON 160u

/* Invalid: a sample shorter than this many steps of its clock, */
#define BN_BENCH_LEAST_STEPS 20u
/* and this many samples of exactly the same length. */
#define BN_BENCH_MOST_EQUAL 10u
/* Implausible: a rate above this multiple of its measured limit. */
#define BN_BENCH_MOST_SHARE 1.05

/* Of a share of a measured limit: why it is implausible, or "". Returns out. Every command marks its shares with it. */
const char *bn_bench_implausible(char out[BN_BENCH_REASON], double share);

/* False, with the reason, for samples that are invalid. */
bool bn_bench_believable(const double *ns, size_t n, double step_ns, char reason[BN_BENCH_REASON]);

struct bn_bench_claim {
    const double *sample_ns; /* whole samples, as read from the clock */
    size_t n;
    double rate, limit; /* in the same unit; limit 0: unknown */
};
/* NULL when the measurement is valid; else the reason, one line, in out. */
const char *bn_bench_refuses(char out[BN_BENCH_REASON], const struct bn_bench_claim *claim,
                             const struct bn_clock_facts *clock);
/* Is the rate too high for the limit? */
bool bn_bench_above_limit(const struct bn_bench_claim *claim);

#endif

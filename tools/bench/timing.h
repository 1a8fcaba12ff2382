/* SPDX-License-Identifier: MIT
 *
 * Timing: samples of several calls each, in a team of threads; and the checks of any timing: the clock that took it, the
 * samples themselves, and the limits of the machine. A measurement that fails a check has no figures.
 */
#ifndef BN_BENCH_TIMING_H
#define BN_BENCH_TIMING_H

#include "lab/host/meters.h"
#include "tools/bench/work.h"

/* ---- timing ---- */

#define BN_BENCH_MAX_SAMPLES 1000u
#define BN_BENCH_MIN_SAMPLES 3u

struct bn_bench_times {
    uint64_t calls;                    /* in each sample */
    uint64_t ns[BN_BENCH_MAX_SAMPLES]; /* from the moment that all threads are ready until all are done */
    size_t n;
};

/* What is timed: a thread's part of the n calls that follow the first `first`. */
struct bn_bench_body {
    void (*calls)(void *arg, uint64_t first, uint64_t n, unsigned thread, unsigned n_threads);
    void *arg;
};

/* Samples for about min_ns, but three at least. A body that takes no time at all gets samples of many calls
 * which are as short as the clock is coarse: see the checks. */
BN_MUST_CHECK bn_status bn_bench_time_body(struct bn_bench_times *times, const struct bn_bench_body *body,
                                           unsigned n_threads, uint64_t min_ns, bn_error *err);

/* ---- checks ---- */

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

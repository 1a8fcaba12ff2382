/* SPDX-License-Identifier: MIT
 *
 * Timing: samples of several calls each, in a team of threads.
 */
#ifndef BN_BENCH_TIMING_H
#define BN_BENCH_TIMING_H

#include "tools/bench/work.h"

#define BN_BENCH_MAX_SAMPLES 1000u
#define BN_BENCH_MIN_SAMPLES 3u

struct bn_bench_times {
    uint64_t calls;                        /* in each sample */
    uint64_t ns[BN_BENCH_MAX_SAMPLES];     /* from the moment that all threads are ready until all are done */
    double per_call[BN_BENCH_MAX_SAMPLES]; /* ns / calls */
    size_t n;
};

/* What is timed: a thread's part of the n calls that follow the first `first`. */
struct bn_bench_body {
    void (*calls)(void *arg, uint64_t first, uint64_t n, unsigned thread, unsigned n_threads);
    void *arg;
};

/* Samples for about min_ns, but three at least. A body that takes no time at all gets samples of many calls
 * which are as short as the clock is coarse: see check.h. */
BN_MUST_CHECK bn_status bn_bench_time_body(struct bn_bench_times *times, const struct bn_bench_body *body,
                                           unsigned n_threads, uint64_t min_ns, bn_error *err);

/* The same of a kernel. Copies of the weights are used in turn, over all samples. */
BN_MUST_CHECK bn_status bn_bench_time(struct bn_bench_times *times, const struct bn_bench_work *work,
                                      const struct bn_kernels *kernels, unsigned n_threads, uint64_t min_ns,
                                      bn_error *err);

#endif

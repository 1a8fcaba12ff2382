/* SPDX-License-Identifier: MIT
 *
 * What a sample of bn-bench run used: counted events and CPU time of all threads, the energy of the processor packages, which
 * includes that of other processes, and the peak of resident memory.
 */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/sampler/counters.h"
#include "tools/bench/run/run.h"

void bn_bench_meters_open(struct bn_bench_meters *meters)
{
    static const enum bn_perf_event EVENTS[BN_BENCH_COUNTERS] = {BN_PERF_CYCLES, BN_PERF_INSTRUCTIONS,
                                                                 BN_PERF_CACHE_MISSES};
    *meters = (struct bn_bench_meters){.resets = true};
    for (size_t i = 0; i < BN_BENCH_COUNTERS; i++) {
        bn_error why = {0};
        meters->counters[i] = bn_perf_event_open(EVENTS[i], true, &why);
        snprintf(meters->why[i], sizeof meters->why[i], "%.159s",
                 meters->counters[i] < 0 ? why.msg : "the counter could not be read, or counted nothing");
    }
    bn_energy_read(&meters->energy, BN_ENERGY_ROOT);
}

void bn_bench_meters_close(struct bn_bench_meters *meters)
{
    for (size_t i = 0; i < BN_BENCH_COUNTERS; i++)
        if (meters->counters[i] >= 0) close(meters->counters[i]);
}

static void count(const struct bn_bench_meters *meters, double counts[BN_BENCH_COUNTERS])
{
    for (size_t i = 0; i < BN_BENCH_COUNTERS; i++) {
        uint64_t n = 0;
        bool known = meters->counters[i] >= 0 && read(meters->counters[i], &n, sizeof n) == (ssize_t)sizeof n;
        counts[i] = known ? (double)n : (double)NAN;
    }
}

void bn_bench_usage_begin(struct bn_bench_meters *meters, double used[BN_USED])
{
    uint64_t peak = bn_machine_peak_rss_bytes();
    if (peak > meters->peak) meters->peak = peak;
    if (meters->resets) meters->resets = bn_machine_reset_peak_rss();
    if (meters->energy.n > 0) bn_energy_read(&meters->energy, BN_ENERGY_ROOT);
    count(meters, used);
    used[BN_USED_CPU_NS] = (double)bn_clock_process_cpu_ns();
}

void bn_bench_usage_end(struct bn_bench_meters *meters, double used[BN_USED])
{
    double counts[BN_BENCH_COUNTERS];
    struct bn_energy now = {0};
    used[BN_USED_CPU_NS] = (double)bn_clock_process_cpu_ns() - used[BN_USED_CPU_NS];
    count(meters, counts);
    for (size_t i = 0; i < BN_BENCH_COUNTERS; i++)
        used[i] = counts[i] - used[i];
    if (meters->energy.n > 0) bn_energy_read(&now, BN_ENERGY_ROOT);
    used[BN_USED_JOULES] = bn_energy_since(&meters->energy, &now);
    uint64_t peak = bn_machine_peak_rss_bytes();
    if (peak > meters->peak) meters->peak = peak;
    used[BN_USED_PEAK_BYTES] = meters->resets && peak > 0 ? (double)peak : (double)NAN;
}

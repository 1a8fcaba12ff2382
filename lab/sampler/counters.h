/* SPDX-License-Identifier: MIT
 *
 * The perf events that are counted, not sampled, each tried on this machine: whether it works, why not, and what
 * would change that.
 */
#ifndef BN_SAMPLER_COUNTERS_H
#define BN_SAMPLER_COUNTERS_H

#include "lab/sampler/recorder.h"

enum bn_perf_event {
    BN_PERF_TASK_CLOCK,
    BN_PERF_KERNEL,   /* page faults, counted inside the kernel too */
    BN_PERF_ALL_CPUS, /* all processes of a processor */
    BN_PERF_CYCLES,
    BN_PERF_INSTRUCTIONS,
    BN_PERF_CACHE_REFERENCES,
    BN_PERF_CACHE_MISSES,
    BN_PERF_EVENTS
};
/* "cycles" and what it counts, "ns", "page faults"; and as perf_event_open takes it. */
extern const struct bn_perf_event_kind {
    const char *name, *unit;
    uint32_t type;
    uint64_t config;
    bool kernel, all_cpus;
} bn_perf_events[BN_PERF_EVENTS];

/* Opens an event of this thread, and with inherit of the threads that it starts later, which counts at once. -1 without it;
 * why is the reason. */
int bn_perf_event_open(enum bn_perf_event event, bool inherit, bn_error *why);
/* A reading. An event ran less than it was enabled when events took turns on the processor's counters. */
struct bn_perf_count {
    uint64_t value, enabled_ns, running_ns;
};
/* Reads an open event; false without one. */
bool bn_perf_event_read(struct bn_perf_count *out, int fd);
/* What was counted between two readings; when the event ran for a part of the time only, scaled to all of it. NaN with the
 * reason in *why when it did not run or a number went back. */
double bn_perf_event_since(const struct bn_perf_count *then, const struct bn_perf_count *now,
                           const char **why);
/* Counts one event during 5 ms of work; samples is what it counted. */
void bn_perf_event_try(struct bn_record_trial *out, enum bn_perf_event event);

#endif

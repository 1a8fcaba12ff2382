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
    BN_PERF_CACHE_MISSES,
    BN_PERF_EVENTS
};
const char *bn_perf_event_name(enum bn_perf_event event); /* "task-clock", "cycles", ... */
const char *bn_perf_event_unit(enum bn_perf_event event); /* "ns", "page faults", ... */

/* Opens an event of this thread, and with inherit of the threads that it starts later, which counts at once;
 * read(2) gives the count. -1 without it; why is the reason. */
int bn_perf_event_open(enum bn_perf_event event, bool inherit, bn_error *why);
/* Counts one event during 5 ms of work; samples is what it counted. */
void bn_perf_event_try(struct bn_record_trial *out, enum bn_perf_event event);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Every way of sampling and every perf event that bn uses, each tried on this machine: whether it works, why
 * not, and what would change that. Nothing is inferred from a version or a setting.
 */
#ifndef BN_SAMPLER_SOURCES_H
#define BN_SAMPLER_SOURCES_H

#include "lab/sampler/recorder.h"

/* Events that are counted, not sampled. */
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

struct bn_sampling_sources {
    struct bn_record_trial tiers[BN_RECORD_TIERS]; /* of processor time */
    struct bn_record_trial wall;                   /* the timer, of wall-clock time */
    struct bn_record_trial faults;                 /* the clock, of page faults */
    struct bn_record_trial events[BN_PERF_EVENTS]; /* samples is what the event counted */
};

/* Opens an event of this thread, and with inherit of the threads that it starts later, which counts at once;
 * read(2) gives the count. -1 without it; why is the reason. */
int bn_perf_event_open(enum bn_perf_event event, bool inherit, bn_error *why);
/* Counts one event during 5 ms of work. */
void bn_perf_event_try(struct bn_record_trial *out, enum bn_perf_event event);
/* Tries all of them; takes 0.1 s, and some seconds where a sampler opens and takes no sample. */
BN_MUST_CHECK bn_status bn_sampling_sources(struct bn_sampling_sources *out, bn_error *err);

#endif

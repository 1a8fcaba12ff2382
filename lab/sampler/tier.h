/* SPDX-License-Identifier: MIT
 *
 * The ways of sampling as recorder.c sees them: perf events and timers.
 * BN_ERR_UNSUPPORTED means that a way does not work here; its message says why and its hint what changes that. Any
 * other error ends the recording.
 *
 * recorder.c does the rest: it asks a way only for kinds that it has; finds out by a short trial whether samples
 * are taken at all; waits for the program and kills its group; sets delivery.tier, kind, asked_period_ns,
 * wall_ns, dump_bytes and refused, and calls bn_recording_finish.
 */
#ifndef BN_SAMPLER_TIER_H
#define BN_SAMPLER_TIER_H

#include <sys/types.h>

#include "lab/sampler/recorder.h"

/* A program to start, as bn_spawn does. */
struct bn_record_start {
    pid_t pid; /* set by open */
    const char *const *argv;
    const int *fds;
};

struct bn_record_ops {
    /* Begins to record: without start, the calling thread and all threads that are started later; with it, a
     * program from its first instruction. The caller waits for its process and reaps it, and then stops the
     * recording; when this fails there is no process. *state is not NULL when this succeeds, and is given to
     * stop and close. Until stop, what is recorded may be added to out at any time, by another thread. */
    bn_status (*open)(void **state, const struct bn_record_options *options, struct bn_record_start *start,
                      bn_recording *out, bn_error *err);
    /* Ends the recording, by the thread that opened it. out then has samples, mappings (for this process
     * recorder.c reads /proc/self/maps at the start and at the end), names of threads; and of its delivery: lost,
     * throttled, cpu_ns, cpu_known, all of which are 0 before. */
    bn_status (*stop)(void *state, bn_error *err);
    /* Frees the state, stopped or not (then what was recorded is dropped). */
    void (*close)(void *state);
};

extern const struct bn_record_ops bn_record_perf, bn_record_timers;
/* Sets err to why perf_event_open failed with this errno, with a hint where one is known. system: the event
 * includes the kernel. Returns BN_ERR_UNSUPPORTED. */
bn_status bn_perf_refuse(bn_error *err, int sys_errno, bool system);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The ways of sampling as recorder.c sees them: a table of four functions; perf has two tiers, and options->tier
 * says which one. recorder.c tries the tiers in order. BN_ERR_UNSUPPORTED means that a tier does not work here; its message says why and its hint what
 * changes that. Any other error ends the recording.
 *
 * recorder.c does the rest: it asks a tier only for kinds that it has; finds out by a short probe with
 * open_self, work and stop whether samples are taken at all; starts no program before that; waits for the
 * program and kills its group; sets delivery.tier, kind, asked_period_ns, wall_ns, dump_bytes and refused,
 * and calls bn_recording_finish.
 */
#ifndef BN_SAMPLER_TIER_H
#define BN_SAMPLER_TIER_H

#include <sys/types.h>

#include "lab/sampler/recorder.h"

struct bn_record_ops {
    /* Begins to record the calling thread and all threads that are started later. *state is the way's own,
     * not NULL when this succeeds, and is given to stop and close. May be opened while no other state of the
     * same way is. */
    bn_status (*open_self)(void **state, const struct bn_record_options *options, bn_error *err);

    /* Starts a program that is recorded from its first instruction, as bn_spawn does: argv ends with NULL,
     * argv[0] is looked for in PATH, descriptors 0 to 2 are fds, leader of a process group of its own, no
     * signal blocked or ignored. BN_ERR_NOT_FOUND and the like when there is no such program. When this fails
     * there is no process. The caller waits for the process and reaps it, and then stops the recording. */
    bn_status (*open_program)(void **state, pid_t *pid, const struct bn_record_options *options,
                              const char *const *argv, const int fds[3], bn_error *err);

    /* Ends the recording, by the thread that opened it, and adds what was recorded to out: samples, mappings
     * (for this process the ladder reads /proc/self/maps at the start and at the end), names of threads; of
     * out->delivery: lost, throttled, cpu_ns, cpu_known, all of which are 0 before. */
    bn_status (*stop)(void *state, bn_recording *out, bn_error *err);

    /* Frees the state, stopped or not (then what was recorded is dropped). */
    void (*close)(void *state);
};

/* perf_events.c: BN_RECORD_CYCLES, BN_RECORD_CLOCK */
extern const struct bn_record_ops bn_record_perf;
/* Sets err to why perf_event_open failed with this errno, with a hint where one is known. system: the event
 * includes the kernel. Returns BN_ERR_UNSUPPORTED. */
bn_status bn_perf_refuse(bn_error *err, int sys_errno, bool system);
/* timers.c: BN_RECORD_TIMER */
extern const struct bn_record_ops bn_record_timers;
/* agent_log.c: adds what the log of their library holds, n_bytes with its header, a multiple of 8, aligned to
 * 8. It may hold anything, and change meanwhile. */
struct bn_agent_log;
BN_MUST_CHECK bn_status bn_agent_log_read(bn_recording *out, const struct bn_agent_log *log, size_t n_bytes,
                                          bn_error *err);

#endif

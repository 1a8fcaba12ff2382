/* SPDX-License-Identifier: MIT
 *
 * Recorders take samples of this process, or of a program that they start, with the best sampler ("tier")
 * that works here, and report why better ones do not. They ask for no privilege.
 *
 *     struct bn_record_options options = BN_RECORD_OPTIONS_INIT;
 *     bn_recorder *recorder;
 *     bn_recorder_open(&recorder, &options, err);     before starting the threads to record
 *     ... work ...
 *     bn_recorder_stop(recorder, &recording, err);    the recording is complete and sorted
 *     bn_recorder_close(recorder);
 *
 * or for a program bn_record_program alone. What each tier records:
 *
 *              cpu              wall
 *   clock      yes              -
 *   timer      yes              yes
 */
#ifndef BN_SAMPLER_RECORDER_H
#define BN_SAMPLER_RECORDER_H

#include "lab/kit/process.h"
#include "lab/sampler/recording.h"

struct bn_record_options {
    enum bn_record_kind kind;
    int tier;            /* enum bn_record_tier; -1: the best that works */
    uint64_t period_ns;  /* between samples of one thread; it is varied by up to a tenth, so that it does not
                            fall into step with the work, where the tier can */
    uint32_t dump_bytes; /* of stack to copy with each sample, for unwinding without frame pointers; 0: none.
                            A multiple of 8, at most 65528 */
    uint64_t timeout_ns; /* of a program, which is then ended; its samples are kept. 0: none */
    bool (*cancelled)(void); /* called when a signal interrupts the wait for a program; true ends it as the
                                timeout does. NULL: never */
};
#define BN_RECORD_OPTIONS_INIT                                  \
    {                                                           \
        .kind = BN_RECORD_CPU, .tier = -1, .period_ns = 1009000 \
    }

typedef struct bn_recorder bn_recorder;

/* Records this process from now on: the calling thread and all that it starts later. BN_ERR_UNSUPPORTED when
 * no tier works (or the requested one does not): the message says why. */
BN_MUST_CHECK bn_status bn_recorder_open(bn_recorder **out, const struct bn_record_options *options,
                                         bn_error *err);
/* Stops the recording and moves it to out. Call it once. */
BN_MUST_CHECK bn_status bn_recorder_stop(bn_recorder *recorder, bn_recording *out, bn_error *err);
void bn_recorder_close(bn_recorder *recorder); /* NULL is fine */

/* Starts a program, records it and all that it starts until it ends. process is filled as bn_process_run
 * does; a program that fails is not an error. Its descriptors 0 to 2 are fds. */
BN_MUST_CHECK bn_status bn_record_program(bn_recording *out, struct bn_process *process,
                                          const struct bn_record_options *options, const char *const *argv,
                                          const int fds[3], bn_error *err);

/* Whether one sampler works here: it records some milliseconds of work of this thread. */
struct bn_record_trial {
    bool works;
    uint64_t asked_period_ns; /* 0: it counts */
    uint64_t samples;         /* taken */
    uint64_t cpu_ns;          /* of this thread, meanwhile */
    bool system;              /* frames of the operating system are recorded */
    char why[200];            /* why it does not work; "" when it works */
    char hint[160];           /* the command or setting that changes that; "" when none is known */
    char system_refused[200]; /* why system frames are not recorded */
};
/* options->tier is the one that is tried. Returns an error only for other causes, such as
 * memory. */
BN_MUST_CHECK bn_status bn_record_try(struct bn_record_trial *out, const struct bn_record_options *options,
                                      bn_error *err);

/* ---- perf events that are counted, not sampled (counters.c), each tried on this machine ---- */

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

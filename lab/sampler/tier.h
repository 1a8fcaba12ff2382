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

/* ---- the records that perf_event_open(2) writes into its ring buffers, read into a recording (perf_records.c) ----
 *
 * The kernel wrote them, but no length in them is trusted: a record that contradicts itself counts as lost. */

/* The data of a ring: size is a power of two; head and tail only grow. */
struct bn_perf_ring {
    const unsigned char *data;
    uint64_t size, head, tail;
};

/* The registers requested with a copied stack, as perf numbers them, in the order of rising bits. */
#if defined(__x86_64__)
#define BN_PERF_REGISTERS ((UINT64_C(0xff) << 16) | UINT64_C(0x1ff))
#elif defined(__aarch64__)
#define BN_PERF_REGISTERS ((UINT64_C(1) << 33) - 1)
#else
#define BN_PERF_REGISTERS UINT64_C(0)
#endif

/* Samples have IP | TID | TIME | PERIOD | CALLCHAIN, and REGS_USER | STACK_USER when dump_bytes is not 0; all
 * other records end with TID and TIME (sample_id_all). */
struct bn_perf_layout {
    uint64_t weight;     /* of a sample; 0: the period that it says */
    uint32_t max_chain;  /* most addresses that the operating system puts into a chain */
    uint32_t dump_bytes; /* requested */
};

/* Zeroed except out and layout, nothing was read. */
struct bn_perf_birth;
struct bn_perf_reader {
    bn_recording *out;
    struct bn_perf_layout layout;
    struct bn_perf_birth *births; /* threads that others created */
    size_t n_births, births_room;
};

/* Reads what lies between tail and head into the recording: samples, mappings, names of threads, what was lost and
 * how often the sampler was throttled. A record for which there is no memory is lost. tail is head then. */
void bn_perf_drain(struct bn_perf_reader *reader, struct bn_perf_ring *ring);
/* Gives processes that were forked the mappings and names of those they came from. The recording is in order
 * afterwards. */
BN_MUST_CHECK bn_status bn_perf_finish(struct bn_perf_reader *reader, bn_error *err);
void bn_perf_release(struct bn_perf_reader *reader);

#endif

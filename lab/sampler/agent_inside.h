/* SPDX-License-Identifier: MIT
 *
 * What the parts of the agent share: agent.c, agent_sample.c, agent_proc.c.
 */
#ifndef BN_SAMPLER_AGENT_INSIDE_H
#define BN_SAMPLER_AGENT_INSIDE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lab/sampler/agent.h"

#define BN_AGENT_THREADS 4096u
#define BN_AGENT_WINDOW 2048u /* bytes of stack that are read at once */
#define BN_AGENT_TEXT_BYTES (1u << 20)
#define BN_AGENT_READ_BYTES 16384u
#define BN_AGENT_CODE 1024u /* executable mappings that are known */

/* A thread. All but tid belongs to the watcher or, once the timer is set, to the handler in that thread. */
struct bn_agent_thread {
    _Atomic(int) tid;   /* 0: free */
    _Atomic(bool) ours; /* it runs the agent's code now, which is not sampled */
    bool seen, named, blocks;
    uint32_t scans;
    timer_t timer;
    uint64_t since_ns;
    char name[16];
    uint64_t last_ns; /* of the clock that is weighed, at its last sample */
    uint64_t random;
    _Atomic(uint64_t) asked;                /* an address on its stack, which the watcher is to find */
    _Atomic(uint64_t) stack_from, stack_to; /* its answer */
    uint64_t chain[BN_AGENT_DEPTH];
    uint64_t window_at, window_bytes;
    unsigned char window[BN_AGENT_WINDOW];
};

/* Executable memory, in the order of addresses. None: it is not known, or there is too much. */
struct bn_agent_code {
    size_t n;
    struct {
        uint64_t from, to;
    } list[BN_AGENT_CODE];
};

/* There is one, since a process has one set of signal handlers. */
extern struct bn_agent_state {
    struct bn_agent_log *log;
    bool (*unread)(void); /* see bn_agent_begin */
    _Atomic(bool) active, stop;
    _Atomic(bool) maps_wanted; /* a handler met what the last reading of the maps does not tell */
    _Atomic(unsigned) inside;  /* handlers that run now */
    _Atomic(unsigned) n_slots;
    _Atomic(int) watcher_tid;
    struct bn_agent_thread *slots; /* [BN_AGENT_THREADS] */
    char *text;                    /* [BN_AGENT_TEXT_BYTES] of maps */
    char *bytes;                   /* [BN_AGENT_READ_BYTES] read from /proc */
    struct bn_agent_code code[2];  /* the watcher makes one, handlers read the other */
    _Atomic(unsigned) code_turn;   /* the one to read */
    uint64_t text_digest;
    uint64_t watcher_ns;
    pthread_t watcher;
    pthread_mutex_t work; /* held by who scans: the watcher, or who wants a snapshot */
    struct sigaction before;
    int signal;
    uint32_t pid;
} bn_agent;

static inline uint64_t bn_agent_clock_ns(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t) != 0) return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline int bn_agent_thread_id(void)
{
    return (int)syscall(SYS_gettid);
}

static inline bool bn_agent_is_wall(void)
{
    return bn_agent.log->clock == BN_AGENT_MONOTONIC;
}

static inline void bn_agent_note(enum bn_agent_note what)
{
    atomic_fetch_or(&bn_agent.log->notes, (uint32_t)what);
}

/* ---- agent_sample.c ---- */

/* Room in the log for a record, its head filled; NULL when the log is full. */
void *bn_agent_reserve(size_t n_bytes, uint32_t kind, uint64_t time_ns, int tid);
void bn_agent_commit(struct bn_agent_record *record);
/* NULL for a thread that the watcher does not know. */
struct bn_agent_thread *bn_agent_find(int tid);
/* To expire after about a period. */
void bn_agent_set_timer(struct bn_agent_thread *slot);
void bn_agent_on_signal(int signal, siginfo_t *info, void *context);

/* ---- agent_proc.c ---- */

bool bn_agent_read_name(int tid, char name[16]);
bool bn_agent_blocks_signal(int tid);
/* Puts the maps into the log when they are not as they were, and tells threads that asked where their stacks
 * lie. */
void bn_agent_note_maps(void);

#endif

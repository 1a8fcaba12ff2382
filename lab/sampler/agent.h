/* SPDX-License-Identifier: MIT
 *
 * The agent takes samples from within a process, by timers and a signal: this library records its own
 * process, and each program of bn joins a recording that its environment names (join.c). It uses the C
 * library only and allocates nothing.
 *
 * It writes everything to a *log*, memory shared with the reader, to which processes and threads append
 * without locks, so nothing is lost when a program crashes, is killed, or leaves by _exit. A record is
 * reserved by an atomic addition, written, and made valid by its mark, which is stored last. If its writer
 * is killed meanwhile it has no mark, and the reader continues with the next record.
 */
#ifndef BN_SAMPLER_AGENT_H
#define BN_SAMPLER_AGENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BN_AGENT_VERSION 0x31676f6c2d6e62u     /* "bn-log1" */
#define BN_AGENT_DEPTH 256u                    /* addresses of a sample, at most */
#define BN_AGENT_REGISTERS 33u                 /* BN_RECORD_REGISTERS */
#define BN_AGENT_LOG_VARIABLE "BN_SAMPLER_LOG" /* the environment variable with the log's path */
/* Is in the file of every program that joins a recording; others cannot be recorded by the agent. */
#define BN_AGENT_PROGRAM "bn program: joins the recording of BN_SAMPLER_LOG"

/* What makes the signal, and what samples weigh.
 *
 * A timer on a thread's processor time expires at the system's ticks only (250 a second, mostly), but while
 * the thread runs. One on the clock on the wall is finer, but finds a thread that was not running at the
 * place where it goes on: processor time would be seen at system calls that sleep. So it weighs wall time. */
enum bn_agent_clock {
    BN_AGENT_THREAD_CPU, /* a timer of each thread; processor time */
    BN_AGENT_MONOTONIC,  /* a timer of each thread; wall time. Interrupts calls that sleep */
};

/* What was noticed: bits of bn_agent_log.notes. */
enum bn_agent_note {
    BN_AGENT_READ_DENIED = 2,     /* process_vm_readv is: stacks were read where they were known to lie */
    BN_AGENT_THREADS_UNSEEN = 4,  /* /proc/self/task cannot be read, or there are more than can be kept */
    BN_AGENT_TIMER_REFUSED = 8,   /* timer_create for some thread */
    BN_AGENT_SIGNAL_BLOCKED = 16, /* some thread blocks the signal */
};

/* The beginning of the log; records follow. */
struct bn_agent_log {
    uint64_t version;
    uint64_t size;      /* of all of it */
    uint64_t period_ns; /* between samples of a thread */
    uint32_t clock;     /* enum bn_agent_clock */
    uint32_t dump_bytes;
    uint64_t unused;
    _Atomic(uint64_t) used;      /* bytes reserved, this header's too; more than size: it is full */
    _Atomic(uint64_t) dropped;   /* records that had no room */
    _Atomic(uint64_t) agent_ns;  /* processor time of the agents' own threads */
    _Atomic(uint32_t) processes; /* that the agent was started in */
    _Atomic(uint32_t) notes;     /* bits of enum bn_agent_note */
};

/* Where the first record is. */
#define BN_AGENT_FIRST ((sizeof(struct bn_agent_log) + 63) & ~(uint64_t)63)

enum bn_agent_record_kind { BN_AGENT_SAMPLE = 1, BN_AGENT_NAME, BN_AGENT_MAPS };

/* Records lie at multiples of 8 and are as long. */
struct bn_agent_record {
    _Atomic(uint64_t) mark; /* bn_agent_mark(where it lies), once it is complete */
    uint32_t n_bytes;       /* of all of it */
    uint32_t kind;
    uint64_t time_ns;
    uint32_t pid, tid;
};

static inline uint64_t bn_agent_mark(uint64_t offset)
{
    return 0xb17e5a3c96d2f041u ^ (offset * 0x9e3779b97f4a7c15u);
}

/* Behind it: n_chain addresses; if n_dump > 0: BN_AGENT_REGISTERS registers, n_dump bytes. */
struct bn_agent_sample {
    struct bn_agent_record record;
    uint64_t weight_ns;
    uint32_t n_chain, n_dump;
    uint32_t flags; /* enum bn_sample_flag */
    uint32_t unused;
};

struct bn_agent_name {
    struct bn_agent_record record;
    char name[16];
};

/* Behind it: the lines of /proc/self/maps for executable memory, n_text bytes. */
struct bn_agent_maps {
    struct bn_agent_record record;
    uint64_t n_text;
};

/* Starts recording this process, all threads that there are and will be, into the log. 0, or an errno and
 * what it was that failed. One recording of a process at a time. unread: asked now and then; when it says
 * that nobody will read the log any more, recording ends. NULL: never. */
int bn_agent_begin(struct bn_agent_log *log, bool (*unread)(void), const char **what);
/* Ends it; the log is not touched any more. Not for use in a child of fork. */
void bn_agent_end(void);
/* Writes the maps and the names of threads as they are now. Does nothing in a child of fork, which is not
 * recorded unless it becomes a program that joins. */
void bn_agent_snapshot(void);
/* Joins the recording that BN_AGENT_LOG_VARIABLE names, to the end of the process; does nothing without one. Programs
 * call it first. */
void bn_agent_join(void);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The thread team: one task runs on several threads at once, with barriers inside, work divided by static
 * shares.
 *
 * Threads that wait spin for a moment (a small model passes a barrier every microsecond), then sleep in the
 * kernel. A team that shares its cores with other processes would wait at each barrier for a thread that does
 * not run; unless it was opened as exact, it notices that and runs tasks with fewer threads until the cores
 * are free again. Tasks may therefore not depend on the number of threads, and none here does: the shares
 * change, no sum does. docs/explain/performance.md has the rule and the figures.
 *
 * The threads are pthreads and not OpenMP's: libgomp ends the process when it cannot start a thread.
 */
#ifndef BN_BASE_TEAM_H
#define BN_BASE_TEAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

#define BN_ROW_GRAIN 16u /* rows of a matrix that stay with one thread: one cache line of output */

typedef void (*bn_team_fn)(void *arg, unsigned thread, unsigned n_threads);

/* Where threads meet. Zeroed, it is ready for use. The two counters are on cache lines of their own. */
struct bn_barrier {
    _Alignas(BN_ALIGNMENT) atomic_uint n_arrived;
    _Alignas(BN_ALIGNMENT) atomic_uint round; /* changes when all have arrived */
    bool no_spin; /* sleep at once: there are more threads than cores, so a spinning one delays another */
};

/* Called by each of n_threads: no call returns before all have called. What they wrote before is seen by all
 * after it. Returns for how many nanoseconds the caller slept. */
uint64_t bn_barrier_wait(struct bn_barrier *barrier, unsigned n_threads);

struct bn_team;

/* Starts n_threads - 1 threads; the caller of bn_team_run is the other one. Fewer when the system refuses
 * more (bn_team_size says how many there are). An exact team runs every task on all of its threads. NULL when
 * out of memory. One thread at a time uses a team. */
struct bn_team *bn_team_open(unsigned n_threads, bool exact);
/* Ends its threads; NULL is accepted. */
void bn_team_close(struct bn_team *team);
/* Threads, the caller's included. */
unsigned bn_team_size(const struct bn_team *team);
/* Bytes that it took from bn_alloc_aligned; the stacks of its threads are not among them. */
uint64_t bn_team_bytes(const struct bn_team *team);
/* From now on the team is exact, or not. */
void bn_team_set_exact(struct bn_team *team, bool exact);

/* Runs fn on n_threads threads, the caller being thread 0, and returns when all are done. n_threads is at
 * most the team's size. */
void bn_team_run(struct bn_team *team, bn_team_fn fn, void *arg);
/* A barrier for the n_threads of the task that runs. */
void bn_team_barrier(struct bn_team *team, unsigned n_threads);
/* Runs fn on n_threads threads that are started for it; on fewer, down to the caller alone, when the system
 * refuses more. */
void bn_team_once(unsigned n_threads, bn_team_fn fn, void *arg);

/* Runs fn for the items first ... end - 1: the threads take them in this order, whoever is free. Without a team the caller
 * runs all of them as thread 0. */
typedef void (*bn_team_item_fn)(void *arg, unsigned thread, size_t item);
void bn_team_each(struct bn_team *team, size_t first, size_t end, bn_team_item_fn fn, void *arg);

/* Cores that this process may use. */
unsigned bn_team_cores(void);

/* The share of thread out of n_threads of n items, cut at multiples of grain: [*begin, *end). The shares
 * depend on nothing but these numbers. */
static inline void bn_team_share(size_t n, size_t grain, unsigned thread, unsigned n_threads, size_t *begin,
                                 size_t *end)
{
    size_t grains = (n + grain - 1) / grain;
    *begin = bn_min_size(n, grains * thread / n_threads * grain);
    *end = bn_min_size(n, grains * (thread + 1u) / n_threads * grain);
}

/* ---- the rule by which a team runs fewer threads; apart from its clock, so that tests can drive it ---- */

struct bn_team_pace {
    unsigned size;    /* threads there are */
    unsigned running; /* threads that run the next task */
    bool exact;
    uint64_t window_ns, asleep_ns; /* of the tasks since the last decision, and of their threads */
    uint64_t since_ns;             /* when running last changed */
    uint64_t hold_ns;              /* how long to stay with fewer threads */
};

/* Accounts a task that began and ended at these times, in which threads slept asleep_ns together at barriers,
 * and decides how many threads run the next. */
void bn_team_pace_task(struct bn_team_pace *pace, uint64_t begin_ns, uint64_t end_ns, uint64_t asleep_ns);

#endif

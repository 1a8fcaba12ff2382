/* SPDX-License-Identifier: MIT
 *
 * The thread team: one parallel region per forward pass, barriers inside it, work divided by static shares.
 * The threads are OpenMP's; the barrier is our own, because a small model passes one every microsecond and
 * libgomp's takes 0.25 us where this takes 0.07 (two threads of a Zen 5; docs/explain/performance.md). team.c
 * is the only file that knows.
 */
#ifndef BN_BASE_TEAM_H
#define BN_BASE_TEAM_H

#include <stdatomic.h>

#include "base/mem.h"

#define BN_ROW_GRAIN 16u /* rows of a matrix that stay with one thread: one cache line of output */

typedef void (*bn_team_fn)(void *arg, unsigned thread, unsigned n_threads);

/* Where a team's threads meet. Zeroed, it is ready for use. The two counters are on cache lines of their own.
 */
struct bn_team {
    _Alignas(BN_ALIGNMENT) atomic_uint n_waiting;
    _Alignas(BN_ALIGNMENT) atomic_uint round;
};

/* Runs fn on n_threads threads, the caller being thread 0, and returns when all are done. fn is told how many
 * there really are, which may be fewer. */
void bn_team_run(unsigned n_threads, bn_team_fn fn, void *arg);
/* Inside bn_team_run: nobody passes before all n_threads have come. What they wrote before is seen by all
 * behind it. */
void bn_team_barrier(struct bn_team *team, unsigned n_threads);
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

#endif

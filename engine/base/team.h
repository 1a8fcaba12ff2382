/* SPDX-License-Identifier: MIT
 *
 * The thread team: one parallel region per forward pass, barriers inside it, work divided by static shares.
 * Stands on OpenMP; team.c is the only file that knows.
 */
#ifndef BN_BASE_TEAM_H
#define BN_BASE_TEAM_H

#include "base/mem.h"

typedef void (*bn_team_fn)(void *arg, unsigned thread, unsigned n_threads);

/* Runs fn on n_threads threads, the caller being thread 0, and returns when all are done. */
void bn_team_run(unsigned n_threads, bn_team_fn fn, void *arg);
/* Inside bn_team_run: nobody passes before everybody has come. */
void bn_team_barrier(void);
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

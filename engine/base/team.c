/* SPDX-License-Identifier: MIT
 *
 * See team.h.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "base/team.h"

#include <omp.h>
#include <sched.h>

void bn_team_run(unsigned n_threads, bn_team_fn fn, void *arg)
{
    if (n_threads <= 1) {
        fn(arg, 0, 1);
        return;
    }
#pragma omp parallel num_threads(n_threads)
    fn(arg, (unsigned)omp_get_thread_num(), (unsigned)omp_get_num_threads());
}

#define SPINS 4000u /* about 50 us: longer than threads of one pass are apart, shorter than a time slice */

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void bn_team_barrier(struct bn_team *team, unsigned n_threads)
{
    if (n_threads == 1) return;
    unsigned round = atomic_load_explicit(&team->round, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&team->n_waiting, 1, memory_order_acq_rel) == n_threads - 1) {
        atomic_store_explicit(&team->n_waiting, 0, memory_order_relaxed);
        atomic_store_explicit(&team->round, round + 1, memory_order_release);
        return;
    }
    for (unsigned spins = 0; atomic_load_explicit(&team->round, memory_order_acquire) == round; spins++) {
        if (spins < SPINS)
            pause_cpu();
        else
            sched_yield(); /* somebody is not running: perhaps he waits for this core */
    }
}

unsigned bn_team_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : (unsigned)n;
}

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
    if (n_threads == 0) n_threads = 1;
#pragma omp parallel num_threads(n_threads)
    fn(arg, (unsigned)omp_get_thread_num(), (unsigned)omp_get_num_threads());
}

void bn_team_barrier(void)
{
#pragma omp barrier
}

unsigned bn_team_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : (unsigned)n;
}

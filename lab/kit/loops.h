/* SPDX-License-Identifier: MIT
 *
 * Processes that compute without end, to measure next to them. They have no work of their own: each keeps one
 * CPU busy, without memory traffic, on any CPU that this process may use.
 *
 * The kernel ends them when the thread that started them ends, also by a signal that cannot be caught.
 */
#ifndef BN_KIT_LOOPS_H
#define BN_KIT_LOOPS_H

#include "base/mem.h"

struct bn_loops;

/* Starts n processes, which wait. It forks, so it is for a program that has no other threads yet. n is 0: NULL,
 * which every function accepts. */
BN_MUST_CHECK bn_status bn_loops_start(struct bn_loops **out, unsigned n, bn_error *err);
/* From now on this many compute, the others wait. Returns after the scheduler had time to place them. */
void bn_loops_run(struct bn_loops *loops, unsigned n);
/* Ends all, and waits for them. */
void bn_loops_end(struct bn_loops *loops);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Counting what kernels do, where they are called. Each thread has its own counters, so that counting costs
 * no synchronisation; only the first thread reads the clock.
 */
#ifndef BN_STAMP_COUNTERS_H
#define BN_STAMP_COUNTERS_H

#include "base/clock.h"
#include "base/mem.h"
#include "kernels/kernels.h"

struct bn_counter {
    uint64_t calls, ticks, bytes, ops;
};

/* Adds what others did of the same operations: of calls the largest, of time that of the first. */
static inline void bn_counter_join(struct bn_counter *sum, const struct bn_counter *part)
{
    if (part->calls > sum->calls) sum->calls = part->calls;
    sum->bytes += part->bytes;
    sum->ops += part->ops;
}

/* One thread's. The padding keeps two threads' counters off one cache line. */
struct bn_counters {
    struct bn_counter kernel[BN_KERNEL_COUNT];
    uint64_t since; /* when the kernel that runs was entered */
    struct bn_tick_clock clock;
    unsigned char padding[BN_ALIGNMENT - sizeof(uint64_t) - sizeof(struct bn_tick_clock)];
};

static inline void bn_counters_begin(struct bn_counters *counters, unsigned thread)
{
    if (thread == 0) counters->since = bn_ticks(&counters->clock);
}

/* bytes and ops are this thread's share. */
static inline void bn_counters_end(struct bn_counters *counters, unsigned thread, enum bn_kernel kernel,
                                   uint64_t bytes, uint64_t ops)
{
    struct bn_counter *c = &counters->kernel[kernel];
    if (thread == 0) c->ticks += bn_ticks(&counters->clock) - counters->since;
    c->calls++;
    c->bytes += bytes;
    c->ops += ops;
}

/* The sum over threads; of calls the largest, since all threads take part in one operation, and a thread
 * whose share is empty may leave it out. */
struct bn_counter bn_counters_sum(const struct bn_counters *counters, unsigned n_threads,
                                  enum bn_kernel kernel);

#endif

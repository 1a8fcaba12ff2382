/* SPDX-License-Identifier: MIT
 *
 * Time: monotonic nanoseconds for measuring, UTC seconds for stamps.
 */
#ifndef BN_BASE_CLOCK_H
#define BN_BASE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t bn_clock_ns(void);
/* Processor time of the calling thread, and of all threads of this process. 0 when the system does not say.
 */
uint64_t bn_clock_thread_cpu_ns(void);
uint64_t bn_clock_process_cpu_ns(void);

/* A clock for the hot path: the processor's counter where it ticks evenly (a third of the cost of
 * bn_clock_ns), else bn_clock_ns. */
struct bn_tick_clock {
    bool counter;
    double ns_per_tick;
};

/* Measures the rate, for about a millisecond. */
void bn_tick_clock_open(struct bn_tick_clock *clock);
/* Both clocks at one moment: of some tries, the one in which least time passed between the readings. */
void bn_tick_clock_both(const struct bn_tick_clock *clock, uint64_t *ns, uint64_t *ticks);

static inline uint64_t bn_ticks(const struct bn_tick_clock *clock)
{
#if defined(__x86_64__)
    if (clock->counter) return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    if (clock->counter) {
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        return ticks;
    }
#endif
    return bn_clock_ns();
}

/* Seconds since 1970; SOURCE_DATE_EPOCH when that is set. */
int64_t bn_clock_utc(void);
/* "2026-11-21T05:18:56Z" and back; false for other text. */
void bn_clock_format(int64_t utc, char out[21]);
int bn_clock_parse(const char *text, int64_t *utc);

#endif

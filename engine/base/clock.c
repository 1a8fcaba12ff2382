/* SPDX-License-Identifier: MIT
 *
 * Clocks and dates. Dates are computed here, not by libc, so that they do not depend on time zone and locale.
 */
#define _POSIX_C_SOURCE 200809L
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static uint64_t read_clock(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t) != 0) return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t bn_clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t bn_clock_thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t bn_clock_process_cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

/* x86 says whether its counter keeps one rate in all states; the one of 64-bit ARM always does, but may be
 * too slow to time kernels. */
static bool has_counter(void)
{
#if defined(__x86_64__)
    unsigned eax, ebx, ecx, edx = 0;
    return __get_cpuid(0x80000007u, &eax, &ebx, &ecx, &edx) != 0 && (edx & 1u << 8) != 0;
#elif defined(__aarch64__)
    uint64_t frequency;
    __asm__("mrs %0, cntfrq_el0" : "=r"(frequency));
    return frequency >= 50000000u;
#else
    return false;
#endif
}

void bn_tick_clock_both(const struct bn_tick_clock *clock, uint64_t *ns, uint64_t *ticks)
{
    uint64_t closest = UINT64_MAX;
    for (int i = 0; i < 16; i++) {
        uint64_t before = bn_clock_ns(), t = bn_ticks(clock), after = bn_clock_ns();
        if (after - before >= closest) continue;
        closest = after - before;
        *ns = before + closest / 2;
        *ticks = t;
    }
}

#define CALIBRATION_NS 1000000u

void bn_tick_clock_open(struct bn_tick_clock *clock)
{
    uint64_t ns = 0, ticks = 0, ns_then = 0, ticks_then = 0;
    *clock = (struct bn_tick_clock){has_counter(), 1.0};
    if (!clock->counter) return;
    bn_tick_clock_both(clock, &ns, &ticks);
    do
        bn_tick_clock_both(clock, &ns_then, &ticks_then);
    while (ns_then - ns < CALIBRATION_NS);
    clock->counter = ticks_then > ticks;
    if (clock->counter) clock->ns_per_tick = (double)(ns_then - ns) / (double)(ticks_then - ticks);
}

int64_t bn_clock_utc(void)
{
    const char *fixed = getenv("SOURCE_DATE_EPOCH");
    if (fixed != NULL && fixed[0] != '\0') return strtoll(fixed, NULL, 10);
    return (int64_t)time(NULL);
}

/* Days since 1970-01-01 of a date of the proleptic Gregorian calendar; the year starts in March inside. */
static int64_t days_from_civil(int64_t y, int64_t m, int64_t d)
{
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

void bn_clock_format(int64_t utc, char out[21])
{
    if (utc < 0 || utc > 253402300799) utc = 0;
    int64_t days = utc / 86400, rest = utc % 86400;
    int64_t y = 1970 + days / 366, m = 1;
    while (days_from_civil(y + 1, 1, 1) <= days)
        y++;
    while (m < 12 && days_from_civil(y, m + 1, 1) <= days)
        m++;
    snprintf(out, 21, "%04u-%02u-%02uT%02u:%02u:%02uZ", (unsigned)y % 10000u, (unsigned)m % 100u,
             (unsigned)(days - days_from_civil(y, m, 1) + 1) % 100u, (unsigned)(rest / 3600) % 100u,
             (unsigned)(rest / 60 % 60), (unsigned)(rest % 60));
}

int bn_clock_parse(const char *text, int64_t *utc)
{
    unsigned y, mo, d, h, mi, s;
    int n = 0;
    if (strlen(text) != 20) return 0;
    if (sscanf(text, "%4u-%2u-%2uT%2u:%2u:%2uZ%n", &y, &mo, &d, &h, &mi, &s, &n) != 6 || n != 20) return 0;
    if (y < 1970 || mo < 1 || mo > 12 || d < 1 || d > 31 || h > 23 || mi > 59 || s > 59) return 0;
    *utc = days_from_civil(y, mo, d) * 86400 + (int64_t)h * 3600 + (int64_t)mi * 60 + s;
    char again[21];
    bn_clock_format(*utc, again);
    return strcmp(again, text) == 0;
}

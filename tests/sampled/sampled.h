/* SPDX-License-Identifier: MIT
 *
 * What the programs that test samplers share: clocks, and work whose amount is a count.
 */
#ifndef BN_TESTS_SAMPLED_H
#define BN_TESTS_SAMPLED_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* A function that has a frame of its own, whose callers have theirs. */
#if defined(__clang__)
#define OWN_FRAME __attribute__((noinline))
#else
#define OWN_FRAME __attribute__((noipa))
#endif

static inline uint64_t clock_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t cpu_ns(void)
{
    return clock_of(CLOCK_THREAD_CPUTIME_ID);
}

static inline uint64_t wall_ns(void)
{
    return clock_of(CLOCK_MONOTONIC);
}

/* Some nanoseconds of work a turn, without a call and without memory. */
static inline uint64_t turn(uint64_t x, uint64_t turns)
{
    for (uint64_t i = 0; i < turns; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

/* Numbers that do not fall into step with anything. */
static inline uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Where functions begin, for who has no symbols at hand: a member of an object. */
static inline void print_function(const char *name, uintptr_t at, int is_last)
{
    printf("\"%s\": %" PRIuPTR "%s", name, at, is_last ? "}" : ", ");
}

/* The first argument as a number, or another. */
static inline uint64_t argument(int argc, char **argv, uint64_t otherwise)
{
    return argc > 1 ? strtoull(argv[1], NULL, 10) : otherwise;
}

#endif

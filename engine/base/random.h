/* SPDX-License-Identifier: MIT
 *
 * Pseudo-random numbers that are the same on every machine: splitmix64 (Steele, Lea, Flood, 2014).
 */
#ifndef BN_BASE_RANDOM_H
#define BN_BASE_RANDOM_H

#include <stdint.h>

/* 64 random bits; any state is a good seed. */
static inline uint64_t bn_splitmix64(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* A whole number below n > 0; the bias is n / 2^64. */
static inline uint64_t bn_splitmix64_below(uint64_t *state, uint64_t n)
{
    return bn_splitmix64(state) % n;
}

#endif

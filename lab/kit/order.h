/* SPDX-License-Identifier: MIT
 *
 * Sorted arrays: the order of numbers for qsort, and binary search.
 */
#ifndef BN_KIT_ORDER_H
#define BN_KIT_ORDER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline int bn_compare_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Texts by their bytes, for lists of const char *. */
static inline int bn_compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sets at, a size_t, to the first index in 0 to n - 1 for which `before` is false, or to n. `before` is an
 * expression of at that is true for the first elements and false for all others. */
#define BN_SEARCH(at, n, before)                    \
    do {                                            \
        size_t bn_low = 0, bn_high = (n);           \
        while (bn_low < bn_high) {                  \
            (at) = bn_low + (bn_high - bn_low) / 2; \
            if (before)                             \
                bn_low = (at) + 1;                  \
            else                                    \
                bn_high = (at);                     \
        }                                           \
        (at) = bn_low;                              \
    } while (0)

#endif

/* SPDX-License-Identifier: MIT
 *
 * The three things that fragmentation can mean, each by its definition. NaN where a quotient has no meaning.
 */
#ifndef BN_BENCH_FRAGMENT_H
#define BN_BENCH_FRAGMENT_H

#include "base/mem.h"

/* 1 - requested / allocated: what rounding and headers take inside blocks. */
double bn_fragment_internal(uint64_t requested, uint64_t allocated);
/* 1 - largest free block / all that is free: free memory that no single request can have. */
double bn_fragment_external(uint64_t largest_free, uint64_t total_free);
/* resident / live - 1: what the process holds beyond what it uses. */
double bn_fragment_resident(uint64_t resident, uint64_t live);

/* Live blocks and free ones of glibc's heap, from its own account. */
struct bn_heap {
    uint64_t allocated, free_bytes, largest_free;
};
/* False where the allocator is not glibc's. */
bool bn_heap_read(struct bn_heap *out);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The allocator. A header of 16 bytes before each block has its size, so that the counters are exact. They and the test
 * switches are state of the process.
 */
#define _GNU_SOURCE /* MADV_HUGEPAGE */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"

static atomic_uint_fast64_t n_allocations, n_total, n_now, n_peak, n_guard_hits, fail_after;
static atomic_bool guard_up;

static bool allowed(void)
{
    if (atomic_load_explicit(&guard_up, memory_order_relaxed)) {
        atomic_fetch_add(&n_guard_hits, 1);
        return false;
    }
    if (atomic_load_explicit(&fail_after, memory_order_relaxed) == 0) return true;
    return atomic_fetch_sub(&fail_after, 1) != 1;
}

static void count(size_t n)
{
    atomic_fetch_add(&n_allocations, 1);
    atomic_fetch_add(&n_total, n);
    uint_fast64_t now = atomic_fetch_add(&n_now, n) + n;
    uint_fast64_t peak = atomic_load(&n_peak);
    while (now > peak && !atomic_compare_exchange_weak(&n_peak, &peak, now)) {
    }
}

/* Before each block, and as long as calloc's blocks are aligned, so that bn_alloc's are aligned alike. */
struct header {
    uint64_t bytes;
    uint64_t skipped; /* from what calloc gave to the block */
};
#define CALLOC_ALIGNMENT 16u
_Static_assert(sizeof(struct header) == CALLOC_ALIGNMENT, "a block follows its header");

static struct header *header_of(const void *p)
{
    return (struct header *)((uintptr_t)p - sizeof(struct header));
}

/* calloc, so that large blocks are fresh pages which cost nothing until they are touched. */
static void *allocate(size_t n, size_t each, size_t alignment)
{
    uint64_t bytes, whole;
    if (!bn_mul_ok(n, each, &bytes) || !bn_add_ok(bytes, alignment, &whole)) return NULL;
    if (whole > SIZE_MAX / 2 || !allowed()) return NULL;
    unsigned char *start = calloc(1, (size_t)whole);
    if (start == NULL) return NULL;
    uint64_t skipped = alignment - (uintptr_t)start % alignment;
    unsigned char *block = start + skipped;
    *header_of(block) = (struct header){bytes, skipped};
    count((size_t)bytes);
    return block;
}

void *bn_alloc(size_t n, size_t each)
{
    return allocate(n, each, CALLOC_ALIGNMENT);
}

void *bn_alloc_aligned(size_t n, size_t each)
{
    return allocate(n, each, BN_ALIGNMENT);
}

void bn_free(void *p)
{
    if (p == NULL) return;
    atomic_fetch_sub(&n_now, header_of(p)->bytes);
    free((unsigned char *)p - header_of(p)->skipped);
}

void *bn_realloc(void *p, size_t n, size_t each)
{
    void *fresh = bn_alloc(n, each);
    if (fresh == NULL || p == NULL) return fresh;
    uint64_t old = header_of(p)->bytes, now = header_of(fresh)->bytes;
    memcpy(fresh, p, (size_t)(old < now ? old : now));
    bn_free(p);
    return fresh;
}

bn_status bn_array_grow(void *list, size_t *room, size_t n, size_t each, bn_error *err)
{
    void *block;
    if (n <= *room) return BN_OK;
    size_t wider = *room < 8 ? 16 : 2 * *room;
    if (wider < n) wider = n;
    memcpy(&block, list, sizeof block);
    block = bn_realloc(block, wider, each);
    if (block == NULL) return bn_nomem(err);
    memcpy(list, &block, sizeof block);
    *room = wider;
    return BN_OK;
}

uint64_t bn_mem_size(const void *p)
{
    return p != NULL ? header_of(p)->bytes : 0;
}

#define HUGE_PAGE_BYTES ((uintptr_t)2 << 20)

void bn_mem_advise_huge(void *p, size_t n_bytes)
{
#ifdef MADV_HUGEPAGE
    uintptr_t from = ((uintptr_t)p + HUGE_PAGE_BYTES - 1) & ~(HUGE_PAGE_BYTES - 1);
    uintptr_t to = ((uintptr_t)p + n_bytes) & ~(HUGE_PAGE_BYTES - 1);
    if (from < to) (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
#else
    (void)p, (void)n_bytes;
#endif
}

char *bn_strndup(const char *text, size_t n)
{
    char *copy = bn_alloc(n + 1, 1);
    if (copy != NULL && n > 0) memcpy(copy, text, n);
    return copy;
}

struct bn_mem_stats bn_mem_stats(void)
{
    return (struct bn_mem_stats){n_allocations, n_total, n_now, n_peak};
}

void bn_mem_guard(bool up)
{
    atomic_store(&guard_up, up);
}

uint64_t bn_mem_guard_hits(void)
{
    return n_guard_hits;
}

void bn_mem_fail_after(uint64_t n)
{
    atomic_store(&fail_after, n);
}

/* SPDX-License-Identifier: MIT
 *
 * Memory: checked sizes, one allocator that counts, and a guard for code that must not allocate.
 *
 * All allocations of the engine come through here, sizes by the checked functions, so that a count from a
 * file can never wrap. Tests read the counters, forbid allocation in the token loop, and make the n-th one
 * fail.
 */
#ifndef BN_BASE_MEM_H
#define BN_BASE_MEM_H

#include "bn.h"

#define BN_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define BN_ALIGNMENT 64u /* of what bn_alloc_aligned returns: a cache line, a zmm register */

static inline bool bn_mul_ok(uint64_t a, uint64_t b, uint64_t *r)
{
    return !__builtin_mul_overflow(a, b, r);
}
static inline bool bn_add_ok(uint64_t a, uint64_t b, uint64_t *r)
{
    return !__builtin_add_overflow(a, b, r);
}
/* Rounds x up to a multiple of the power of two a; false when that does not fit. */
static inline bool bn_round_up_ok(uint64_t x, uint64_t a, uint64_t *r)
{
    if (!bn_add_ok(x, a - 1, r)) return false;
    *r &= ~(a - 1);
    return true;
}
static inline size_t bn_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* n * each bytes, aligned as malloc's, zeroed; NULL when memory is short or the product wraps. Zero bytes
 * give a valid pointer. */
void *bn_alloc(size_t n, size_t each);
/* The same, aligned to BN_ALIGNMENT: for weights, activations, caches, and types that ask for it. */
void *bn_alloc_aligned(size_t n, size_t each);
/* The block grown or shrunk to n * each bytes; new bytes are not zeroed, and the alignment is bn_alloc's. The
 * old block stays on failure. */
void *bn_realloc(void *p, size_t n, size_t each);
/* Makes room for n elements of `each` bytes in the block that *list points to, which has room for *room. list
 * is the address of a pointer. New elements are not zeroed; on failure nothing changes. */
BN_MUST_CHECK bn_status bn_array_grow(void *list, size_t *room, size_t n, size_t each, bn_error *err);
/* What was asked for when this block was given; 0 for NULL. */
uint64_t bn_mem_size(const void *p);
/* Asks for huge pages for a fresh block that will be filled from end to end; advice, no more. */
void bn_mem_advise_huge(void *p, size_t n_bytes);
/* A copy of n bytes and a NUL. */
char *bn_strndup(const char *text, size_t n);

/* Counters over the whole process, for tests and receipts. */
struct bn_mem_stats {
    uint64_t allocations; /* calls that gave memory */
    uint64_t bytes_total; /* sum of all sizes ever given */
    uint64_t bytes_now;
};
struct bn_mem_stats bn_mem_stats(void);

/* Bytes that this process can still take without making the system swap or kill: see mem.c. The page cache, and
 * with it a mapped file, counts as available. UINT64_MAX: unknown. */
uint64_t bn_mem_available(void);
/* What the process may use in all; 0: what the system allows. */
void bn_mem_set_budget(uint64_t n_bytes);

/* Test switches. While the guard is up, every allocation fails and is counted. */
void bn_mem_guard(bool up);
uint64_t bn_mem_guard_hits(void);
/* The n-th allocation from now fails (1: the next one); 0 turns it off. */
void bn_mem_fail_after(uint64_t n);

#endif

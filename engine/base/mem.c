/* SPDX-License-Identifier: MIT
 *
 * The allocator. A header of 16 bytes before each block has its size, so that the counters are exact. They and the test
 * switches are state of the process.
 */
#define _GNU_SOURCE /* MADV_HUGEPAGE */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"

static atomic_uint_fast64_t n_allocations, n_total, n_now, n_guard_hits, fail_after;
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
    atomic_fetch_add(&n_now, n);
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

/* calloc: large blocks are fresh pages, free until touched. An empty one has a byte, where leak checkers find its pointer. */
static void *allocate(size_t n, size_t each, size_t alignment)
{
    uint64_t bytes, whole;
    if (!bn_mul_ok(n, each, &bytes) || !bn_add_ok(bytes, alignment, &whole)) return NULL;
    if (whole > SIZE_MAX / 2 || !allowed()) return NULL;
    unsigned char *start = calloc(1, (size_t)whole + (bytes == 0));
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
    return (struct bn_mem_stats){n_allocations, n_total, n_now};
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

/* ---- how much is left: the least of what the system has (MemAvailable, which counts the page cache as available), what its
 * control groups of either version allow, and what the user allows ---- */

#define PATH_ROOM 600u

static atomic_uint_fast64_t budget; /* of the whole process */

void bn_mem_set_budget(uint64_t n_bytes)
{
    atomic_store(&budget, n_bytes);
}

/* The number after the first `key` of a file; an empty key: the first number. False when it has none, as "max". */
static bool number_in(const char *path, const char *key, uint64_t *out)
{
    char line[256];
    bool found = false;
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        char *end, *at = line + strlen(key);
        if (strncmp(line, key, strlen(key)) != 0) continue;
        *out = strtoull(at, &end, 10);
        found = end != at;
    }
    fclose(file);
    return found;
}

/* What a control group leaves: its limit less its use, of which the page cache can be given back. */
static uint64_t left_in(const char *limit, const char *used, const char *stat, const char *cache)
{
    uint64_t most, now = 0, reclaimable = 0;
    if (!number_in(limit, "", &most) || !number_in(used, "", &now)) return UINT64_MAX;
    if (number_in(stat, cache, &reclaimable)) now = now > reclaimable ? now - reclaimable : 0;
    return most > now ? most - now : 0;
}

static uint64_t left_in_group(const char *folder, bool second)
{
    char limit[PATH_ROOM + 32], used[PATH_ROOM + 32], stat[PATH_ROOM + 32];
    snprintf(limit, sizeof limit, "%s/%s", folder, second ? "memory.max" : "memory.limit_in_bytes");
    snprintf(used, sizeof used, "%s/%s", folder, second ? "memory.current" : "memory.usage_in_bytes");
    snprintf(stat, sizeof stat, "%s/memory.stat", folder);
    return left_in(limit, used, stat, second ? "file " : "total_cache ");
}

/* A limit applies to all groups below. The lines are "0::/path" (version 2) and "4:memory:/path" (version 1). */
static uint64_t left_in_groups(void)
{
    char line[400], folder[PATH_ROOM];
    uint64_t least = UINT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        bool second = strncmp(line, "0::", 3) == 0;
        char *path = strstr(line, second ? "::" : ":memory:");
        if (path == NULL) continue;
        path = strchr(path + 1, ':') + 1;
        path[strcspn(path, "\n")] = '\0';
        for (char *end = path + strlen(path);; end--) {
            if (end > path && *end != '\0' && *end != '/') continue;
            *end = '\0';
            snprintf(folder, sizeof folder, "/sys/fs/cgroup%s%s", second ? "" : "/memory", path);
            uint64_t left = left_in_group(folder, second);
            if (left < least) least = left;
            if (end == path) break;
        }
    }
    if (file != NULL) fclose(file);
    return least;
}

uint64_t bn_mem_available(void)
{
    uint64_t least = left_in_groups(), system = 0, allowed = atomic_load(&budget);
    uint64_t own = bn_mem_stats().bytes_now;
    if (number_in("/proc/meminfo", "MemAvailable:", &system) && system * 1024 < least) least = system * 1024;
    if (allowed == 0) return least;
    uint64_t left = allowed > own ? allowed - own : 0;
    return left < least ? left : least;
}

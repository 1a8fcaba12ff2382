/* SPDX-License-Identifier: MIT
 *
 * See reserve.h. The reserve lies in zeroed pages of the program, which cost nothing until they are touched.
 * The size of a block of the reserve is in the bytes before it.
 */
#include "base/reserve.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define RESERVE_BYTES ((size_t)2 << 20)
#define ALIGNMENT 16u

static _Alignas(ALIGNMENT) unsigned char reserve[RESERVE_BYTES];
static atomic_size_t used;

static bool is_reserve(const void *p)
{
    return (uintptr_t)p >= (uintptr_t)reserve && (uintptr_t)p < (uintptr_t)reserve + sizeof reserve;
}

static void *take(size_t n)
{
    if (n > RESERVE_BYTES / 2) return NULL;
    size_t whole = ALIGNMENT + (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t at = atomic_fetch_add(&used, whole);
    if (at > RESERVE_BYTES - whole) {
        atomic_fetch_sub(&used, whole);
        return NULL;
    }
    memcpy(reserve + at, &n, sizeof n);
    return reserve + at + ALIGNMENT;
}

static size_t size_of(void *p)
{
    size_t n;
    if (!is_reserve(p)) return malloc_usable_size(p);
    memcpy(&n, (unsigned char *)p - ALIGNMENT, sizeof n);
    return n;
}

void *bn_reserve_alloc(size_t n)
{
    void *p = malloc(n);
    if (p == NULL) p = take(n);
    return p;
}

void bn_reserve_free(void *p)
{
    if (!is_reserve(p)) free(p);
}

void *bn_reserve_realloc(void *p, size_t n)
{
    if (p == NULL) return bn_reserve_alloc(n);
    bool ours = is_reserve(p);
    void *fresh = ours ? bn_reserve_alloc(n) : realloc(p, n);
    if (fresh != NULL && !ours) return fresh;
    if (!ours) fresh = take(n);
    if (fresh == NULL) return NULL;
    size_t old = size_of(p);
    memcpy(fresh, p, old < n ? old : n);
    bn_reserve_free(p);
    return fresh;
}

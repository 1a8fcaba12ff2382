/* SPDX-License-Identifier: MIT
 *
 * Memory of libcrypto. libcrypto 3.0 follows NULL pointers when an allocation fails while it starts or searches for an
 * algorithm, and it reports a signature that it could not check for lack of memory as a wrong one. So a program gives it
 * malloc's blocks, and, when malloc has none, blocks of a reserve: zeroed pages of the program, which take no memory until
 * they are touched. A block of the reserve has its size in the bytes before it, and is not used again. Only a program may
 * do this: a library would change the allocator of somebody else's OpenSSL.
 */
#include <malloc.h>
#include <openssl/crypto.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/program/help.h"

#define RESERVE_BYTES ((size_t)2 << 20)
#define RESERVE_ALIGNMENT 16u

static _Alignas(RESERVE_ALIGNMENT) unsigned char reserve[RESERVE_BYTES];
static atomic_size_t reserve_used;

static bool is_reserve(const void *p)
{
    return (uintptr_t)p >= (uintptr_t)reserve && (uintptr_t)p < (uintptr_t)reserve + sizeof reserve;
}

static void *take_reserve(size_t n)
{
    if (n > RESERVE_BYTES / 2) return NULL;
    size_t whole = RESERVE_ALIGNMENT + (n + RESERVE_ALIGNMENT - 1) / RESERVE_ALIGNMENT * RESERVE_ALIGNMENT;
    size_t at = atomic_fetch_add(&reserve_used, whole);
    if (at > RESERVE_BYTES - whole) {
        atomic_fetch_sub(&reserve_used, whole);
        return NULL;
    }
    memcpy(reserve + at, &n, sizeof n);
    return reserve + at + RESERVE_ALIGNMENT;
}

static void *take(size_t n, const char *file, int line)
{
    (void)file, (void)line;
    void *p = n > 0 ? malloc(n) : NULL;
    return p == NULL && n > 0 ? take_reserve(n) : p;
}

static void give(void *p, const char *file, int line)
{
    (void)file, (void)line;
    if (!is_reserve(p)) free(p);
}

static void *retake(void *p, size_t n, const char *file, int line)
{
    void *fresh = take(n, file, line);
    size_t old = 0;
    if (p == NULL || (fresh == NULL && n > 0)) return fresh;
    if (is_reserve(p))
        memcpy(&old, (unsigned char *)p - RESERVE_ALIGNMENT, sizeof old);
    else
        old = malloc_usable_size(p);
    if (n > 0) memcpy(fresh, p, old < n ? old : n);
    give(p, file, line);
    return fresh;
}

void bn_crypto_reserve(void)
{
    /* Refused, without harm, when libcrypto has allocated already. */
    (void)CRYPTO_set_mem_functions(take, retake, give);
}

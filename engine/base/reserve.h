/* SPDX-License-Identifier: MIT
 *
 * Memory for libraries that do not survive a failed allocation: malloc's, and a reserve of 2 MiB when malloc
 * has none. Only for them: what this project allocates comes from bn_alloc, and its failure is an error.
 */
#ifndef BN_BASE_RESERVE_H
#define BN_BASE_RESERVE_H

#include <stddef.h>

/* Like malloc, realloc and free; NULL when the reserve is spent too. Freed blocks of the reserve are not used
 * again. */
void *bn_reserve_alloc(size_t n);
void *bn_reserve_realloc(void *p, size_t n);
void bn_reserve_free(void *p);

#endif

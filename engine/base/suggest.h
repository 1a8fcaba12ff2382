/* SPDX-License-Identifier: MIT
 *
 * "did you mean": the distance of two words, and whether it is small enough for a typing error.
 */
#ifndef BN_BASE_SUGGEST_H
#define BN_BASE_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>

/* Insertions, deletions, changes and swaps of neighbours that turn a into b; case counts. Words longer than
 * BN_SUGGEST_MAX are BN_SUGGEST_MAX apart. */
#define BN_SUGGEST_MAX 64u
size_t bn_edit_distance(const char *a, const char *b);

/* Keeps the best of several candidates: start with {.typed = word}, offer each, then best is one that is near
 * enough, or NULL. */
struct bn_suggestion {
    const char *typed;
    const char *best;
    size_t distance;
};
void bn_suggest(struct bn_suggestion *s, const char *candidate);

#endif

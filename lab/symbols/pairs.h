/* SPDX-License-Identifier: MIT
 *
 * Maps two numbers to a third: an open hash table that only grows.
 */
#ifndef BN_SYMBOLS_PAIRS_H
#define BN_SYMBOLS_PAIRS_H

#include "base/error.h"
#include "base/mem.h"

struct bn_pairs_entry {
    uint64_t a, b;
    uint32_t value; /* + 1; 0: free */
};

/* Zeroed, it is empty. */
struct bn_pairs {
    struct bn_pairs_entry *slots;
    size_t room, n; /* room is a power of two */
};

#define BN_PAIRS_NONE UINT32_MAX

static inline struct bn_pairs_entry *bn_pairs_slot(struct bn_pairs_entry *slots, size_t room, uint64_t a,
                                                   uint64_t b)
{
    uint64_t h = (a ^ (b * UINT64_C(0xC2B2AE3D27D4EB4F))) * UINT64_C(0x9E3779B97F4A7C15);
    size_t i = (size_t)(h ^ (h >> 29)) & (room - 1);
    while (slots[i].value != 0 && (slots[i].a != a || slots[i].b != b))
        i = (i + 1) & (room - 1);
    return &slots[i];
}

/* BN_PAIRS_NONE when it is not there. */
static inline uint32_t bn_pairs_find(const struct bn_pairs *pairs, uint64_t a, uint64_t b)
{
    return pairs->room == 0 ? BN_PAIRS_NONE : bn_pairs_slot(pairs->slots, pairs->room, a, b)->value - 1;
}

/* Puts a value, which may not be BN_PAIRS_NONE, in place of the one that is there. */
static inline bn_status bn_pairs_put(struct bn_pairs *pairs, uint64_t a, uint64_t b, uint32_t value,
                                     bn_error *err)
{
    if (2 * (pairs->n + 1) > pairs->room) {
        size_t room = pairs->room == 0 ? 256 : 2 * pairs->room;
        struct bn_pairs_entry *slots = bn_alloc(room, sizeof *slots);
        if (slots == NULL) return bn_nomem(err);
        for (size_t i = 0; i < pairs->room; i++)
            if (pairs->slots[i].value != 0)
                *bn_pairs_slot(slots, room, pairs->slots[i].a, pairs->slots[i].b) = pairs->slots[i];
        bn_free(pairs->slots);
        pairs->slots = slots;
        pairs->room = room;
    }
    struct bn_pairs_entry *slot = bn_pairs_slot(pairs->slots, pairs->room, a, b);
    if (slot->value == 0) pairs->n++;
    *slot = (struct bn_pairs_entry){a, b, value + 1};
    return BN_OK;
}

#endif

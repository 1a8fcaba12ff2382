/* SPDX-License-Identifier: MIT
 *
 * What each implementation of struct bn_ranks must do: messages of many sizes and in all directions, filled with bytes
 * that depend on sender and position.
 */
#ifndef BN_TESTS_RANKS_CHECKS_H
#define BN_TESTS_RANKS_CHECKS_H

#include <stdbool.h>
#include <stdlib.h>

#include "base/ranks.h"

static inline unsigned char ranks_byte(unsigned sender, size_t i)
{
    return (unsigned char)(i * 31 + i / 251 + sender * 101 + 7);
}

static inline bool ranks_holds(const unsigned char *data, size_t n, unsigned sender)
{
    for (size_t i = 0; i < n; i++)
        if (data[i] != ranks_byte(sender, i)) return false;
    return true;
}

static inline void ranks_fill(unsigned char *data, size_t n, unsigned sender)
{
    for (size_t i = 0; i < n; i++)
        data[i] = ranks_byte(sender, i);
}

/* Pieces of different lengths, some of them empty. */
static inline bool ranks_gather_works(const struct bn_ranks *r, size_t n)
{
    size_t *edges = calloc(r->count + 1, sizeof *edges);
    for (unsigned i = 0; i < r->count; i++)
        edges[i + 1] = edges[i] + (i % 3 == 1 ? 0 : n + i);
    unsigned char *data = calloc(edges[r->count] + 1, 1);
    ranks_fill(data + edges[r->index], edges[r->index + 1] - edges[r->index], r->index);
    bn_error err = {0};
    bool good = r->gather(r->context, data, edges, &err) == BN_OK;
    for (unsigned i = 0; i < r->count; i++)
        good = good && ranks_holds(data + edges[i], edges[i + 1] - edges[i], i);
    free(data);
    free(edges);
    return good;
}

/* With every other rank once; pairs are the same for both of them. */
static inline bool ranks_exchange_works(const struct bn_ranks *r, size_t n)
{
    unsigned char *sent = calloc(n + 1, 1), *received = calloc(n + 1, 1);
    bool good = true;
    bn_error err = {0};
    ranks_fill(sent, n, r->index);
    for (unsigned round = 0; round < r->count && good; round++) {
        unsigned peer = (round + r->count - r->index) % r->count;
        if (peer == r->index) continue;
        good =
            r->exchange(r->context, peer, sent, received, n, &err) == BN_OK && ranks_holds(received, n, peer);
    }
    free(sent);
    free(received);
    return good;
}

static inline bool ranks_broadcast_works(const struct bn_ranks *r, size_t n)
{
    unsigned char *data = calloc(n + 1, 1);
    bool good = true;
    bn_error err = {0};
    for (unsigned root = 0; root < r->count && good; root++) {
        ranks_fill(data, n, r->index);
        good = r->broadcast(r->context, root, data, n, &err) == BN_OK && ranks_holds(data, n, root);
    }
    free(data);
    return good;
}

/* The name of the first call that is wrong; NULL: all are right. */
static inline const char *ranks_check(const struct bn_ranks *r)
{
    static const size_t SIZES[] = {0, 1, 8, 4095, 4097, 100000, 3000001};
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) {
        if (!ranks_gather_works(r, SIZES[i])) return "gather";
        if (!ranks_exchange_works(r, SIZES[i])) return "exchange";
        if (!ranks_broadcast_works(r, SIZES[i])) return "broadcast";
    }
    return NULL;
}

#endif

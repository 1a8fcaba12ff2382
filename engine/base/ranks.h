/* SPDX-License-Identifier: MIT
 *
 * The ranks of a run: processes that work on one task together, on one machine or several. This is the
 * interface only. mpi/ implements it with MPI; tests implement it with threads (tests/unit/ranks.h).
 *
 * Every rank makes the same calls in the same order, from one thread. Data are bytes: no operation here adds
 * or converts numbers, so results do not depend on how the messages travel.
 */
#ifndef BN_BASE_RANKS_H
#define BN_BASE_RANKS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* What a rank has sent and received so far, and for how long it was in these calls. */
struct bn_ranks_traffic {
    uint64_t bytes_sent, bytes_received, messages_sent;
    uint64_t ns; /* moving data and waiting for other ranks */
};

struct bn_ranks {
    unsigned index, count; /* this rank, 0 to count - 1; a program that runs alone is 0 of 1 */
    void *context;         /* the implementation's */
    const struct bn_ranks_traffic *traffic; /* NULL: not counted */
    /* Every rank gets all pieces: bytes edges[i] to edges[i + 1] of data come from rank i, whose own piece is
     * in place already. edges has count + 1 values and is equal on all ranks. */
    bn_status (*gather)(void *context, void *data, const size_t *edges, bn_error *err);
    /* n bytes go to the rank peer and n others come from it; peer makes the same call for this rank. */
    bn_status (*exchange)(void *context, unsigned peer, const void *send, void *receive, size_t n,
                          bn_error *err);
    /* n bytes of the rank root come to all others. */
    bn_status (*broadcast)(void *context, unsigned root, void *data, size_t n, bn_error *err);
    /* Ends all ranks now, with this exit code: for a rank that cannot go on. It does not return. */
    void (*abort)(void *context, int code);
};

#endif

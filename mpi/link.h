/* SPDX-License-Identifier: MIT
 *
 * The state of a rank, shared by the calls (ranks.c) and the heartbeats (heartbeat.c).
 */
#ifndef BN_MPI_LINK_H
#define BN_MPI_LINK_H

#include <pthread.h>
#include <stdbool.h>

#include "base/ranks.h"
#include "mpi/plugin.h"

enum { BN_TAG_DATA = 1, BN_TAG_HEARTBEAT = 2 };

/* Bytes to and from a rank, a part of a call. */
struct bn_mpi_piece {
    unsigned peer;
    const char *send;
    char *receive;
    size_t n_send, n_receive;
};

struct bn_mpi_heartbeat {
    uint64_t silence_ns; /* 0: none */
    pthread_t thread;
    bool running;
    pthread_cond_t wake;
    bool ending; /* under the lock */
    int (*lost)(const bn_error *err);
};

struct bn_mpi {
    const struct bn_mpi_plugin *plugin;
    void *library;
    unsigned index, count;
    pthread_mutex_t lock;        /* of the plug-in */
    uint64_t timeout_ns;         /* 0: none */
    struct bn_mpi_piece *pieces; /* of a call; one for each rank */
    struct bn_ranks_traffic traffic;
    struct bn_mpi_heartbeat heartbeat;
};

/* Sends heartbeats and listens to them, until bn_mpi_heartbeat_end. */
BN_MUST_CHECK bn_status bn_mpi_heartbeat_begin(struct bn_mpi *m, bn_error *err);
/* When all ranks have come to their end. */
void bn_mpi_heartbeat_end(struct bn_mpi *m);

#endif

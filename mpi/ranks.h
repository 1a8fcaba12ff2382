/* SPDX-License-Identifier: MIT
 *
 * Joins the ranks that mpirun started. A program that was started alone is rank 0 of 1 and loads nothing; under mpirun
 * it loads bn-mpi.so, which is next to the program or in ../lib/bn.
 *
 * MPI itself waits for ever for a rank that is stopped. Here each rank sends a heartbeat to the next one twice a second,
 * by a thread of its own, also while it computes. A rank whose predecessor is silent for BN_RANK_SILENCE seconds [7]
 * ends all ranks. A rank that is alive but does not come to its next call is given BN_RANK_TIMEOUT seconds [600]; then
 * the call fails. 0 turns a limit off.
 */
#ifndef BN_MPI_RANKS_H
#define BN_MPI_RANKS_H

#include "base/ranks.h"

/* The number of processes that mpirun reports in the environment; 0: it started none, or does not report it. */
unsigned bn_ranks_told(void);
/* Which of them this one is; 0 without mpirun. */
unsigned bn_ranks_told_index(void);
/* BN_ERR_UNSUPPORTED when mpirun started this process as one of several and bn-mpi.so cannot be loaded.
 * lost: called by another thread when a rank is silent; it reports the error and returns the exit code by which all
 * ranks end. Calls fail with BN_ERR_NETWORK. */
BN_MUST_CHECK bn_status bn_ranks_open(struct bn_ranks *ranks, int (*lost)(const bn_error *err),
                                      bn_error *err);
/* Waits for the others and leaves. A rank that failed calls abort instead. Nothing for a program that runs alone. */
void bn_ranks_close(struct bn_ranks *ranks);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Programs that mpirun starts: joining the ranks, and ending all of them when one fails.
 */
#ifndef BN_CLI_RANKS_H
#define BN_CLI_RANKS_H

#include "base/ranks.h"

/* bn_ranks_open of mpi/ranks.h. A rank that falls silent ends all ranks with a message and exit code 6. */
BN_MUST_CHECK bn_status bn_cli_ranks_open(struct bn_ranks *ranks, bn_error *err);
/* The end of the work. After a success, waits for the other ranks and leaves. After a failure, a run of several ranks
 * ends here: the error is printed, and all ranks end with its exit code. Returns the status. */
bn_status bn_cli_ranks_close(struct bn_ranks *ranks, bn_status status, bn_error *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Programs that mpirun starts: joining the ranks, and ending all of them when one fails.
 */
#ifndef BN_CLI_RANKS_H
#define BN_CLI_RANKS_H

#include "base/ranks.h"
#include "infer/session.h"
#include "tools/cli/options.h"

/* bn_ranks_open of mpi/ranks.h. A rank that falls silent ends all ranks with a message and exit code 6. */
BN_MUST_CHECK bn_status bn_cli_ranks_open(struct bn_ranks *ranks, bn_error *err);
/* The end of the work. After a success, waits for the other ranks and leaves. After a failure, a run of several ranks
 * ends here: the error is printed, and all ranks end with its exit code. Returns the status. */
bn_status bn_cli_ranks_close(struct bn_ranks *ranks, bn_status status, bn_error *err);

/* Threads of a rank: `asked`, or when that is 0 its part of the cores that it shares with other ranks of its machine.
 * A rank that mpirun bound to some cores takes these. */
unsigned bn_cli_ranks_threads(unsigned asked);

/* Runs a command that has `follow`: on the first rank its run, on the others its follow, which open the same model and
 * agree. A command that ends before that tells the others, so that all end with its error. */
BN_MUST_CHECK bn_status bn_cli_run_divided(struct bn_args *args, bn_error *err);
/* The ranks of such a command; NULL when it runs alone. */
const struct bn_ranks *bn_cli_ranks(void);
/* bn_session_agree; BN_OK for a command that runs alone and could open its session. */
BN_MUST_CHECK bn_status bn_cli_agree(const bn_session *session, bn_status status, bn_error *err);
/* BN_ERR_ARG when mpirun started several processes: for what does not divide its work. */
BN_MUST_CHECK bn_status bn_cli_refuse_ranks(const struct bn_args *args, bn_error *err);

#endif

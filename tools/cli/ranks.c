/* SPDX-License-Identifier: MIT
 *
 * Reports failures of ranks; see ranks.h.
 */
#define _POSIX_C_SOURCE 200809L
#include "tools/cli/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/team.h"
#include "infer/exchange.h"
#include "mpi/ranks.h"
#include "tools/cli/report.h"

bn_status bn_cli_ranks_open(struct bn_ranks *ranks, bn_error *err)
{
    return bn_ranks_open(ranks, bn_report_error, err);
}

bn_status bn_cli_ranks_close(struct bn_ranks *ranks, bn_status status, bn_error *err)
{
    if (status != BN_OK && ranks->count > 1) {
        /* When all ranks fail for the same reason, one message is enough. */
        const struct timespec moment = {.tv_nsec = 500000000};
        char where[32];
        if (ranks->index != 0) {
            nanosleep(&moment, NULL);
            snprintf(where, sizeof where, "rank %u", ranks->index);
            bn_error_name(err, where);
        }
        int code = bn_report_error(err);
        fflush(NULL);
        ranks->abort(ranks->context, code);
    }
    bn_ranks_close(ranks);
    return status;
}

unsigned bn_cli_ranks_threads(unsigned asked)
{
    static const char *const NEIGHBOURS[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"};
    unsigned long cores = bn_team_cores(), n = 1;
    if (asked != 0) return asked;
    for (size_t i = 0; i < BN_ARRAY_LEN(NEIGHBOURS) && n == 1; i++) {
        const char *value = getenv(NEIGHBOURS[i]);
        if (value != NULL) n = strtoul(value, NULL, 10);
    }
    bool bound = cores < (unsigned long)sysconf(_SC_NPROCESSORS_ONLN);
    return bound || n <= 1 ? (unsigned)cores : n < cores ? (unsigned)(cores / n) : 1;
}

/* ---- commands that lead the other ranks ---- */

static struct bn_ranks joined; /* of the command that runs; count 0: none */
static bool agreed;

const struct bn_ranks *bn_cli_ranks(void)
{
    return joined.count > 1 ? &joined : NULL;
}

bn_status bn_cli_agree(const bn_session *session, bn_status status, bn_error *err)
{
    if (bn_cli_ranks() == NULL) return status;
    agreed = true;
    return bn_session_agree(&joined, session, status, err);
}

bn_status bn_cli_run_divided(struct bn_args *args, bn_error *err)
{
    agreed = false;
    BN_TRY(bn_cli_ranks_open(&joined, err));
    bn_status status = (joined.index == 0 ? args->command->run : args->command->follow)(args, err);
    if (bn_cli_ranks() != NULL && !agreed) {
        bn_error ended = {.code = BN_ERR_CANCELLED};
        bn_status other =
            bn_cli_agree(NULL, status != BN_OK ? status : BN_ERR_CANCELLED, status != BN_OK ? err : &ended);
        if (status != BN_OK) status = other;
    }
    return bn_cli_ranks_close(&joined, status, err);
}

bn_status bn_cli_refuse_ranks(const struct bn_args *args, bn_error *err)
{
    const char *command = args->command->name;
    if (bn_ranks_told() < 2) return BN_OK;
    return bn_hint(bn_fail(err, BN_ERR_ARG, "mpirun started %u copies, and %s%s%s does not divide its work",
                           bn_ranks_told(), args->program->name, command[0] != '\0' ? " " : "", command),
                   err, "run it without mpirun");
}

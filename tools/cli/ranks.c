/* SPDX-License-Identifier: MIT
 *
 * Reports failures of ranks; see ranks.h.
 */
#define _POSIX_C_SOURCE 200809L
#include "tools/cli/ranks.h"

#include <stdio.h>
#include <time.h>

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

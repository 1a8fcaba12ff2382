/* SPDX-License-Identifier: MIT
 *
 * A program for mpirun, for tests/cli/ranks.sh: it makes all calls, or it has a fault that the other ranks must survive
 * with a message.
 *
 *   ranks check            every call with many sizes; rank 0 prints "good" and the number of ranks
 *   ranks die|stop|hang    the last rank ends by SIGKILL, stops (SIGSTOP), or stays away; the others wait for it
 *   ranks fail             the last rank fails as a tool does
 *   ranks time BYTES       nanoseconds of a gather of BYTES by all ranks together, best and median of many
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/mpi/checks.h"
#include "tools/cli/ranks.h"
#include "tools/cli/report.h"

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bn_status time_gather(const struct bn_ranks *r, size_t n, bn_error *err)
{
    static uint64_t ns[2001];
    size_t n_times = n < 200000 ? 2001 : 51, *edges = calloc(r->count + 1, sizeof *edges);
    char *data = calloc(n + 1, 1);
    for (unsigned i = 0; i <= r->count; i++)
        edges[i] = n * i / r->count;
    for (size_t i = 0; i < n_times; i++) {
        uint64_t begin = bn_clock_ns();
        BN_TRY(r->gather(r->context, data, edges, err));
        ns[i] = bn_clock_ns() - begin;
    }
    qsort(ns, n_times, sizeof ns[0], compare);
    if (r->index == 0)
        printf("%zu bytes, %u ranks: %.1f us best, %.1f us median\n", n, r->count, (double)ns[0] * 1e-3,
               (double)ns[n_times / 2] * 1e-3);
    free(data);
    free(edges);
    return BN_OK;
}

static void misbehave(const char *how)
{
    if (strcmp(how, "die") == 0) raise(SIGKILL);
    if (strcmp(how, "stop") == 0) raise(SIGSTOP);
    /* Its heartbeats go on. */
    if (strcmp(how, "hang") == 0)
        for (;;)
            pause();
}

static bn_status run(const struct bn_ranks *r, int argc, char **argv, bn_error *err)
{
    const char *what = argc > 1 ? argv[1] : "check";
    if (strcmp(what, "time") == 0 && r->count > 1)
        return time_gather(r, argc > 2 ? strtoul(argv[2], NULL, 10) : 0, err);
    if (strcmp(what, "check") == 0) {
        const char *wrong = r->count > 1 ? ranks_check(r) : NULL;
        if (wrong != NULL) return bn_fail(err, BN_ERR_MISMATCH, "%s moves wrong bytes", wrong);
        if (r->index == 0) printf("good: %u ranks\n", r->count);
        return BN_OK;
    }
    if (r->index + 1 == r->count) {
        if (strcmp(what, "fail") == 0) return bn_fail(err, BN_ERR_INTEGRITY, "a planted fault");
        misbehave(what);
    }
    char byte = 0;
    return r->broadcast(r->context, r->count - 1, &byte, 1, err);
}

int main(int argc, char **argv)
{
    struct bn_ranks ranks;
    bn_error err = {0};
    bn_report_start("ranks");
    bn_status status = bn_cli_ranks_open(&ranks, &err);
    if (status == BN_OK) status = bn_cli_ranks_close(&ranks, run(&ranks, argc, argv, &err), &err);
    return bn_report_finish(status == BN_OK ? 0 : bn_report_error(&err));
}

/* SPDX-License-Identifier: MIT
 *
 * bn-mpi.so, the only file that includes mpi.h. Programs load it when mpirun started them, so they do not depend on an
 * MPI library. It uses nothing of libbn.a.
 */
#include "mpi/plugin.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static MPI_Request *slots;
static int last = MPI_SUCCESS;

static int failed(int code)
{
    last = code;
    return -1;
}

static void describe(int code, char error[BN_MPI_ERROR_BYTES])
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    MPI_Error_string(code, text, &n);
    snprintf(error, BN_MPI_ERROR_BYTES, "%.200s", text);
}

static int start(unsigned *index, unsigned *count, int *threads, char error[BN_MPI_ERROR_BYTES])
{
    int provided, rank = 0, size = 1;
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    if (code != MPI_SUCCESS) {
        describe(code, error);
        return -1;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    *index = (unsigned)rank;
    *count = (unsigned)size;
    *threads = provided >= MPI_THREAD_SERIALIZED;
    size_t n = 2 * (size_t)size + 2;
    slots = malloc(n * sizeof *slots);
    if (slots == NULL) {
        snprintf(error, BN_MPI_ERROR_BYTES, "out of memory");
        return -1;
    }
    for (size_t i = 0; i < n; i++)
        slots[i] = MPI_REQUEST_NULL;
    return 0;
}

static int begin_send(unsigned slot, unsigned peer, int tag, const void *data, int n)
{
    int code = MPI_Isend(data, n, MPI_BYTE, (int)peer, tag, MPI_COMM_WORLD, &slots[slot]);
    return code == MPI_SUCCESS ? 0 : failed(code);
}

static int begin_receive(unsigned slot, unsigned peer, int tag, void *data, int n)
{
    int code = MPI_Irecv(data, n, MPI_BYTE, (int)peer, tag, MPI_COMM_WORLD, &slots[slot]);
    return code == MPI_SUCCESS ? 0 : failed(code);
}

static int test(unsigned first, unsigned n)
{
    int done = 0;
    int code = MPI_Testall((int)n, slots + first, &done, MPI_STATUSES_IGNORE);
    return code == MPI_SUCCESS ? done != 0 : failed(code);
}

static void reason(char error[BN_MPI_ERROR_BYTES])
{
    describe(last, error);
}

static void finish(void)
{
    MPI_Finalize();
    free(slots);
}

static void end_all(int code)
{
    MPI_Abort(MPI_COMM_WORLD, code);
}

__attribute__((visibility("default"))) const struct bn_mpi_plugin bn_mpi_plugin = {
    BN_MPI_PLUGIN_VERSION, start, begin_send, begin_receive, test, reason, finish, end_all};

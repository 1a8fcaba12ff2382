/* SPDX-License-Identifier: MIT
 *
 * What bn-mpi.so gives to the program that loads it: messages between ranks, without a type of mpi.h. MPI's handles
 * differ between its implementations; here a message that is under way is named by a slot.
 *
 * One thread at a time may be in these functions.
 */
#ifndef BN_MPI_PLUGIN_H
#define BN_MPI_PLUGIN_H

#define BN_MPI_PLUGIN_VERSION 1u
#define BN_MPI_PLUGIN_SYMBOL "bn_mpi_plugin"
#define BN_MPI_ERROR_BYTES 256u

struct bn_mpi_plugin {
    unsigned version;
    /* Joins the other ranks. *threads: whether threads may take turns in calling. 0, or -1 with the reason. */
    int (*start)(unsigned *index, unsigned *count, int *threads, char error[BN_MPI_ERROR_BYTES]);
    /* Begins to send or receive n bytes. Slots are 0 to 2 * count + 1. 0, or -1. */
    int (*send)(unsigned slot, unsigned peer, int tag, const void *data, int n);
    int (*receive)(unsigned slot, unsigned peer, int tag, void *data, int n);
    /* Whether the messages of n slots are complete: 1, 0, or -1. A slot without a message is complete. */
    int (*test)(unsigned first, unsigned n);
    /* The reason of the last -1 of send, receive and test. */
    void (*reason)(char error[BN_MPI_ERROR_BYTES]);
    /* Leaves; all ranks call it. */
    void (*finish)(void);
    /* Ends all ranks with this exit code. */
    void (*end_all)(int code);
};

/* The one symbol of bn-mpi.so. */
extern const struct bn_mpi_plugin bn_mpi_plugin;

#endif

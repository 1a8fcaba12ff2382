/* SPDX-License-Identifier: MIT
 *
 * One run of a program from its start to its end, timed: how it ended, how long it took, what it used.
 */
#ifndef BN_KIT_PROCESS_H
#define BN_KIT_PROCESS_H

#include <sys/resource.h>
#include <sys/types.h>

#include "base/buf.h"

struct bn_process_options {
    const char *const *argv; /* ends with NULL; argv[0] is looked for in PATH. No shell */
    const char *input;       /* file that is its standard input; NULL: empty */
    /* Where its standard output and standard error are kept; NULL: nowhere. What is over a buffer's max is
     * dropped (the buffer's failed tells), and the program goes on. */
    struct bn_buf *out, *errors;
    uint64_t timeout_ns;     /* 0: none */
    bool (*cancelled)(void); /* asked when a signal interrupts the wait; NULL: never */
};

enum bn_process_end {
    BN_PROCESS_EXITED,
    BN_PROCESS_SIGNALLED,
    BN_PROCESS_TIMEOUT,
    BN_PROCESS_INTERRUPTED /* only by bn_process_await: cancelled said so */
};

struct bn_process {
    enum bn_process_end end;
    int code;            /* its exit status, or the number of the signal; 0 after a timeout */
    uint64_t wall_ns;    /* from before its start until it was gone; after a timeout no measurement */
    struct rusage usage; /* its own, and that of the children it waited for */
};

/* BN_OK however the program ended; an error when it could not be run: BN_ERR_NOT_FOUND, BN_ERR_IO,
 * BN_ERR_CANCELLED, BN_ERR_UNSUPPORTED without pidfd_open(2). The program has a process group of its own, and
 * all that is left of the group when the program ends, or its time does, is killed. */
BN_MUST_CHECK bn_status bn_process_run(struct bn_process *out, const struct bn_process_options *options,
                                       bn_error *err);

/* Waits for a process that bn_spawn started at began_ns (bn_clock_ns) until it is gone, its time is over or
 * it is cancelled; what is left of its group is killed, and the process is reaped in any case. */
BN_MUST_CHECK bn_status bn_process_await(struct bn_process *out, pid_t pid, uint64_t began_ns,
                                         uint64_t timeout_ns, bool (*cancelled)(void), bn_error *err);

/* "ended with status 3", "was ended by signal 11", "ran into the time limit". */
void bn_process_describe(char *text, size_t room, const struct bn_process *process);

#endif

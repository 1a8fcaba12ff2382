/* SPDX-License-Identifier: MIT
 *
 * Running a program to its end, and talking to one while it runs.
 */
#ifndef BN_KIT_PROCESS_H
#define BN_KIT_PROCESS_H

#include <linux/limits.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/buf.h"

/* ---- one run, timed ---- */

struct bn_process_options {
    const char *const *argv; /* ends with NULL; argv[0] is searched for in PATH. No shell */
    const char *input;       /* file that is its standard input; NULL: empty */
    /* What its standard output and standard error are appended to; NULL: they are discarded. The program goes
     * on when a buffer is full (the buffer's failed is set), and the rest is discarded. */
    struct bn_buf *out, *errors;
    uint64_t timeout_ns;     /* 0: none */
    bool (*cancelled)(void); /* called when a signal interrupts the wait; NULL: the wait goes on */
};

enum bn_process_end {
    BN_PROCESS_EXITED,
    BN_PROCESS_SIGNALLED,
    BN_PROCESS_TIMEOUT,
    BN_PROCESS_INTERRUPTED /* only by bn_process_await: cancelled returned true */
};

struct bn_process {
    enum bn_process_end end;
    int code;            /* its exit status, or the number of the signal; 0 after a timeout */
    uint64_t wall_ns;    /* from before its start until it ended; not a measurement after a timeout */
    struct rusage usage; /* its own, and that of the children it waited for */
};

/* BN_OK however the program ended; an error when it could not be run: BN_ERR_NOT_FOUND, BN_ERR_IO,
 * BN_ERR_CANCELLED, BN_ERR_UNSUPPORTED without pidfd_open(2). The program has a process group of its own.
 * Whatever is left of the group when the program ends, or its time is over, is killed. */
BN_MUST_CHECK bn_status bn_process_run(struct bn_process *out, const struct bn_process_options *options,
                                       bn_error *err);

/* Waits for a process that bn_spawn started at began_ns (bn_clock_ns) until it ends, its time is over or
 * it is cancelled. What is left of its group is killed, and the process is reaped in any case. */
BN_MUST_CHECK bn_status bn_process_await(struct bn_process *out, pid_t pid, uint64_t began_ns,
                                         uint64_t timeout_ns, bool (*cancelled)(void), bn_error *err);

/* "ended with status 3", "was ended by signal 11", "ran into the time limit". */
void bn_process_describe(char *text, size_t room, const struct bn_process *process);

/* Starts argv (ends with NULL; argv[0] is looked for in PATH) with fds as its descriptors 0 to 2, leader of a
 * process group of its own, no signal blocked or ignored. prepare, unless it is NULL, is called when the process is
 * there and has not become the program yet; what it returns, if not 0, ends the process. Returns 0, or the errno of
 * what failed, ENOENT when there is no such program; then there is no process.
 *
 * The process is forked, not posix_spawn'ed: that shares this process's memory until the program starts,
 * and Linux would count our peak as the new process's. */
int bn_spawn(pid_t *pid, const char *const *argv, const int fds[3], int (*prepare)(void *user, pid_t pid),
             void *user);

/* ---- a dialogue with a child process over its standard input and output, with a deadline for every step ----
 *
 * The end of its standard error is kept for messages. The child has a process group of its own, so that its children
 * end with it; bn_descendants_end finds processes that left the group. Writing to a pipe that the child
 * closed gives an error, never a signal. */

struct bn_child;

struct bn_child_options {
    const char *command;     /* for /bin/sh -c; not used when there is an argv */
    const char *const *argv; /* ends with NULL; without a shell */
    bool (*cancelled)(void); /* called when a signal interrupts a wait; NULL: the wait goes on */
    void (*on_stderr)(void *user, const char *bytes, size_t n); /* gets its standard error; may be NULL */
    void *user;
};

BN_MUST_CHECK bn_status bn_child_start(struct bn_child **out, const struct bn_child_options *options,
                                       bn_error *err);

/* Until the clock (bn_clock_ns) reaches deadline. BN_ERR_MISMATCH when the time is over or the child has
 * ended, so that a missing answer counts as a negative result; BN_ERR_NOT_FOUND when the shell did not find
 * the command; BN_ERR_CANCELLED. After a failure every call fails. */
BN_MUST_CHECK bn_status bn_child_write(struct bn_child *child, const void *bytes, size_t n, uint64_t deadline,
                                       bn_error *err);
BN_MUST_CHECK bn_status bn_child_read(struct bn_child *child, void *bytes, size_t n, uint64_t deadline,
                                      bn_error *err);
/* One line without its line feed, appended to line, whose max bounds it. */
BN_MUST_CHECK bn_status bn_child_read_line(struct bn_child *child, struct bn_buf *line, uint64_t deadline,
                                           bn_error *err);

/* Of the process that was started; 0 when it has ended. */
int bn_child_pid(const struct bn_child *child);

/* Closes its input; what it sends then can still be read. */
void bn_child_end_input(struct bn_child *child);
/* Closes its input and waits for it to end; BN_ERR_MISMATCH unless it ends in time, with status 0 and without
 * further output. */
BN_MUST_CHECK bn_status bn_child_finish(struct bn_child *child, uint64_t deadline, bn_error *err);
/* Ends the whole group if it still runs, and releases everything. NULL is accepted. */
void bn_child_close(struct bn_child *child);

/* For a program that starts only children of this kind, because both functions concern the whole process.
 * After bn_descendants_keep, a descendant that loses its parent becomes a child of this process
 * (PR_SET_CHILD_SUBREAPER), whatever its group or session. It does nothing when this process already has
 * children, which it did not start. bn_descendants_end kills and reaps all that are left; call it when all
 * children are closed. */
void bn_descendants_keep(void);
void bn_descendants_end(void);

/* The end of its standard error, NUL-terminated, cut at the start of a line; valid until bn_child_close. */
const char *bn_child_stderr(struct bn_child *child);

/* ---- where the running program lies, and the programs next to it ---- */

/* The file of the running program; empty when /proc cannot be read. */
void bn_program_path(char out[PATH_MAX]);

/* The executable file `name` in `folder`, which is relative to the running program's folder: "" is that
 * folder, "crossval/" one in it. False when there is none; out is then unspecified. */
bool bn_program_near(char out[PATH_MAX], const char *folder, const char *name);

#endif

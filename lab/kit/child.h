/* SPDX-License-Identifier: MIT
 *
 * A dialogue with a child process over its standard input and output, with a deadline for every step. The end
 * of its standard error is kept for messages. The child has a process group of its own, so that its children
 * end with it; bn_descendants_end finds processes that left the group. Writing to a pipe that the child
 * closed gives an error, never a signal.
 */
#ifndef BN_KIT_CHILD_H
#define BN_KIT_CHILD_H

#include "base/buf.h"

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

#endif

/* SPDX-License-Identifier: MIT
 *
 * A child process that is talked to over its standard input and output, with a time limit on every word. What
 * it prints on standard error is kept, as far as it fits, for messages. It runs in a process group of its
 * own, so that its children go with it; what leaves the group is found by bn_descendants_end. A pipe that it
 * closed gives an error here, never a signal.
 */
#ifndef BN_COMPARE_CHILD_H
#define BN_COMPARE_CHILD_H

#include "base/buf.h"

struct bn_child;

struct bn_child_options {
    const char *command;     /* for /bin/sh -c */
    bool (*cancelled)(void); /* asked when a signal interrupts a wait; NULL: never */
    void (*on_stderr)(void *user, const char *bytes, size_t n); /* shows what comes; NULL: nobody */
    void *user;
};

BN_MUST_CHECK bn_status bn_child_start(struct bn_child **out, const struct bn_child_options *options,
                                       bn_error *err);

/* Until the clock (bn_clock_ns) says deadline. BN_ERR_MISMATCH when the time is over or the child is gone, so
 * that what it leaves out counts as a negative result; BN_ERR_NOT_FOUND when the shell did not find the
 * command; BN_ERR_CANCELLED. After a failure every call fails. */
BN_MUST_CHECK bn_status bn_child_write(struct bn_child *child, const void *bytes, size_t n, uint64_t deadline,
                                       bn_error *err);
BN_MUST_CHECK bn_status bn_child_read(struct bn_child *child, void *bytes, size_t n, uint64_t deadline,
                                      bn_error *err);
/* One line without its line feed, appended to line, whose max bounds it. */
BN_MUST_CHECK bn_status bn_child_read_line(struct bn_child *child, struct bn_buf *line, uint64_t deadline,
                                           bn_error *err);

/* Closes its input and waits for it to end by itself; BN_ERR_MISMATCH unless it ends in time with status 0
 * and without another word. */
BN_MUST_CHECK bn_status bn_child_finish(struct bn_child *child, uint64_t deadline, bn_error *err);
/* Ends the whole group if it still runs, and releases everything. NULL is accepted. */
void bn_child_close(struct bn_child *child);

/* For a program that starts nothing but children of this kind; both change or use what belongs to the whole
 * process. After bn_descendants_keep a process that is left without a parent, below this one, becomes a child
 * of this one (PR_SET_CHILD_SUBREAPER), whatever group or session it is in. Nothing happens when this process
 * has children already, which it did not start. bn_descendants_end, when all children are closed, kills and
 * reaps all that are left. */
void bn_descendants_keep(void);
void bn_descendants_end(void);

/* The end of what came on standard error, NUL-terminated, whole lines where it was cut; valid until close. */
const char *bn_child_stderr(struct bn_child *child);

#endif

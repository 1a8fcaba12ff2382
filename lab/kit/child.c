/* SPDX-License-Identifier: MIT
 *
 * A dialogue with a child process. Every wait also empties the child's standard error, so that a child that
 * fills it while we wait for an answer does not block both of us.
 */
#define _GNU_SOURCE
#include "lab/kit/child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "lab/kit/process.h"

#define ERR_BYTES 4096u /* of standard error that are kept */
#define IN_BYTES 65536u
#define MAX_DESCENDANTS 100000u /* that are ended, while they may start others */
#define END_NS 500000000u       /* for a child that closed its output to end */

struct bn_child {
    struct bn_running run;
    bool failed;
    void (*on_stderr)(void *user, const char *bytes, size_t n);
    void *user;
    char tail[ERR_BYTES + 1]; /* of standard error */
    size_t n_tail;
    char buffer[IN_BYTES]; /* read, not yet asked for */
    size_t at, n;
};

/* ---- start and standard error ---- */

static void keep_tail(void *user, int fd, const char *bytes, size_t n)
{
    struct bn_child *child = user;
    (void)fd;
    if (child->on_stderr != NULL) child->on_stderr(child->user, bytes, n);
    size_t kept = bn_min_size(n, ERR_BYTES), left = bn_min_size(child->n_tail, ERR_BYTES - kept);
    memmove(child->tail, child->tail + child->n_tail - left, left);
    memcpy(child->tail + left, bytes + n - kept, kept);
    child->n_tail = left + kept;
    child->tail[child->n_tail] = '\0';
}

bn_status bn_child_start(struct bn_child **out, const struct bn_child_options *options, bn_error *err)
{
    const char *const shell[] = {"/bin/sh", "-c", options->command, NULL};
    const char *const *argv = options->argv != NULL ? options->argv : shell;
    const char *const pipes[3] = {NULL, NULL, NULL};
    struct bn_child *child = *out = bn_alloc(1, sizeof *child);
    if (child == NULL) return bn_nomem(err);
    child->run = (struct bn_running){BN_NOT_RUNNING, .cancelled = options->cancelled, .first_read = 2,
                                     .on_read = keep_tail, .user = child};
    child->on_stderr = options->on_stderr;
    child->user = options->user;
    bn_status status = bn_running_start(&child->run, argv, pipes, err);
    if (status != BN_OK) {
        bn_child_close(child);
        *out = NULL;
    }
    return status;
}

const char *bn_child_stderr(struct bn_child *child)
{
    bn_running_read(&child->run, 2);
    const char *cut = child->n_tail == ERR_BYTES ? strchr(child->tail, '\n') : NULL;
    return cut != NULL ? cut + 1 : child->tail;
}

/* ---- end ---- */

/* Waits for the end of the process; false when it still runs at the deadline. */
static bool ends(struct bn_child *child, uint64_t deadline)
{
    struct bn_running *r = &child->run;
    bool (*cancelled)(void) = r->cancelled;
    bool ended = r->pid == 0;
    if (ended) return true;
    r->cancelled = NULL;
    if (bn_running_wait(r, r->handle, POLLIN, deadline, &ended, NULL) == BN_OK && ended) bn_running_end(r);
    r->cancelled = cancelled;
    return ended;
}

/* Why a child is silent. */
static bn_status gone(struct bn_child *child, const char *when, bn_error *err)
{
    child->failed = true;
    if (!ends(child, bn_clock_ns() + END_NS))
        return bn_fail(err, BN_ERR_MISMATCH, "closed its output %s", when);
    int end = child->run.wait_status;
    if (WIFSIGNALED(end))
        return bn_fail(err, BN_ERR_MISMATCH, "was ended by signal %d %s", WTERMSIG(end), when);
    int code = WEXITSTATUS(end);
    if (code == 126 || code == 127)
        return bn_fail(err, BN_ERR_NOT_FOUND, "could not be started (status %d)", code);
    return bn_fail(err, BN_ERR_MISMATCH, "ended with status %d %s", code, when);
}

int bn_child_pid(const struct bn_child *child)
{
    return (int)child->run.pid;
}

void bn_child_end_input(struct bn_child *child)
{
    if (child->run.fds[0] >= 0) close(child->run.fds[0]);
    child->run.fds[0] = -1;
}

bn_status bn_child_finish(struct bn_child *child, uint64_t deadline, bn_error *err)
{
    char more;
    bn_child_end_input(child);
    if (child->failed) return bn_fail(err, BN_ERR_MISMATCH, "failed before");
    if (!ends(child, deadline)) return bn_fail(err, BN_ERR_MISMATCH, "did not end when it was asked to");
    if (child->run.wait_status != 0) return gone(child, "when it was closed", err);
    if (child->at < child->n || read(child->run.fds[1], &more, 1) > 0)
        return bn_fail(err, BN_ERR_MISMATCH, "sent more than it was asked for");
    return BN_OK;
}

void bn_child_close(struct bn_child *child)
{
    if (child != NULL) bn_running_release(&child->run);
    bn_free(child);
}

/* ---- processes that left its group ---- */

static bool keeps_descendants;

void bn_descendants_keep(void)
{
    siginfo_t info;
    bool has_children = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    if (!has_children) keeps_descendants = prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L) == 0;
}

/* A child keeps its number until it is reaped, so no other process is hit. Its own children become ours. */
void bn_descendants_end(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    for (unsigned i = 0; keeps_descendants && i < MAX_DESCENDANTS; i++) {
        int pid = 0;
        FILE *children = fopen(path, "re");
        if (children == NULL) return;
        bool found = fscanf(children, "%d", &pid) == 1 && kill(pid, SIGKILL) == 0;
        fclose(children);
        if (!found) return;
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
}

/* ---- dialogue ---- */

/* Waits until one of events is possible on descriptor i. */
static bn_status await(struct bn_child *child, int i, short events, uint64_t deadline, bn_error *err)
{
    bool ready;
    bn_status status = bn_running_wait(&child->run, child->run.fds[i], events, deadline, &ready, err);
    if (status == BN_OK && !ready)
        status = bn_fail(err, BN_ERR_MISMATCH, "did not answer within the time limit");
    child->failed = status != BN_OK;
    return status;
}

bn_status bn_child_write(struct bn_child *child, const void *bytes, size_t n, uint64_t deadline,
                         bn_error *err)
{
    const char *from = bytes;
    if (child->failed) return bn_fail(err, BN_ERR_MISMATCH, "failed before");
    while (n > 0) {
        ssize_t put = send(child->run.fds[0], from, n, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0 && errno == EAGAIN) {
            BN_TRY(await(child, 0, POLLOUT, deadline, err));
            continue;
        }
        /* It may have printed something before it ended: reading finds that, or the end. */
        if (put < 0 && (errno == EPIPE || errno == ECONNRESET)) return BN_OK;
        if (put < 0) return gone(child, "when it was written to", err);
        from += put;
        n -= (size_t)put;
    }
    return BN_OK;
}

/* At least one byte into the empty buffer. */
static bn_status fill(struct bn_child *child, const char *when, uint64_t deadline, bn_error *err)
{
    if (child->failed) return bn_fail(err, BN_ERR_MISMATCH, "failed before");
    for (;;) {
        BN_TRY(await(child, 1, POLLIN, deadline, err));
        ssize_t got = read(child->run.fds[1], child->buffer, IN_BYTES);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got <= 0) return gone(child, when, err);
        child->at = 0;
        child->n = (size_t)got;
        return BN_OK;
    }
}

bn_status bn_child_read(struct bn_child *child, void *bytes, size_t n, uint64_t deadline, bn_error *err)
{
    char *to = bytes;
    size_t left = n;
    while (left > 0) {
        if (child->at == child->n) {
            char when[64];
            snprintf(when, sizeof when, "after %zu of %zu bytes of numbers", n - left, n);
            BN_TRY(fill(child, when, deadline, err));
        }
        size_t take = bn_min_size(left, child->n - child->at);
        memcpy(to, child->buffer + child->at, take);
        child->at += take;
        to += take;
        left -= take;
    }
    return BN_OK;
}

bn_status bn_child_read_line(struct bn_child *child, struct bn_buf *line, uint64_t deadline, bn_error *err)
{
    for (;;) {
        if (child->at == child->n)
            BN_TRY(fill(child, line->len > 0 ? "inside a line" : "without an answer", deadline, err));
        const char *from = child->buffer + child->at, *end = memchr(from, '\n', child->n - child->at);
        size_t n = end != NULL ? (size_t)(end - from) : child->n - child->at;
        bn_buf_append(line, from, n);
        if (line->failed) {
            child->failed = true;
            if (!line->full) return bn_buf_check(line, err);
            return bn_fail(err, BN_ERR_MISMATCH, "sent a line of more than %zu bytes", line->max);
        }
        child->at += n + (end != NULL);
        if (end != NULL) return BN_OK;
    }
}

/* SPDX-License-Identifier: MIT
 *
 * See child.h. All three pipes are non-blocking on this side and every wait is one poll on whatever there is
 * to do, so that a child that fills its standard error while we wait for an answer does not stop the two of
 * us.
 */
#define _GNU_SOURCE
#include "lab/compare/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "lab/kit/spawn.h"

#define ERR_BYTES 4096u /* of standard error that are kept */
#define IN_BYTES 65536u
#define MAX_GENERATIONS 1000u /* of processes that are ended, should they go on to start others */

struct bn_child {
    pid_t pid;
    int in, out, err; /* our ends; -1 when closed */
    bool reaped, failed;
    int wait_status;
    bool (*cancelled)(void);
    void (*on_stderr)(void *user, const char *bytes, size_t n);
    void *user;
    char tail[ERR_BYTES + 1]; /* of standard error */
    size_t n_tail;
    char buffer[IN_BYTES]; /* read, not yet asked for */
    size_t at, n;
};

/* ---- starting ---- */

static void close_fd(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

bn_status bn_child_start(struct bn_child **out, const struct bn_child_options *options, bn_error *err)
{
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    int failed = 0;
    *out = NULL;
    struct bn_child *child = bn_alloc(1, sizeof *child);
    if (child == NULL) return bn_nomem(err);
    *child = (struct bn_child){.in = -1,
                               .out = -1,
                               .err = -1,
                               .cancelled = options->cancelled,
                               .on_stderr = options->on_stderr,
                               .user = options->user};
    for (int i = 0; i < 3 && failed == 0; i++)
        failed = pipe2(pipes[i], O_CLOEXEC) == 0 ? 0 : errno;
    const char *const argv[] = {"/bin/sh", "-c", options->command, NULL};
    const int theirs[3] = {pipes[0][0], pipes[1][1], pipes[2][1]};
    if (failed == 0) failed = bn_spawn(&child->pid, argv, theirs);
    child->in = pipes[0][1];
    child->out = pipes[1][0];
    child->err = pipes[2][0];
    close_fd(&pipes[0][0]);
    close_fd(&pipes[1][1]);
    close_fd(&pipes[2][1]);
    if (failed != 0) {
        child->pid = 0;
        bn_child_close(child);
        return bn_fail_errno(err, failed, options->command, "cannot start");
    }
    const int ours[] = {child->in, child->out, child->err};
    for (int i = 0; i < 3; i++)
        (void)fcntl(ours[i], F_SETFL, O_NONBLOCK);
    *out = child;
    return BN_OK;
}

/* ---- standard error ---- */

static void keep_tail(struct bn_child *child, const char *bytes, size_t n)
{
    if (n > ERR_BYTES) {
        bytes += n - ERR_BYTES;
        n = ERR_BYTES;
    }
    size_t drop = child->n_tail + n > ERR_BYTES ? child->n_tail + n - ERR_BYTES : 0;
    memmove(child->tail, child->tail + drop, child->n_tail - drop);
    child->n_tail -= drop;
    memcpy(child->tail + child->n_tail, bytes, n);
    child->n_tail += n;
    child->tail[child->n_tail] = '\0';
}

/* Takes what lies ready. */
static void drain_stderr(struct bn_child *child)
{
    char bytes[4096];
    while (child->err >= 0) {
        ssize_t got = read(child->err, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) {
            close_fd(&child->err);
            return;
        }
        keep_tail(child, bytes, (size_t)got);
        if (child->on_stderr != NULL) child->on_stderr(child->user, bytes, (size_t)got);
    }
}

const char *bn_child_stderr(struct bn_child *child)
{
    drain_stderr(child);
    const char *cut = child->n_tail == ERR_BYTES ? strchr(child->tail, '\n') : NULL;
    return cut != NULL ? cut + 1 : child->tail;
}

/* ---- ending ---- */

static void pause_ms(long ms)
{
    struct timespec t = {.tv_nsec = ms * 1000000};
    nanosleep(&t, NULL);
}

/* Waits for the end of the process; false when it still runs at the deadline. */
static bool reap(struct bn_child *child, uint64_t deadline)
{
    while (!child->reaped) {
        pid_t got = waitpid(child->pid, &child->wait_status, WNOHANG);
        child->reaped = got == child->pid || (got < 0 && errno != EINTR);
        if (child->reaped) break;
        if (bn_clock_ns() >= deadline) return false;
        drain_stderr(child);
        pause_ms(2);
    }
    return true;
}

/* What became of a child that is silent; it has a moment to be gone entirely. */
static bn_status gone(struct bn_child *child, const char *when, bn_error *err)
{
    child->failed = true;
    if (!reap(child, bn_clock_ns() + 500000000u))
        return bn_fail(err, BN_ERR_MISMATCH, "closed its output %s", when);
    if (WIFSIGNALED(child->wait_status))
        return bn_fail(err, BN_ERR_MISMATCH, "was ended by signal %d %s", WTERMSIG(child->wait_status), when);
    int code = WEXITSTATUS(child->wait_status);
    if (code == 126 || code == 127)
        return bn_fail(err, BN_ERR_NOT_FOUND, "could not be started (status %d)", code);
    return bn_fail(err, BN_ERR_MISMATCH, "ended with status %d %s", code, when);
}

bn_status bn_child_finish(struct bn_child *child, uint64_t deadline, bn_error *err)
{
    char more;
    close_fd(&child->in);
    if (child->failed) return bn_fail(err, BN_ERR_MISMATCH, "failed before");
    if (!reap(child, deadline)) return bn_fail(err, BN_ERR_MISMATCH, "did not end when it was asked to");
    if (!WIFEXITED(child->wait_status) || WEXITSTATUS(child->wait_status) != 0)
        return gone(child, "when it was closed", err);
    if (child->at < child->n || read(child->out, &more, 1) > 0)
        return bn_fail(err, BN_ERR_MISMATCH, "sent more than it was asked for");
    return BN_OK;
}

void bn_child_close(struct bn_child *child)
{
    if (child == NULL) return;
    close_fd(&child->in);
    close_fd(&child->out);
    close_fd(&child->err);
    if (child->pid > 0) {
        /* The group, which has this number while any of its processes is left, or while its first is not
         * reaped; after that the number may be somebody else's. */
        if (!child->reaped) {
            (void)kill(-child->pid, SIGKILL);
            (void)reap(child, UINT64_MAX);
        }
    }
    bn_free(child);
}

/* ---- what left its group ---- */

static bool keeps_descendants;

void bn_descendants_keep(void)
{
    siginfo_t info;
    bool has_children = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    if (!has_children) keeps_descendants = prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L) == 0;
}

/* From "/proc/123/stat": "123 (any name) S 45 ...", where 45 is the parent. 0 when it cannot be read. */
static long parent_of(long pid)
{
    char text[512];
    snprintf(text, sizeof text, "/proc/%ld/stat", pid);
    int fd = open(text, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *end = strrchr(text, ')');
    return end != NULL && strlen(end) > 4 ? strtol(end + 4, NULL, 10) : 0;
}

/* Kills and reaps the children there are now; their own become ours. A number stays a child's until it is
 * reaped, so no other process is met. */
static bool end_children(DIR *processes)
{
    bool found = false;
    rewinddir(processes);
    for (struct dirent *entry; (entry = readdir(processes)) != NULL;) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || parent_of(pid) != getpid() || kill(pid, SIGKILL) != 0) continue;
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        found = true;
    }
    return found;
}

void bn_descendants_end(void)
{
    DIR *processes = keeps_descendants ? opendir("/proc") : NULL;
    if (processes == NULL) return;
    for (unsigned round = 0; round < MAX_GENERATIONS && end_children(processes); round++)
        continue;
    closedir(processes);
}

/* ---- talking ---- */

/* Waits until one of events is possible on fd, and empties standard error meanwhile. */
static bn_status await(struct bn_child *child, int fd, short events, uint64_t deadline, bn_error *err)
{
    for (;;) {
        uint64_t now = bn_clock_ns();
        struct pollfd fds[2] = {{.fd = fd, .events = events}, {.fd = child->err, .events = POLLIN}};
        if (now >= deadline) {
            child->failed = true;
            return bn_fail(err, BN_ERR_MISMATCH, "did not answer within the time limit");
        }
        uint64_t ms = (deadline - now) / 1000000 + 1;
        int n = poll(fds, 2, ms < INT_MAX ? (int)ms : INT_MAX);
        if (n < 0 && errno != EINTR) {
            child->failed = true;
            return bn_fail_errno(err, errno, NULL, "poll");
        }
        if (n < 0 && child->cancelled != NULL && child->cancelled()) {
            child->failed = true;
            return bn_fail(err, BN_ERR_CANCELLED, "interrupted");
        }
        if (n <= 0) continue;
        if (fds[1].revents != 0) drain_stderr(child);
        if (fds[0].revents != 0) return BN_OK;
    }
}

/* write, with SIGPIPE kept from us: it is held back, and taken off if this write raised it. */
static ssize_t quiet_write(int fd, const void *bytes, size_t n)
{
    sigset_t pipe_only, before, pending;
    struct timespec none = {0};
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigemptyset(&pending);
    sigpending(&pending);
    bool was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    ssize_t put = write(fd, bytes, n);
    int why = errno;
    if (put < 0 && why == EPIPE && !was_pending)
        while (sigtimedwait(&pipe_only, NULL, &none) < 0 && errno == EINTR)
            continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = why;
    return put;
}

bn_status bn_child_write(struct bn_child *child, const void *bytes, size_t n, uint64_t deadline,
                         bn_error *err)
{
    const char *from = bytes;
    if (child->failed) return bn_fail(err, BN_ERR_MISMATCH, "failed before");
    while (n > 0) {
        ssize_t put = quiet_write(child->in, from, n);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0 && errno == EAGAIN) {
            BN_TRY(await(child, child->in, POLLOUT, deadline, err));
            continue;
        }
        /* It may have said something before it went: reading finds that, or the end. */
        if (put < 0 && errno == EPIPE) return BN_OK;
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
        BN_TRY(await(child, child->out, POLLIN, deadline, err));
        ssize_t got = read(child->out, child->buffer, IN_BYTES);
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

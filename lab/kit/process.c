/* SPDX-License-Identifier: MIT
 *
 * See process.h. The wait is one poll on the process's descriptor (pidfd_open(2)) and on the pipes that are
 * kept, so that nothing of ours runs while the program does unless it prints.
 */
#define _GNU_SOURCE
#include "lab/kit/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "lab/kit/spawn.h"

/* What is open while a program runs; -1 when it is not. */
struct running {
    pid_t pid;  /* 0: none, or reaped */
    int handle; /* readable when the program is gone */
    int theirs[3];
    int pipes[2]; /* our ends of its standard output and standard error */
    struct bn_buf *kept[2];
};

static void close_fd(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* ---- what it prints ---- */

/* Takes what lies ready; the pipe is closed at its end. What does not fit is dropped. */
static void drain(int *fd, struct bn_buf *into)
{
    char bytes[16384];
    while (*fd >= 0) {
        ssize_t got = read(*fd, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) {
            close_fd(fd);
            return;
        }
        size_t fits = into->max - into->len;
        bool all = (size_t)got <= fits;
        bn_buf_append(into, bytes, all ? (size_t)got : fits);
        if (!all) into->failed = true;
    }
}

/* ---- start and end ---- */

static bn_status open_files(struct running *r, const struct bn_process_options *o, bn_error *err)
{
    const char *input = o->input != NULL ? o->input : "/dev/null";
    r->theirs[0] = open(input, O_RDONLY | O_CLOEXEC);
    if (r->theirs[0] < 0) return bn_fail_errno(err, errno, input, "cannot open");
    for (int i = 0; i < 2; i++) {
        int ends[2] = {-1, -1};
        if (r->kept[i] == NULL) {
            ends[1] = open("/dev/null", O_WRONLY | O_CLOEXEC);
            if (ends[1] < 0) return bn_fail_errno(err, errno, "/dev/null", "cannot open");
        } else if (pipe2(ends, O_CLOEXEC) != 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) {
            return bn_fail_errno(err, errno, NULL, "pipe");
        }
        r->pipes[i] = ends[0];
        r->theirs[1 + i] = ends[1];
    }
    return BN_OK;
}

static bn_status open_handle(struct running *r, bn_error *err)
{
    r->handle = (int)syscall(SYS_pidfd_open, r->pid, 0);
    if (r->handle < 0) return bn_fail_errno(err, errno, NULL, "pidfd_open");
    (void)fcntl(r->handle, F_SETFD, FD_CLOEXEC);
    return BN_OK;
}

static bn_status start(struct running *r, const struct bn_process_options *o, bn_error *err)
{
    BN_TRY(open_files(r, o, err));
    int failed = bn_spawn(&r->pid, o->argv, r->theirs);
    if (failed != 0) {
        r->pid = 0;
        return bn_fail_errno(err, failed, o->argv[0], "cannot start");
    }
    for (int i = 0; i < 3; i++)
        close_fd(&r->theirs[i]);
    return open_handle(r, err);
}

/* Ends the whole group, which has its number while its first process is not reaped, and reaps that. */
static void end(struct running *r, int *wait_status, struct rusage *usage)
{
    (void)kill(-r->pid, SIGKILL);
    while (wait4(r->pid, wait_status, 0, usage) < 0 && errno == EINTR)
        continue;
    r->pid = 0;
}

/* ---- the wait ---- */

/* Until the program is gone (true in *gone) or the clock says deadline. */
static bn_status await(struct running *r, bool (*cancelled)(void), uint64_t deadline, bool *gone,
                       bn_error *err)
{
    for (*gone = false;;) {
        struct pollfd fds[3] = {{.fd = r->handle, .events = POLLIN},
                                {.fd = r->pipes[0], .events = POLLIN},
                                {.fd = r->pipes[1], .events = POLLIN}};
        uint64_t now = bn_clock_ns();
        if (now >= deadline) return BN_OK;
        struct timespec left = {.tv_sec = (time_t)((deadline - now) / 1000000000u),
                                .tv_nsec = (long)((deadline - now) % 1000000000u)};
        int n = ppoll(fds, 3, deadline == UINT64_MAX ? NULL : &left, NULL);
        if (n < 0 && errno != EINTR) return bn_fail_errno(err, errno, NULL, "poll");
        if (n < 0 && cancelled != NULL && cancelled()) return bn_fail(err, BN_ERR_CANCELLED, "interrupted");
        if (n <= 0) continue;
        *gone = fds[0].revents != 0;
        if (*gone) return BN_OK;
        for (int i = 0; i < 2; i++)
            if (fds[1 + i].revents != 0) drain(&r->pipes[i], r->kept[i]);
    }
}

static uint64_t deadline_of(uint64_t began, uint64_t timeout_ns)
{
    return timeout_ns > 0 ? began + timeout_ns : UINT64_MAX;
}

static void judge_end(struct bn_process *out, bool gone, int wait_status)
{
    if (!gone) {
        out->end = BN_PROCESS_TIMEOUT;
    } else if (WIFSIGNALED(wait_status)) {
        out->end = BN_PROCESS_SIGNALLED;
        out->code = WTERMSIG(wait_status);
    } else {
        out->end = BN_PROCESS_EXITED;
        out->code = WEXITSTATUS(wait_status);
    }
}

bn_status bn_process_run(struct bn_process *out, const struct bn_process_options *o, bn_error *err)
{
    struct running r = {.handle = -1, .theirs = {-1, -1, -1}, .pipes = {-1, -1}, .kept = {o->out, o->errors}};
    int wait_status = 0;
    bool gone = false;
    *out = (struct bn_process){0};
    uint64_t began = bn_clock_ns();
    bn_status status = start(&r, o, err);
    if (status == BN_OK) status = await(&r, o->cancelled, deadline_of(began, o->timeout_ns), &gone, err);
    out->wall_ns = bn_clock_ns() - began;
    if (r.pid > 0) end(&r, &wait_status, &out->usage);
    judge_end(out, gone, wait_status);
    for (int i = 0; i < 2; i++) {
        if (r.kept[i] != NULL) drain(&r.pipes[i], r.kept[i]);
        close_fd(&r.pipes[i]);
    }
    for (int i = 0; i < 3; i++)
        close_fd(&r.theirs[i]);
    close_fd(&r.handle);
    return status;
}

bn_status bn_process_await(struct bn_process *out, pid_t pid, uint64_t began_ns, uint64_t timeout_ns,
                           bool (*cancelled)(void), bn_error *err)
{
    struct running r = {.pid = pid, .handle = -1, .theirs = {-1, -1, -1}, .pipes = {-1, -1}};
    int wait_status = 0;
    bool gone = false;
    bn_error why = {0};
    *out = (struct bn_process){0};
    bn_status status = open_handle(&r, err);
    if (status == BN_OK) status = await(&r, cancelled, deadline_of(began_ns, timeout_ns), &gone, &why);
    out->wall_ns = bn_clock_ns() - began_ns;
    end(&r, &wait_status, &out->usage);
    judge_end(out, gone, wait_status);
    close_fd(&r.handle);
    if (status == BN_ERR_CANCELLED) {
        out->end = BN_PROCESS_INTERRUPTED;
        return BN_OK;
    }
    if (status != BN_OK && why.code != BN_OK) return bn_fail(err, why.code, "%s", why.msg);
    return status;
}

void bn_process_describe(char *text, size_t room, const struct bn_process *process)
{
    if (process->end == BN_PROCESS_TIMEOUT)
        snprintf(text, room, "ran into the time limit");
    else if (process->end == BN_PROCESS_INTERRUPTED)
        snprintf(text, room, "was interrupted");
    else if (process->end == BN_PROCESS_SIGNALLED)
        snprintf(text, room, "was ended by signal %d", process->code);
    else
        snprintf(text, room, "ended with status %d", process->code);
}

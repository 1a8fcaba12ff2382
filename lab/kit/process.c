/* SPDX-License-Identifier: MIT
 *
 * Runs programs. Every wait is one ppoll on the program's descriptor (pidfd_open(2)) and on its pipes, so
 * that this process does nothing while the program does, unless the program prints.
 */
#define _GNU_SOURCE
#include "lab/kit/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

static void close_fd(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* ---- the new process ---- */

/* Between fork and exec only functions are called that are safe in a signal handler, because other threads may
 * hold locks. Two pipes close when their writers are done, or have an errno: gate says that the process may
 * become the program, tell that it could not. */

/* Descriptors whose numbers are needed for others are moved first. */
static int place_fds(const int fds[3])
{
    int moved[3];
    for (int i = 0; i < 3; i++) {
        moved[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
        if (moved[i] < 0) return errno;
    }
    for (int i = 0; i < 3; i++)
        if (dup2(moved[i], i) < 0) return errno;
    return 0;
}

/* The errno that the other side sends; 0 when it closed its end. */
static int hear(int fd)
{
    int failed = 0;
    ssize_t got;
    do
        got = read(fd, &failed, sizeof failed);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof failed ? failed : 0;
}

static int become(const char *const *argv, const int fds[3], int gate)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    if (setpgid(0, 0) != 0) return errno;
    for (int s = 1; s < NSIG; s++)
        (void)sigaction(s, &plain, NULL);
    if (hear(gate) != 0) return ECANCELED;
    int failed = place_fds(fds);
    if (failed != 0) return failed;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    return errno;
}

int bn_spawn(pid_t *pid, const char *const *argv, const int fds[3], int (*prepare)(void *user, pid_t pid),
             void *user)
{
    int gate[2] = {-1, -1}, tell[2] = {-1, -1}, failed = 0;
    sigset_t all, before;
    if (pipe2(gate, O_CLOEXEC) != 0 || pipe2(tell, O_CLOEXEC) != 0) failed = errno;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    *pid = failed == 0 ? fork() : -1;
    if (*pid == 0) {
        /* Its end must not lie where the program's descriptors will be, and a gate that we hold open
         * ourselves would never close. */
        int end = fcntl(tell[1], F_DUPFD_CLOEXEC, 3);
        close(gate[1]);
        int why = become(argv, fds, gate[0]);
        (void)!write(end, &why, sizeof why);
        _exit(127);
    }
    if (*pid < 0 && failed == 0) failed = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close_fd(&gate[0]);
    close_fd(&tell[1]);
    if (failed == 0 && prepare != NULL) failed = prepare(user, *pid);
    if (failed != 0 && *pid > 0) (void)!write(gate[1], &failed, sizeof failed);
    close_fd(&gate[1]);
    if (failed == 0) failed = hear(tell[0]);
    close_fd(&tell[0]);
    while (failed != 0 && *pid > 0 && waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return failed;
}

/* ---- start ---- */

/* The program's end of descriptor i, and ours if that is a pipe. */
static bn_status open_end(struct bn_running *r, int theirs[3], int i, const char *file, bn_error *err)
{
    int ends[2];
    if (file != NULL) {
        theirs[i] = open(file, (i == 0 ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
        return theirs[i] >= 0 ? BN_OK : bn_fail_errno(err, errno, file, "cannot open");
    }
    /* Its input is a socket, to which one can write without SIGPIPE. */
    if ((i == 0 ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) : pipe2(ends, O_CLOEXEC)) != 0)
        return bn_fail_errno(err, errno, NULL, "pipe");
    theirs[i] = ends[i == 0 ? 0 : 1];
    r->fds[i] = ends[i == 0 ? 1 : 0];
    (void)fcntl(r->fds[i], F_SETFL, O_NONBLOCK);
    return BN_OK;
}

static bn_status open_handle(struct bn_running *r, bn_error *err)
{
    r->handle = (int)syscall(SYS_pidfd_open, r->pid, 0);
    if (r->handle < 0) return bn_fail_errno(err, errno, NULL, "pidfd_open");
    (void)fcntl(r->handle, F_SETFD, FD_CLOEXEC);
    return BN_OK;
}

bn_status bn_running_start(struct bn_running *r, const char *const *argv, const char *const files[3],
                           bn_error *err)
{
    int theirs[3] = {-1, -1, -1};
    bn_status status = BN_OK;
    for (int i = 0; i < 3 && status == BN_OK; i++)
        status = open_end(r, theirs, i, files[i], err);
    if (status == BN_OK) {
        int failed = bn_spawn(&r->pid, argv, theirs, NULL, NULL);
        if (failed != 0) {
            r->pid = 0;
            status = bn_fail_errno(err, failed, argv[0], "cannot start");
        }
    }
    for (int i = 0; i < 3; i++)
        close_fd(&theirs[i]);
    return status == BN_OK ? open_handle(r, err) : status;
}

/* ---- the wait ---- */

void bn_running_read(struct bn_running *r, int i)
{
    char bytes[16384];
    while (r->fds[i] >= 0) {
        ssize_t got = read(r->fds[i], bytes, sizeof bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0)
            close_fd(&r->fds[i]);
        else
            r->on_read(r->user, i, bytes, (size_t)got);
    }
}

bn_status bn_running_wait(struct bn_running *r, int fd, short events, uint64_t deadline, bool *ready,
                          bn_error *err)
{
    for (*ready = false; !*ready;) {
        struct pollfd fds[3] = {{.fd = fd, .events = events}, {.fd = -1}, {.fd = -1}};
        for (int i = r->first_read; i < 3; i++)
            fds[i] = (struct pollfd){.fd = r->fds[i], .events = POLLIN};
        uint64_t now = bn_clock_ns();
        if (now >= deadline) return BN_OK;
        struct timespec left = {.tv_sec = (time_t)((deadline - now) / 1000000000u),
                                .tv_nsec = (long)((deadline - now) % 1000000000u)};
        int n = ppoll(fds, 3, deadline == UINT64_MAX ? NULL : &left, NULL);
        if (n < 0 && errno != EINTR) return bn_fail_errno(err, errno, NULL, "poll");
        if (n < 0 && r->cancelled != NULL && r->cancelled())
            return bn_fail(err, BN_ERR_CANCELLED, "interrupted");
        if (n <= 0) continue;
        *ready = fds[0].revents != 0;
        for (int i = r->first_read; i < 3; i++)
            if (fds[i].revents != 0) bn_running_read(r, i);
    }
    return BN_OK;
}

/* ---- the end ---- */

/* The group keeps its number while its first process is not reaped; later the number may be another group's.
 */
void bn_running_end(struct bn_running *r)
{
    if (r->pid <= 0) return;
    (void)kill(-r->pid, SIGKILL);
    while (wait4(r->pid, &r->wait_status, 0, &r->usage) < 0 && errno == EINTR)
        continue;
    r->pid = 0;
}

void bn_running_release(struct bn_running *r)
{
    for (int i = 0; i < 3; i++)
        close_fd(&r->fds[i]);
    bn_running_end(r);
    close_fd(&r->handle);
}

/* ---- one run ---- */

/* What does not fit is discarded. */
static void keep(void *user, int fd, const char *bytes, size_t n)
{
    const struct bn_process_options *o = user;
    struct bn_buf *into = fd == 1 ? o->out : o->errors;
    size_t fits = bn_min_size(n, into->max - into->len);
    bn_buf_append(into, bytes, fits);
    if (fits < n) into->failed = true;
}

/* Waits for the end of a program that was started, and ends what is left of it. */
static bn_status finish(struct bn_process *out, struct bn_running *r, uint64_t began, uint64_t timeout_ns,
                        bn_error *err)
{
    bool ended = false;
    bn_status status =
        bn_running_wait(r, r->handle, POLLIN, timeout_ns > 0 ? began + timeout_ns : UINT64_MAX, &ended, err);
    out->wall_ns = bn_clock_ns() - began;
    bn_running_end(r);
    out->usage = r->usage;
    out->end = !ended                        ? BN_PROCESS_TIMEOUT
               : WIFSIGNALED(r->wait_status) ? BN_PROCESS_SIGNALLED
                                             : BN_PROCESS_EXITED;
    if (ended)
        out->code = WIFSIGNALED(r->wait_status) ? WTERMSIG(r->wait_status) : WEXITSTATUS(r->wait_status);
    for (int i = r->first_read; i < 3; i++)
        bn_running_read(r, i);
    return status;
}

bn_status bn_process_run(struct bn_process *out, const struct bn_process_options *o, bn_error *err)
{
    struct bn_process_options copy = *o;
    struct bn_running r = {BN_NOT_RUNNING, .cancelled = o->cancelled, .first_read = 1, .on_read = keep,
                           .user = &copy};
    const char *const files[3] = {o->input != NULL ? o->input : "/dev/null",
                                  o->out != NULL ? NULL : "/dev/null",
                                  o->errors != NULL ? NULL : "/dev/null"};
    *out = (struct bn_process){0};
    uint64_t began = bn_clock_ns();
    bn_status status = bn_running_start(&r, o->argv, files, err);
    if (status == BN_OK) status = finish(out, &r, began, o->timeout_ns, err);
    bn_running_release(&r);
    return status;
}

bn_status bn_process_await(struct bn_process *out, pid_t pid, uint64_t began_ns, uint64_t timeout_ns,
                           bool (*cancelled)(void), bn_error *err)
{
    struct bn_running r = {BN_NOT_RUNNING, .pid = pid, .cancelled = cancelled, .first_read = 3};
    bn_error why = {0};
    *out = (struct bn_process){0};
    bn_status status = open_handle(&r, &why);
    if (status == BN_OK) status = finish(out, &r, began_ns, timeout_ns, &why);
    bn_running_release(&r);
    if (status != BN_ERR_CANCELLED) return status == BN_OK ? BN_OK : bn_fail(err, status, "%s", why.msg);
    out->end = BN_PROCESS_INTERRUPTED;
    return BN_OK;
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

/* ---- the running program, and programs near it ---- */

void bn_program_path(char out[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = '\0';
}

bool bn_program_near(char out[PATH_MAX], const char *folder, const char *name)
{
    char own[PATH_MAX];
    bn_program_path(own);
    const char *slash = strrchr(own, '/');
    if (slash == NULL) return false;
    int n = snprintf(out, PATH_MAX, "%.*s/%s%s", (int)(slash - own), own, folder, name);
    return n > 0 && n < PATH_MAX && access(out, X_OK) == 0;
}

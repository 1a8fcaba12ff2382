/* SPDX-License-Identifier: MIT
 *
 * Runs programs, and talks to them. Every wait is one ppoll on the program's descriptor (pidfd_open(2)) and on its pipes, so
 * that this process does nothing while the program does, unless the program prints. In a dialogue every wait also
 * empties the child's standard error, so that a child that fills it while we wait for an answer does not block both.
 */
#define _GNU_SOURCE
#include "lab/kit/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

#define ERR_BYTES 4096u /* of standard error that are kept */
#define IN_BYTES 65536u
#define MAX_DESCENDANTS 100000u /* that are ended, while they may start others */
#define END_NS 500000000u       /* for a child that closed its output to end */

/* A program that runs, and our ends of its pipes (non-blocking; -1 when closed). NOT_RUNNING starts one. */
struct running {
    pid_t pid;  /* 0: not started, or reaped */
    int handle; /* pidfd: readable when the program has ended */
    int fds[3]; /* its standard input, output and error */
    bool (*cancelled)(void);
    /* While wait_for waits, it reads from fds[first_read..2] and passes on what came. */
    int first_read;
    void (*on_read)(void *user, int fd, const char *bytes, size_t n);
    void *user;
    int wait_status;     /* valid after end_running */
    struct rusage usage; /* likewise */
};
#define NOT_RUNNING .handle = -1, .fds = {-1, -1, -1}

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
static bn_status open_end(struct running *r, int theirs[3], int i, const char *file, bn_error *err)
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

static bn_status open_handle(struct running *r, bn_error *err)
{
    r->handle = (int)syscall(SYS_pidfd_open, r->pid, 0);
    if (r->handle < 0) return bn_fail_errno(err, errno, NULL, "pidfd_open");
    (void)fcntl(r->handle, F_SETFD, FD_CLOEXEC);
    return BN_OK;
}

/* files[i] is what the program has as descriptor i; NULL: a pipe. Whatever it returns, release_running has to follow. */
static bn_status start_running(struct running *r, const char *const *argv, const char *const files[3],
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

/* Passes on what is ready in pipe i. */
static void read_pipe(struct running *r, int i)
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

/* Waits for events (of poll(2)) on fd until the clock reaches deadline; *ready is then false. BN_ERR_CANCELLED when
 * cancelled returns true. */
static bn_status wait_for(struct running *r, int fd, short events, uint64_t deadline, bool *ready,
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
            if (fds[i].revents != 0) read_pipe(r, i);
    }
    return BN_OK;
}

/* ---- the end ---- */

/* Kills what is left of the group. It keeps its number while its first process is not reaped; later the number may be
 * another group's. */
static void end_running(struct running *r)
{
    if (r->pid <= 0) return;
    (void)kill(-r->pid, SIGKILL);
    while (wait4(r->pid, &r->wait_status, 0, &r->usage) < 0 && errno == EINTR)
        continue;
    r->pid = 0;
}

static void release_running(struct running *r)
{
    for (int i = 0; i < 3; i++)
        close_fd(&r->fds[i]);
    end_running(r);
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
static bn_status finish(struct bn_process *out, struct running *r, uint64_t began, uint64_t timeout_ns,
                        bn_error *err)
{
    bool ended = false;
    bn_status status =
        wait_for(r, r->handle, POLLIN, timeout_ns > 0 ? began + timeout_ns : UINT64_MAX, &ended, err);
    out->wall_ns = bn_clock_ns() - began;
    end_running(r);
    out->usage = r->usage;
    out->end = !ended                        ? BN_PROCESS_TIMEOUT
               : WIFSIGNALED(r->wait_status) ? BN_PROCESS_SIGNALLED
                                             : BN_PROCESS_EXITED;
    if (ended)
        out->code = WIFSIGNALED(r->wait_status) ? WTERMSIG(r->wait_status) : WEXITSTATUS(r->wait_status);
    for (int i = r->first_read; i < 3; i++)
        read_pipe(r, i);
    return status;
}

bn_status bn_process_run(struct bn_process *out, const struct bn_process_options *o, bn_error *err)
{
    struct bn_process_options copy = *o;
    struct running r = {NOT_RUNNING, .cancelled = o->cancelled, .first_read = 1, .on_read = keep,
                        .user = &copy};
    const char *const files[3] = {o->input != NULL ? o->input : "/dev/null",
                                  o->out != NULL ? NULL : "/dev/null",
                                  o->errors != NULL ? NULL : "/dev/null"};
    *out = (struct bn_process){0};
    uint64_t began = bn_clock_ns();
    bn_status status = start_running(&r, o->argv, files, err);
    if (status == BN_OK) status = finish(out, &r, began, o->timeout_ns, err);
    release_running(&r);
    return status;
}

bn_status bn_process_await(struct bn_process *out, pid_t pid, uint64_t began_ns, uint64_t timeout_ns,
                           bool (*cancelled)(void), bn_error *err)
{
    struct running r = {NOT_RUNNING, .pid = pid, .cancelled = cancelled, .first_read = 3};
    bn_error why = {0};
    *out = (struct bn_process){0};
    bn_status status = open_handle(&r, &why);
    if (status == BN_OK) status = finish(out, &r, began_ns, timeout_ns, &why);
    release_running(&r);
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

struct bn_child {
    struct running run;
    bool failed;
    void (*on_stderr)(void *user, const char *bytes, size_t n);
    void *user;
    char tail[ERR_BYTES + 1]; /* of standard error */
    size_t n_tail;
    char buffer[IN_BYTES]; /* read, not yet asked for */
    size_t at, n;
};

/* ---- a child: start and standard error ---- */

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
    child->run = (struct running){NOT_RUNNING, .cancelled = options->cancelled, .first_read = 2,
                                  .on_read = keep_tail, .user = child};
    child->on_stderr = options->on_stderr;
    child->user = options->user;
    bn_status status = start_running(&child->run, argv, pipes, err);
    if (status != BN_OK) {
        bn_child_close(child);
        *out = NULL;
    }
    return status;
}

const char *bn_child_stderr(struct bn_child *child)
{
    read_pipe(&child->run, 2);
    const char *cut = child->n_tail == ERR_BYTES ? strchr(child->tail, '\n') : NULL;
    return cut != NULL ? cut + 1 : child->tail;
}

/* ---- its end ---- */

/* Waits for the end of the process; false when it still runs at the deadline. */
static bool ends(struct bn_child *child, uint64_t deadline)
{
    struct running *r = &child->run;
    bool (*cancelled)(void) = r->cancelled;
    bool ended = r->pid == 0;
    if (ended) return true;
    r->cancelled = NULL;
    if (wait_for(r, r->handle, POLLIN, deadline, &ended, NULL) == BN_OK && ended) end_running(r);
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
    close_fd(&child->run.fds[0]);
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
    if (child != NULL) release_running(&child->run);
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
    bn_status status = wait_for(&child->run, child->run.fds[i], events, deadline, &ready, err);
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

/* SPDX-License-Identifier: MIT
 *
 * Starts a process by fork and exec. Between them it calls only functions that are safe in a signal handler,
 * because other threads may hold locks. A pipe closes when the program starts, or has the errno when it does
 * not.
 */
#define _GNU_SOURCE
#include "lab/kit/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* Waits until the other side writes to the gate; false when it closed it. */
static bool pass(int gate)
{
    char byte;
    ssize_t got;
    do
        got = read(gate, &byte, 1);
    while (got < 0 && errno == EINTR);
    return got == 1;
}

static int become(const char *const *argv, const int fds[3], int gate)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    if (setpgid(0, 0) != 0) return errno;
    for (int s = 1; s < NSIG; s++)
        (void)sigaction(s, &plain, NULL);
    if (!pass(gate)) return ECANCELED;
    int failed = place_fds(fds);
    if (failed != 0) return failed;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    return errno;
}

/* The errno that the new process sends, 0 when it became the program. */
static int hear(int fd)
{
    int failed = 0;
    ssize_t got;
    do
        got = read(fd, &failed, sizeof failed);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof failed ? failed : 0;
}

static void reap(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

int bn_spawn_hold(struct bn_spawned *spawned, const char *const *argv, const int fds[3])
{
    int gate[2], tell[2];
    sigset_t all, before;
    /* A socket, since writing to one can do without SIGPIPE. */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate) != 0) return errno;
    if (pipe2(tell, O_CLOEXEC) != 0) {
        int failed = errno;
        close(gate[0]);
        close(gate[1]);
        return failed;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        /* Its end must not lie where the program's descriptors will be, and a gate that we hold open
         * ourselves would never close. */
        int end = fcntl(tell[1], F_DUPFD_CLOEXEC, 3);
        close(gate[1]);
        int failed = become(argv, fds, gate[0]);
        (void)!write(end, &failed, sizeof failed);
        _exit(127);
    }
    int failed = pid < 0 ? errno : 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(gate[0]);
    close(tell[1]);
    *spawned = (struct bn_spawned){.pid = pid, .gate = gate[1], .tell = tell[0]};
    if (failed != 0) {
        close(gate[1]);
        close(tell[0]);
    }
    return failed;
}

int bn_spawn_go(struct bn_spawned *spawned)
{
    ssize_t put = send(spawned->gate, "", 1, MSG_NOSIGNAL);
    close(spawned->gate);
    int failed = hear(spawned->tell);
    close(spawned->tell);
    if (put != 1 && failed == 0) failed = ECANCELED;
    if (failed != 0) reap(spawned->pid);
    return failed;
}

void bn_spawn_drop(struct bn_spawned *spawned)
{
    close(spawned->gate);
    close(spawned->tell);
    (void)kill(spawned->pid, SIGKILL);
    reap(spawned->pid);
}

int bn_spawn(pid_t *pid, const char *const *argv, const int fds[3])
{
    struct bn_spawned spawned;
    int failed = bn_spawn_hold(&spawned, argv, fds);
    if (failed == 0) failed = bn_spawn_go(&spawned);
    *pid = spawned.pid;
    return failed;
}

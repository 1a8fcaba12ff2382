/* SPDX-License-Identifier: MIT
 *
 * See spawn.h. Between fork and exec only what is safe in a signal handler is called, since other threads
 * may have held locks. A pipe that closes when the program starts tells that it did, or why not.
 */
#define _GNU_SOURCE
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

/* Descriptors that stand where others are to be put are moved out of the way first. */
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

static int become(const char *const *argv, const int fds[3])
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    if (setpgid(0, 0) != 0) return errno;
    for (int s = 1; s < NSIG; s++)
        (void)sigaction(s, &plain, NULL);
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

int bn_spawn(pid_t *pid, const char *const *argv, const int fds[3])
{
    int tell[2];
    sigset_t all, before;
    if (pipe2(tell, O_CLOEXEC) != 0) return errno;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    *pid = fork();
    if (*pid == 0) {
        /* Its end must not lie where the program's descriptors will be. */
        int end = fcntl(tell[1], F_DUPFD_CLOEXEC, 3);
        int failed = become(argv, fds);
        (void)!write(end, &failed, sizeof failed);
        _exit(127);
    }
    int failed = *pid < 0 ? errno : 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(tell[1]);
    if (failed == 0) failed = hear(tell[0]);
    close(tell[0]);
    if (failed != 0 && *pid > 0)
        while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    return failed;
}

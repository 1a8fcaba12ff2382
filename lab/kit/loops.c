/* SPDX-License-Identifier: MIT
 *
 * Starts, stops and ends the processes of loops.h. Those that wait are stopped by SIGSTOP.
 */
#define _GNU_SOURCE
#include "lab/kit/loops.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

#define PLACING_NS 100000000 /* in which the scheduler moves threads to idle CPUs */

struct bn_loops {
    unsigned n, n_running;
    pid_t pids[];
};

static _Noreturn void loop(pid_t parent)
{
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0L, 0L, 0L);
    if (getppid() != parent) _exit(0); /* it ended before */
    raise(SIGSTOP);
    for (;;)
        __asm__ volatile("");
}

bn_status bn_loops_start(struct bn_loops **out, unsigned n, bn_error *err)
{
    pid_t parent = getpid();
    *out = NULL;
    if (n == 0) return BN_OK;
    struct bn_loops *loops = bn_alloc(1, sizeof *loops + n * sizeof *loops->pids);
    if (loops == NULL) return bn_nomem(err);
    for (; loops->n < n; loops->n++) {
        pid_t pid = fork();
        if (pid == 0) loop(parent);
        if (pid < 0) {
            int code = errno;
            bn_fail(err, BN_ERR_UNSUPPORTED, "%u of %u busy processes started: %s", loops->n, n,
                    strerror(code));
            bn_loops_end(loops);
            return BN_ERR_UNSUPPORTED;
        }
        /* Until it has stopped itself: one that is stopped before its prctl would stay when this process ends. */
        while (waitpid(pid, NULL, WUNTRACED) < 0 && errno == EINTR) {
        }
        loops->pids[loops->n] = pid;
    }
    *out = loops;
    return BN_OK;
}

void bn_loops_run(struct bn_loops *loops, unsigned n)
{
    if (loops == NULL || loops->n_running == n) return;
    loops->n_running = n;
    for (unsigned i = 0; i < loops->n; i++)
        kill(loops->pids[i], i < n ? SIGCONT : SIGSTOP);
    struct timespec rest = {.tv_nsec = PLACING_NS};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
    }
}

void bn_loops_end(struct bn_loops *loops)
{
    if (loops == NULL) return;
    for (unsigned i = 0; i < loops->n; i++)
        kill(loops->pids[i], SIGKILL);
    for (unsigned i = 0; i < loops->n; i++)
        while (waitpid(loops->pids[i], NULL, 0) < 0 && errno == EINTR) {
        }
    bn_free(loops);
}

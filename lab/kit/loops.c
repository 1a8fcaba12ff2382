/* SPDX-License-Identifier: MIT
 *
 * Starts, stops and ends the processes of loops.h. How many compute is a word in memory that all share; those
 * that wait sleep on it (futex(2)).
 */
#define _GNU_SOURCE /* syscall, MAP_ANONYMOUS */
#include "lab/kit/loops.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

#define PLACING_NS 100000000 /* in which the scheduler moves threads to idle CPUs */
#define STEPS 100000u        /* between two looks at the word: some 50 us */

struct bn_loops {
    atomic_uint *n_running; /* shared */
    unsigned n;
    pid_t pids[];
};

static void compute(void)
{
    for (unsigned i = 0; i < STEPS; i++)
        __asm__ volatile("" : : "r"(i));
}

static _Noreturn void loop(atomic_uint *n_running, unsigned index, pid_t parent)
{
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0L, 0L, 0L);
    if (getppid() != parent) _exit(0); /* it ended before */
    for (;;) {
        unsigned n = atomic_load(n_running);
        if (n > index)
            compute();
        else
            syscall(SYS_futex, n_running, FUTEX_WAIT, n, NULL, NULL, 0);
    }
}

bn_status bn_loops_start(struct bn_loops **out, unsigned n, bn_error *err)
{
    pid_t parent = getpid();
    *out = NULL;
    if (n == 0) return BN_OK;
    struct bn_loops *loops = bn_alloc(1, sizeof *loops + n * sizeof *loops->pids);
    if (loops == NULL) return bn_nomem(err);
    void *shared =
        mmap(NULL, sizeof *loops->n_running, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        bn_free(loops);
        return bn_nomem(err);
    }
    loops->n_running = shared;
    for (; loops->n < n; loops->n++) {
        pid_t pid = fork();
        if (pid == 0) loop(loops->n_running, loops->n, parent);
        if (pid < 0) {
            int code = errno;
            bn_fail(err, BN_ERR_UNSUPPORTED, "%u of %u busy processes started: %s", loops->n, n,
                    strerror(code));
            bn_loops_end(loops);
            return BN_ERR_UNSUPPORTED;
        }
        loops->pids[loops->n] = pid;
    }
    *out = loops;
    return BN_OK;
}

void bn_loops_run(struct bn_loops *loops, unsigned n)
{
    if (loops == NULL || atomic_exchange(loops->n_running, n) == n) return;
    syscall(SYS_futex, loops->n_running, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
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
    munmap(loops->n_running, sizeof *loops->n_running);
    bn_free(loops);
}

/* SPDX-License-Identifier: MIT
 *
 * A fixed amount of work below some frames, for what sampling costs (overhead.sh).
 *
 *     fixed [TURNS [THREADS]]     500 (millions, by each thread) and 1
 *
 * prints the processor time of the whole process at its end: of what else runs in it, too.
 */
#include "sampled.h"

#include <pthread.h>

#define DEPTH 20

static uint64_t turns;

OWN_FRAME static uint64_t descend(int depth, uint64_t x)
{
    if (depth == 0) return turn(x, 100000);
    return descend(depth - 1, x) + 1;
}

static void *work(void *unused)
{
    uint64_t x = 1;
    for (uint64_t i = 0; i < turns * 10; i++)
        x = descend(DEPTH, x);
    return (void *)(uintptr_t)(x == 0 ? unused != NULL : 0);
}

int main(int argc, char **argv)
{
    pthread_t threads[64];
    uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    turns = argument(argc, argv, 500);
    if (n < 1 || n > 64) return 2;
    for (uint64_t i = 1; i < n; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0) return 1;
    work(NULL);
    for (uint64_t i = 1; i < n; i++)
        pthread_join(threads[i], NULL);
    printf("cpu_ns %" PRIu64 "\n", clock_of(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}

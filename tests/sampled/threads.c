/* SPDX-License-Identifier: MIT
 *
 * Two threads that live equally long: "busy" computes, "idle" sleeps until the other has done its work. The
 * first thread waits for them.
 *
 *     threads [CPU_MS [CALM_MS]]     1000 of "busy", and 0 on the wall before they are started
 *
 * prints the processor time and the wall time of each.
 */
#include "sampled.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

struct life {
    uint64_t cpu, wall;
    pid_t tid;
};

static uint64_t work_ns;
static atomic_bool done;

OWN_FRAME static uint64_t compute(void)
{
    uint64_t x = 1;
    while (cpu_ns() < work_ns)
        x = turn(x, 50000);
    atomic_store(&done, 1);
    return x;
}

static void nap(void)
{
    struct timespec ms = {.tv_nsec = 20000000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &ms, NULL);
}

OWN_FRAME static uint64_t doze(void)
{
    while (!atomic_load(&done))
        nap();
    return 0;
}

static void live(struct life *life, const char *name, uint64_t work(void))
{
    uint64_t began = wall_ns();
    life->tid = gettid();
    pthread_setname_np(pthread_self(), name);
    work();
    life->cpu = cpu_ns();
    life->wall = wall_ns() - began;
}

static void *busy(void *life)
{
    live(life, "busy", compute);
    return NULL;
}

static void *idle(void *life)
{
    live(life, "idle", doze);
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t calm = argc > 2 ? strtoull(argv[2], NULL, 10) * 1000000u : 0, until = wall_ns() + calm;
    while (wall_ns() < until)
        nap();
    work_ns = argument(argc, argv, 1000) * 1000000u;
    struct life lives[2] = {0};
    pthread_t threads[2];
    if (pthread_create(&threads[0], NULL, busy, &lives[0]) != 0) return 1;
    if (pthread_create(&threads[1], NULL, idle, &lives[1]) != 0) return 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("{\"functions\": {");
    print_function("compute", (uintptr_t)compute, 0);
    print_function("doze", (uintptr_t)doze, 0);
    print_function("main", (uintptr_t)main, 1);
    for (int i = 0; i < 2; i++)
        printf(", \"%s\": {\"tid\": %d, \"cpu_ns\": %" PRIu64 ", \"wall_ns\": %" PRIu64 "}",
               i == 0 ? "busy" : "idle", lives[i].tid, lives[i].cpu, lives[i].wall);
    printf("}\n");
    return 0;
}

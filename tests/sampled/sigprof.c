/* SPDX-License-Identifier: MIT
 *
 * A program that profiles itself: SIGPROF and the interval timer are its own.
 *
 *     sigprof [CPU_MS]        500 unless it is given
 *
 * prints how often its handler ran.
 */
#include "sampled.h"

#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks;

static void on_tick(int signal)
{
    (void)signal;
    ticks++;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    struct itimerval timer = {.it_interval = {.tv_usec = 20000}, .it_value = {.tv_usec = 20000}};
    uint64_t x = 1, end = cpu_ns() + argument(argc, argv, 500) * 1000000u;
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &timer, NULL);
    while (cpu_ns() < end)
        x = turn(x, 100000);
    printf("{\"ticks\": %d, \"cpu_ns\": %" PRIu64 ", \"result\": %d}\n", (int)ticks, cpu_ns(), (int)(x & 1));
    return 0;
}

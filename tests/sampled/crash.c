/* SPDX-License-Identifier: MIT
 *
 * Computes and ends by a signal, or by _exit.
 *
 *     crash [CPU_MS [segv|kill|exit]]      300 and segv unless they are given
 */
#include "sampled.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

OWN_FRAME static uint64_t before_the_end(uint64_t ns)
{
    uint64_t x = 1, end = cpu_ns() + ns;
    while (cpu_ns() < end)
        x = turn(x, 100000);
    return x;
}

int main(int argc, char **argv)
{
    const char *how = argc > 2 ? argv[2] : "segv";
    uint64_t x = before_the_end(argument(argc, argv, 300) * 1000000u);
    if (strcmp(how, "exit") == 0) _exit((int)(x & 0));
    raise(strcmp(how, "kill") == 0 ? SIGKILL : SIGSEGV);
    return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * Computes and ends by a signal, by _exit, or by becoming another program.
 *
 *     crash [CPU_MS [segv|kill|exit|execv PROGRAM ARGUMENT|execl PROGRAM ARGUMENT]]      300 and segv
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
    if (argc > 4 && strcmp(how, "execv") == 0) execvp(argv[3], argv + 3);
    if (argc > 4 && strcmp(how, "execl") == 0) execl(argv[3], argv[3], argv[4], NULL);
    raise(strcmp(how, "kill") == 0 ? SIGKILL : SIGSEGV);
    return 0;
}

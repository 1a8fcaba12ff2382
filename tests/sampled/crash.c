/* SPDX-License-Identifier: MIT
 *
 * Computes and ends by SIGSEGV.
 *
 *     crash [CPU_MS]        300 unless it is given
 */
#include "sampled.h"

#include <signal.h>

OWN_FRAME static uint64_t before_the_end(uint64_t ns)
{
    uint64_t x = 1, end = cpu_ns() + ns;
    while (cpu_ns() < end)
        x = turn(x, 100000);
    return x;
}

int main(int argc, char **argv)
{
    uint64_t x = before_the_end(argument(argc, argv, 300) * 1000000u);
    return raise(x != 0 ? SIGSEGV : SIGKILL);
}

/* SPDX-License-Identifier: MIT
 *
 * Hardly anything but calls: inner is so short that it is mostly seen while its frame is made or gone.
 *
 *     calls [CPU_MS]        500 unless it is given
 */
#include "sampled.h"

OWN_FRAME static uint64_t inner(uint64_t x)
{
    volatile uint64_t kept = x; /* on the stack: compilers make no frame for a function without that */
    return kept + 1;
}

OWN_FRAME static uint64_t outer(uint64_t x)
{
    for (int i = 0; i < 1000; i++)
        x = inner(x);
    return x;
}

int main(int argc, char **argv)
{
    uint64_t x = 1, end = cpu_ns() + argument(argc, argv, 500) * 1000000u;
    while (cpu_ns() < end)
        for (int i = 0; i < 100; i++)
            x = outer(x);
    printf("{\"functions\": {");
    print_function("inner", (uintptr_t)inner, 0);
    print_function("outer", (uintptr_t)outer, 0);
    print_function("main", (uintptr_t)main, 1);
    printf(", \"result\": %d}\n", (int)(x & 1));
    return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * main calls middle, which has no frame pointer and uses its register for something else (nofp_middle.c), and
 * that calls back. Frame pointers alone lead up to the callback only.
 *
 *     nofp [CPU_MS]        500 unless it is given
 */
#include "sampled.h"

uint64_t middle(uint64_t (*callback)(uint64_t), uint64_t ns);

OWN_FRAME static uint64_t callback(uint64_t ns)
{
    uint64_t x = 1, end = cpu_ns() + ns;
    while (cpu_ns() < end)
        x = turn(x, 100000);
    return x;
}

int main(int argc, char **argv)
{
    uint64_t x = middle(callback, argument(argc, argv, 500) * 1000000u);
    printf("{\"functions\": {");
    print_function("callback", (uintptr_t)callback, 0);
    print_function("middle", (uintptr_t)middle, 0);
    print_function("main", (uintptr_t)main, 1);
    printf(", \"cpu_ns\": %" PRIu64 ", \"result\": %d}\n", cpu_ns(), (int)(x & 1));
    return 0;
}

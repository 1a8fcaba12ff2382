/* SPDX-License-Identifier: MIT
 *
 * A function that calls itself until there are DEPTH frames of it, the last of which calls one that computes.
 *
 *     recursion [CPU_MS [DEPTH]]      500 and 20 unless they are given
 */
#include "sampled.h"

static volatile uint64_t result;

OWN_FRAME static uint64_t bottom(uint64_t ns)
{
    uint64_t x = 1, until = cpu_ns() + ns;
    do
        x = turn(x, 1000000);
    while (cpu_ns() < until);
    return x;
}

OWN_FRAME static uint64_t descend(uint64_t depth, uint64_t ns)
{
    result = depth > 1 ? descend(depth - 1, ns) : bottom(ns);
    return result;
}

int main(int argc, char **argv)
{
    uint64_t ms = argument(argc, argv, 500), depth = argc > 2 ? strtoull(argv[2], NULL, 10) : 20;
    descend(depth, ms * 1000000u);
    printf("{\"functions\": {");
    print_function("descend", (uintptr_t)descend, 0);
    print_function("bottom", (uintptr_t)bottom, 0);
    print_function("main", (uintptr_t)main, 1);
    printf(", \"depth\": %" PRIu64 ", \"cpu_ns\": %" PRIu64 "}\n", depth, cpu_ns());
    return 0;
}

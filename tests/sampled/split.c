/* SPDX-License-Identifier: MIT
 *
 * Two functions that use 70 and 30 percent of the processor time, in pieces of random length.
 *
 *     split [CPU_MS]        1000 unless it is given
 *
 * prints what each one used, by the thread's own clock: what a sampler has to find.
 */
#include "sampled.h"

OWN_FRAME static uint64_t seventy(uint64_t x, uint64_t turns)
{
    return turn(x, turns);
}

OWN_FRAME static uint64_t thirty(uint64_t x, uint64_t turns)
{
    return turn(x, turns) + 1;
}

int main(int argc, char **argv)
{
    uint64_t all = argument(argc, argv, 1000) * 1000000u, used[2] = {0, 0}, x = 1, random = 1;
    while (used[0] + used[1] < all) {
        uint64_t turns = 20000 + next_random(&random) % 300000, before = cpu_ns();
        /* The part that lacks more of its share goes next. */
        int who = used[0] * 3 > used[1] * 7;
        x = who == 0 ? seventy(x, turns) : thirty(x, turns);
        used[who] += cpu_ns() - before;
    }
    printf("{\"functions\": {");
    print_function("seventy", (uintptr_t)seventy, 0);
    print_function("thirty", (uintptr_t)thirty, 0);
    print_function("main", (uintptr_t)main, 1);
    printf(", \"seventy_ns\": %" PRIu64 ", \"thirty_ns\": %" PRIu64 ", \"all_ns\": %" PRIu64
           ", \"result\": %d}\n",
           used[0], used[1], cpu_ns(), (int)(x & 1));
    return 0;
}

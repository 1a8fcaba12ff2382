/* SPDX-License-Identifier: MIT
 *
 * Starts three processes: two that compute in functions of their own, and one that becomes another program.
 *
 *     fork CPU_MS PROGRAM ARGUMENTS...
 *
 * prints the processor time of the two.
 */
#include "sampled.h"

#include <sys/wait.h>
#include <unistd.h>

static void compute(uint64_t ns)
{
    uint64_t end = cpu_ns() + ns;
    while (cpu_ns() < end)
        turn(1, 100000);
}

OWN_FRAME static int first_child(uint64_t ns)
{
    compute(ns);
    return 0;
}

OWN_FRAME static int second_child(uint64_t ns)
{
    compute(2 * ns);
    return 0;
}

int main(int argc, char **argv)
{
    pid_t children[3];
    if (argc < 3) return 2;
    uint64_t ns = argument(argc, argv, 0) * 1000000u;
    for (int i = 0; i < 3; i++) {
        children[i] = fork();
        if (children[i] < 0) return 1;
        if (children[i] > 0) continue;
        if (i < 2) exit(i == 0 ? first_child(ns) : second_child(ns));
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    int failed = 0;
    for (int i = 0; i < 3; i++) {
        int status = 0;
        if (waitpid(children[i], &status, 0) != children[i] || status != 0) failed = 1;
    }
    printf("{\"functions\": {");
    print_function("first_child", (uintptr_t)first_child, 0);
    print_function("second_child", (uintptr_t)second_child, 0);
    print_function("main", (uintptr_t)main, 1);
    printf(", \"first\": %d, \"second\": %d, \"other\": %d, \"ns\": %" PRIu64 "}\n", (int)children[0],
           (int)children[1], (int)children[2], ns);
    return failed;
}

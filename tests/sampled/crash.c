/* SPDX-License-Identifier: MIT
 *
 * Computes and ends by a signal, by _exit, or by becoming another program.
 *
 *     crash [CPU_MS [segv|kill|exit|load LIBRARY|execv PROGRAM ARGUMENT|execl PROGRAM ARGUMENT]]
 *
 * 300 and segv unless they are given. load: computes as long again in storm's library, and is killed.
 */
#include "sampled.h"

#include <dlfcn.h>
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

static uint64_t in_library(const char *path, uint64_t ns)
{
    void *handle = dlopen(path, RTLD_NOW), *symbol = handle != NULL ? dlsym(handle, "storm_work") : NULL;
    uint64_t (*work)(uint64_t) = NULL, x = 0;
    if (symbol == NULL) exit(1);
    __builtin_memcpy(&work, &symbol, sizeof work);
    for (uint64_t end = cpu_ns() + ns; cpu_ns() < end;)
        x += work(100000);
    return x;
}

int main(int argc, char **argv)
{
    const char *how = argc > 2 ? argv[2] : "segv";
    uint64_t ns = argument(argc, argv, 300) * 1000000u, x = before_the_end(ns);
    if (strcmp(how, "exit") == 0) _exit((int)(x & 0));
    if (argc > 4 && strcmp(how, "execv") == 0) execvp(argv[3], argv + 3);
    if (argc > 4 && strcmp(how, "execl") == 0) execl(argv[3], argv[3], argv[4], NULL);
    if (argc > 3 && strcmp(how, "load") == 0) x += in_library(argv[3], ns);
    raise(strcmp(how, "segv") == 0 ? SIGSEGV : SIGKILL);
    return 0;
}

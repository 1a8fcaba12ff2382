/* SPDX-License-Identifier: MIT
 *
 * A library for LD_PRELOAD that makes allocations fail, those of other libraries too. From main on, calls are
 * counted: with BN_OOM_AT=N the N-th fails, with BN_OOM_FROM=N it and all after it; BN_OOM_COUNT=FILE gets
 * the number of calls when the program ends. Programs that are started from there run as usual.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

static atomic_ulong n_calls;
static unsigned long fail_at, fail_from;
static atomic_bool armed;
static int report = -1;
static int (*real_main)(int, char **, char **);

static int fails(void)
{
    if (!atomic_load(&armed)) return 0;
    unsigned long n = atomic_fetch_add(&n_calls, 1) + 1;
    if (n != fail_at && (fail_from == 0 || n < fail_from)) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t n)
{
    return fails() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t each)
{
    return fails() ? NULL : __libc_calloc(n, each);
}

void *realloc(void *p, size_t n)
{
    return fails() ? NULL : __libc_realloc(p, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return fails() ? NULL : __libc_memalign(alignment, n);
}

int posix_memalign(void **p, size_t alignment, size_t n)
{
    if (fails()) return ENOMEM;
    *p = __libc_memalign(alignment, n);
    return *p != NULL ? 0 : ENOMEM;
}

static unsigned long number(const char *name)
{
    const char *text = getenv(name);
    unsigned long n = text != NULL ? strtoul(text, NULL, 10) : 0;
    unsetenv(name);
    return n;
}

__attribute__((destructor)) static void write_report(void)
{
    char line[32];
    atomic_store(&armed, 0);
    int n = snprintf(line, sizeof line, "%lu\n", atomic_load(&n_calls));
    if (report >= 0 && n > 0) (void)!write(report, line, (size_t)n);
}

static int counted_main(int argc, char **argv, char **environment)
{
    const char *path = getenv("BN_OOM_COUNT");
    if (path != NULL) report = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    fail_at = number("BN_OOM_AT");
    fail_from = number("BN_OOM_FROM");
    unsetenv("BN_OOM_COUNT");
    unsetenv("LD_PRELOAD");
    atomic_store(&armed, 1);
    return real_main(argc, argv, environment);
}

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
    __typeof__(&__libc_start_main) start = dlsym(RTLD_NEXT, "__libc_start_main");
    real_main = main;
    return start(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}

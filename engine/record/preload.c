/* SPDX-License-Identifier: MIT
 *
 * libbn-sampler.so: the agent in a program that knows nothing of it, loaded by LD_PRELOAD. The environment
 * names the log; without it, or with one that is not ours, the library does nothing. It writes nothing that
 * the program or its user would see.
 *
 * Children of fork go on with the same log, and so does what is started by exec, since the environment goes
 * along. Timers end with exec, except for the interval timer, whose signal would end a program that has no
 * handler yet: it is stopped before.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/agent_inside.h"

/* ---- signals ---- */

static int (*next_sigaction)(int, const struct sigaction *, struct sigaction *);
static sighandler_t (*next_signal)(int, sighandler_t);

/* sigaction may be called in a signal handler, dlsym not; before this the program has not begun. */
static void find_signal_functions(void)
{
    void *found = dlsym(RTLD_NEXT, "sigaction");
    memcpy(&next_sigaction, &found, sizeof found);
    found = dlsym(RTLD_NEXT, "signal");
    memcpy(&next_signal, &found, sizeof found);
}

#define PUBLIC __attribute__((visibility("default")))

PUBLIC int sigaction(int number, const struct sigaction *restrict action, struct sigaction *restrict before)
{
    if (next_sigaction == NULL) find_signal_functions();
    if (action != NULL && action->sa_sigaction != bn_agent_on_signal) bn_agent_give_up(number);
    return next_sigaction(number, action, before);
}

PUBLIC sighandler_t signal(int number, sighandler_t handler)
{
    if (next_signal == NULL) find_signal_functions();
    bn_agent_give_up(number);
    return next_signal(number, handler);
}

/* ---- loading ---- */

static struct bn_agent_log *open_log(void)
{
    const char *path = getenv(BN_AGENT_LOG_VARIABLE);
    struct stat st;
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return NULL;
    void *memory = MAP_FAILED;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size > sizeof(struct bn_agent_log))
        memory = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) return NULL;
    struct bn_agent_log *log = memory;
    if (log->version == BN_AGENT_VERSION && log->size == (uint64_t)st.st_size) return log;
    munmap(memory, (size_t)st.st_size);
    return NULL;
}

__attribute__((constructor)) static void load(void)
{
    int error = errno;
    const char *what;
    find_signal_functions();
    struct bn_agent_log *log = open_log();
    if (log != NULL && bn_agent_begin(log, &what) == 0) pthread_atfork(NULL, NULL, bn_agent_forked);
    errno = error;
}

__attribute__((destructor)) static void leave(void)
{
    int error = errno;
    bn_agent_snapshot();
    errno = error;
}

/* ---- exec ---- */

typedef int exec_fn(const char *, char *const *, char *const *);

static int become(const char *name, const char *path, char *const *argv, char *const *envp)
{
    exec_fn *next;
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        errno = ENOSYS;
        return -1;
    }
    memcpy(&next, &found, sizeof next);
    bn_agent_pause(true);
    int result = next(path, argv, envp);
    int error = errno;
    bn_agent_pause(false);
    errno = error;
    return result;
}

/* The arguments of a call like execl as a list. false when there are too many. */
#define MAX_ARGUMENTS 1024
static bool collect(char *list[MAX_ARGUMENTS], const char *first, va_list *rest)
{
    const char *argument = first;
    size_t n = 0;
    for (; argument != NULL && n + 1 < MAX_ARGUMENTS; argument = va_arg(*rest, const char *))
        memcpy(&list[n++], &argument, sizeof argument);
    list[n] = NULL;
    if (argument != NULL) errno = E2BIG;
    return argument == NULL;
}

PUBLIC int execve(const char *path, char *const argv[], char *const envp[])
{
    return become("execve", path, argv, envp);
}

PUBLIC int execvpe(const char *file, char *const argv[], char *const envp[])
{
    return become("execvpe", file, argv, envp);
}

PUBLIC int execv(const char *path, char *const argv[])
{
    return become("execve", path, argv, environ);
}

PUBLIC int execvp(const char *file, char *const argv[])
{
    return become("execvpe", file, argv, environ);
}

PUBLIC int execl(const char *path, const char *first, ...)
{
    char *list[MAX_ARGUMENTS];
    va_list rest;
    va_start(rest, first);
    bool fits = collect(list, first, &rest);
    va_end(rest);
    return fits ? become("execve", path, list, environ) : -1;
}

PUBLIC int execlp(const char *file, const char *first, ...)
{
    char *list[MAX_ARGUMENTS];
    va_list rest;
    va_start(rest, first);
    bool fits = collect(list, first, &rest);
    va_end(rest);
    return fits ? become("execvpe", file, list, environ) : -1;
}

PUBLIC int execle(const char *path, const char *first, ...)
{
    char *list[MAX_ARGUMENTS];
    char *const *environment = NULL;
    va_list rest;
    va_start(rest, first);
    bool fits = collect(list, first, &rest);
    if (fits) environment = va_arg(rest, char *const *);
    va_end(rest);
    return fits ? become("execve", path, list, environment) : -1;
}

/* SPDX-License-Identifier: MIT
 *
 * How a recorded program's environment gets the library and the log, and loses them. A program is loaded
 * with both; the library removes them before main begins, and adds them to the environment of programs
 * started by exec, posix_spawn, system and popen while the recorder reads the log. So a program that
 * continues after the recording starts others without them, whatever it keeps of its own environment.
 *
 * Programs that are started otherwise are not recorded: by system calls without the C library's functions
 * (by a static program, by Go), or within the C library (wordexp). A program without the library keeps the
 * variables for ever, and passes them on; that is why the library's path has to be safe after the recording
 * too (library.h), and why a log is not trusted (preload.c).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/sampler/agent.h"
#include "lab/sampler/preload.h"

#define PRELOAD "LD_PRELOAD="
#define LOG BN_AGENT_LOG_VARIABLE "="
#define MAX_ARGUMENTS 1024          /* of execl and the like */
#define MAX_ROOM 65536u             /* bytes; what is started with a larger environment is not recorded */
#define ROOM(n) __builtin_alloca(n) /* in the frame of the function that starts the program */

struct bn_preload bn_preload;

/* ---- the functions of the C library ---- */

typedef int exec_fn(const char *, char *const *, char *const *);
typedef int fexec_fn(int, char *const *, char *const *);
typedef int execat_fn(int, const char *, char *const *, char *const *, int);
typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                     char *const *, char *const *);
typedef int system_fn(const char *);
typedef FILE *popen_fn(const char *, const char *);

static struct functions {
    exec_fn *execve, *execvpe;
    fexec_fn *fexecve;
    execat_fn *execveat;
    spawn_fn *posix_spawn, *posix_spawnp;
    system_fn *system;
    popen_fn *popen;
} next;

static void find_functions(void)
{
    static const struct {
        const char *name;
        size_t at;
    } NAMES[] = {
#define NEXT(function) {#function, offsetof(__typeof__(next), function)}
        NEXT(execve),      NEXT(execvpe),      NEXT(fexecve), NEXT(execveat),
        NEXT(posix_spawn), NEXT(posix_spawnp), NEXT(system),  NEXT(popen),
#undef NEXT
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        void *found = dlsym(RTLD_NEXT, NAMES[i].name);
        memcpy((char *)&next + NAMES[i].at, &found, sizeof found);
    }
}

/* dlsym is not for a child of vfork, or a signal handler: it is asked when the library is loaded, or before
 * that by another library that is loaded earlier. */
static const struct functions *functions(void)
{
    if (next.execve == NULL) find_functions();
    return &next;
}

/* ---- out of the environment ---- */

static size_t name_bytes(const char *variable, const char *name)
{
    size_t n = strlen(name);
    return strncmp(variable, name, n) == 0 ? n : 0;
}

/* The text, and its place in /proc/self/environ. */
static void wipe(char *text)
{
    memset(text, 0, strlen(text));
}

/* Takes a path out of a list that is divided at colons and spaces; what follows moves up. */
static void take_path(char *list, const char *path)
{
    size_t n = strlen(path);
    for (char *at = list; *at != '\0';) {
        size_t length = strcspn(at, ": ");
        size_t step = length + (at[length] != '\0');
        if (length != n || memcmp(at, path, n) != 0) {
            at += step;
            continue;
        }
        size_t rest = strlen(at + step);
        memmove(at, at + step, rest);
        memset(at + rest, 0, step);
        if (rest == 0 && at > list) at[-1] = '\0'; /* the mark before the last one */
        return;
    }
}

void bn_preload_take_environment(void)
{
    Dl_info own;
    char *list = getenv("LD_PRELOAD"), *log = getenv(BN_AGENT_LOG_VARIABLE);
    (void)functions();
    if (dladdr(&bn_preload, &own) != 0 && strlen(own.dli_fname) < sizeof bn_preload.library)
        strcpy(bn_preload.library, own.dli_fname);
    if (list != NULL) take_path(list, bn_preload.library);
    if (list != NULL && *list == '\0') {
        wipe(list - strlen(PRELOAD));
        unsetenv("LD_PRELOAD");
    }
    if (log == NULL) return;
    if (strlen(log) < sizeof bn_preload.log) strcpy(bn_preload.log, log);
    char *variable = log - strlen(LOG);
    unsetenv(BN_AGENT_LOG_VARIABLE);
    wipe(variable);
}

/* ---- into that of a program ---- */

/* The environment of a program that is about to be started: the one that is given, or that one with the
 * library and the log, in room that lies on the stack: memory that a child of vfork allocates stays its
 * parent's, and who calls this in a signal handler has little room. One that names a log already is another
 * recorder's. */
static size_t room_for(char *const *given)
{
    size_t n = 3,
           text = sizeof PRELOAD + strlen(bn_preload.library) + sizeof LOG + strlen(bn_preload.log) + 1;
    if (!bn_preload_recorder_lives()) return 0;
    for (; given != NULL && *given != NULL; given++, n++) {
        if (name_bytes(*given, LOG) > 0) return 0;
        if (name_bytes(*given, PRELOAD) > 0) text += strlen(*given);
    }
    text += n * sizeof *given;
    return text <= MAX_ROOM ? text : 0;
}

static char *const *with_sampler(void *room, size_t n_bytes, char *const *given)
{
    char **list = room;
    const char *others = "";
    size_t n = 0, total = 3;
    if (n_bytes == 0) return given;
    for (char *const *variable = given; variable != NULL && *variable != NULL; variable++, total++) {
        if (name_bytes(*variable, PRELOAD) > 0)
            others = *variable + strlen(PRELOAD);
        else
            list[n++] = *variable;
    }
    char *preload = (char *)(list + total), *end = stpcpy(stpcpy(preload, PRELOAD), others);
    if (*others != '\0') *end++ = ':';
    char *log = stpcpy(end, bn_preload.library) + 1;
    strcpy(stpcpy(log, LOG), bn_preload.log);
    list[n++] = preload;
    list[n++] = log;
    list[n] = NULL;
    return list;
}

/* ---- exec ---- */

static int missing(void)
{
    errno = ENOSYS;
    return -1;
}

/* After an exec that failed. */
static int resume(void)
{
    int error = errno;
    bn_agent_pause(false);
    errno = error;
    return -1;
}

static int become(exec_fn *function, const char *path, char *const *argv, char *const *envp)
{
    if (function == NULL) return missing();
    size_t n = room_for(envp);
    void *room = ROOM(n);
    bn_agent_pause(true);
    (void)function(path, argv, with_sampler(room, n, envp));
    return resume();
}

/* The arguments of a call like execl as a list. false when there are too many. */
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

BN_PRELOAD_PUBLIC int execve(const char *path, char *const argv[], char *const envp[])
{
    return become(functions()->execve, path, argv, envp);
}

BN_PRELOAD_PUBLIC int execvpe(const char *file, char *const argv[], char *const envp[])
{
    return become(functions()->execvpe, file, argv, envp);
}

BN_PRELOAD_PUBLIC int execv(const char *path, char *const argv[])
{
    return become(functions()->execve, path, argv, environ);
}

BN_PRELOAD_PUBLIC int execvp(const char *file, char *const argv[])
{
    return become(functions()->execvpe, file, argv, environ);
}

BN_PRELOAD_PUBLIC int execl(const char *path, const char *first, ...)
{
    char *list[MAX_ARGUMENTS];
    va_list rest;
    va_start(rest, first);
    bool fits = collect(list, first, &rest);
    va_end(rest);
    return fits ? become(functions()->execve, path, list, environ) : -1;
}

BN_PRELOAD_PUBLIC int execlp(const char *file, const char *first, ...)
{
    char *list[MAX_ARGUMENTS];
    va_list rest;
    va_start(rest, first);
    bool fits = collect(list, first, &rest);
    va_end(rest);
    return fits ? become(functions()->execvpe, file, list, environ) : -1;
}

BN_PRELOAD_PUBLIC int execle(const char *path, const char *first, ...)
{
    char *list[MAX_ARGUMENTS];
    char *const *environment = NULL;
    va_list rest;
    va_start(rest, first);
    bool fits = collect(list, first, &rest);
    if (fits) environment = va_arg(rest, char *const *);
    va_end(rest);
    return fits ? become(functions()->execve, path, list, environment) : -1;
}

BN_PRELOAD_PUBLIC int fexecve(int fd, char *const argv[], char *const envp[])
{
    if (functions()->fexecve == NULL) return missing();
    size_t n = room_for(envp);
    void *room = ROOM(n);
    bn_agent_pause(true);
    (void)next.fexecve(fd, argv, with_sampler(room, n, envp));
    return resume();
}

BN_PRELOAD_PUBLIC int execveat(int fd, const char *path, char *const argv[], char *const envp[], int flags)
{
    if (functions()->execveat == NULL) return missing();
    size_t n = room_for(envp);
    void *room = ROOM(n);
    bn_agent_pause(true);
    (void)next.execveat(fd, path, argv, with_sampler(room, n, envp), flags);
    return resume();
}

/* ---- posix_spawn ---- */

BN_PRELOAD_PUBLIC int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                                  const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    if (functions()->posix_spawn == NULL) return ENOSYS;
    size_t n = room_for(envp);
    void *room = ROOM(n);
    return next.posix_spawn(pid, path, actions, attributes, argv, with_sampler(room, n, envp));
}

BN_PRELOAD_PUBLIC int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                                   const posix_spawnattr_t *attributes, char *const argv[],
                                   char *const envp[])
{
    if (functions()->posix_spawnp == NULL) return ENOSYS;
    size_t n = room_for(envp);
    void *room = ROOM(n);
    return next.posix_spawnp(pid, file, actions, attributes, argv, with_sampler(room, n, envp));
}

/* ---- a shell ---- */

/* These start a shell within the C library, with this process's environment. So the command becomes one whose
 * shell sets the two variables and becomes the shell that the program asked for, called as it would have
 * been. NULL: the command is to be used as it is. */
static char *with_exports(const char *command)
{
    static const char BEGIN[] = "export " LOG "'%s' LD_PRELOAD=\"${LD_PRELOAD:+$LD_PRELOAD:}%s\"; "
                                "exec /bin/sh -c '";
    if (command == NULL || command[0] == '-' || command[0] == '+' || getenv(BN_AGENT_LOG_VARIABLE) != NULL ||
        !bn_preload_recorder_lives())
        return NULL;
    size_t n = sizeof BEGIN + sizeof bn_preload.log + sizeof bn_preload.library + 4 * strlen(command) + 8;
    char *text = n <= MAX_ROOM ? malloc(n) : NULL; /* an argument has up to 128 KiB */
    if (text == NULL) return NULL;
    char *end = text + snprintf(text, n, BEGIN, bn_preload.log, bn_preload.library);
    for (const char *c = command; *c != '\0'; c++) {
        if (*c == '\'')
            end = stpcpy(end, "'\\''");
        else
            *end++ = *c;
    }
    strcpy(end, "' sh");
    return text;
}

BN_PRELOAD_PUBLIC int system(const char *command)
{
    if (functions()->system == NULL) return missing();
    char *text = with_exports(command);
    int result = next.system(text != NULL ? text : command);
    int error = errno;
    free(text);
    errno = error;
    return result;
}

BN_PRELOAD_PUBLIC FILE *popen(const char *command, const char *type)
{
    if (functions()->popen == NULL) return (void)missing(), NULL;
    char *text = with_exports(command);
    FILE *result = next.popen(text != NULL ? text : command, type);
    int error = errno;
    free(text);
    errno = error;
    return result;
}

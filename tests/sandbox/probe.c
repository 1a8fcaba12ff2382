/* SPDX-License-Identifier: MIT
 *
 * A library for LD_PRELOAD that tries what a program has no business with, as code would that a file of somebody else had
 * made it run: when the program ends, and in bn-serve also in the thread that has accepted a connection. Each line of
 * BN_PROBE_OUT is an attempt and its errno, 0 when it succeeded. The program is named by BN_PROBE_PROGRAM, so that those
 * that it starts are left alone.
 *
 * BN_PROBE_NO_MEMORY names a step into the sandbox that the kernel then has no memory for: "paths" (Landlock), "calls" or
 * "sockets" (the first and the second filter of seccomp).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int out = -1, early = -1;
static pid_t probed;

__attribute__((constructor)) static void begin(void)
{
    const char *program = getenv("BN_PROBE_PROGRAM"), *file = getenv("BN_PROBE_OUT");
    if (program == NULL || file == NULL || strcmp(program, program_invocation_short_name) != 0) return;
    out = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    early = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    probed = getpid();
}

static void say(const char *where, const char *what, long result)
{
    dprintf(out, "%s %s %d\n", where, what, result < 0 ? errno : 0);
}

static int opens(const char *variable, int flags)
{
    int fd = open(getenv(variable), flags | O_CLOEXEC, 0600);
    if (fd >= 0) close(fd);
    return fd;
}

/* In a child; its exit status is the errno. */
static int in_child(int (*attempt)(void))
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) _exit(attempt() < 0 ? errno : 0);
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return -1;
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : ENOSYS;
    return errno == 0 ? 0 : -1;
}

static int starts(void)
{
    char name[] = "/bin/true", *argv[] = {name, NULL};
    return execv(name, argv);
}

static int is_traced(void)
{
    return (int)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static int enters_namespace(void)
{
    return unshare(CLONE_NEWUSER);
}

static int forks_namespace(void)
{
    return (int)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL) < 0 ? -1 : 0;
}

static int signals_parent(void)
{
    return kill(getppid(), 0);
}

/* The kernel may be without these interfaces: a signal or ENOSYS. */
static int calls_i386(void)
{
    long pid = -ENOSYS;
#ifdef __x86_64__
    __asm__ volatile("int $0x80" : "=a"(pid) : "a"(20L /* getpid */) : "memory");
#endif
    errno = pid < 0 ? (int)-pid : 0;
    return pid < 0 ? -1 : 0;
}

static int calls_x32(void)
{
    return syscall(0x40000000 | SYS_getpid) < 0 ? -1 : 0;
}

static void try_all(const char *where)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(1)};
    struct sockaddr_in any = {.sin_family = AF_INET};
    int fd, ends[2];
    to.sin_addr.s_addr = any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    say(where, "passwd", open("/etc/passwd", O_RDONLY | O_CLOEXEC));
    say(where, "home", opens("BN_PROBE_SECRET", O_RDONLY));
    say(where, "change", opens("BN_PROBE_SECRET", O_WRONLY));
    say(where, "create", opens("BN_PROBE_NEW", O_WRONLY | O_CREAT));
    say(where, "environ", opens("BN_PROBE_OTHER", O_RDONLY)); /* another process */
    say(where, "socket", fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (fd >= 0) close(fd);
    say(where, "pair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    say(where, "bind", bind(early, (const struct sockaddr *)&any, sizeof any));
    say(where, "connect", connect(early, (const struct sockaddr *)&to, sizeof to));
    say(where, "exec", in_child(starts));
    say(where, "ptrace", in_child(is_traced));
    say(where, "unshare", in_child(enters_namespace));
    say(where, "clone", in_child(forks_namespace));
    say(where, "signal", signals_parent());
    say(where, "type", ioctl(out, TIOCSTI, "x"));
    say(where, "keyring", syscall(SYS_keyctl, 0, -3, 0, 0, 0));
    say(where, "i386", in_child(calls_i386));
    say(where, "x32", in_child(calls_x32));
}

__attribute__((destructor)) static void end(void)
{
    if (out >= 0 && getpid() == probed) try_all("end");
}

int accept4(int fd, struct sockaddr *address, socklen_t *n, int flags)
{
    static int done;
    int (*real)(int, struct sockaddr *, socklen_t *, int) =
        (int (*)(int, struct sockaddr *, socklen_t *, int))dlsym(RTLD_NEXT, "accept4");
    int got = real(fd, address, n, flags), why = errno;
    if (got >= 0 && out >= 0 && !done) {
        done = 1;
        try_all("thread");
    }
    errno = why;
    return got;
}

static int lacks_memory(long call)
{
    static int n_filters;
    const char *step = getenv("BN_PROBE_NO_MEMORY");
    if (step == NULL) return 0;
    if (call == SYS_landlock_restrict_self) return strcmp(step, "paths") == 0;
    return call == SYS_seccomp && strcmp(step, n_filters++ == 0 ? "calls" : "sockets") == 0;
}

long syscall(long call, ...)
{
    long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall"), a[6];
    va_list rest;
    va_start(rest, call);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(rest, long);
    va_end(rest);
    if (!lacks_memory(call)) return real(call, a[0], a[1], a[2], a[3], a[4], a[5]);
    errno = ENOMEM;
    return -1;
}

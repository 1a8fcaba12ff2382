/* SPDX-License-Identifier: MIT
 *
 * libbn-sampler.so: the agent in another program, loaded by LD_PRELOAD. The environment names the log;
 * without it, or with a log that is not ours, the library does nothing. It prints nothing.
 *
 * Children of fork continue with the same log, and so do programs started by exec, to which preload_exec.c
 * gives the environment, in both cases only while the recorder reads the log. Timers end with exec, except
 * for the interval timer, whose signal would end a program that has no handler yet: it is stopped before.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "lab/sampler/agent_inside.h"
#include "lab/sampler/preload.h"

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

BN_PRELOAD_PUBLIC int sigaction(int number, const struct sigaction *restrict action,
                                struct sigaction *restrict before)
{
    if (next_sigaction == NULL) find_signal_functions();
    if (action != NULL && action->sa_sigaction != bn_agent_on_signal) bn_agent_give_up(number);
    return next_sigaction(number, action, before);
}

BN_PRELOAD_PUBLIC sighandler_t signal(int number, sighandler_t handler)
{
    if (next_signal == NULL) find_signal_functions();
    bn_agent_give_up(number);
    return next_signal(number, handler);
}

/* ---- the log ---- */

/* The file that was opened, and whose it is. While it is mapped no other file has its number. */
static struct stat log_file;

enum recorder { LIVES, GONE, NOT_TOLD };

/* The log is a file of the recorder's alone, which its process's folder in /proc names: when the recorder
 * ends or closes it, however that happens, the path names nothing, or another file of a process that has the
 * number now. Without that folder, as after chroot, nothing is told. Safe in a child of vfork. */
static enum recorder find_recorder(void)
{
    struct stat now;
    if (stat(bn_preload.log, &now) == 0)
        return now.st_dev == log_file.st_dev && now.st_ino == log_file.st_ino ? LIVES : GONE;
    return errno == ENOENT && stat("/proc/self", &now) == 0 ? GONE : NOT_TOLD;
}

bool bn_preload_recorder_lives(void)
{
    int error = errno;
    enum recorder found = bn_preload.ready ? find_recorder() : GONE;
    errno = error;
    return found == LIVES;
}

static bool is_unread(void)
{
    return find_recorder() == GONE;
}

/* Whether a file is a log that this user's recorder made: another user may own what lies at the path now, and
 * a file that is not sealed could become shorter while it is mapped. */
static bool is_log(int fd, const struct stat *st)
{
    const int SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    int seals = fcntl(fd, F_GET_SEALS);
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() && seals >= 0 && (seals & SEALS) == SEALS &&
           (size_t)st->st_size > sizeof(struct bn_agent_log);
}

static struct bn_agent_log *open_log(void)
{
    int fd = bn_preload.log[0] != '\0' ? open(bn_preload.log, O_RDWR | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0) return NULL;
    void *memory = MAP_FAILED;
    if (fstat(fd, &log_file) == 0 && is_log(fd, &log_file))
        memory =
            mmap(NULL, (size_t)log_file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) return NULL;
    struct bn_agent_log *log = memory;
    if (log->version == BN_AGENT_VERSION && log->size == (uint64_t)log_file.st_size) return log;
    munmap(memory, (size_t)log_file.st_size);
    return NULL;
}

/* ---- loading ---- */

__attribute__((constructor)) static void load(void)
{
    int error = errno;
    const char *what;
    find_signal_functions();
    bn_preload_take_environment();
    struct bn_agent_log *log = open_log();
    bn_preload.ready = log != NULL;
    if (log != NULL && bn_agent_begin(log, is_unread, &what) == 0)
        pthread_atfork(NULL, NULL, bn_agent_forked);
    errno = error;
}

__attribute__((destructor)) static void leave(void)
{
    int error = errno;
    bn_agent_snapshot();
    errno = error;
}

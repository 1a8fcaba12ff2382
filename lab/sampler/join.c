/* SPDX-License-Identifier: MIT
 *
 * The agent in a program of bn that bn-flamegraph started: the environment names the log. Without it, or with
 * a log that is not ours, nothing happens. Programs that this one becomes or starts find the log in their
 * environment in turn; those that are not of bn ignore it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lab/sampler/agent.h"

const char bn_agent_mark_of_programs[] = BN_AGENT_PROGRAM;

/* The file that was opened. While it is mapped no other file has its number. */
static struct stat log_file;

/* The log is a file of the recorder's alone: when that ends, its path in /proc names nothing, or another file
 * of a process that has the number now. Where nothing can be read, as after chroot, the recorder counts as there. */
static bool is_unread(void)
{
    struct stat now;
    const char *path = getenv(BN_AGENT_LOG_VARIABLE);
    if (path != NULL && stat(path, &now) == 0)
        return now.st_dev != log_file.st_dev || now.st_ino != log_file.st_ino;
    return stat("/proc/self", &now) == 0;
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

static struct bn_agent_log *open_log(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
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

void bn_agent_join(void)
{
    int error = errno;
    const char *what, *path = secure_getenv(BN_AGENT_LOG_VARIABLE);
    struct bn_agent_log *log = path != NULL && path[0] != '\0' ? open_log(path) : NULL;
    if (log != NULL && bn_agent_begin(log, is_unread, &what) == 0) (void)atexit(bn_agent_snapshot);
    errno = error;
}

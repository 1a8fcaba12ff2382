/* SPDX-License-Identifier: MIT
 *
 * See lock.h.
 */
#define _GNU_SOURCE
#include "hub/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

#define MAX_PATH 4096u
#define TICK_NS 100000000L

struct bn_hub_lock {
    int fd;                   /* -1: held by O_EXCL */
    char held[MAX_PATH + 16]; /* the file of O_EXCL */
};

/* This machine since its last start: "node boot-id". */
static void here(char out[256])
{
    struct utsname u;
    struct bn_buf boot = {.max = 64};
    bool known = bn_file_read("/proc/sys/kernel/random/boot_id", &boot, NULL) == BN_OK && boot.data != NULL;
    snprintf(out, 256, "%.120s %.36s", uname(&u) == 0 ? u.nodename : "?", known ? boot.data : "?");
    bn_buf_release(&boot);
}

/* Does the holder that a file names live? Another machine's is believed to. */
static bool is_alive(const char *held)
{
    char machine[256], theirs[256] = "";
    long pid = 0;
    struct bn_buf text = {.max = 512};
    bool readable = bn_file_read(held, &text, NULL) == BN_OK && text.data != NULL &&
                    sscanf(text.data, "%ld %255[^\n]", &pid, theirs) == 2;
    bn_buf_release(&text);
    here(machine);
    if (!readable) return true; /* it is being written */
    return strcmp(machine, theirs) != 0 || kill((pid_t)pid, 0) == 0 || errno == EPERM;
}

/* 1: taken; 0: held by somebody; -1: errno. */
static int try_exclusive(struct bn_hub_lock *lock)
{
    char text[320], machine[256];
    int fd = open(lock->held, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) return -1;
    if (fd < 0) {
        if (is_alive(lock->held)) return 0;
        (void)unlink(lock->held);
        return 0;
    }
    here(machine);
    int n = snprintf(text, sizeof text, "%ld %s\n", (long)getpid(), machine);
    bool ok = write(fd, text, (size_t)n) == n;
    close(fd);
    if (!ok) (void)unlink(lock->held);
    return ok ? 1 : -1;
}

static int try_lock(struct bn_hub_lock *lock)
{
    if (lock->fd < 0) return try_exclusive(lock);
    if (flock(lock->fd, LOCK_EX | LOCK_NB) == 0) return 1;
    if (errno == EWOULDBLOCK || errno == EINTR) return 0;
    close(lock->fd); /* not supported here */
    lock->fd = -1;
    return try_exclusive(lock);
}

static bn_status open_file(struct bn_hub_lock *lock, const char *path, bn_error *err)
{
    BN_TRY(bn_file_make_folders(path, err));
    snprintf(lock->held, sizeof lock->held, "%s.held", path);
    lock->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock->fd < 0) return bn_fail_errno(err, errno, path, "the lock cannot be made");
    return BN_OK;
}

static bn_status take(struct bn_hub_lock *lock, const char *path, bool wait, bool (*tick)(void *), void *user,
                      bn_error *err)
{
    const struct timespec pause = {0, TICK_NS};
    BN_TRY(open_file(lock, path, err));
    for (;;) {
        int got = try_lock(lock);
        if (got > 0) return BN_OK;
        if (got < 0) return bn_fail_errno(err, errno, path, "the lock cannot be taken");
        if (!wait) break;
        if (tick != NULL && !tick(user)) return bn_fail(err, BN_ERR_CANCELLED, "stopped while waiting");
        (void)nanosleep(&pause, NULL);
    }
    bn_fail_at(err, BN_ERR_IO, BN_NO_OFFSET, path, "another process is fetching this");
    bn_error_hint(err, "wait for it, or end it; its lock goes with it");
    return BN_ERR_IO;
}

bn_status bn_hub_lock_take(struct bn_hub_lock **out, const char *path, bool wait, bool (*tick)(void *user),
                           void *user, bn_error *err)
{
    struct bn_hub_lock *lock = bn_alloc(1, sizeof *lock);
    *out = NULL;
    if (lock == NULL) return bn_fail(err, BN_ERR_NOMEM, "out of memory");
    lock->fd = -1;
    bn_status status = take(lock, path, wait, tick, user, err);
    if (status == BN_OK) {
        *out = lock;
        return BN_OK;
    }
    if (lock->fd >= 0) close(lock->fd);
    bn_free(lock);
    return status;
}

/* The file of flock stays: to remove it would let two processes hold two files of one name. */
void bn_hub_lock_release(struct bn_hub_lock *lock)
{
    if (lock == NULL) return;
    if (lock->fd >= 0)
        close(lock->fd);
    else
        (void)unlink(lock->held);
    bn_free(lock);
}

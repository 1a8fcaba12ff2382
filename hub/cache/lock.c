/* SPDX-License-Identifier: MIT
 *
 * Lets one process at a time download a file.
 */
#define _GNU_SOURCE
#include "hub/cache/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

#define MAX_PATH 4096u
#define TICK_NS 100000000L

struct bn_hub_lock {
    int fd; /* -1: held by O_EXCL */
    bool remove;
    char path[MAX_PATH];
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

/* Is the holder that a file names alive? One on another machine is taken to be. */
static bool is_alive(const char *held)
{
    char machine[256], theirs[256] = "";
    long pid = 0;
    struct bn_buf text = {.max = 512};
    bool readable = bn_file_read_regular(held, &text, NULL) == BN_OK && text.data != NULL &&
                    sscanf(text.data, "%ld %255[^\n]", &pid, theirs) == 2;
    bn_buf_release(&text);
    here(machine);
    if (!readable) return true; /* it is being written */
    return strcmp(machine, theirs) != 0 || kill((pid_t)pid, 0) == 0 || errno == EPERM;
}

static int open_lock(const char *path)
{
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
}

/* 1: taken; 0: held by another process; -1: errno. */
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

/* Whoever held the lock before may have removed its file: a lock counts only on the file of that name. */
static bool is_current(const struct bn_hub_lock *lock)
{
    struct stat mine, named;
    return fstat(lock->fd, &mine) == 0 && stat(lock->path, &named) == 0 && mine.st_dev == named.st_dev &&
           mine.st_ino == named.st_ino;
}

static int try_lock(struct bn_hub_lock *lock)
{
    if (lock->fd < 0) return try_exclusive(lock);
    while (flock(lock->fd, LOCK_EX | LOCK_NB) == 0) {
        if (is_current(lock)) return 1;
        close(lock->fd);
        lock->fd = open_lock(lock->path);
        if (lock->fd < 0) return -1;
    }
    if (errno == EWOULDBLOCK || errno == EINTR) return 0;
    close(lock->fd); /* not supported here */
    lock->fd = -1;
    return try_exclusive(lock);
}

static bn_status open_file(struct bn_hub_lock *lock, const char *path, bn_error *err)
{
    if (strlen(path) >= sizeof lock->path) return bn_fail(err, BN_ERR_LIMIT, "a path is over 4095 bytes");
    snprintf(lock->path, sizeof lock->path, "%s", path);
    snprintf(lock->held, sizeof lock->held, "%s.held", path);
    BN_TRY(bn_file_make_folders(path, err));
    lock->fd = open_lock(path);
    if (lock->fd < 0) return bn_fail_errno(err, errno, path, "cannot create the lock");
    return BN_OK;
}

static bn_status take(struct bn_hub_lock *lock, const char *path, unsigned flags, bool (*tick)(void *),
                      void *user, bn_error *err)
{
    const struct timespec pause = {0, TICK_NS};
    BN_TRY(open_file(lock, path, err));
    for (;;) {
        int got = try_lock(lock);
        if (got > 0) return BN_OK;
        if (got < 0) return bn_fail_errno(err, errno, path, "cannot take the lock");
        if ((flags & BN_HUB_LOCK_WAIT) == 0) break;
        if (tick != NULL && !tick(user)) return bn_fail(err, BN_ERR_CANCELLED, "stopped while waiting");
        (void)nanosleep(&pause, NULL);
    }
    return bn_hint(bn_fail_in(err, BN_ERR_IO, path, "another process is downloading this file"), err,
                   "wait for that process or stop it; then run the command again");
}

bn_status bn_hub_lock_take(struct bn_hub_lock **out, const char *path, unsigned flags,
                           bool (*tick)(void *user), void *user, bn_error *err)
{
    struct bn_hub_lock *lock = bn_alloc(1, sizeof *lock);
    *out = NULL;
    if (lock == NULL) return bn_nomem(err);
    lock->fd = -1;
    lock->remove = (flags & BN_HUB_LOCK_REMOVE) != 0;
    bn_status status = take(lock, path, flags, tick, user, err);
    if (status == BN_OK) {
        *out = lock;
        return BN_OK;
    }
    if (lock->fd >= 0) close(lock->fd);
    bn_free(lock);
    return status;
}

/* The file goes while the lock is still held, so that no other process can hold it; see is_current. One with
 * bytes in it is not a lock file but another file of that name. */
void bn_hub_lock_release(struct bn_hub_lock *lock)
{
    struct stat st;
    if (lock == NULL) return;
    if (lock->remove && lstat(lock->path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0)
        (void)unlink(lock->path);
    if (lock->fd >= 0)
        close(lock->fd);
    else
        (void)unlink(lock->held);
    bn_free(lock);
}

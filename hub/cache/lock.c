/* SPDX-License-Identifier: MIT
 *
 * Lets one process at a time download a file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "hub/cache/cache.h"

#define TICK_NS 100000000L

struct bn_hub_lock {
    int fd;
    bool remove;
    char path[BN_HUB_PATH_MAX];
};

static int open_lock(const char *path)
{
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
}

/* Whoever held the lock before may have removed its file: a lock counts only on the file of that name. */
static bool is_current(const struct bn_hub_lock *lock)
{
    struct stat mine, named;
    return fstat(lock->fd, &mine) == 0 && stat(lock->path, &named) == 0 && mine.st_dev == named.st_dev &&
           mine.st_ino == named.st_ino;
}

/* 1: taken; 0: held by another process; -1: errno. */
static int try_lock(struct bn_hub_lock *lock)
{
    while (flock(lock->fd, LOCK_EX | LOCK_NB) == 0) {
        if (is_current(lock)) return 1;
        close(lock->fd);
        lock->fd = open_lock(lock->path);
        if (lock->fd < 0) return -1;
    }
    return errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

static bn_status open_file(struct bn_hub_lock *lock, const char *path, bn_error *err)
{
    if (strlen(path) >= sizeof lock->path) return bn_fail(err, BN_ERR_LIMIT, "a path is over 4095 bytes");
    snprintf(lock->path, sizeof lock->path, "%s", path);
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
    close(lock->fd);
    bn_free(lock);
}

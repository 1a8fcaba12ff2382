/* SPDX-License-Identifier: MIT
 *
 * Locks, which let one process at a time download a file, and the records of downloads. A digest is one file with
 * "sha256 size mtime ctime", times in nanoseconds; pins are JSON.
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
#include "base/json.h"
#include "hub/cache/cache.h"

#define WAIT_NS 100000000L

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

static bn_status take(struct bn_hub_lock *lock, const char *path, unsigned flags, bool (*tick)(void *),
                      void *user, bn_error *err)
{
    const struct timespec pause = {0, WAIT_NS};
    if (strlen(path) >= sizeof lock->path) return bn_fail(err, BN_ERR_LIMIT, "a path is over 4095 bytes");
    snprintf(lock->path, sizeof lock->path, "%s", path);
    BN_TRY(bn_file_make_folders(path, err));
    lock->fd = open_lock(path);
    if (lock->fd < 0) return bn_fail_errno(err, errno, path, "cannot create the lock");
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

/* ---- digests ---- */

#define LINE_BYTES 192u
/* The clock of file times ticks every few milliseconds: a change within this time may not show in them. */
#define TICK_NS INT64_C(20000000)

static int64_t ns_of(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What is written for a file in this state; and where, false when no place for it is set. */
static bool describe(char line[LINE_BYTES], char record[BN_HUB_PATH_MAX], const struct stat *st,
                     const char *sha256)
{
    char name[64];
    snprintf(line, LINE_BYTES, "%s %lld %lld %lld\n", sha256, (long long)st->st_size,
             (long long)ns_of(st->st_mtim), (long long)ns_of(st->st_ctim));
    snprintf(name, sizeof name, "digests/%llx-%llx", (unsigned long long)st->st_dev,
             (unsigned long long)st->st_ino);
    return bn_hub_state_path(record, name);
}

static bool recall(char sha256[BN_SHA256_HEX], const struct stat *st)
{
    char line[LINE_BYTES], record[BN_HUB_PATH_MAX];
    struct bn_buf text = {.max = LINE_BYTES};
    struct stat written;
    bool known = describe(line, record, st, "") && stat(record, &written) == 0 &&
                 ns_of(written.st_mtim) > ns_of(st->st_ctim) + TICK_NS &&
                 bn_file_read_regular(record, &text, NULL) == BN_OK && text.len > BN_SHA256_HEX - 1 &&
                 strcmp(text.data + BN_SHA256_HEX - 1, line) == 0;
    snprintf(sha256, BN_SHA256_HEX, "%.64s", known ? text.data : "");
    bn_buf_release(&text);
    return bn_is_sha256(sha256);
}

static void record(const struct stat *st, const char *sha256)
{
    char line[LINE_BYTES], path[BN_HUB_PATH_MAX];
    if (!describe(line, path, st, sha256) || bn_file_make_folders(path, NULL) != BN_OK) return;
    (void)!bn_file_write_atomic(path, line, strlen(line), NULL);
}

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           ns_of(a->st_mtim) == ns_of(b->st_mtim) && ns_of(a->st_ctim) == ns_of(b->st_ctim);
}

bn_status bn_hub_digest(char sha256[BN_SHA256_HEX], const char *path, bn_error *err)
{
    struct stat before, after;
    bool known = stat(path, &before) == 0;
    if (known && recall(sha256, &before)) return BN_OK;
    BN_TRY(bn_sha256_file(path, sha256, err));
    if (known && stat(path, &after) == 0 && same(&before, &after)) record(&after, sha256);
    return BN_OK;
}

void bn_hub_digest_record(const char *path, const char *sha256)
{
    struct stat st;
    if (bn_is_sha256(sha256) && stat(path, &st) == 0) record(&st, sha256);
}

/* ---- pins ---- */

#define PINS "bn.registry/1"

/* A file that is not there gives an empty document. */
static bn_status load(bn_json **out, const char *path, bn_error *err)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    bn_status status = bn_file_read_regular(path, &text, NULL);
    *out = NULL;
    if (status == BN_ERR_NOT_FOUND) {
        bn_json *doc = bn_json_new_object();
        bn_json_put_string(doc, "schema", PINS);
        bn_json_put_object(doc, "pins");
        *out = doc;
        return doc != NULL ? BN_OK : bn_nomem(err);
    }
    if (status != BN_OK) return bn_fail_in(err, status, path, "cannot read");
    status = bn_json_parse(out, bn_buf_text(&text), text.len, err);
    bn_buf_release(&text);
    if (status == BN_OK &&
        (!bn_json_text_is(*out, "schema", PINS) || bn_json_kind(bn_json_get(*out, "pins")) != BN_JSON_OBJECT))
        status = bn_fail(err, BN_ERR_FORMAT, "not a list of digests (schema %s expected)", PINS);
    if (status == BN_OK) return BN_OK;
    bn_json_free(*out);
    *out = NULL;
    bn_error_name(err, path);
    bn_error_hint(
        err,
        "it records the digests of first downloads; move it away to start over, or set its schema to " PINS);
    return status;
}

bn_status bn_hub_pin_find(char sha256[BN_SHA256_HEX], const char *key, bn_error *err)
{
    char path[BN_HUB_PATH_MAX];
    bn_json *doc = NULL;
    const char *text;
    sha256[0] = '\0';
    if (!bn_hub_state_path(path, "pins.json")) return BN_OK;
    BN_TRY(load(&doc, path, err));
    if (bn_json_string(bn_json_get(bn_json_get(doc, "pins"), key), &text) && strlen(text) == 64)
        memcpy(sha256, text, 65);
    bn_json_free(doc);
    return BN_OK;
}

static bn_status add(const char *path, const char *key, const char *sha256, bn_error *err)
{
    bn_json *doc = NULL;
    BN_TRY(load(&doc, path, err));
    bn_json *pins = (bn_json *)(uintptr_t)bn_json_get(doc, "pins");
    bn_status status = BN_OK;
    if (bn_json_get(pins, key) == NULL) {
        bn_json_put_string(pins, key, sha256);
        status = bn_json_write_file(doc, path, err);
    }
    bn_json_free(doc);
    return status;
}

bn_status bn_hub_pin_record(const char *key, const char *sha256, bn_error *err)
{
    char path[BN_HUB_PATH_MAX], lock_path[BN_HUB_PATH_MAX + 8];
    struct bn_hub_lock *lock = NULL;
    if (!bn_hub_state_path(path, "pins.json")) return BN_OK;
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    BN_TRY(bn_hub_lock_take(&lock, lock_path, BN_HUB_LOCK_WAIT | BN_HUB_LOCK_REMOVE, NULL, NULL, err));
    bn_status status = add(path, key, sha256, err);
    bn_hub_lock_release(lock);
    return status;
}

/* SPDX-License-Identifier: MIT
 *
 * Reads and maps files, and replaces them atomically. A map is private and read-only. Reading a mapped file
 * that another process shortens raises SIGBUS; programs catch and report it (tools/cli), and a copy
 * (bn_file_map_open) avoids it.
 */
#define _GNU_SOURCE /* madvise, getentropy, O_TMPFILE */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define DESCRIPTORS "/proc/self/fd"

static bn_status read_all(int fd, unsigned char *out, size_t n, const char *path, bn_error *err)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = read(fd, out + done, n - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return bn_fail_errno(err, errno, path, "cannot read");
        if (got == 0) return bn_fail_at(err, BN_ERR_IO, done, path, "file became shorter while it was read");
        done += (size_t)got;
    }
    return BN_OK;
}

/* Takes over fd when the file is mapped. */
static bn_status map_fd(struct bn_file_map *map, int fd, const struct stat *st, const char *path, bool copy,
                        bn_error *err)
{
    size_t n = (size_t)st->st_size;
    *map = (struct bn_file_map){.n_bytes = n, .fd = fd, .changed = st->st_ctim, .written = st->st_mtim};
    if (copy || n == 0) {
        unsigned char *data = bn_alloc_aligned(n, 1);
        if (data == NULL)
            return bn_fail_at(err, BN_ERR_NOMEM, BN_NO_OFFSET, path, "no memory for %zu bytes", n);
        map->data = data;
        return read_all(fd, data, n, path, err);
    }
    void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) return bn_fail_errno(err, errno, path, "cannot map");
    map->data = p;
    map->mapped = true;
    return BN_OK;
}

bn_status bn_file_map_open(struct bn_file_map *map, const char *path, bool copy, bn_error *err)
{
    *map = (struct bn_file_map){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return bn_fail_errno(err, errno, path, "cannot open");
    struct stat st;
    bn_status status = BN_OK;
    if (fstat(fd, &st) != 0)
        status = bn_fail_errno(err, errno, path, "cannot stat");
    else if (!S_ISREG(st.st_mode))
        status = bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, path, "not a regular file");
    else
        status = map_fd(map, fd, &st, path, copy, err);
    if (!map->mapped) close(fd);
    if (status != BN_OK) bn_file_map_close(map);
    return status;
}

void bn_file_map_forget(const struct bn_file_map *map, const void *from, size_t n)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)from + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)from + n) / page * page;
    if (map->mapped && begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

static bool is_same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool bn_file_map_is_same(const struct bn_file_map *map)
{
    struct stat st;
    return !map->mapped || (fstat(map->fd, &st) == 0 && (size_t)st.st_size == map->n_bytes &&
                            is_same_time(st.st_ctim, map->changed) && is_same_time(st.st_mtim, map->written));
}

bn_status bn_file_map_check(const struct bn_file_map *map, const char *path, bn_error *err)
{
    struct stat st;
    if (!map->mapped || (fstat(map->fd, &st) == 0 && (size_t)st.st_size == map->n_bytes &&
                         is_same_time(st.st_mtim, map->written)))
        return BN_OK;
    return bn_fail_in(err, BN_ERR_IO, path, "the file was changed while it was read");
}

void bn_file_map_close(struct bn_file_map *map)
{
    if (map->mapped) {
        munmap((void *)(uintptr_t)map->data, map->n_bytes);
        close(map->fd);
    } else {
        bn_free((void *)(uintptr_t)map->data);
    }
    *map = (struct bn_file_map){0};
}

bn_status bn_file_check_private(const char *path, bn_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0) return bn_fail_errno(err, errno, path, "cannot open");
    if ((st.st_mode & (S_IRWXG | S_IRWXO)) == 0) return BN_OK;
    return bn_hint(bn_fail_in(err, BN_ERR_AUTH, path, "others may read or change this file, its mode is %03o",
                              (unsigned)st.st_mode & 0777),
                   err, "chmod 600, and think about who has read it");
}

static bn_status read_stream(int fd, const char *path, struct bn_buf *buf, bn_error *err)
{
    char chunk[65536];
    for (;;) {
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EISDIR)
            return bn_fail_in(err, BN_ERR_FORMAT, path, "is a directory, not a file");
        if (got < 0) return bn_fail_errno(err, errno, path, "cannot read");
        if (got >= 0) bn_buf_append(buf, chunk, (size_t)got); /* an empty file gives "" */
        if (got == 0 || buf->failed) return bn_buf_check(buf, err);
    }
}

bn_status bn_file_read(const char *path, struct bn_buf *buf, bn_error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return bn_fail_errno(err, errno, path, "cannot open");
    bn_status status = read_stream(fd, path, buf, err);
    if (!is_stdin) close(fd);
    if (status != BN_OK) bn_error_name(err, path);
    return status;
}

/* A FIFO would wait for a writer. */
static bn_status read_regular(int folder, const char *path, bool own, struct bn_buf *buf, bn_error *err)
{
    struct stat st;
    int fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (own ? O_NOFOLLOW : 0));
    if (fd < 0) return bn_fail_errno(err, errno, path, "cannot open");
    bn_status status;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        status = bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, path, "not a regular file");
    else if (own && st.st_uid != geteuid())
        status = bn_fail_at(err, BN_ERR_AUTH, BN_NO_OFFSET, path, "a file of another user");
    else
        status = read_stream(fd, path, buf, err);
    close(fd);
    if (status != BN_OK) bn_error_name(err, path);
    return status;
}

bn_status bn_file_read_regular(const char *path, struct bn_buf *buf, bn_error *err)
{
    return read_regular(AT_FDCWD, path, false, buf, err);
}

bn_status bn_file_read_own(int folder, const char *path, struct bn_buf *buf, bn_error *err)
{
    return read_regular(folder, path, true, buf, err);
}

/* The contents of a file, part by part. */
struct contents {
    const struct bn_file_part *parts;
    size_t n;
};

bn_status bn_file_write_all(int fd, const void *bytes, size_t n, const char *path, bn_error *err)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t put = write(fd, at, n);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return bn_fail_errno(err, errno, path, "cannot write");
        at += put;
        n -= (size_t)put;
    }
    return BN_OK;
}

static bn_status write_all(int fd, struct contents what, const char *path, bn_error *err)
{
    for (size_t i = 0; i < what.n; i++)
        BN_TRY(bn_file_write_all(fd, what.parts[i].bytes, what.parts[i].n, path, err));
    return BN_OK;
}

static void folder_of(char folder[PATH_MAX], const char *path)
{
    snprintf(folder, PATH_MAX, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        snprintf(folder, PATH_MAX, ".");
    else
        slash[slash == folder ? 1 : 0] = '\0';
}

/* Makes the rename itself durable. Not every file system can; that is not an error. */
void bn_file_sync_folder(const char *path)
{
    char folder[PATH_MAX];
    folder_of(folder, path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

/* ---- writing ---- */

bn_status bn_file_temp_name(char *out, size_t room, const char *path, bn_error *err)
{
    uint64_t random;
    if (getentropy(&random, sizeof random) != 0) return bn_fail_errno(err, errno, path, "no random name");
    int len = snprintf(out, room, "%s.tmp-%016llx", path, (unsigned long long)random);
    if (len < 0 || (size_t)len >= room) return bn_fail_errno(err, ENAMETOOLONG, path, "cannot create");
    return BN_OK;
}

bn_status bn_file_temp_open(int *fd, char *out, size_t room, const char *path, unsigned mode, bn_error *err)
{
    char folder[PATH_MAX];
    BN_TRY(bn_file_temp_name(out, room, path, err));
    folder_of(folder, path);
    *fd = access(DESCRIPTORS, X_OK) == 0 ? open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, mode) : -1;
    if (*fd < 0) *fd = open(out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    return *fd >= 0 ? BN_OK : bn_fail_errno(err, errno, path, "cannot create");
}

bn_status bn_file_check_output(const char *path, bn_error *err)
{
    char target[PATH_MAX], beside[PATH_MAX];
    struct stat at;
    if (path[0] == '\0') return bn_fail(err, BN_ERR_ARG, "the name of an output file is empty");
    bool exists = stat(path, &at) == 0;
    if (exists && S_ISDIR(at.st_mode)) return bn_fail_in(err, BN_ERR_IO, path, "is a directory, not a file");
    if (exists && !S_ISREG(at.st_mode)) /* it is written to */
        return access(path, W_OK) == 0 ? BN_OK : bn_fail_errno(err, errno, path, "cannot write");
    int fd; /* a temporary file next to it finds all obstacles */
    if (exists && realpath(path, target) != NULL) path = target;
    BN_TRY(bn_file_temp_open(&fd, beside, sizeof beside, path, 0600, err));
    close(fd);
    (void)unlink(beside);
    return BN_OK;
}

bn_status bn_file_temp_keep(int fd, const char *temp, const char *path, bn_error *err)
{
    char name[sizeof DESCRIPTORS + 12];
    struct stat st;
    snprintf(name, sizeof name, "%s/%d", DESCRIPTORS, fd);
    if (fstat(fd, &st) != 0) return bn_fail_errno(err, errno, path, "cannot stat");
    if (st.st_nlink == 0) {
        if (linkat(AT_FDCWD, name, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0) return BN_OK;
        if (errno != EEXIST || linkat(AT_FDCWD, name, AT_FDCWD, temp, AT_SYMLINK_FOLLOW) != 0)
            return bn_fail_errno(err, errno, path, "cannot create");
    }
    return rename(temp, path) == 0 ? BN_OK : bn_fail_errno(err, errno, path, "cannot rename");
}

/* Gives a new file the owner and mode of the one that it will replace. A group that cannot be kept gets no
 * more rights than everybody. */
static int take_over_rights(int fd, const struct stat *old)
{
    mode_t mode = old->st_mode & 0777;
    bool group_kept = fchown(fd, old->st_uid, old->st_gid) == 0 || fchown(fd, (uid_t)-1, old->st_gid) == 0;
    if (!group_kept) mode = (mode & ~(mode_t)070) | (mode & ((mode & 7) << 3));
    return fchmod(fd, mode);
}

/* old: the file to replace; NULL: there is none. */
static bn_status replace_file(const char *path, const struct stat *old, struct contents what, bn_error *err)
{
    char temp[PATH_MAX + BN_TEMP_SUFFIX_BYTES];
    int fd;
    BN_TRY(bn_file_temp_open(&fd, temp, sizeof temp, path, old != NULL ? 0600 : 0666, err));
    bn_status status = BN_OK;
    if (old != NULL && take_over_rights(fd, old) != 0)
        status = bn_fail_errno(err, errno, path, "cannot keep the mode");
    if (status == BN_OK) status = write_all(fd, what, path, err);
    if (status == BN_OK && fsync(fd) != 0) status = bn_fail_errno(err, errno, path, "cannot flush");
    if (status == BN_OK) status = bn_file_temp_keep(fd, temp, path, err);
    if (close(fd) != 0 && status == BN_OK) status = bn_fail_errno(err, errno, path, "cannot close");
    if (status != BN_OK)
        (void)unlink(temp);
    else
        bn_file_sync_folder(path);
    return status;
}

/* Pipes and devices cannot be replaced: they are written to. */
static bn_status write_through(const char *path, struct contents what, bn_error *err)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return bn_fail_errno(err, errno, path, "cannot open");
    bn_status status = write_all(fd, what, path, err);
    if (close(fd) != 0 && status == BN_OK) status = bn_fail_errno(err, errno, path, "cannot close");
    return status;
}

bn_status bn_file_write_parts(const char *path, const struct bn_file_part *parts, size_t n_parts,
                              bn_error *err)
{
    struct stat old;
    struct contents what = {parts, n_parts};
    bool exists = stat(path, &old) == 0;
    if (exists && !S_ISREG(old.st_mode)) return write_through(path, what, err);
    char target[PATH_MAX]; /* of a symbolic link */
    return replace_file(realpath(path, target) != NULL ? target : path, exists ? &old : NULL, what, err);
}

bn_status bn_file_write_atomic(const char *path, const void *bytes, size_t n, bn_error *err)
{
    const struct bn_file_part whole = {bytes, n};
    return bn_file_write_parts(path, &whole, 1, err);
}

bool bn_file_user_path(char *out, size_t room, const char *variable, const char *in_home, const char *below)
{
    const char *folder = getenv(variable), *home = getenv("HOME");
    int n = 0;
    if (folder != NULL && folder[0] == '/')
        n = snprintf(out, room, "%s/%s", folder, below);
    else if (home != NULL && home[0] == '/')
        n = snprintf(out, room, "%s/%s/%s", home, in_home, below);
    return n > 0 && (size_t)n < room;
}

bn_status bn_file_make_folders(const char *path, bn_error *err)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n >= sizeof part) return bn_fail_errno(err, ENAMETOOLONG, path, "cannot make folders");
    memcpy(part, path, n + 1);
    for (size_t i = 1; i < n; i++) {
        if (part[i] != '/') continue;
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return bn_fail_errno(err, errno, part, "cannot make the folder");
        part[i] = '/';
    }
    return BN_OK;
}

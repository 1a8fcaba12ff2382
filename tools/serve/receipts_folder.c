/* SPDX-License-Identifier: MIT
 *
 * Receipts as files: DIR/ID.json, and with keys DIR/OWNER/ID.json, where OWNER are 16 digits that follow from the key.
 * Nobody but the server's user may read them: the tokens in a receipt are the text. Nobody else may write to the folder. A
 * file is complete or absent. Files with other names are left alone.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "tools/serve/serve.h"

#define HEX "0123456789abcdef"
#define OWNER_DIGITS 16u
#define ID_DIGITS (BN_SERVE_ID - 1)
#define SUFFIX ".json"
#define FEW_FILES 4u /* are flushed one by one */

/* ---- names ---- */

void bn_receipts_name(const char *file, char id[BN_SERVE_RECEIPT])
{
    size_t n = strspn(file, HEX), digits = 0;
    id[0] = '\0';
    if (n != ID_DIGITS) return;
    if (file[n] == '-') {
        digits = strspn(file + n + 1, "0123456789");
        if (digits == 0) return;
        n += 1 + digits;
    }
    if (n >= BN_SERVE_RECEIPT || strcmp(file + n, SUFFIX) != 0) return;
    memcpy(id, file, n);
    id[n] = '\0';
}

/* "ID.json.tmp-RANDOM": what a server that was killed left. */
static bool is_leftover(const char *file)
{
    char name[BN_SERVE_RECEIPT + sizeof SUFFIX], id[BN_SERVE_RECEIPT];
    const char *end = strstr(file, ".tmp-");
    if (end == NULL || (size_t)(end - file) >= sizeof name || strspn(end + 5, HEX) != 16 || end[21] != '\0')
        return false;
    memcpy(name, file, (size_t)(end - file));
    name[end - file] = '\0';
    bn_receipts_name(name, id);
    return id[0] != '\0';
}

static void name_owner(char name[OWNER_DIGITS + 1], uint64_t owner)
{
    snprintf(name, OWNER_DIGITS + 1, "%016llx", (unsigned long long)owner);
}

void bn_receipts_path(char path[BN_RECEIPTS_PATH], const struct bn_receipt_entry *entry)
{
    char owner[OWNER_DIGITS + 1] = "";
    if (entry->owner != 0) name_owner(owner, entry->owner);
    snprintf(path, BN_RECEIPTS_PATH, "%s%s%s%s", owner, owner[0] != '\0' ? "/" : "", entry->id, SUFFIX);
}

/* ---- opening ---- */

/* Whoever may write there could put a link to a file of this user in the place of a receipt. */
static bn_status open_private(int at, const char *name, int follow, int *fd, bn_error *err)
{
    struct stat st;
    if (mkdirat(at, name, 0700) != 0 && errno != EEXIST)
        return bn_fail_errno(err, errno, name, "cannot make the folder");
    *fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | follow);
    if (*fd < 0 || fstat(*fd, &st) != 0) return bn_fail_errno(err, errno, name, "cannot open");
    if (st.st_uid != geteuid())
        return bn_hint(bn_fail_in(err, BN_ERR_AUTH, name,
                                  "the folder belongs to user %u, bn-serve runs as %u", (unsigned)st.st_uid,
                                  (unsigned)geteuid()),
                       err, "chown %u, or --receipts with another folder", (unsigned)geteuid());
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return bn_hint(bn_fail_in(err, BN_ERR_AUTH, name, "others may write to the folder"), err,
                       "chmod go-w");
    return faccessat(*fd, ".", W_OK | X_OK, 0) == 0 ? BN_OK
                                                    : bn_fail_errno(err, errno, name, "cannot write there");
}

/* The name of the folder itself may be a link. */
bn_status bn_receipts_folder_open(const struct bn_server *s, int *folder, bn_error *err)
{
    const char *name = s->o->receipts;
    char owner[OWNER_DIGITS + 1];
    BN_TRY(bn_file_make_folders(name, err));
    BN_TRY(open_private(AT_FDCWD, name, 0, folder, err));
    if (flock(*folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return bn_hint(bn_fail_in(err, BN_ERR_IO, name, "another bn-serve writes there"), err,
                       "give each server a folder of its own");
    for (uint32_t i = 1; i <= s->n_keys; i++) {
        int fd = -1;
        name_owner(owner, bn_keys_owner(s, i));
        bn_status status = open_private(*folder, owner, O_NOFOLLOW, &fd, err);
        if (fd >= 0) close(fd);
        BN_TRY(status);
    }
    return BN_OK;
}

/* ---- listing ---- */

struct listing {
    struct bn_receipt_entry *list;
    size_t n, room;
};

static bn_status list_file(struct listing *l, int fd, const char *file, uint64_t owner, bn_error *err)
{
    struct stat st;
    struct bn_receipt_entry entry = {.owner = owner};
    bn_receipts_name(file, entry.id);
    bool leftover = entry.id[0] == '\0' && is_leftover(file);
    if ((entry.id[0] == '\0' && !leftover) || fstatat(fd, file, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return BN_OK;
    if (leftover) {
        (void)unlinkat(fd, file, 0);
        return BN_OK;
    }
    entry.n_bytes = (uint64_t)st.st_size;
    entry.made_s = st.st_mtime;
    BN_TRY(bn_array_grow(&l->list, &l->room, l->n + 1, sizeof *l->list, err));
    l->list[l->n++] = entry;
    return BN_OK;
}

/* A folder; below it, when owner is 0, those of owners. A folder that cannot be read is one without receipts. */
static bn_status list_folder(struct listing *l, int at, const char *name, uint64_t owner, bn_error *err)
{
    bn_status status = BN_OK;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL && fd >= 0) close(fd);
    if (dir == NULL) return BN_OK;
    for (struct dirent *d; status == BN_OK && (d = readdir(dir)) != NULL;) {
        bool is_owner =
            owner == 0 && strspn(d->d_name, HEX) == OWNER_DIGITS && d->d_name[OWNER_DIGITS] == '\0';
        status = is_owner ? list_folder(l, fd, d->d_name, strtoull(d->d_name, NULL, 16), err)
                          : list_file(l, fd, d->d_name, owner, err);
    }
    closedir(dir);
    return status;
}

static int by_age(const void *a, const void *b)
{
    const struct bn_receipt_entry *x = a, *y = b;
    if (x->made_s != y->made_s) return x->made_s < y->made_s ? -1 : 1;
    return strcmp(x->id, y->id);
}

bn_status bn_receipts_folder_list(int folder, struct bn_receipt_entry **list, size_t *n, bn_error *err)
{
    struct listing l = {0};
    bn_status status = list_folder(&l, folder, ".", 0, err);
    if (status == BN_OK && l.n > 1) qsort(l.list, l.n, sizeof *l.list, by_age);
    if (status != BN_OK) {
        bn_free(l.list);
        l = (struct listing){0};
    }
    *list = l.list;
    *n = l.n;
    return status;
}

/* ---- writing ---- */

struct writing {
    int fd; /* -1: not created */
    char path[BN_RECEIPTS_PATH], temp[BN_RECEIPTS_PATH + BN_TEMP_SUFFIX_BYTES];
};

static bn_status begin_file(struct writing *w, int folder, const struct bn_receipt_entry *entry,
                            bn_error *err)
{
    w->fd = -1;
    bn_receipts_path(w->path, entry);
    BN_TRY(bn_file_temp_name(w->temp, sizeof w->temp, w->path, err));
    w->fd = openat(folder, w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (w->fd < 0) return bn_fail_errno(err, errno, w->path, "cannot create");
    return bn_file_write_all(w->fd, entry->text.data, entry->text.len, w->path, err);
}

static bn_status end_file(struct writing *w, int folder, bool flushed, bn_error *err)
{
    if (!flushed && fsync(w->fd) != 0) return bn_fail_errno(err, errno, w->path, "cannot flush");
    if (renameat(folder, w->temp, folder, w->path) != 0)
        return bn_fail_errno(err, errno, w->path, "cannot rename");
    return BN_OK;
}

/* So that the names survive a power failure. */
static void sync_owner(int folder, uint64_t owner)
{
    char name[OWNER_DIGITS + 1] = ".";
    if (owner != 0) name_owner(name, owner);
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

/* Many files are flushed together, by flushing their file system: one at a time takes 6 ms each, 64 together 30 ms (ext4,
 * virtual disk of a Xeon). */
bn_status bn_receipts_folder_write(int folder, const struct bn_receipt_entry *const *entries, size_t n,
                                   size_t *n_done, bn_error *err)
{
    bn_status status = BN_OK;
    size_t n_begun = 0;
    struct writing *files = bn_alloc(n, sizeof *files);
    *n_done = 0;
    if (files == NULL) return bn_nomem(err);
    while (n_begun < n && status == BN_OK) {
        status = begin_file(&files[n_begun], folder, entries[n_begun], err);
        n_begun++;
    }
    size_t n_good = n_begun - (status != BN_OK);
    bool flushed = n_good > FEW_FILES && syncfs(files[0].fd) == 0;
    for (size_t i = 0; i < n_begun; i++) {
        struct writing *w = &files[i];
        bn_status ended = i == *n_done && i < n_good ? end_file(w, folder, flushed, err) : BN_ERR_IO;
        if (ended == BN_OK)
            ++*n_done;
        else if (w->fd >= 0)
            (void)unlinkat(folder, w->temp, 0);
        if (w->fd >= 0) close(w->fd);
        if (status == BN_OK) status = ended;
        if (ended == BN_OK && (i + 1 == n_good || entries[i + 1]->owner != entries[i]->owner))
            sync_owner(folder, entries[i]->owner);
    }
    bn_free(files);
    return status;
}

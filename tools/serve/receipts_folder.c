/* SPDX-License-Identifier: MIT
 *
 * Receipts as files: DIR/ID.json, and with keys DIR/OWNER/ID.json, where OWNER are 16 digits that follow from the key.
 * Nobody but the server's user may read them: the tokens in a receipt are the text. A file is complete or absent. Files
 * with other names are left alone.
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
#include "tools/serve/receipts.h"

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

static bn_status path_of(char path[4096], const char *folder, uint64_t owner, const char *name,
                         const char *suffix, bn_error *err)
{
    int n = owner == 0
                ? snprintf(path, 4096, "%s/%s%s", folder, name, suffix)
                : snprintf(path, 4096, "%s/%016llx/%s%s", folder, (unsigned long long)owner, name, suffix);
    if (n < 0 || n >= 4096) return bn_fail(err, BN_ERR_ARG, "the name of the folder is too long");
    return BN_OK;
}

bn_status bn_receipts_path(char path[4096], const char *folder, const struct bn_receipt_entry *entry,
                           bn_error *err)
{
    return path_of(path, folder, entry->owner, entry->id, SUFFIX, err);
}

/* ---- opening ---- */

static bn_status make_private(const char *path, bn_error *err)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return bn_fail_errno(err, errno, path, "cannot make the folder");
    return access(path, W_OK | X_OK) == 0 ? BN_OK : bn_fail_errno(err, errno, path, "cannot write there");
}

bn_status bn_receipts_folder_open(const char *folder, const uint64_t *owners, size_t n_owners, int *lock,
                                  bn_error *err)
{
    const struct bn_receipt_entry longest = {.owner = 1, .id = "00000000000000000000000000000000-00"};
    char path[4096];
    BN_TRY(bn_receipts_path(path, folder, &longest, err));
    BN_TRY(bn_file_make_folders(folder, err));
    BN_TRY(make_private(folder, err));
    *lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0) return bn_fail_errno(err, errno, folder, "cannot open");
    if (flock(*lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return bn_hint(bn_fail_in(err, BN_ERR_IO, folder, "another bn-serve writes there"), err,
                       "give each server a folder of its own");
    for (size_t i = 0; i < n_owners; i++) {
        BN_TRY(path_of(path, folder, owners[i], "", "", err));
        BN_TRY(make_private(path, err));
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
        !S_ISREG(st.st_mode))
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
static bn_status list_folder(struct listing *l, const char *path, uint64_t owner, bn_error *err)
{
    char below[4096];
    bn_status status = BN_OK;
    DIR *dir = opendir(path);
    if (dir == NULL) return BN_OK;
    for (struct dirent *d; status == BN_OK && (d = readdir(dir)) != NULL;) {
        bool is_owner =
            owner == 0 && strspn(d->d_name, HEX) == OWNER_DIGITS && d->d_name[OWNER_DIGITS] == '\0';
        if (!is_owner)
            status = list_file(l, dirfd(dir), d->d_name, owner, err);
        else if ((status = path_of(below, path, 0, d->d_name, "", err)) == BN_OK)
            status = list_folder(l, below, strtoull(d->d_name, NULL, 16), err);
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

bn_status bn_receipts_folder_list(const char *folder, struct bn_receipt_entry **list, size_t *n,
                                  bn_error *err)
{
    struct listing l = {0};
    bn_status status = list_folder(&l, folder, 0, err);
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
    char path[4096], temp[4096 + BN_TEMP_SUFFIX_BYTES];
};

static bn_status begin_file(struct writing *w, const char *folder, const struct bn_receipt_entry *entry,
                            bn_error *err)
{
    size_t done = 0;
    w->fd = -1;
    BN_TRY(bn_receipts_path(w->path, folder, entry, err));
    BN_TRY(bn_file_temp_open(&w->fd, w->temp, sizeof w->temp, w->path, 0600, err));
    while (done < entry->text.len) {
        ssize_t n = write(w->fd, entry->text.data + done, entry->text.len - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return bn_fail_errno(err, n < 0 ? errno : ENOSPC, w->path, "cannot write");
        done += (size_t)n;
    }
    return BN_OK;
}

static bn_status end_file(struct writing *w, bool flushed, bn_error *err)
{
    if (!flushed && fsync(w->fd) != 0) return bn_fail_errno(err, errno, w->path, "cannot flush");
    if (rename(w->temp, w->path) != 0) return bn_fail_errno(err, errno, w->path, "cannot rename");
    return BN_OK;
}

/* Many files are flushed together, by flushing their file system: one at a time takes 6 ms each, 64 together 30 ms (ext4,
 * virtual disk of a Xeon). */
bn_status bn_receipts_folder_write(const char *folder, const struct bn_receipt_entry *const *entries,
                                   size_t n, size_t *n_done, bn_error *err)
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
        bn_status ended = i == *n_done && i < n_good ? end_file(w, flushed, err) : BN_ERR_IO;
        if (ended == BN_OK)
            ++*n_done;
        else if (w->fd >= 0)
            (void)unlink(w->temp);
        if (w->fd >= 0) close(w->fd);
        if (status == BN_OK) status = ended;
        if (ended == BN_OK && (i + 1 == n_good || entries[i + 1]->owner != entries[i]->owner))
            bn_file_sync_folder(w->path);
    }
    bn_free(files);
    return status;
}

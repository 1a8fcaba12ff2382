/* SPDX-License-Identifier: MIT
 *
 * Where live profiles are: the folder of this user, its files, and whether their writers still run.
 */
#define _DEFAULT_SOURCE /* flock */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "lab/profile/live.h"

static bool find_folder(char out[BN_LIVE_PATH])
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    int n;
    if (base != NULL && base[0] == '/')
        n = snprintf(out, BN_LIVE_PATH, "%s/bn", base);
    else if (geteuid() == 0)
        n = snprintf(out, BN_LIVE_PATH, "/run/bn");
    else
        n = snprintf(out, BN_LIVE_PATH, "/tmp/bn-%u", (unsigned)geteuid());
    return n > 0 && (size_t)n < BN_LIVE_PATH;
}

/* In /tmp, somebody else may have made a folder of this name. */
static bn_status check_private(const char *folder, bn_error *err)
{
    struct stat st;
    if (lstat(folder, &st) != 0) return bn_fail_errno(err, errno, folder, "no live profiles");
    if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 077) == 0) return BN_OK;
    return bn_hint(bn_fail_in(err, BN_ERR_IO, folder, "is not a directory of this user alone (mode 0700)"),
                   err, "set XDG_RUNTIME_DIR to such a directory");
}

bn_status bn_live_path(char out[BN_LIVE_PATH], const char *name, bool make, bn_error *err)
{
    if (!find_folder(out)) return bn_fail(err, BN_ERR_ARG, "XDG_RUNTIME_DIR is too long");
    if (make && mkdir(out, 0700) != 0 && errno != EEXIST)
        return bn_hint(bn_fail_errno(err, errno, out, "cannot create the directory"), err,
                       "set XDG_RUNTIME_DIR to a directory of mode 0700");
    BN_TRY(check_private(out, err));
    size_t used = strlen(out);
    int n = snprintf(out + used, BN_LIVE_PATH - used, "/%s", name);
    if (n < 0 || (size_t)n >= BN_LIVE_PATH - used) return bn_fail(err, BN_ERR_ARG, "the name is too long");
    return BN_OK;
}

bool bn_live_writer_ended(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) != 0) return false;
    flock(fd, LOCK_UN);
    return true;
}

/* The number that a file is named by; 0 for other names. */
static uint32_t number_of(const char *name)
{
    char *end;
    if (name[0] < '1' || name[0] > '9') return 0;
    unsigned long n = strtoul(name, &end, 10);
    return *end == '\0' && n <= INT32_MAX ? (uint32_t)n : 0;
}

static bool is_live(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    bool live = fd >= 0 && !bn_live_writer_ended(fd);
    if (fd >= 0) close(fd);
    return live;
}

/* NULL: there is no folder, or it cannot be read. */
static DIR *open_folder(bn_error *err)
{
    char path[BN_LIVE_PATH];
    return bn_live_path(path, "", false, err) == BN_OK ? opendir(path) : NULL;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

bn_status bn_live_list(uint32_t **list, size_t *n, bn_error *err)
{
    bn_error none = {0};
    size_t room = 0;
    bn_status status = BN_OK;
    *list = NULL;
    *n = 0;
    DIR *folder = open_folder(&none);
    if (folder == NULL && none.code != BN_OK && none.code != BN_ERR_NOT_FOUND) {
        if (err != NULL) *err = none;
        return none.code;
    }
    for (struct dirent *e; status == BN_OK && folder != NULL && (e = readdir(folder)) != NULL;) {
        uint32_t pid = number_of(e->d_name);
        if (pid == 0 || !is_live(dirfd(folder), e->d_name)) continue;
        status = bn_array_grow(list, &room, *n + 1, sizeof **list, err);
        if (status == BN_OK) (*list)[(*n)++] = pid;
    }
    if (folder != NULL) closedir(folder);
    if (*n > 0) qsort(*list, *n, sizeof **list, by_number);
    return status;
}

void bn_live_remove_ended(void)
{
    DIR *folder = open_folder(NULL);
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;)
        if (number_of(e->d_name) != 0 && !is_live(dirfd(folder), e->d_name))
            unlinkat(dirfd(folder), e->d_name, 0);
    if (folder != NULL) closedir(folder);
}

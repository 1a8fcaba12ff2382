/* SPDX-License-Identifier: MIT
 *
 * Walks trees of files with fts(3), without following symbolic links and without changing the folder of the
 * process.
 */
#define _GNU_SOURCE
#include "lab/kit/tree.h"

#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"

/* The paths of the files, relative to the folder. */
struct paths {
    char **list;
    size_t n, room;
};

static void release_paths(struct paths *paths)
{
    for (size_t i = 0; i < paths->n; i++)
        bn_free(paths->list[i]);
    bn_free(paths->list);
}

static bn_status open_tree(FTS **tree, const char *folder, bn_error *err)
{
    char *roots[] = {(char *)(uintptr_t)folder, NULL};
    *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    return *tree != NULL ? BN_OK : bn_fail_errno(err, errno, folder, "cannot open");
}

static bn_status add_path(struct paths *paths, const char *path, bn_error *err)
{
    if (strpbrk(path, "\n\\") != NULL)
        return bn_fail_in(err, BN_ERR_FORMAT, path, "the name of a file has a line feed or a backslash");
    BN_TRY(bn_array_grow(&paths->list, &paths->room, paths->n + 1, sizeof *paths->list, err));
    paths->list[paths->n] = bn_strndup(path, strlen(path));
    return paths->list[paths->n++] != NULL ? BN_OK : bn_nomem(err);
}

static bn_status list_paths(struct paths *paths, const char *folder, bn_error *err)
{
    FTS *tree;
    size_t skip = strlen(folder) + (folder[strlen(folder) - 1] != '/');
    BN_TRY(open_tree(&tree, folder, err));
    bn_status status = BN_OK;
    for (FTSENT *e; status == BN_OK && (e = fts_read(tree)) != NULL;) {
        if (e->fts_level > 0 && strcmp(e->fts_name, ".git") == 0) {
            fts_set(tree, e, FTS_SKIP);
        } else if (e->fts_info == FTS_F || e->fts_info == FTS_SL || e->fts_info == FTS_SLNONE) {
            status = e->fts_level > 0 ? add_path(paths, e->fts_path + skip, err)
                                      : bn_fail_in(err, BN_ERR_FORMAT, folder, "is not a folder");
        } else if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR || e->fts_info == FTS_NS) {
            status = bn_fail_errno(err, e->fts_errno, e->fts_path, "cannot read");
        }
    }
    fts_close(tree);
    return status;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bn_status digest_file(const char *folder, const char *path, char hex[BN_SHA256_HEX], bn_error *err)
{
    struct bn_buf full = {.max = PATH_MAX};
    char target[PATH_MAX];
    bn_buf_printf(&full, "%s/%s", folder, path);
    bn_status status = bn_buf_check(&full, err);
    ssize_t n = status == BN_OK ? readlink(full.data, target, sizeof target) : -1;
    if (n >= 0)
        status = bn_sha256_hex(target, (size_t)n, hex, err);
    else if (status == BN_OK)
        status = bn_sha256_file(full.data, hex, err);
    bn_buf_release(&full);
    return status;
}

bn_status bn_tree_digest(const char *folder, char hex[BN_SHA256_HEX], size_t *n_files, bn_error *err)
{
    struct paths paths = {0};
    struct bn_sha256 *sha = NULL;
    unsigned char digest[BN_SHA256_BYTES];
    char one[BN_SHA256_HEX];
    bn_status status = list_paths(&paths, folder, err);
    if (status == BN_OK && paths.n == 0) status = bn_fail_in(err, BN_ERR_FORMAT, folder, "holds no files");
    if (status == BN_OK) status = bn_sha256_open(&sha, err);
    if (status == BN_OK) qsort(paths.list, paths.n, sizeof *paths.list, by_bytes);
    for (size_t i = 0; i < paths.n && status == BN_OK; i++) {
        status = digest_file(folder, paths.list[i], one, err);
        bn_sha256_update(sha, one, strlen(one));
        bn_sha256_update(sha, "  ./", 4);
        bn_sha256_update(sha, paths.list[i], strlen(paths.list[i]));
        bn_sha256_update(sha, "\n", 1);
    }
    if (status == BN_OK) {
        bn_sha256_take(sha, digest);
        bn_hex(hex, digest, sizeof digest);
        *n_files = paths.n;
    }
    bn_sha256_close(sha);
    release_paths(&paths);
    return status;
}

bn_status bn_tree_remove(const char *folder, bn_error *err)
{
    FTS *tree;
    if (access(folder, F_OK) != 0 && errno == ENOENT) return BN_OK;
    BN_TRY(open_tree(&tree, folder, err));
    bn_status status = BN_OK;
    for (FTSENT *e; status == BN_OK && (e = fts_read(tree)) != NULL;)
        if (e->fts_info != FTS_D && remove(e->fts_path) != 0)
            status = bn_fail_errno(err, errno, e->fts_path, "cannot remove");
    fts_close(tree);
    return status;
}

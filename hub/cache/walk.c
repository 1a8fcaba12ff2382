/* SPDX-License-Identifier: MIT
 *
 * Lists what is in the cache. A snapshot's file and its blob are matched by inode, so that it does not matter
 * whether one is a link to the other, or both are names of one file.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "hub/cache/cache.h"
#include "hub/names/names.h"

#define MAX_REFS 256u
#define MARK "models--" /* "models--owner--repo" */

/* The repository that the walk is in. Its blobs come first. */
struct repo {
    struct bn_hub_walk *out;
    char name[512];
    size_t first;               /* of its entries in the list */
    char commits[MAX_REFS][65]; /* that refs name */
    size_t n_commits;
    bool more_commits; /* than fit: then nothing is old */
};

/* Copies the texts. */
static bn_status add(struct bn_hub_walk *out, struct bn_hub_cached item, bn_error *err)
{
    const char **texts[] = {&item.repo, &item.file, &item.commit, &item.etag, &item.path, &item.link};
    size_t n = 0;
    for (size_t i = 0; i < BN_ARRAY_LEN(texts); i++) {
        if (*texts[i] == NULL) *texts[i] = "";
        n += strlen(*texts[i]) + 1;
    }
    BN_TRY(bn_array_grow(&out->list, &out->room, out->n + 1, sizeof *out->list, err));
    char *at = item.texts = bn_alloc(n, 1);
    if (at == NULL) return bn_nomem(err);
    for (size_t i = 0; i < BN_ARRAY_LEN(texts); i++) {
        *texts[i] = memcpy(at, *texts[i], strlen(*texts[i]) + 1);
        at += strlen(at) + 1;
    }
    out->list[out->n++] = item;
    return BN_OK;
}

/* ---- what is in a repository ---- */

static void on_ref(struct repo *repo, const char *path)
{
    struct bn_buf text = {.max = 256};
    if (bn_file_read_regular(path, &text, NULL) == BN_OK && text.data != NULL) {
        text.data[strcspn(text.data, "\r\n")] = '\0';
        if (repo->n_commits == MAX_REFS)
            repo->more_commits = true;
        else if (bn_hub_is_commit(text.data))
            snprintf(repo->commits[repo->n_commits++], sizeof repo->commits[0], "%s", text.data);
    }
    bn_buf_release(&text);
}

/* ETAG, ETAG.part, ETAG.part.json, ETAG.bad; and ETAG.incomplete, ETAG.HEX.incomplete of the hub's own
 * libraries. False for any other name: such a file belongs to another program. */
static bool kind_of(enum bn_hub_cached_kind *kind, const char *name)
{
    static const char HEX[] = "0123456789abcdef";
    size_t n = strspn(name, HEX);
    const char *rest = name + n;
    if (n < 32 || n > 64) return false;
    *kind = rest[0] == '\0'             ? BN_HUB_CACHED_BLOB
            : strcmp(rest, ".bad") == 0 ? BN_HUB_CACHED_BAD
                                        : BN_HUB_CACHED_PART;
    if (*kind != BN_HUB_CACHED_PART || strcmp(rest, ".part") == 0 || strcmp(rest, ".part.json") == 0)
        return true;
    size_t tag = rest[0] == '.' ? strspn(rest + 1, HEX) : 0;
    return strcmp(tag > 0 ? rest + 1 + tag : rest, ".incomplete") == 0;
}

static bn_status on_blob(struct repo *repo, const char *path, const char *name, const struct stat *st,
                         bn_error *err)
{
    char etag[65];
    struct bn_hub_cached item = {
        .repo = repo->name, .etag = etag, .path = path, .device = st->st_dev, .inode = st->st_ino};
    if (!S_ISREG(st->st_mode) || !kind_of(&item.kind, name)) return BN_OK;
    snprintf(etag, sizeof etag, "%.*s", (int)strcspn(name, "."), name);
    bool part = item.kind == BN_HUB_CACHED_PART;
    item.size = part ? (uint64_t)st->st_blocks * 512u : (uint64_t)st->st_size;
    return add(repo->out, item, err);
}

/* place: COMMIT/FILE */
static bn_status on_file(struct repo *repo, const char *path, const char *place, bn_error *err)
{
    struct stat target;
    char commit[65];
    struct bn_hub_walk *out = repo->out;
    size_t n = strcspn(place, "/");
    if (stat(path, &target) != 0 || !S_ISREG(target.st_mode)) return BN_OK; /* a link to nothing */
    snprintf(commit, sizeof commit, "%.*s", (int)n, place);
    struct bn_hub_cached item = {.kind = BN_HUB_CACHED_FILE,
                                 .repo = repo->name,
                                 .file = place + n + 1,
                                 .commit = commit,
                                 .path = path,
                                 .link = path,
                                 .size = (uint64_t)target.st_size,
                                 .old = repo->n_commits > 0 && !repo->more_commits};
    for (size_t i = 0; i < repo->n_commits; i++)
        if (strcmp(repo->commits[i], commit) == 0) item.old = false;
    for (size_t i = repo->first; i < out->n; i++) {
        struct bn_hub_cached *blob = &out->list[i];
        if (blob->device != target.st_dev || blob->inode != target.st_ino) continue;
        blob->linked = true;
        item.etag = blob->etag;
        item.path = blob->path;
    }
    return add(out, item, err);
}

/* Blobs that are in a snapshot are listed there. */
static void end_repo(struct repo *repo)
{
    struct bn_hub_walk *out = repo->out;
    size_t n = repo->first;
    for (size_t i = repo->first; i < out->n; i++)
        if (out->list[i].linked)
            bn_free(out->list[i].texts);
        else
            out->list[n++] = out->list[i];
    out->n = n;
}

/* ---- the walk ---- */

static void begin_repo(struct repo *repo, const char *folder)
{
    const char *owner = folder + sizeof MARK - 1, *mark = strstr(owner, "--");
    int n = (int)(mark != NULL ? mark - owner : (ptrdiff_t)strlen(owner));
    snprintf(repo->name, sizeof repo->name, "%.*s%s%s", n, owner, mark != NULL ? "/" : "",
             mark != NULL ? mark + 2 : "");
    repo->first = repo->out->n;
    repo->n_commits = 0;
    repo->more_commits = false;
}

static bool is_gone(int error)
{
    return error == ENOENT || error == ENOTDIR;
}

static int by_entry(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bn_status walk(struct repo *repo, const char *folder, size_t n_repo, int level, bn_error *err);

/* n_repo: characters of the path of the repository's folder, which is at level 1. */
static bn_status visit(struct repo *repo, const char *folder, const char *name, size_t n_repo, int level,
                       bn_error *err)
{
    static const char REFS[] = "refs/", BLOBS[] = "blobs/", SNAPSHOTS[] = "snapshots/";
    char path[BN_HUB_PATH_MAX];
    struct stat st;
    bool other = level == 1 && strncmp(name, MARK, sizeof MARK - 1) != 0;
    if (other || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return BN_OK;
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (n < 0 || (size_t)n >= sizeof path) return bn_fail_in(err, BN_ERR_IO, folder, "a path is too long");
    if (lstat(path, &st) != 0) return is_gone(errno) ? BN_OK : bn_fail_errno(err, errno, path, "cannot read");
    bool enter = S_ISDIR(st.st_mode);
    if (level == 1 && enter) {
        begin_repo(repo, name);
        BN_TRY(walk(repo, path, (size_t)n, level, err));
        end_repo(repo);
    }
    if (level == 1) return BN_OK;
    const char *inside = path + n_repo + 1;
    bool refs = strncmp(inside, REFS, sizeof REFS - 1) == 0;
    bool blobs = strncmp(inside, BLOBS, sizeof BLOBS - 1) == 0;
    if (enter && level > 2 && (blobs || (!refs && level == 3 && !bn_hub_is_commit(name)))) return BN_OK;
    if (enter) return walk(repo, path, n_repo, level, err);
    if (level == 2) return BN_OK;
    if (refs) on_ref(repo, path);
    if (blobs) return on_blob(repo, path, name, &st, err);
    return refs || level == 3 || strncmp(inside, SNAPSHOTS, sizeof SNAPSHOTS - 1) != 0
               ? BN_OK
               : on_file(repo, path, inside + sizeof SNAPSHOTS - 1, err);
}

/* What is in a folder, by name. Links are not followed, but for the root. */
static bn_status walk(struct repo *repo, const char *folder, size_t n_repo, int level, bn_error *err)
{
    struct dirent **list;
    bn_status status = BN_OK;
    int n = scandir(folder, &list, NULL, by_entry);
    if (n < 0) return is_gone(errno) ? BN_OK : bn_fail_errno(err, errno, folder, "cannot read");
    for (int i = 0; i < n; i++) {
        if (status == BN_OK) status = visit(repo, folder, list[i]->d_name, n_repo, level + 1, err);
        free(list[i]);
    }
    free(list);
    return status;
}

static int by_name(const void *a, const void *b)
{
    const struct bn_hub_cached *x = a, *y = b;
    int order = strcmp(x->repo, y->repo);
    if (order == 0) order = strcmp(x->file, y->file);
    if (order == 0) order = strcmp(x->commit, y->commit);
    return order != 0 ? order : strcmp(x->path, y->path);
}

bn_status bn_hub_walk_open(struct bn_hub_walk *out, const char *root, bn_error *err)
{
    *out = (struct bn_hub_walk){0};
    struct repo *repo = bn_alloc(1, sizeof *repo);
    if (repo == NULL) return bn_nomem(err);
    repo->out = out;
    bn_status status = walk(repo, root, 0, 0, err);
    bn_free(repo);
    if (out->n > 1) qsort(out->list, out->n, sizeof *out->list, by_name);
    return status;
}

void bn_hub_walk_release(struct bn_hub_walk *walk)
{
    for (size_t i = 0; i < walk->n; i++)
        bn_free(walk->list[i].texts);
    bn_free(walk->list);
    *walk = (struct bn_hub_walk){0};
}

/* ---- removing ---- */

/* Every folder on the way is opened by itself, so that none of them can be a link. */
bn_status bn_hub_walk_remove(const char *root, const char *path, bool folder, bn_error *err)
{
    char part[NAME_MAX + 1];
    size_t n = strlen(root), length;
    const char *name = path + n + 1;
    if (strncmp(root, path, n) != 0 || path[n] != '/')
        return bn_fail_in(err, BN_ERR_ARG, path, "not in the cache");
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (; fd >= 0 && name[length = strcspn(name, "/")] == '/'; name += length + 1) {
        snprintf(part, sizeof part, "%.*s", (int)length, name);
        int next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    bool gone = fd >= 0 && unlinkat(fd, name, folder ? AT_REMOVEDIR : 0) == 0;
    int why = errno;
    if (fd >= 0) close(fd);
    return gone || why == ENOENT ? BN_OK : bn_fail_errno(err, why, path, "cannot remove");
}

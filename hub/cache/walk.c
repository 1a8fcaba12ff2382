/* SPDX-License-Identifier: MIT
 *
 * Lists what is in the cache. A snapshot's file and its blob are matched by inode, so that it does not matter
 * whether one is a link to the other, or both are names of one file.
 */
#define _GNU_SOURCE
#include "hub/cache/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "hub/names/reference.h"

#define MAX_PATH 4096u
#define MAX_DEPTH 32u
#define MAX_REFS 256u

struct blob {
    struct bn_hub_cached item;
    dev_t device;
    ino_t inode;
    bool linked;
};

/* One repository. */
struct repo {
    struct bn_hub_walk *out;
    const char *name;
    char commits[MAX_REFS][65]; /* that refs name */
    size_t n_commits;
    bool more_commits; /* than fit: then nothing is old */
    struct blob *blobs;
    size_t n_blobs, room;
};

/* ---- texts and lists ---- */

static char *copy(const char *text)
{
    return bn_strndup(text, strlen(text));
}

static void release_item(struct bn_hub_cached *item)
{
    bn_free(item->repo);
    bn_free(item->file);
    bn_free(item->commit);
    bn_free(item->etag);
    bn_free(item->path);
    bn_free(item->link);
}

/* Copies the texts. */
static bn_status add(struct bn_hub_walk *out, const struct bn_hub_cached *from, bn_error *err)
{
    BN_TRY(bn_array_grow(&out->list, &out->room, out->n + 1, sizeof *out->list, err));
    struct bn_hub_cached *item = &out->list[out->n++];
    *item = *from;
    item->repo = copy(from->repo);
    item->file = copy(from->file);
    item->commit = copy(from->commit);
    item->etag = copy(from->etag);
    item->path = copy(from->path);
    item->link = copy(from->link);
    bool ok = item->repo != NULL && item->file != NULL && item->commit != NULL && item->etag != NULL &&
              item->path != NULL && item->link != NULL;
    return ok ? BN_OK : bn_nomem(err);
}

/* ---- folders ---- */

struct place {
    int folder;       /* that the entry is in */
    const char *path; /* of the entry */
    const char *name; /* its last part */
    unsigned depth;
};
typedef bn_status (*entry_fn)(void *user, const struct place *place, const struct stat *st, bn_error *err);

/* Calls fn for each entry of a folder that has been opened, and closes it. */
static bn_status each_entry(int fd, const char *folder, unsigned depth, entry_fn fn, void *user,
                            bn_error *err)
{
    char path[MAX_PATH];
    bn_status status = BN_OK;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        int why = errno;
        if (fd >= 0) close(fd);
        /* ENOTDIR and ELOOP: a link, or not a folder at all */
        if (why == ENOENT || why == ENOTDIR || why == ELOOP) return BN_OK;
        return bn_fail_errno(err, why, folder, "cannot read");
    }
    for (struct dirent *e; status == BN_OK && (e = readdir(dir)) != NULL;) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        int n = snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (n < 0 || (size_t)n >= sizeof path || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        struct place place = {fd, path, e->d_name, depth};
        status = fn(user, &place, &st, err);
    }
    closedir(dir);
    return status;
}

/* A folder below another one; a link is not followed. */
static int open_folder(int parent, const char *name)
{
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* ---- refs ---- */

static bn_status on_ref(void *user, const struct place *place, const struct stat *st, bn_error *err)
{
    struct repo *repo = user;
    struct bn_buf text = {.max = 256};
    if (S_ISDIR(st->st_mode) && place->depth < MAX_DEPTH)
        return each_entry(open_folder(place->folder, place->name), place->path, place->depth + 1, on_ref,
                          repo, err);
    if (bn_file_read_regular(place->path, &text, NULL) == BN_OK && text.data != NULL) {
        text.data[strcspn(text.data, "\r\n")] = '\0';
        if (repo->n_commits == MAX_REFS)
            repo->more_commits = true;
        else if (bn_hub_is_commit(text.data))
            snprintf(repo->commits[repo->n_commits++], sizeof repo->commits[0], "%s", text.data);
    }
    bn_buf_release(&text);
    return BN_OK;
}

static bool is_old(const struct repo *repo, const char *commit)
{
    for (size_t i = 0; i < repo->n_commits; i++)
        if (strcmp(repo->commits[i], commit) == 0) return false;
    return repo->n_commits > 0 && !repo->more_commits;
}

/* ---- blobs ---- */

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

static bn_status on_blob(void *user, const struct place *place, const struct stat *st, bn_error *err)
{
    struct repo *repo = user;
    enum bn_hub_cached_kind kind;
    if (!S_ISREG(st->st_mode) || !kind_of(&kind, place->name)) return BN_OK;
    BN_TRY(bn_array_grow(&repo->blobs, &repo->room, repo->n_blobs + 1, sizeof *repo->blobs, err));
    struct blob *blob = &repo->blobs[repo->n_blobs++];
    *blob = (struct blob){.device = st->st_dev, .inode = st->st_ino};
    blob->item.kind = kind;
    bool part = kind == BN_HUB_CACHED_PART;
    blob->item.size = part ? (uint64_t)st->st_blocks * 512u : (uint64_t)st->st_size;
    blob->item.etag = bn_strndup(place->name, strcspn(place->name, "."));
    blob->item.path = copy(place->path);
    return blob->item.etag != NULL && blob->item.path != NULL ? BN_OK : bn_nomem(err);
}

/* ---- snapshots ---- */

struct snapshot {
    struct repo *repo;
    const char *commit;
    size_t skip; /* bytes of a path before the file's name */
};

static bn_status on_file(void *user, const struct place *place, const struct stat *st, bn_error *err)
{
    struct snapshot *s = user;
    struct repo *repo = s->repo;
    struct stat target;
    if (S_ISDIR(st->st_mode) && place->depth < MAX_DEPTH)
        return each_entry(open_folder(place->folder, place->name), place->path, place->depth + 1, on_file, s,
                          err);
    if (stat(place->path, &target) != 0 || !S_ISREG(target.st_mode)) return BN_OK; /* a link to nothing */
    char empty[] = "", file[MAX_PATH], path[MAX_PATH], name[512], commit[65];
    snprintf(file, sizeof file, "%s", place->path + s->skip);
    snprintf(path, sizeof path, "%s", place->path);
    snprintf(name, sizeof name, "%s", repo->name);
    snprintf(commit, sizeof commit, "%s", s->commit);
    struct bn_hub_cached item = {.kind = BN_HUB_CACHED_FILE,
                                 .repo = name,
                                 .file = file,
                                 .commit = commit,
                                 .etag = empty,
                                 .path = path,
                                 .link = path,
                                 .size = (uint64_t)target.st_size,
                                 .old = is_old(repo, commit)};
    for (size_t i = 0; i < repo->n_blobs; i++) {
        struct blob *blob = &repo->blobs[i];
        if (blob->device != target.st_dev || blob->inode != target.st_ino) continue;
        blob->linked = true;
        item.etag = blob->item.etag;
        item.path = blob->item.path;
    }
    return add(repo->out, &item, err);
}

static bn_status on_snapshot(void *user, const struct place *place, const struct stat *st, bn_error *err)
{
    struct snapshot s = {user, place->name, strlen(place->path) + 1};
    if (!S_ISDIR(st->st_mode) || !bn_hub_is_commit(place->name)) return BN_OK;
    return each_entry(open_folder(place->folder, place->name), place->path, 0, on_file, &s, err);
}

/* ---- repositories ---- */

static bn_status add_blobs(struct repo *repo, char *name, bn_error *err)
{
    char empty[] = "";
    for (size_t i = 0; i < repo->n_blobs; i++) {
        if (repo->blobs[i].linked) continue;
        struct bn_hub_cached item = repo->blobs[i].item;
        item.repo = name;
        item.file = item.commit = item.link = empty;
        BN_TRY(add(repo->out, &item, err));
    }
    return BN_OK;
}

/* refs, blobs or snapshots of a repository */
static bn_status each_of(int fd, const struct place *place, const char *name, entry_fn fn, struct repo *repo,
                         bn_error *err)
{
    char folder[MAX_PATH + 16];
    snprintf(folder, sizeof folder, "%s/%s", place->path, name);
    return each_entry(open_folder(fd, name), folder, 0, fn, repo, err);
}

/* "models--owner--repo" */
static bn_status on_repo(void *user, const struct place *place, const struct stat *st, bn_error *err)
{
    static const char MARK[] = "models--";
    char name[512];
    if (!S_ISDIR(st->st_mode) || strncmp(place->name, MARK, sizeof MARK - 1) != 0) return BN_OK;
    const char *owner = place->name + sizeof MARK - 1, *mark = strstr(owner, "--");
    if (mark != NULL)
        snprintf(name, sizeof name, "%.*s/%s", (int)(mark - owner), owner, mark + 2);
    else
        snprintf(name, sizeof name, "%s", owner);
    int fd = open_folder(place->folder, place->name);
    if (fd < 0) return each_entry(fd, place->path, 0, NULL, NULL, err);
    struct repo *repo = bn_alloc(1, sizeof *repo);
    if (repo == NULL) {
        close(fd);
        return bn_nomem(err);
    }
    repo->out = user;
    repo->name = name;
    bn_status status = each_of(fd, place, "refs", on_ref, repo, err);
    if (status == BN_OK) status = each_of(fd, place, "blobs", on_blob, repo, err);
    if (status == BN_OK) status = each_of(fd, place, "snapshots", on_snapshot, repo, err);
    close(fd);
    if (status == BN_OK) status = add_blobs(repo, name, err);
    for (size_t i = 0; i < repo->n_blobs; i++)
        release_item(&repo->blobs[i].item);
    bn_free(repo->blobs);
    bn_free(repo);
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
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* the root may be a link: the user names it */
    BN_TRY(each_entry(fd, root, 0, on_repo, out, err));
    if (out->n > 1) qsort(out->list, out->n, sizeof *out->list, by_name);
    return BN_OK;
}

void bn_hub_walk_release(struct bn_hub_walk *walk)
{
    for (size_t i = 0; i < walk->n; i++)
        release_item(&walk->list[i]);
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
        int next = open_folder(fd, part);
        close(fd);
        fd = next;
    }
    bool gone = fd >= 0 && unlinkat(fd, name, folder ? AT_REMOVEDIR : 0) == 0;
    int why = errno;
    if (fd >= 0) close(fd);
    return gone || why == ENOENT ? BN_OK : bn_fail_errno(err, why, path, "cannot remove");
}

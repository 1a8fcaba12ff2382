/* SPDX-License-Identifier: MIT
 *
 * Lists what is in the cache. A snapshot's file and its blob are matched by inode, so that it does not matter
 * whether one is a link to the other, or both are names of one file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
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
        *texts[i] = strcpy(at, *texts[i]);
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

static bool is_old(const struct repo *repo, const char *commit)
{
    for (size_t i = 0; i < repo->n_commits; i++)
        if (strcmp(repo->commits[i], commit) == 0) return false;
    return repo->n_commits > 0 && !repo->more_commits;
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
                                 .old = is_old(repo, commit)};
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

/* An entry below a repository's folder; inside: its path there. A folder is entered unless *skip. */
static bn_status on_entry(struct repo *repo, const FTSENT *e, const char *inside, bool *skip, bn_error *err)
{
    static const char REFS[] = "refs/", BLOBS[] = "blobs/", SNAPSHOTS[] = "snapshots/";
    bool refs = strncmp(inside, REFS, sizeof REFS - 1) == 0;
    bool blobs = strncmp(inside, BLOBS, sizeof BLOBS - 1) == 0;
    const char *place = inside + sizeof SNAPSHOTS - 1;
    if (e->fts_level == 2) return BN_OK;
    if (e->fts_info == FTS_D) {
        *skip = blobs || (!refs && e->fts_level == 3 && !bn_hub_is_commit(e->fts_name));
        return BN_OK;
    }
    if (refs) on_ref(repo, e->fts_path);
    if (blobs) return on_blob(repo, e->fts_path, e->fts_name, e->fts_statp, err);
    return refs || e->fts_level == 3 || strncmp(inside, SNAPSHOTS, sizeof SNAPSHOTS - 1) != 0
               ? BN_OK
               : on_file(repo, e->fts_path, place, err);
}

static int by_entry(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bn_status walk(FTS *fts, struct repo *repo, bn_error *err)
{
    FTSENT *e;
    bn_status status = BN_OK;
    size_t n_root = 0;
    while (status == BN_OK && (errno = 0, e = fts_read(fts)) != NULL) {
        bool ours = e->fts_level > 0 && strncmp(e->fts_path + n_root, MARK, sizeof MARK - 1) == 0;
        bool skip = e->fts_level > 0 && !ours, gone = e->fts_errno == ENOENT || e->fts_errno == ENOTDIR;
        if ((e->fts_info == FTS_DNR || e->fts_info == FTS_ERR || e->fts_info == FTS_NS) && !gone)
            status = bn_fail_errno(err, e->fts_errno, e->fts_path, "cannot read");
        else if (e->fts_level == 0)
            n_root = e->fts_pathlen + 1u;
        else if (ours && e->fts_level == 1 && e->fts_info == FTS_D)
            begin_repo(repo, e->fts_name);
        else if (ours && e->fts_level == 1 && e->fts_info == FTS_DP)
            end_repo(repo);
        else if (ours && e->fts_level > 1 && e->fts_info != FTS_DP && !gone)
            status = on_entry(repo, e, strchr(e->fts_path + n_root, '/') + 1, &skip, err);
        if (skip && e->fts_info == FTS_D) (void)fts_set(fts, e, FTS_SKIP);
    }
    return status == BN_OK && errno != 0 ? bn_fail_errno(err, errno, NULL, "cannot read the cache") : status;
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
    char *const roots[] = {(char *)(uintptr_t)root, NULL};
    *out = (struct bn_hub_walk){0};
    struct repo *repo = bn_alloc(1, sizeof *repo);
    if (repo == NULL) return bn_nomem(err);
    repo->out = out;
    /* The root may be a link: the user names it. No other one is followed. */
    FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_entry);
    bn_status status = fts != NULL ? walk(fts, repo, err) : bn_fail_errno(err, errno, root, "cannot read");
    if (fts != NULL) fts_close(fts);
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

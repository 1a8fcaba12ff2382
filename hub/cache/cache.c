/* SPDX-License-Identifier: MIT
 *
 * The cache on disk, in the layout of huggingface_hub ("How the cache-system works" in its documentation).
 */
#define _GNU_SOURCE
#include "hub/cache/cache.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "hub/names/names.h"

#define MAX_PATH BN_HUB_PATH_MAX
#define MAX_REF_BYTES 256u

/* ---- paths ---- */

static bn_status make_path(char out[MAX_PATH], bn_error *err, const char *fmt, ...) BN_PRINTF(3, 4);
static bn_status make_path(char out[MAX_PATH], bn_error *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(out, MAX_PATH, fmt, args);
    va_end(args);
    if (n >= 0 && (unsigned)n < MAX_PATH) return BN_OK;
    out[0] = '\0';
    return bn_fail(err, BN_ERR_LIMIT, "a path is over 4095 bytes");
}

/* "models--owner--repo" */
static bn_status repo_folder(char out[256], const char *repo, bn_error *err)
{
    const char *slash = strchr(repo, '/');
    if (slash == NULL || !bn_hub_safe_path(repo) || strchr(slash + 1, '/') != NULL)
        return bn_fail(err, BN_ERR_ARG, "'%s' is not a repository (OWNER/REPO)", repo);
    int n = snprintf(out, 256, "models--%.*s--%s", (int)(slash - repo), repo, slash + 1);
    return n < 256 ? BN_OK : bn_fail(err, BN_ERR_LIMIT, "the repository name is too long");
}

bn_status bn_hub_cache_root(char out[BN_HUB_PATH_MAX], bn_error *err)
{
    const char *cache = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME");
    out[0] = '\0';
    if (cache != NULL && cache[0] != '\0')
        BN_TRY(make_path(out, err, "%s", cache));
    else if (home != NULL && home[0] != '\0')
        BN_TRY(make_path(out, err, "%s/hub", home));
    else if (!bn_file_user_path(out, MAX_PATH, "XDG_CACHE_HOME", ".cache", "huggingface/hub"))
        return bn_hint(bn_fail(err, BN_ERR_NOT_FOUND,
                               "no cache folder: HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME and HOME are not set"),
                       err, "set HF_HUB_CACHE, or give a folder with --to");
    for (size_t n = strlen(out); n > 1 && out[n - 1] == '/'; n--)
        out[n - 1] = '\0';
    return BN_OK;
}

bool bn_hub_state_path(char out[BN_HUB_PATH_MAX], const char *name)
{
    char below[256];
    int n = snprintf(below, sizeof below, "bn/%s", name);
    return n > 0 && (size_t)n < sizeof below &&
           bn_file_user_path(out, BN_HUB_PATH_MAX, "XDG_STATE_HOME", ".local/state", below);
}

/* ---- finding ---- */

/* The commit that refs/REVISION names; a commit is its own. */
static bn_status find_commit(char commit[65], const char *root, const char *folder, const char *revision,
                             bn_error *err)
{
    char path[MAX_PATH];
    struct bn_buf text = {.max = MAX_REF_BYTES};
    if (bn_hub_is_commit(revision)) {
        memcpy(commit, revision, strlen(revision) + 1);
        return BN_OK;
    }
    BN_TRY(make_path(path, err, "%s/%s/refs/%s", root, folder, revision));
    bn_status status = bn_file_read_regular(path, &text, err);
    if (status == BN_OK) {
        size_t n = strcspn(bn_buf_text(&text), "\r\n");
        snprintf(commit, 65, "%.*s", n > 64 ? 0 : (int)n, bn_buf_text(&text));
        if (!bn_hub_is_commit(commit))
            status = bn_fail_in(err, BN_ERR_FORMAT, path, "does not contain a commit");
    }
    bn_buf_release(&text);
    return status;
}

static bool is_whole(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* The only file of a snapshot that ends in .gguf; false when there is none, or more than one. */
static bool only_model(char name[NAME_MAX + 1], const char *snapshot)
{
    size_t n_found = 0;
    DIR *dir = opendir(snapshot);
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        size_t n = strlen(e->d_name);
        if (n < 6 || strcmp(e->d_name + n - 5, ".gguf") != 0) continue;
        snprintf(name, NAME_MAX + 1, "%s", e->d_name);
        n_found++;
    }
    if (dir != NULL) closedir(dir);
    return n_found == 1;
}

bn_status bn_hub_cache_find(char out[BN_HUB_PATH_MAX], const char *root, const char *repo, const char *file,
                            const char *revision, bn_error *err)
{
    char folder[256], commit[65], snapshot[MAX_PATH], only[NAME_MAX + 1];
    bn_error why = {0};
    out[0] = '\0';
    BN_TRY(repo_folder(folder, repo, err));
    if (!bn_hub_safe_path(revision) || (file[0] != '\0' && !bn_hub_safe_path(file)))
        return bn_fail(err, BN_ERR_ARG, "not a valid path in a repository");
    if (find_commit(commit, root, folder, revision, &why) == BN_OK) {
        BN_TRY(make_path(snapshot, err, "%s/%s/snapshots/%s", root, folder, commit));
        if (file[0] != '\0' || only_model(only, snapshot))
            BN_TRY(make_path(out, err, "%s/%s", snapshot, file[0] != '\0' ? file : only));
    }
    if (out[0] != '\0' && is_whole(out)) return BN_OK;
    out[0] = '\0';
    return bn_fail_in(err, BN_ERR_NOT_FOUND, repo, "%s at '%s' is not in the cache",
                      file[0] != '\0' ? file : "a single GGUF file", revision);
}

/* ---- adding ---- */

bn_status bn_hub_cache_blob(char out[BN_HUB_PATH_MAX], const char *root, const char *repo, const char *etag,
                            bn_error *err)
{
    char folder[256];
    BN_TRY(repo_folder(folder, repo, err));
    size_t n = strspn(etag, "0123456789abcdef");
    if (n < 32 || n > 64 || etag[n] != '\0')
        return bn_fail(err, BN_ERR_FORMAT, "the server's ETag is not a digest");
    BN_TRY(make_path(out, err, "%s/%s/blobs/%s", root, folder, etag));
    return bn_file_make_folders(out, err);
}

bn_status bn_hub_cache_lock(char out[BN_HUB_PATH_MAX], const char *root, const char *repo, const char *etag,
                            bn_error *err)
{
    const char *slash = strchr(repo, '/'); /* old repositories have no owner */
    int owner = slash != NULL ? (int)(slash - repo) : (int)strlen(repo);
    return make_path(out, err, "%s/.locks/models--%.*s%s%s/%s.lock", root, owner, repo,
                     slash != NULL ? "--" : "", slash != NULL ? slash + 1 : "", etag);
}

/* A link next to its final name, then renamed over it, so that there is always the old one or the new one.
 * Where links are not possible the bytes are: a hard link. One that is right already stays. */
static bn_status place_link(const char *target, const char *blob, const char *path, bn_error *err)
{
    char beside[MAX_PATH + BN_TEMP_SUFFIX_BYTES], now[MAX_PATH];
    ssize_t n = readlink(path, now, sizeof now);
    if (n >= 0 && (size_t)n == strlen(target) && memcmp(now, target, (size_t)n) == 0) return BN_OK;
    BN_TRY(bn_file_temp_name(beside, sizeof beside, path, err));
    if (symlink(target, beside) != 0 && link(blob, beside) != 0)
        return bn_fail_errno(err, errno, path, "cannot make a symbolic or hard link");
    if (rename(beside, path) == 0) return BN_OK;
    int why = errno;
    (void)unlink(beside);
    return bn_fail_errno(err, why, path, "cannot rename the link");
}

/* refs/REVISION: the commit; one that is right already stays. */
static bn_status place_ref(const char *root, const char *folder, const char *revision, const char *commit,
                           bn_error *err)
{
    char now[65], ref[MAX_PATH];
    if (find_commit(now, root, folder, revision, NULL) == BN_OK && strcmp(now, commit) == 0) return BN_OK;
    BN_TRY(make_path(ref, err, "%s/%s/refs/%s", root, folder, revision));
    BN_TRY(bn_file_make_folders(ref, err));
    return bn_file_write_atomic(ref, commit, strlen(commit), err);
}

/* "../../" for each folder of the file, down to blobs/. */
static bn_status link_target(char out[MAX_PATH], const char *file, const char *etag, bn_error *err)
{
    struct bn_buf text = {.max = MAX_PATH - 1};
    bn_buf_puts(&text, "../../");
    for (const char *c = file; *c != '\0'; c++)
        if (*c == '/') bn_buf_puts(&text, "../");
    bn_buf_printf(&text, "blobs/%s", etag);
    bn_status status = bn_buf_check(&text, err);
    if (status == BN_OK) memcpy(out, text.data, text.len + 1);
    bn_buf_release(&text);
    return status;
}

bn_status bn_hub_cache_link(char out[BN_HUB_PATH_MAX], const char *root, const char *repo, const char *etag,
                            const char *commit, const char *revision, const char *file, bn_error *err)
{
    char folder[256], target[MAX_PATH], blob[MAX_PATH];
    BN_TRY(repo_folder(folder, repo, err));
    if (!bn_hub_is_commit(commit)) return bn_fail(err, BN_ERR_FORMAT, "the server's answer has no commit");
    if (!bn_hub_safe_path(file) || !bn_hub_safe_path(revision))
        return bn_fail(err, BN_ERR_ARG, "not a valid path in a repository");
    BN_TRY(link_target(target, file, etag, err));
    BN_TRY(bn_hub_cache_blob(blob, root, repo, etag, err));
    BN_TRY(make_path(out, err, "%s/%s/snapshots/%s/%s", root, folder, commit, file));
    BN_TRY(bn_file_make_folders(out, err));
    BN_TRY(place_link(target, blob, out, err));
    return bn_hub_is_commit(revision) ? BN_OK : place_ref(root, folder, revision, commit, err);
}

/* ---- what a reference names ---- */

/* A file of the cache, and the digest that is known of it beforehand ("": none). */
struct found {
    char path[MAX_PATH];
    char sha256[BN_SHA256_HEX];
    const char *source;
};

static bn_status find_name(struct found *out, const struct bn_hub_registry *registry,
                           const struct bn_hub_reference *ref, const char *root, bn_error *err)
{
    const struct bn_hub_file *file;
    char key[1400];
    BN_TRY(bn_hub_registry_look_up(NULL, &file, registry, ref->name, ref->variant, err));
    BN_TRY(bn_hub_cache_find(out->path, root, file->repo, file->file, file->revision, err));
    out->source = file->sha256 != NULL ? "registry" : "first use";
    snprintf(out->sha256, sizeof out->sha256, "%s", file->sha256 != NULL ? file->sha256 : "");
    if (file->sha256 != NULL) return BN_OK;
    snprintf(key, sizeof key, "hf:%s:%s", file->repo, file->file);
    return bn_hub_pin_find(out->sha256, key, err);
}

static bn_status find(struct found *out, const char *text, bn_error *err)
{
    struct bn_hub_reference ref;
    struct bn_hub_registry *registry = NULL;
    char root[MAX_PATH];
    *out = (struct found){.path = ""};
    BN_TRY(bn_hub_reference_parse(&ref, text, err));
    BN_TRY(bn_hub_cache_root(root, err));
    bn_status status = BN_OK;
    if (ref.kind == BN_HUB_URL)
        status = bn_fail(err, BN_ERR_NOT_FOUND, "a URL is not a file on this machine");
    else if (ref.kind == BN_HUB_REPO)
        status = bn_hub_cache_find(out->path, root, ref.repo, ref.file, ref.revision, err);
    else
        status = bn_hub_registry_open(&registry, err);
    if (registry != NULL) status = find_name(out, registry, &ref, root, err);
    bn_hub_registry_close(registry);
    if (status == BN_ERR_NOT_FOUND) bn_error_hint(err, "bn-download %s", text);
    return status;
}

bn_status bn_hub_find(char path[BN_HUB_PATH_MAX], const char *text, bn_error *err)
{
    struct found found;
    bn_status status = find(&found, text, err);
    memcpy(path, found.path, sizeof found.path);
    return status;
}

/* The name of the blob, when it is a digest. */
static void want_blob_name(struct found *f)
{
    char target[MAX_PATH];
    ssize_t n = readlink(f->path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(target, '/');
    if (f->sha256[0] != '\0' || slash == NULL || !bn_is_sha256(slash + 1)) return;
    snprintf(f->sha256, sizeof f->sha256, "%s", slash + 1);
    f->source = "hub";
}

bn_status bn_hub_locate(char path[BN_HUB_PATH_MAX], const char *text, bn_error *err)
{
    struct found f;
    char sha256[BN_SHA256_HEX] = "";
    BN_TRY(find(&f, text, err));
    want_blob_name(&f);
    memcpy(path, f.path, sizeof f.path);
    if (f.sha256[0] != '\0') BN_TRY(bn_hub_digest(sha256, f.path, err));
    if (strcmp(sha256, f.sha256) == 0) return BN_OK;
    return bn_hint(bn_fail_in(err, BN_ERR_INTEGRITY, f.path, "sha256 is %s, expected %s (%s)", sha256,
                              f.sha256, f.source),
                   err, "the file is damaged or of another version; bn-download %s gets the right one", text);
}

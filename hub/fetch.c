/* SPDX-License-Identifier: MIT
 *
 * Turns the name of a model into a file on this machine: registry, cache, server, lock, transfer, in this
 * order.
 */
#define _GNU_SOURCE
#include "hub/fetch.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "hub/cache/cache.h"
#include "hub/names/names.h"

#define MAX_URLS 9u

struct work {
    struct bn_hub_fetch *f;
    struct bn_hub_reference ref;
    struct bn_hub_metadata meta;
    uint64_t size;              /* wanted; 0: not known */
    char pin_key[1400];         /* of digests of first use, "" when none is to be kept */
    char root[BN_HUB_PATH_MAX]; /* of the cache, "" with a folder or a URL */
    char urls[MAX_URLS][2049];
    const char *url_list[MAX_URLS];
};

static bn_status copy(char *out, size_t room, const char *text, bn_error *err)
{
    int n = snprintf(out, room, "%s", text);
    return n >= 0 && (size_t)n < room ? BN_OK : bn_fail(err, BN_ERR_LIMIT, "a name or a path is too long");
}

/* ---- which file ---- */

static void want(struct bn_hub_fetch *f, const char *sha256, const char *source)
{
    if (f->sha256_wanted[0] != '\0' || sha256 == NULL || sha256[0] == '\0') return;
    snprintf(f->sha256_wanted, sizeof f->sha256_wanted, "%s", sha256);
    f->sha256_source = source;
}

static bn_status from_registry(struct work *w, bn_error *err)
{
    struct bn_hub_registry *registry = NULL;
    struct bn_hub_fetch *f = w->f;
    BN_TRY(bn_hub_registry_open(&registry, err));
    const struct bn_hub_model *model;
    const struct bn_hub_file *file;
    bn_status status = bn_hub_registry_look_up(&model, &file, registry, w->ref.name, w->ref.variant, err);
    if (status == BN_OK) {
        snprintf(f->repo, sizeof f->repo, "%s", file->repo);
        snprintf(f->file, sizeof f->file, "%s", file->file);
        snprintf(f->revision, sizeof f->revision, "%s", file->revision);
        snprintf(f->licence, sizeof f->licence, "%s", model->licence);
        snprintf(f->licence_url, sizeof f->licence_url, "%s", model->licence_url);
        snprintf(f->runs, sizeof f->runs, "%s", file->runs);
        want(f, file->sha256, "registry");
        w->size = file->size;
        if (file->file[0] == '\0') {
            status = bn_fail_in(err, BN_ERR_UNSUPPORTED, model->name, "%s", file->runs);
            bn_error_hint(err, "download each of its files by hf:%s:FILE", file->repo);
        }
        if (file->sha256 == NULL) snprintf(w->pin_key, sizeof w->pin_key, "hf:%s:%s", file->repo, file->file);
    }
    bn_hub_registry_close(registry);
    return status;
}

/* The only GGUF file of a repository; when there are more, they are listed. */
static bn_status choose_file(struct work *w, bn_error *err)
{
    cJSON *listing;
    const cJSON *file;
    struct bn_hub_fetch *f = w->f;
    char names[200] = "";
    size_t n = 0, used = 0;
    BN_TRY(bn_hub_list(&listing, &f->server, f->repo, f->revision, err));
    cJSON_ArrayForEach(file, bn_hub_member(listing, "siblings"))
    {
        const char *name = bn_hub_text_of(file, "rfilename");
        if (bn_hub_format_of(name) != BN_HUB_GGUF) continue;
        if (n++ == 0) snprintf(f->file, sizeof f->file, "%s", name);
        bool fits = used + strlen(name) + sizeof ", , ..." <= sizeof names;
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "",
                                     fits ? name : "...");
        if (!fits) used = sizeof names; /* no more of them */
    }
    cJSON_Delete(listing);
    if (n == 1) return BN_OK;
    if (n == 0)
        return bn_hint(bn_fail_in(err, BN_ERR_NOT_FOUND, f->repo, "the repository has no GGUF file"), err,
                       "to download another file: bn-download %s:FILE", f->repo);
    bool main = strcmp(f->revision, "main") == 0;
    return bn_hint(bn_fail_in(err, BN_ERR_ARG, f->repo, "the repository has %zu GGUF files: %s", n, names),
                   err, "choose one: bn-download %s:%s%s%s", f->repo, f->file, main ? "" : "@",
                   main ? "" : f->revision);
}

static bn_status identify(struct work *w, bn_error *err)
{
    struct bn_hub_fetch *f = w->f;
    BN_TRY(bn_hub_reference_parse(&w->ref, f->reference, err));
    want(f, f->sha256, "--sha256");
    w->size = f->size_wanted;
    if (w->ref.kind == BN_HUB_URL) return BN_OK;
    if (w->ref.kind == BN_HUB_NAME) return from_registry(w, err);
    snprintf(f->repo, sizeof f->repo, "%s", w->ref.repo);
    snprintf(f->file, sizeof f->file, "%s", w->ref.file);
    snprintf(f->revision, sizeof f->revision, "%s", w->ref.revision);
    if (f->pin && f->sha256 == NULL) snprintf(w->pin_key, sizeof w->pin_key, "hf:%s:%s", f->repo, f->file);
    return BN_OK;
}

/* ---- the cache ---- */

/* Commit, file and blob of <root>/models--owner--repo/snapshots/<commit>/<file>. */
static void describe_cached(struct work *w)
{
    struct bn_hub_fetch *f = w->f;
    char target[4096];
    const char *at = f->path + strlen(w->root) + 1;
    at += strcspn(at, "/") + strlen("/snapshots/");
    snprintf(f->commit, sizeof f->commit, "%.*s", (int)strcspn(at, "/"), at);
    snprintf(f->file, sizeof f->file, "%s", at + strcspn(at, "/") + 1);
    ssize_t n = readlink(f->path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(target, '/');
    if (slash != NULL) snprintf(f->etag, sizeof f->etag, "%s", slash + 1);
}

/* Whether it is in the cache, so that no server needs to be asked. A branch may have moved, unless its digest
 * is pinned. What is there and damaged is fetched again, or, offline, an error. */
static bn_status look_in_cache(struct work *w, bool *found, bn_error *err)
{
    struct bn_hub_fetch *f = w->f;
    bn_error why = {0};
    *found = false;
    bool fixed = f->server.offline || f->sha256_wanted[0] != '\0' || bn_hub_is_commit(f->revision);
    if (f->to != NULL || f->force || !fixed) return BN_OK;
    if (bn_hub_cache_find(f->path, w->root, f->repo, f->file, f->revision, NULL) != BN_OK) return BN_OK;
    describe_cached(w);
    if (strlen(f->etag) == BN_SHA256_HEX - 1) want(f, f->etag, "hub");
    f->transfer = (struct bn_transfer){.path = f->path, .size = w->size};
    if (f->sha256_wanted[0] != '\0') f->transfer.sha256 = f->sha256_wanted;
    bn_status status = bn_transfer_here(&f->transfer, &why);
    f->size = f->transfer.final_size;
    *found = f->from_cache = status == BN_OK;
    if (*found || !f->server.offline) return BN_OK;
    if (err != NULL) *err = why;
    bn_error_hint(err, "run without --offline and HF_HUB_OFFLINE to download it again");
    return status;
}

/* ---- fetching ---- */

static void prepare(struct work *w, const char *path, const char *name, size_t n_urls, const char *identity)
{
    struct bn_hub_fetch *f = w->f;
    for (size_t i = 0; i < n_urls; i++)
        w->url_list[i] = w->urls[i];
    f->transfer = (struct bn_transfer){.urls = w->url_list,
                                       .n_urls = n_urls,
                                       .path = path,
                                       .identity = identity,
                                       .size = w->size,
                                       .parallel = f->parallel,
                                       .limit_rate = f->limit_rate,
                                       .retries = f->retries,
                                       .stall_s = f->stall_s,
                                       .force = f->force,
                                       .offline = f->server.offline,
                                       .format = bn_hub_format_of(name),
                                       .fn = f->fn,
                                       .user = f->user};
    if (f->sha256_wanted[0] != '\0') f->transfer.sha256 = f->sha256_wanted;
    /* The token is for the endpoint; another URL may be anybody's. */
    if (n_urls > 0 && f->server.token[0] != '\0' && bn_http_same_origin(w->urls[0], f->server.endpoint))
        f->transfer.token = f->server.token;
}

static bool tell(const struct bn_hub_fetch *f, enum bn_transfer_phase phase, const char *message)
{
    const struct bn_transfer_event event = {.phase = phase, .url = f->reference, .message = message};
    return f->fn == NULL || f->fn(f->user, &event);
}

/* While another process has the lock. */
static bool wait_for_lock(void *user)
{
    return tell(user, BN_TRANSFER_ASK, "another process is downloading this file; waiting for it");
}

/* While the hub is asked. */
static bool still_wanted(void *user)
{
    return tell(user, BN_TRANSFER_ASK, NULL);
}

/* ---- versions of URLs ----
 *
 * What a server said of the last download of a URL: its ETag and Last-Modified, with the digest of the bytes
 * that came. A file with that digest needs no download while the server's file has not changed. One file for
 * each URL, XDG_STATE_HOME/bn/urls/SHA256.json, else ~/.local/state/bn/urls/SHA256.json: the digest is that
 * of the URL, because a URL may contain secrets. A record that is missing or damaged counts as none. */

#define SCHEMA "bn.download/1"

static bool find_version(char path[BN_HUB_PATH_MAX], const char *url)
{
    char hex[BN_SHA256_HEX], name[96];
    bn_sha256_hex(url, strlen(url), hex);
    snprintf(name, sizeof name, "urls/%s.json", hex);
    return bn_hub_state_path(path, name);
}

/* Where nothing can be written, nothing is recorded. */
static void record_version(const struct bn_transfer *t, const char *url)
{
    char path[BN_HUB_PATH_MAX];
    const struct bn_hub_text TEXTS[] = {
        {"schema", SCHEMA}, {"sha256", t->digest}, {"etag", t->etag}, {"last_modified", t->last_modified}};
    struct bn_buf text = {.max = 4096};
    if (!find_version(path, url) || bn_file_make_folders(path, NULL) != BN_OK) return;
    cJSON *version = bn_hub_object(TEXTS, BN_ARRAY_LEN(TEXTS));
    bn_status status = bn_hub_document_write(&text, version, true, NULL);
    if (status == BN_OK) status = bn_file_write_atomic(path, text.data, text.len, NULL);
    bn_buf_release(&text);
    cJSON_Delete(version);
}

/* Is the file that was downloaded from a URL still what the server has there? Changed: it has another one, or the file
 * here is not the one that was downloaded; unchanged: it says so (HTTP 304), or names the digest of the file here. */
enum freshness { CHANGED, UNCHANGED, SAME_SIZE /* nothing else is known */ };

/* A server that gave an ETag or a date of change is asked with If-None-Match and If-Modified-Since. Without them the digest
 * decides where the server names one, and the size where it names no version. */
static bn_status ask_freshness(enum freshness *out, const struct bn_hub_fetch *f, const char *url,
                               const cJSON *version, bn_error *err)
{
    const char *sha256 = f->transfer.digest, *known = bn_hub_text_of(version, "sha256");
    const char *etag = bn_hub_text_of(version, "etag"), *date = bn_hub_text_of(version, "last_modified");
    struct bn_http_request request = {.url = url};
    struct bn_http_source source;
    bool ours = strcmp(known, sha256) == 0;
    *out = CHANGED;
    if (bn_is_sha256(known) && !ours) return BN_OK;
    if (ours && etag[0] != '\0') request.if_none_match = etag;
    if (ours && date[0] != '\0') request.if_modified_since = date;
    BN_TRY(bn_hub_ask(&source, &f->server, &request, err));
    bool conditional = request.if_none_match != NULL || request.if_modified_since != NULL;
    if (source.last.status == 304)
        *out = UNCHANGED;
    else if (source.sha256[0] != '\0')
        *out = strcasecmp(source.sha256, sha256) == 0 ? UNCHANGED : CHANGED;
    else if (!conditional && source.last.etag[0] == '\0' && source.last.last_modified[0] == '\0' &&
             source.size == f->transfer.final_size)
        *out = SAME_SIZE;
    return BN_OK;
}

/* The file of a URL is here. When the server has another one, that is to be downloaded. */
static bn_status revalidate(struct work *w, bn_error *err)
{
    struct bn_hub_fetch *f = w->f;
    enum freshness freshness;
    char path[BN_HUB_PATH_MAX];
    cJSON *version = NULL;
    bn_status status = BN_OK;
    if (find_version(path, w->ref.url)) status = bn_hub_document_read(&version, path, SCHEMA, NULL);
    status = ask_freshness(&freshness, f, w->ref.url, version, err);
    cJSON_Delete(version);
    if (status == BN_ERR_NETWORK && err != NULL) {
        err->hint[0] = '\0'; /* this one is of more use */
        bn_error_hint(err, "--offline uses the file that is here");
    }
    BN_TRY(status);
    f->unchanged = freshness == UNCHANGED;
    f->same_size = freshness == SAME_SIZE;
    if (freshness != CHANGED) return BN_OK;
    memcpy(f->replaced, f->transfer.digest, sizeof f->replaced);
    f->transfer.force = true;
    if (tell(f, BN_TRANSFER_RESTART, "the file here is not the one on the server")) return BN_OK;
    return bn_fail(err, BN_ERR_CANCELLED, "stopped");
}

/* A run that was killed after its last step leaves the lock of a complete file. */
static bn_status drop_lock(const char *path, unsigned flags)
{
    struct bn_hub_lock *lock = NULL;
    if ((flags & BN_HUB_LOCK_REMOVE) != 0 && access(path, F_OK) == 0 &&
        bn_hub_lock_take(&lock, path, flags, NULL, NULL, NULL) == BN_OK)
        bn_hub_lock_release(lock);
    return BN_OK;
}

/* A file that is complete needs no lock, so that it is found in a folder that cannot be written to. */
static bn_status transfer(struct work *w, const char *lock_path, unsigned flags, bn_error *err)
{
    struct bn_hub_fetch *f = w->f;
    struct bn_hub_lock *lock = NULL;
    if (!f->force && bn_transfer_here(&f->transfer, NULL) == BN_OK) {
        if (w->ref.kind != BN_HUB_URL || f->sha256_wanted[0] != '\0') return drop_lock(lock_path, flags);
        BN_TRY(revalidate(w, err));
        if (f->unchanged || f->same_size) return drop_lock(lock_path, flags);
    }
    if (!f->no_wait) flags |= BN_HUB_LOCK_WAIT;
    BN_TRY(bn_hub_lock_take(&lock, lock_path, flags, wait_for_lock, f, err));
    /* Another process may have replaced the file while this one waited for the lock. */
    bool other = f->replaced[0] != '\0' && bn_transfer_here(&f->transfer, NULL) == BN_OK &&
                 strcmp(f->transfer.digest, f->replaced) != 0;
    bn_status status = other ? BN_OK : bn_transfer_run(&f->transfer, err);
    bn_hub_lock_release(lock);
    /* The server's versions differed, its bytes did not. */
    if (status == BN_OK && f->replaced[0] != '\0' && strcmp(f->replaced, f->transfer.digest) == 0) {
        f->unchanged = true;
        f->replaced[0] = '\0';
    }
    return status;
}

/* What is in the folder already, without the network. */
static bn_status use_plain(struct work *w, bn_error *err)
{
    bn_error why = {0};
    bn_status status = bn_transfer_run(&w->f->transfer, &why);
    w->f->from_cache = status == BN_OK;
    w->f->size = w->f->transfer.final_size;
    if (status == BN_OK) return BN_OK;
    if (status == BN_ERR_NOT_FOUND)
        bn_fail_in(err, status, w->f->path, "not on this machine, and the network is off");
    else if (err != NULL && err->code == BN_OK)
        *err = why;
    bn_error_hint(err, "run without --offline and HF_HUB_OFFLINE to download it");
    return status;
}

/* A plain file in a folder, with a lock next to it while it is downloaded. */
static bn_status fetch_plain(struct work *w, const char *folder, const char *name, size_t n_urls,
                             const char *identity, bn_error *err)
{
    struct bn_hub_fetch *f = w->f;
    char lock[4200];
    int n = snprintf(f->path, sizeof f->path, "%s/%s", folder, name);
    if (n < 0 || (size_t)n >= sizeof f->path) return bn_fail(err, BN_ERR_LIMIT, "the path is too long");
    prepare(w, f->path, name, n_urls, identity);
    if (f->server.offline) return use_plain(w, err);
    if (f->dry_run) return BN_OK;
    BN_TRY(bn_file_make_folders(f->path, err));
    snprintf(lock, sizeof lock, "%s.lock", f->path);
    return transfer(w, lock, BN_HUB_LOCK_REMOVE, err);
}

/* The last part of the URL's path. */
static bn_status fetch_url(struct work *w, bn_error *err)
{
    char name[256];
    const char *url = w->ref.url, *path = strstr(url, "://") + 3;
    size_t n = strcspn(path, "?#"), from = n;
    while (from > 0 && path[from - 1] != '/')
        from--;
    if (from == 0 || n - from >= sizeof name) return bn_fail(err, BN_ERR_ARG, "the URL has no file name");
    snprintf(name, sizeof name, "%.*s", (int)(n - from), path + from);
    if (!bn_hub_safe_path(name)) return bn_fail(err, BN_ERR_ARG, "the URL has no file name");
    BN_TRY(copy(w->urls[0], sizeof w->urls[0], url, err));
    snprintf(w->f->url, sizeof w->f->url, "%s", url);
    BN_TRY(fetch_plain(w, w->f->to != NULL ? w->f->to : ".", name, 1, url, err));
    if (w->f->transfer.n_requests > 0) record_version(&w->f->transfer, url);
    return BN_OK;
}

/* The endpoint's URL, then those of the mirrors. */
static bn_status make_urls(struct work *w, size_t *n, bn_error *err)
{
    struct bn_hub_fetch *f = w->f;
    size_t tail = strlen(f->server.endpoint);
    BN_TRY(copy(w->urls[0], sizeof w->urls[0], w->meta.url, err));
    *n = 1;
    for (size_t i = 0; i < f->n_mirrors && *n < MAX_URLS; i++) {
        size_t length = strlen(f->mirrors[i]);
        while (length > 0 && f->mirrors[i][length - 1] == '/')
            length--;
        int k = snprintf(w->urls[*n], sizeof w->urls[0], "%.*s%s", (int)length, f->mirrors[i],
                         w->meta.url + tail);
        if (k < 0 || (size_t)k >= sizeof w->urls[0])
            return bn_fail(err, BN_ERR_LIMIT, "a mirror's URL is too long");
        ++*n;
    }
    for (size_t i = 0; i < f->n_urls && *n < MAX_URLS; i++)
        if (strcmp(f->urls[i], w->urls[0]) != 0)
            BN_TRY(copy(w->urls[(*n)++], sizeof w->urls[0], f->urls[i], err));
    return BN_OK;
}

static bn_status fetch_cached(struct work *w, size_t n_urls, const char *identity, bn_error *err)
{
    struct bn_hub_fetch *f = w->f;
    char blob[BN_HUB_PATH_MAX], lock[BN_HUB_PATH_MAX];
    BN_TRY(bn_hub_cache_blob(blob, w->root, f->repo, w->meta.etag, err));
    BN_TRY(bn_hub_cache_lock(lock, w->root, f->repo, w->meta.etag, err));
    BN_TRY(copy(f->path, sizeof f->path, blob, err));
    prepare(w, blob, f->file, n_urls, identity);
    if (f->dry_run) return BN_OK;
    BN_TRY(transfer(w, lock, 0, err));
    BN_TRY(bn_hub_cache_link(f->path, w->root, f->repo, w->meta.etag, f->commit, f->revision, f->file, err));
    bn_hub_digest_record(f->path, f->transfer.digest);
    return BN_OK;
}

/* A digest that was demanded and one that the hub names must agree before a byte is fetched. */
static bn_status agree(const struct work *w, bn_error *err)
{
    const struct bn_hub_fetch *f = w->f;
    if (f->sha256_wanted[0] == '\0' || w->meta.sha256[0] == '\0' ||
        strcasecmp(f->sha256_wanted, w->meta.sha256) == 0)
        return BN_OK;
    return bn_hint(bn_fail_in(err, BN_ERR_INTEGRITY, f->file,
                              "the hub has sha256 %.16s..., expected %.16s... (%s)", w->meta.sha256,
                              f->sha256_wanted, f->sha256_source),
                   err, "the file was replaced, or it is another one; @COMMIT names an older revision");
}

static bn_status fetch_repo(struct work *w, bn_error *err)
{
    struct bn_hub_fetch *f = w->f;
    bool found;
    size_t n_urls;
    char identity[1600], pin[BN_SHA256_HEX] = "";
    if (f->to == NULL) BN_TRY(bn_hub_cache_root(w->root, err));
    if (w->pin_key[0] != '\0') BN_TRY(bn_hub_pin_find(pin, w->pin_key, err));
    want(f, pin, "first use");
    BN_TRY(look_in_cache(w, &found, err));
    if (found) return BN_OK;
    if (f->server.offline && f->to != NULL && f->file[0] != '\0')
        return fetch_plain(w, f->to, f->file, 0, "", err);
    if (f->file[0] == '\0') BN_TRY(choose_file(w, err));
    BN_TRY(bn_hub_resolve(&w->meta, &f->server, f->repo, f->file, f->revision, err));
    snprintf(f->url, sizeof f->url, "%s", w->meta.url);
    f->size = w->meta.size;
    BN_TRY(agree(w, err));
    want(f, w->meta.sha256, "hub");
    if (w->size == 0) w->size = w->meta.size;
    snprintf(f->commit, sizeof f->commit, "%s", w->meta.commit);
    snprintf(f->etag, sizeof f->etag, "%s", w->meta.etag);
    snprintf(identity, sizeof identity, "hf:%s:%s@%s", f->repo, f->file, f->commit);
    BN_TRY(make_urls(w, &n_urls, err));
    if (f->to != NULL)
        BN_TRY(fetch_plain(w, f->to, f->file, n_urls, identity, err));
    else
        BN_TRY(fetch_cached(w, n_urls, identity, err));
    bool pinned = f->sha256_source != NULL && strcmp(f->sha256_source, "first use") == 0;
    if (w->pin_key[0] == '\0' || f->dry_run || pinned) return BN_OK;
    f->first_use = true;
    return bn_hub_pin_record(w->pin_key, f->transfer.digest, err);
}

bn_status bn_hub_fetch(struct bn_hub_fetch *fetch, bn_error *err)
{
    struct work *w = bn_alloc(1, sizeof *w);
    if (w == NULL) return bn_nomem(err);
    w->f = fetch;
    memset((char *)fetch + offsetof(struct bn_hub_fetch, path), 0,
           sizeof *fetch - offsetof(struct bn_hub_fetch, path));
    fetch->server.patience = (struct bn_http_patience){
        .retries = fetch->retries, .stall_s = fetch->stall_s, .tick = still_wanted, .user = fetch};
    bn_status status = identify(w, err);
    if (status == BN_OK) status = w->ref.kind == BN_HUB_URL ? fetch_url(w, err) : fetch_repo(w, err);
    fetch->transfer.urls = NULL; /* it was ours */
    fetch->transfer.path = fetch->transfer.identity = NULL;
    bn_free(w);
    return status;
}

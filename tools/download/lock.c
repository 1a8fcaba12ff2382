/* SPDX-License-Identifier: MIT
 *
 * bn-download lock: writes the commits and digests of models to a file, for bn-download --lock.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "gguf/gguf.h"
#include "hub/cache/cache.h"
#include "hub/cache/lockfile.h"
#include "hub/cache/walk.h"
#include "hub/names/reference.h"
#include "tokenizer/tokenizer.h"
#include "tools/cli/report.h"
#include "tools/download/download.h"

const struct bn_option bn_download_lock_options[] = {
    BN_OPTION("output", "write to FILE [standard output]", .letter = 'o', .arg = "FILE",
              BN_TO_TEXT(struct bn_download_options, output)),
    {0},
};

/* The texts of one entry. */
struct entry {
    char id[1600], repo[193], revision[65], file[1025], sha256[BN_SHA256_HEX], tokenizer[BN_SHA256_HEX],
        licence[64], url[2049];
};

struct lock {
    struct bn_hub_fetch *fetch;
    struct entry *entries;
    struct bn_hub_locked *list;
    size_t n;
};

static bn_status make_room(struct lock *l, size_t n, bn_error *err)
{
    l->entries = bn_alloc(n + 1, sizeof *l->entries);
    l->list = bn_alloc(n + 1, sizeof *l->list);
    bool ok = l->entries != NULL && l->list != NULL;
    return ok ? BN_OK : bn_nomem(err);
}

static void add(struct lock *l, uint64_t size)
{
    const struct entry *e = &l->entries[l->n];
    l->list[l->n++] =
        (struct bn_hub_locked){.id = e->id,
                               .repo = e->repo,
                               .revision = e->revision,
                               .file = e->file,
                               .sha256 = e->sha256,
                               .tokenizer_sha256 = e->tokenizer[0] != '\0' ? e->tokenizer : NULL,
                               .licence = e->licence[0] != '\0' ? e->licence : NULL,
                               .size = size,
                               .urls = {e->url},
                               .n_urls = e->url[0] != '\0' ? 1 : 0};
}

/* The digest of a model's vocabulary; empty unless the file is here and has one. */
static void read_tokenizer(char hex[BN_SHA256_HEX], const char *path)
{
    struct bn_file_map map;
    struct bn_gguf gguf;
    bn_tokenizer *tok = NULL;
    hex[0] = '\0';
    if (bn_file_map_open(&map, path, false, NULL) != BN_OK) return;
    if (bn_gguf_open(&gguf, map.data, map.n_bytes, NULL) == BN_OK) {
        bool ok =
            bn_tokenizer_open(&tok, &gguf, "", NULL) == BN_OK && bn_tokenizer_digest(tok, hex, NULL) == BN_OK;
        if (!ok) hex[0] = '\0';
        bn_tokenizer_close(tok);
        bn_gguf_close(&gguf);
    }
    bn_file_map_close(&map);
}

/* From the registry, the cache or the hub; nothing is downloaded. */
static bn_status lock_model(struct lock *l, const char *reference, bn_error *err)
{
    struct bn_hub_fetch *f = l->fetch;
    struct entry *e = &l->entries[l->n];
    struct bn_hub_reference ref;
    BN_TRY(bn_hub_reference_parse(&ref, reference, err));
    if (ref.kind == BN_HUB_URL)
        return bn_fail_in(err, BN_ERR_ARG, reference, "a URL cannot be locked: it has no commit");
    f->reference = reference;
    f->dry_run = true;
    BN_TRY(bn_hub_fetch(f, err));
    const char *sha256 = f->sha256_wanted;
    if (sha256[0] == '\0' || f->commit[0] == '\0')
        return bn_hint(bn_fail_in(err, BN_ERR_NOT_FOUND, reference, "its digest is not known yet"), err,
                       "bn-download %s first", reference);
    snprintf(e->id, sizeof e->id, "%s", reference);
    snprintf(e->repo, sizeof e->repo, "%s", f->repo);
    snprintf(e->revision, sizeof e->revision, "%s", f->commit);
    snprintf(e->file, sizeof e->file, "%s", f->file);
    snprintf(e->sha256, sizeof e->sha256, "%s", sha256);
    snprintf(e->licence, sizeof e->licence, "%s", f->licence);
    char *path = NULL;
    if (bn_hub_find(&path, reference, NULL) == BN_OK) read_tokenizer(e->tokenizer, path);
    bn_free(path);
    BN_TRY(bn_hub_url(e->url, &f->server, f->repo, f->file, f->commit, err));
    add(l, f->size);
    return BN_OK;
}

/* Everything in the cache whose blob is named by its digest. */
static bn_status lock_cache(struct lock *l, bn_error *err)
{
    char *root;
    struct bn_hub_walk walk;
    BN_TRY(bn_hub_cache_root(&root, err));
    bn_status status = bn_hub_walk_open(&walk, root, err);
    if (status == BN_OK) status = make_room(l, walk.n, err);
    for (size_t i = 0; i < walk.n && status == BN_OK; i++) {
        const struct bn_hub_cached *c = &walk.list[i];
        struct entry *e = &l->entries[l->n];
        if (c->kind != BN_HUB_CACHED_FILE) continue;
        snprintf(e->id, sizeof e->id, "hf:%s:%s@%s", c->repo, c->file, c->commit);
        if (strlen(c->etag) != BN_SHA256_HEX - 1) {
            char shown[1200];
            bn_report_note(0, "%s is left out: its sha256 is not known",
                           bn_escape(shown, sizeof shown, c->file, strlen(c->file)));
            continue;
        }
        snprintf(e->repo, sizeof e->repo, "%s", c->repo);
        snprintf(e->revision, sizeof e->revision, "%s", c->commit);
        snprintf(e->file, sizeof e->file, "%s", c->file);
        snprintf(e->sha256, sizeof e->sha256, "%s", c->etag);
        read_tokenizer(e->tokenizer, c->path);
        status = bn_hub_url(e->url, &l->fetch->server, c->repo, c->file, c->commit, err);
        if (status == BN_OK) add(l, c->size);
    }
    bn_hub_walk_release(&walk);
    bn_free(root);
    return status;
}

static bn_status lock_all(struct lock *l, const struct bn_args *args, bn_error *err)
{
    if (args->n_operands == 0) return lock_cache(l, err);
    BN_TRY(make_room(l, args->n_operands, err));
    for (size_t i = 0; i < args->n_operands; i++)
        BN_TRY(lock_model(l, args->operands[i], err));
    return BN_OK;
}

static bn_status put(struct lock *l, const char *path, bn_error *err)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    bn_status status = bn_hub_lockfile_write(&text, l->list, l->n, err);
    if (status == BN_OK && path != NULL) status = bn_file_write_atomic(path, text.data, text.len, err);
    if (status == BN_OK && path == NULL) fwrite(text.data, 1, text.len, stdout);
    bn_buf_release(&text);
    return status;
}

bn_status bn_download_lock(struct bn_args *args, bn_error *err)
{
    struct lock l = {.fetch = bn_alloc(1, sizeof *l.fetch)};
    if (l.fetch == NULL) return bn_nomem(err);
    bn_status status = bn_download_settings(l.fetch, args, err);
    if (status == BN_OK) status = lock_all(&l, args, err);
    if (status == BN_OK) status = put(&l, ((const struct bn_download_options *)args->fields)->output, err);
    bn_free(l.entries);
    bn_free(l.list);
    bn_free(l.fetch);
    return status;
}

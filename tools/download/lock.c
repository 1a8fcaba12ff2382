/* SPDX-License-Identifier: MIT
 *
 * bn-download lock: writes the commits and digests of models to a file, for bn-download --lock.
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "gguf/gguf.h"
#include "hub/cache/cache.h"
#include "hub/names/names.h"
#include "tokenizer/tokenizer.h"
#include "tools/download/download.h"

const struct bn_option bn_download_lock_options[] = {
    BN_OPTION("output", "write to FILE [standard output]", .letter = 'o', .arg = "FILE",
              BN_TO_PATH(struct bn_download_options, output, WRITE)),
    {0},
};

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

/* `entry` without the digest of the vocabulary, which the file at path (NULL: none) has, and without its URL. */
static bn_status add(cJSON *lock, const struct bn_hub_server *server, struct bn_hub_locked entry,
                     const char *path, bn_error *err)
{
    char url[2049], tokenizer[BN_SHA256_HEX] = "";
    BN_TRY(bn_hub_url(url, server, entry.repo, entry.file, entry.revision, err));
    if (path != NULL) read_tokenizer(tokenizer, path);
    if (tokenizer[0] != '\0') entry.tokenizer_sha256 = tokenizer;
    entry.urls[0] = url;
    entry.n_urls = 1;
    return bn_hub_lockfile_add(lock, &entry, err);
}

/* From the registry, the cache or the hub; nothing is downloaded. */
static bn_status lock_model(cJSON *lock, struct bn_hub_fetch *f, const char *reference, bn_error *err)
{
    struct bn_hub_reference ref;
    BN_TRY(bn_hub_reference_parse(&ref, reference, err));
    if (ref.kind == BN_HUB_URL)
        return bn_fail_in(err, BN_ERR_ARG, reference, "a URL cannot be locked: it has no commit");
    f->reference = reference;
    f->dry_run = true;
    BN_TRY(bn_hub_fetch(f, err));
    if (f->sha256_wanted[0] == '\0' || f->commit[0] == '\0')
        return bn_hint(bn_fail_in(err, BN_ERR_NOT_FOUND, reference, "its digest is not known yet"), err,
                       "bn-download %s first", reference);
    char path[BN_HUB_PATH_MAX];
    bool here = bn_hub_find(path, reference, NULL) == BN_OK;
    const struct bn_hub_locked entry = {.id = reference,
                                        .repo = f->repo,
                                        .revision = f->commit,
                                        .file = f->file,
                                        .sha256 = f->sha256_wanted,
                                        .licence = f->licence[0] != '\0' ? f->licence : NULL,
                                        .size = f->size};
    return add(lock, &f->server, entry, here ? path : NULL, err);
}

static bn_status lock_cached(cJSON *lock, const struct bn_hub_server *server, const struct bn_hub_cached *c,
                             bn_error *err)
{
    char id[1600], shown[1200];
    if (c->kind != BN_HUB_CACHED_FILE) return BN_OK;
    if (strlen(c->etag) != BN_SHA256_HEX - 1) {
        bn_report_note(0, "%s is left out: its sha256 is not known",
                       bn_escape(shown, sizeof shown, c->file, strlen(c->file)));
        return BN_OK;
    }
    snprintf(id, sizeof id, "hf:%s:%s@%s", c->repo, c->file, c->commit);
    return add(lock, server,
               (struct bn_hub_locked){.id = id,
                                      .repo = c->repo,
                                      .revision = c->commit,
                                      .file = c->file,
                                      .sha256 = c->etag,
                                      .size = c->size},
               c->path, err);
}

/* The models that are named, else everything in the cache whose blob is named by its digest. */
static bn_status lock_all(cJSON *lock, struct bn_hub_fetch *fetch, const struct bn_args *args, bn_error *err)
{
    char root[BN_HUB_PATH_MAX];
    struct bn_hub_walk walk;
    for (size_t i = 0; i < args->n_operands; i++)
        BN_TRY(lock_model(lock, fetch, args->operands[i], err));
    if (args->n_operands > 0) return BN_OK;
    BN_TRY(bn_hub_cache_root(root, err));
    bn_status status = bn_hub_walk_open(&walk, root, err);
    for (size_t i = 0; i < walk.n && status == BN_OK; i++)
        status = lock_cached(lock, &fetch->server, &walk.list[i], err);
    bn_hub_walk_release(&walk);
    return status;
}

bn_status bn_download_lock(struct bn_args *args, bn_error *err)
{
    const char *path = ((const struct bn_download_options *)args->fields)->output;
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    struct bn_hub_fetch *fetch = bn_alloc(1, sizeof *fetch);
    cJSON *lock = bn_hub_lockfile_new();
    bn_status status = fetch != NULL && lock != NULL ? BN_OK : bn_nomem(err);
    if (status == BN_OK) status = bn_download_settings(fetch, args, err);
    if (status == BN_OK) status = lock_all(lock, fetch, args, err);
    if (status == BN_OK) status = bn_hub_document_write(&text, lock, true, err);
    if (status == BN_OK) status = bn_cli_write(path, &text, err);
    bn_buf_release(&text);
    cJSON_Delete(lock);
    bn_free(fetch);
    return status;
}

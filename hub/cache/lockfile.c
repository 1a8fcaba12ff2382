/* SPDX-License-Identifier: MIT
 *
 * Reads and writes lock files of downloads.
 */
#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "hub/cache/cache.h"
#include "hub/files/document.h"
#include "hub/names/names.h"

#define SCHEMA "bn.lock/1"
#define MAX_FILES 10000
#define FAIL(code, ...) bn_fail_in(err, BN_ERR_##code, f->id, __VA_ARGS__)

/* The texts of an entry. */
static const struct {
    const char *name;
    size_t at;
} TEXTS[] = {
    {"id", offsetof(struct bn_hub_locked, id)},
    {"repo", offsetof(struct bn_hub_locked, repo)},
    {"revision", offsetof(struct bn_hub_locked, revision)},
    {"file", offsetof(struct bn_hub_locked, file)},
    {"sha256", offsetof(struct bn_hub_locked, sha256)},
    {"tokenizer_sha256", offsetof(struct bn_hub_locked, tokenizer_sha256)},
    {"licence", offsetof(struct bn_hub_locked, licence)},
};

/* ---- reading ---- */

/* A file of a repository at a commit, or a URL. */
static bn_status check_place(const struct bn_hub_locked *f, bn_error *err)
{
    struct bn_hub_reference ref;
    if (f->repo == NULL && f->n_urls == 0) return FAIL(FORMAT, "has neither a repository nor a URL");
    if (f->repo != NULL && (!bn_hub_safe_path(f->repo) || strchr(f->repo, '/') == NULL))
        return FAIL(FORMAT, "'repo' is not a repository (OWNER/REPO)");
    if (f->repo != NULL && (f->revision == NULL || !bn_hub_is_commit(f->revision) || f->file == NULL ||
                            !bn_hub_safe_path(f->file)))
        return FAIL(FORMAT, "has no valid file or commit");
    for (size_t i = 0; i < f->n_urls; i++)
        if (bn_hub_reference_parse(&ref, f->urls[i], NULL) != BN_OK || ref.kind != BN_HUB_URL)
            return FAIL(FORMAT, "a URL is not valid, or is not https");
    return BN_OK;
}

static bn_status read_file(struct bn_hub_locked *f, const cJSON *o, bn_error *err)
{
    const cJSON *url;
    for (size_t i = 0; i < BN_ARRAY_LEN(TEXTS); i++) {
        const char *text = cJSON_GetStringValue(bn_hub_member(o, TEXTS[i].name));
        memcpy((char *)f + TEXTS[i].at, &text, sizeof text);
    }
    if (f->id == NULL) return bn_fail(err, BN_ERR_FORMAT, "an entry of a lock file has no id");
    if (f->sha256 == NULL || !bn_is_sha256(f->sha256))
        return FAIL(FORMAT, "sha256 is not 64 hexadecimal digits");
    if (f->tokenizer_sha256 != NULL && !bn_is_sha256(f->tokenizer_sha256))
        return FAIL(FORMAT, "tokenizer_sha256 is not 64 hexadecimal digits");
    if (!bn_hub_whole(o, "size", &f->size)) return FAIL(FORMAT, "has no 'size' below 10^15");
    cJSON_ArrayForEach(url, bn_hub_member(o, "urls"))
    {
        if (f->n_urls == BN_HUB_LOCKED_URLS) return FAIL(LIMIT, "more than %u URLs", BN_HUB_LOCKED_URLS);
        f->urls[f->n_urls] = cJSON_GetStringValue(url);
        if (f->urls[f->n_urls++] == NULL) return FAIL(FORMAT, "a URL is not a string");
    }
    return check_place(f, err);
}

static bn_status read_all(struct bn_hub_lockfile *out, bn_error *err)
{
    const cJSON *files = bn_hub_member(out->document, "files"), *o;
    if (!cJSON_IsArray(files)) return bn_fail(err, BN_ERR_FORMAT, "not a lock file: it has no 'files'");
    if (cJSON_GetArraySize(files) > MAX_FILES)
        return bn_fail(err, BN_ERR_LIMIT, "more than %d files", MAX_FILES);
    BN_TRY(BN_NEW(out->list, (size_t)cJSON_GetArraySize(files), err));
    cJSON_ArrayForEach(o, files) BN_TRY(read_file(&out->list[out->n++], o, err));
    return BN_OK;
}

bn_status bn_hub_lockfile_read(struct bn_hub_lockfile *out, const char *path, bn_error *err)
{
    *out = (struct bn_hub_lockfile){0};
    BN_TRY(bn_hub_document_read(&out->document, path, SCHEMA, err));
    bn_status status = read_all(out, err);
    if (status != BN_OK) bn_error_name(err, path);
    return status;
}

void bn_hub_lockfile_release(struct bn_hub_lockfile *lock)
{
    bn_free(lock->list);
    cJSON_Delete(lock->document);
    *lock = (struct bn_hub_lockfile){0};
}

/* ---- writing ---- */

/* Where an entry belongs: before the first one with a later id, then digest. */
static int place_of(const cJSON *files, const struct bn_hub_locked *f)
{
    int i = 0;
    const cJSON *o;
    cJSON_ArrayForEach(o, files)
    {
        int order = strcmp(bn_hub_text_of(o, "id"), f->id);
        if (order > 0 || (order == 0 && strcmp(bn_hub_text_of(o, "sha256"), f->sha256) > 0)) break;
        i++;
    }
    return i;
}

cJSON *bn_hub_lockfile_new(void)
{
    static const struct bn_hub_text HEAD = {"schema", SCHEMA};
    cJSON *document = bn_hub_object(&HEAD, 1);
    if (cJSON_AddArrayToObject(document, "files") != NULL) return document;
    cJSON_Delete(document);
    return NULL;
}

bn_status bn_hub_lockfile_add(cJSON *document, const struct bn_hub_locked *f, bn_error *err)
{
    struct bn_hub_text texts[BN_ARRAY_LEN(TEXTS)];
    for (size_t i = 0; i < BN_ARRAY_LEN(TEXTS); i++) {
        texts[i].name = TEXTS[i].name;
        memcpy(&texts[i].value, (const char *)f + TEXTS[i].at, sizeof texts[i].value);
    }
    cJSON *files = cJSON_GetObjectItemCaseSensitive(document, "files");
    cJSON *o = bn_hub_object(texts, BN_ARRAY_LEN(TEXTS));
    cJSON *urls = cJSON_CreateStringArray(f->urls, (int)f->n_urls);
    bool ok = cJSON_AddItemToObject(o, "urls", urls);
    if (!ok) cJSON_Delete(urls);
    ok = ok && cJSON_AddNumberToObject(o, "size", (double)f->size) != NULL &&
         cJSON_InsertItemInArray(files, place_of(files, f), o);
    if (ok) return BN_OK;
    cJSON_Delete(o);
    return bn_nomem(err);
}

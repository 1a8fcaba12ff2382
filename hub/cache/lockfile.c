/* SPDX-License-Identifier: MIT
 *
 * Reads and writes lock files of downloads.
 */
#include "hub/cache/lockfile.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "hub/names/reference.h"

#define SCHEMA "bn.lock/1"
#define MAX_FILES 10000u

/* ---- reading ---- */

static bool text(const bn_json *o, const char *name, const char **out)
{
    *out = NULL;
    return bn_json_string(bn_json_get(o, name), out);
}

/* A file of a repository at a commit, or a URL. */
static bn_status check_place(const struct bn_hub_locked *f, bn_error *err)
{
    struct bn_hub_reference ref;
    if (f->repo == NULL && f->n_urls == 0)
        return bn_fail_in(err, BN_ERR_FORMAT, f->id, "has neither a repository nor a URL");
    if (f->repo != NULL && (!bn_hub_safe_path(f->repo) || strchr(f->repo, '/') == NULL))
        return bn_fail_in(err, BN_ERR_FORMAT, f->id, "'repo' is not a repository (OWNER/REPO)");
    if (f->repo != NULL && (f->revision == NULL || !bn_hub_is_commit(f->revision) || f->file == NULL ||
                            !bn_hub_safe_path(f->file)))
        return bn_fail_in(err, BN_ERR_FORMAT, f->id, "has no valid file or commit");
    for (size_t i = 0; i < f->n_urls; i++)
        if (bn_hub_reference_parse(&ref, f->urls[i], NULL) != BN_OK || ref.kind != BN_HUB_URL)
            return bn_fail_in(err, BN_ERR_FORMAT, f->id, "a URL is not valid, or is not https");
    return BN_OK;
}

static bn_status read_file(struct bn_hub_locked *f, const bn_json *o, bn_error *err)
{
    if (!text(o, "id", &f->id)) return bn_fail(err, BN_ERR_FORMAT, "an entry of a lock file has no id");
    (void)text(o, "repo", &f->repo);
    (void)text(o, "revision", &f->revision);
    (void)text(o, "file", &f->file);
    (void)text(o, "licence", &f->licence);
    if (!text(o, "sha256", &f->sha256) || !bn_is_sha256(f->sha256))
        return bn_fail_in(err, BN_ERR_FORMAT, f->id, "sha256 is not 64 hexadecimal digits");
    if (text(o, "tokenizer_sha256", &f->tokenizer_sha256) && !bn_is_sha256(f->tokenizer_sha256))
        return bn_fail_in(err, BN_ERR_FORMAT, f->id, "tokenizer_sha256 is not 64 hexadecimal digits");
    if (!bn_json_u64(bn_json_get(o, "size"), &f->size))
        return bn_fail_in(err, BN_ERR_FORMAT, f->id, "has no 'size'");
    for (const bn_json *u = bn_json_first(bn_json_get(o, "urls")); u != NULL; u = bn_json_next(u)) {
        if (f->n_urls == BN_HUB_LOCKED_URLS)
            return bn_fail_in(err, BN_ERR_LIMIT, f->id, "more than %u URLs", BN_HUB_LOCKED_URLS);
        if (!bn_json_string(u, &f->urls[f->n_urls++]))
            return bn_fail_in(err, BN_ERR_FORMAT, f->id, "a URL is not a string");
    }
    return check_place(f, err);
}

static bn_status read_all(struct bn_hub_lockfile *out, bn_error *err)
{
    const bn_json *files = bn_json_get(out->document, "files");
    if (!bn_json_text_is(out->document, "schema", SCHEMA) || bn_json_kind(files) != BN_JSON_ARRAY)
        return bn_fail(err, BN_ERR_FORMAT, "not a lock file (schema " SCHEMA " expected)");
    if (bn_json_size(files) > MAX_FILES) return bn_fail(err, BN_ERR_LIMIT, "more than %u files", MAX_FILES);
    out->list = bn_alloc(bn_json_size(files), sizeof *out->list);
    if (out->list == NULL) return bn_nomem(err);
    for (const bn_json *o = bn_json_first(files); o != NULL; o = bn_json_next(o))
        BN_TRY(read_file(&out->list[out->n++], o, err));
    return BN_OK;
}

bn_status bn_hub_lockfile_read(struct bn_hub_lockfile *out, const char *path, bn_error *err)
{
    *out = (struct bn_hub_lockfile){0};
    BN_TRY(bn_json_read_file(&out->document, path, err));
    bn_status status = read_all(out, err);
    if (status != BN_OK) bn_error_name(err, path);
    return status;
}

void bn_hub_lockfile_release(struct bn_hub_lockfile *lock)
{
    bn_free(lock->list);
    bn_json_free(lock->document);
    *lock = (struct bn_hub_lockfile){0};
}

/* ---- writing ---- */

static int by_id(const void *a, const void *b)
{
    const struct bn_hub_locked *x = a, *y = b;
    int order = strcmp(x->id, y->id);
    return order != 0 ? order : strcmp(x->sha256, y->sha256);
}

bn_status bn_hub_lockfile_write(struct bn_buf *out, struct bn_hub_locked *list, size_t n, bn_error *err)
{
    bn_json *document = bn_json_new_object();
    if (n > 1) qsort(list, n, sizeof *list, by_id);
    bn_json_put_string(document, "schema", SCHEMA);
    bn_json *files = bn_json_put_array(document, "files");
    for (size_t i = 0; i < n; i++) {
        const struct bn_hub_locked *f = &list[i];
        bn_json *o = bn_json_add_object(files);
        bn_json_put_string(o, "id", f->id);
        bn_json_put_string(o, "repo", f->repo);
        bn_json_put_string(o, "revision", f->revision);
        bn_json_put_string(o, "file", f->file);
        bn_json_put_string(o, "sha256", f->sha256);
        bn_json_put_string(o, "tokenizer_sha256", f->tokenizer_sha256);
        bn_json_put_u64(o, "size", f->size);
        bn_json_put_texts(o, "urls", f->urls, f->n_urls);
        bn_json_put_string(o, "licence", f->licence);
    }
    bn_status status = bn_json_write_line(document, false, out, err);
    bn_json_free(document);
    return status;
}

/* SPDX-License-Identifier: MIT
 *
 * bn-download clean: unused files of the cache. Nothing is deleted without --yes, and nothing that another
 * process is downloading.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "hub/cache/cache.h"
#include "hub/cache/lock.h"
#include "hub/cache/walk.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"
#include "tools/download/download.h"

const struct bn_option bn_download_clean_options[] = {
    BN_OPTION("yes", "delete the files (without it they are only listed)", .letter = 'y',
              BN_TO_BOOL(struct bn_download_options, yes)),
    BN_OPTION("old", "also snapshots that no branch or tag points to",
              BN_TO_BOOL(struct bn_download_options, old)),
    {0},
};

struct clean {
    const struct bn_args *args;
    char *root;
    struct bn_hub_walk walk;
    bn_json *files;
    bool yes, old;
    uint64_t bytes;
    size_t n, n_old; /* n_old: files of old snapshots that are left alone */
};

static const char *reason_of(const struct bn_hub_cached *c)
{
    switch (c->kind) {
    case BN_HUB_CACHED_FILE:
        return "old snapshot";
    case BN_HUB_CACHED_BLOB:
        return "in no snapshot";
    case BN_HUB_CACHED_PART:
        return "unfinished download";
    case BN_HUB_CACHED_BAD:
        return "wrong bytes";
    }
    return "";
}

/* Are the bytes of an old file also those of a snapshot that stays, or of one listed before? */
static bool is_shared(const struct clean *c, size_t i)
{
    const struct bn_hub_cached *item = &c->walk.list[i];
    for (size_t k = 0; k < c->walk.n; k++) {
        const struct bn_hub_cached *other = &c->walk.list[k];
        if (k != i && strcmp(other->path, item->path) == 0 && (!other->old || k < i)) return true;
    }
    return false;
}

/* The link, the folders around it that are empty then, up to snapshots/, and the bytes. */
static bn_status remove_old(const struct clean *c, const struct bn_hub_cached *item, bool shared,
                            bn_error *err)
{
    char folder[4096];
    BN_TRY(bn_hub_walk_remove(c->root, item->link, false, err));
    snprintf(folder, sizeof folder, "%s", item->link);
    for (char *slash; (slash = strrchr(folder, '/')) != NULL;) {
        *slash = '\0';
        const char *last = strrchr(folder, '/');
        if (last == NULL || strcmp(last, "/snapshots") == 0) break;
        if (bn_hub_walk_remove(c->root, folder, true, NULL) != BN_OK) break; /* not empty */
    }
    return shared ? BN_OK : bn_hub_walk_remove(c->root, item->path, false, err);
}

/* Under the lock that a download of it takes. */
static bn_status remove_blob(const struct clean *c, const struct bn_hub_cached *item, bool *busy,
                             bn_error *err)
{
    char *path = NULL;
    struct bn_hub_lock *lock = NULL;
    BN_TRY(bn_hub_cache_lock(&path, c->root, item->repo, item->etag, err));
    *busy = bn_hub_lock_take(&lock, path, 0, NULL, NULL, NULL) != BN_OK;
    bn_free(path);
    if (*busy) return BN_OK;
    bn_status status = bn_hub_walk_remove(c->root, item->path, false, err);
    bn_hub_lock_release(lock);
    return status;
}

static void tell(struct clean *c, const struct bn_hub_cached *item, uint64_t bytes, bool busy)
{
    char size[BN_UNITS_ROOM], shown[1200], name[1500];
    const char *reason = busy ? "in use by another process: kept" : reason_of(item);
    snprintf(name, sizeof name, "%s/%s", item->repo, item->file[0] != '\0' ? item->file : item->etag);
    if (!c->args->json) {
        printf("%9s  %-20s  %s\n", bn_units_text(size, (double)bytes, "B"), reason,
               bn_escape(shown, sizeof shown, name, strlen(name)));
        return;
    }
    bn_json *o = bn_json_add_object(c->files);
    bn_json_put_string(o, "path", item->kind == BN_HUB_CACHED_FILE ? item->link : item->path);
    bn_json_put_string(o, "reason", reason);
    bn_json_put_u64(o, "bytes", bytes);
    bn_json_put_bool(o, "removed", c->yes && !busy);
}

static bn_status clean_item(struct clean *c, size_t i, bn_error *err)
{
    const struct bn_hub_cached *item = &c->walk.list[i];
    bool file = item->kind == BN_HUB_CACHED_FILE, busy = false;
    if (file && !item->old) return BN_OK;
    if (file && !c->old) {
        c->n_old++;
        return BN_OK;
    }
    bool shared = file && is_shared(c, i);
    if (c->yes && file) BN_TRY(remove_old(c, item, shared, err));
    if (c->yes && !file) BN_TRY(remove_blob(c, item, &busy, err));
    tell(c, item, shared ? 0 : item->size, busy);
    if (busy) return BN_OK;
    c->n++;
    if (!shared) c->bytes += item->size;
    return BN_OK;
}

static bn_status clean(struct clean *c, bn_json *doc, bn_error *err)
{
    char size[BN_UNITS_ROOM];
    BN_TRY(bn_hub_cache_root(&c->root, err));
    BN_TRY(bn_hub_walk_open(&c->walk, c->root, err));
    for (size_t i = 0; i < c->walk.n; i++)
        BN_TRY(clean_item(c, i, err));
    bn_json_put_u64(doc, "bytes", c->bytes);
    bn_json_put_bool(doc, "removed", c->yes);
    if (doc != NULL)
        BN_TRY(bn_cli_print_json(doc, err));
    else
        printf("%9s  %s\n", bn_units_text(size, (double)c->bytes, "B"), c->yes ? "removed" : "in all");
    if (!c->yes && c->n > 0) bn_report_note(0, "nothing was deleted; use --yes to delete");
    if (c->n_old > 0)
        bn_report_note(0, "%zu file%s of old snapshots kept; use --old to include them", c->n_old,
                       c->n_old == 1 ? "" : "s");
    return BN_OK;
}

bn_status bn_download_clean(struct bn_args *args, bn_error *err)
{
    const struct bn_download_options *o = args->fields;
    struct clean c = {.args = args, .yes = o->yes, .old = o->old};
    bn_json *doc = args->json ? bn_json_new_object() : NULL;
    bn_json_put_string(doc, "schema", "bn.clean/1");
    c.files = bn_json_put_array(doc, "files");
    bn_status status = clean(&c, doc, err);
    bn_json_free(doc);
    bn_hub_walk_release(&c.walk);
    bn_free(c.root);
    return status;
}

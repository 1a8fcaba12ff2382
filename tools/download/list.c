/* SPDX-License-Identifier: MIT
 *
 * bn-download list, path and clean: the models of the registry, and the files in the cache. Each command fills a
 * document with a list of files; --json prints it, else it is shown as a table. clean deletes nothing without --yes, and
 * nothing that another process is downloading.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hub/cache/cache.h"
#include "hub/names/names.h"
#include "lab/kit/put_counts.h"
#include "lab/report/table.h"
#include "tools/download/download.h"

const struct bn_option bn_download_list_options[] = {
    BN_OPTION("names", "print the names only, one a line", BN_TO_BOOL(struct bn_download_options, names)),
    BN_OPTION("cached", "list the files in the cache, of other tools too",
              BN_TO_BOOL(struct bn_download_options, cached)),
    {0},
};

const struct bn_option bn_download_clean_options[] = {
    BN_OPTION("yes", "delete the files (without it they are only listed)", .letter = 'y',
              BN_TO_BOOL(struct bn_download_options, yes)),
    BN_OPTION("old", "also snapshots that no branch or tag points to",
              BN_TO_BOOL(struct bn_download_options, old)),
    {0},
};

/* ---- documents and tables ---- */

/* How a member of a row is shown: as it is; bytes; its first characters; whether it is there; whether it is "yes"; a
 * note, unless it is "yes". */
enum form { TEXT, BYTES, SHORT, THERE, YES, NOTE };

struct column {
    const char *head, *member;
    enum form form;
};
#define MAX_COLUMNS 8u

static void put_cell(struct bn_table *table, const struct column *c, const bn_json *row)
{
    const char *text = bn_json_text_of(row, c->member);
    double number = 0;
    if (c->form == BYTES && bn_json_number(bn_json_get(row, c->member), &number))
        bn_table_value(table, number, "bytes");
    else if (c->form == BYTES)
        bn_table_text(table, "-");
    else if (c->form == SHORT)
        bn_table_printf(table, "%.8s", text);
    else if (c->form == THERE)
        bn_table_text(table, text[0] != '\0' ? "yes" : "");
    else if (c->form == YES)
        bn_table_text(table, strcmp(text, "yes") == 0 ? "yes" : "no");
    else
        bn_table_text(table, c->form == NOTE && strcmp(text, "yes") == 0 ? "" : text);
}

/* The columns end with an empty row. */
static bn_status print(const struct bn_args *args, const bn_json *doc, const struct column *columns,
                       bn_error *err)
{
    const char *heads[MAX_COLUMNS];
    char align[MAX_COLUMNS + 1] = "";
    struct bn_table table;
    size_t n = 0;
    if (!bn_json_is_complete(doc)) return bn_nomem(err);
    if (args->json) return bn_cli_print_json(doc, err);
    for (; columns[n].head != NULL; n++) {
        heads[n] = columns[n].head;
        align[n] = columns[n].form == BYTES ? 'r' : columns[n].form == NOTE ? 'n' : 'l';
    }
    bn_table_begin(&table, heads, align);
    const bn_json *row = bn_json_first(bn_json_get(doc, "files"));
    for (; row != NULL; row = bn_json_next(row)) {
        bn_table_row(&table, "");
        for (size_t c = 0; c < n; c++)
            put_cell(&table, &columns[c], row);
    }
    return bn_cli_print_table(&table, err);
}

/* ---- the registry ---- */

static const struct column REGISTRY[] = {
    {"name", "name", TEXT},
    {"size", "bytes", BYTES},
    {"runs", "runs", YES},
    {"here", "path", THERE},
    {"digest", "sha256_source", TEXT},
    {"licence", "licence", TEXT},
    {"why not", "runs", NOTE},
    {NULL, NULL, TEXT},
};

static void put_file(bn_json *files, const struct bn_hub_model *m, const struct bn_hub_file *f,
                     const char *root)
{
    char name[200], key[1400], first_use[BN_SHA256_HEX] = "";
    char path[BN_HUB_PATH_MAX];
    bool here = root[0] != '\0' && f->file[0] != '\0' &&
                bn_hub_cache_find(path, root, f->repo, f->file, f->revision, NULL) == BN_OK;
    bn_json *o = bn_json_add_object(files);
    snprintf(name, sizeof name, f == m->files ? "%s" : "%s:%s", m->name, f->variant);
    snprintf(key, sizeof key, "hf:%s:%s", f->repo, f->file);
    if (f->sha256 == NULL && bn_hub_pin_find(first_use, key, NULL) != BN_OK) first_use[0] = '\0';
    BN_PUT(o, BN_STRING("name", name), BN_STRING("title", m->title), BN_STRING("parameters", m->parameters),
           BN_STRING("arch", m->arch), BN_STRING("licence", m->licence),
           BN_STRING("licence_url", m->licence_url), BN_STRING("variant", f->variant),
           BN_STRING("repo", f->repo), BN_TEXT("file", f->file), BN_STRING("revision", f->revision));
    if (f->size > 0)
        bn_json_put_u64(o, "bytes", f->size);
    else
        bn_json_put_unavailable(o, "bytes", "not in the registry");
    BN_PUT(o, BN_TEXT("sha256", f->sha256 != NULL ? f->sha256 : first_use),
           BN_TEXT("sha256_source", f->sha256 != NULL      ? "pinned"
                                    : first_use[0] != '\0' ? "first"
                                                           : ""),
           BN_STRING("runs", f->runs), BN_STRING("path", here ? path : NULL));
}

static bn_status list_registry(bn_json *files, const char *root, bool names, bn_error *err)
{
    struct bn_hub_registry *registry;
    char shown[600];
    BN_TRY(bn_hub_registry_open(&registry, err));
    const struct bn_hub_model *m;
    for (size_t i = 0; (m = bn_hub_registry_at(registry, i)) != NULL; i++) {
        if (names) puts(bn_escape(shown, sizeof shown, m->name, strlen(m->name)));
        for (size_t k = 0; k < m->n_files && !names; k++)
            put_file(files, m, &m->files[k], root);
    }
    bn_hub_registry_close(registry);
    return BN_OK;
}

/* ---- the cache ---- */

static const struct column CACHE[] = {
    {"repository", "repo", TEXT}, {"file", "name", TEXT},  {"size", "bytes", BYTES},
    {"commit", "commit", SHORT},  {"state", "kind", TEXT}, {NULL, NULL, TEXT},
};

static bn_json *put_cached(bn_json *files, const struct bn_hub_cached *c, uint64_t bytes)
{
    static const char *const KINDS[] = {"file", "in no snapshot", "unfinished download", "wrong bytes"};
    bool file = c->kind == BN_HUB_CACHED_FILE;
    char short_name[17];
    snprintf(short_name, sizeof short_name, "%.16s", c->etag);
    bn_json *o = bn_json_add_object(files);
    BN_PUT(o, BN_STRING("kind", file && c->old ? "old snapshot" : KINDS[c->kind]), BN_STRING("repo", c->repo),
           BN_STRING("name", file ? c->file : short_name), BN_TEXT("commit", c->commit),
           BN_TEXT("etag", c->etag), BN_U64("bytes", bytes),
           BN_STRING("path", c->link[0] != '\0' ? c->link : c->path));
    return o;
}

/* Those of one path: first the one whose snapshot stays, then in the order of the walk. */
static int by_path(const void *a, const void *b)
{
    const struct bn_hub_cached *x = *(struct bn_hub_cached *const *)a, *y = *(struct bn_hub_cached *const *)b;
    int order = strcmp(x->path, y->path);
    if (order == 0) order = x->old - y->old;
    return order != 0 ? order : (x > y) - (x < y);
}

/* Which files count for the bytes on the disk: of several with the same bytes, one. *own is allocated. */
static bn_status find_owners(bool **own, const struct bn_hub_walk *walk, bn_error *err)
{
    struct bn_hub_cached **sorted = bn_alloc(walk->n + 1, sizeof(struct bn_hub_cached *));
    *own = bn_alloc(walk->n + 1, sizeof **own);
    if (sorted == NULL || *own == NULL) {
        bn_free(sorted);
        return bn_nomem(err);
    }
    for (size_t i = 0; i < walk->n; i++)
        sorted[i] = &walk->list[i];
    if (walk->n > 1) qsort(sorted, walk->n, sizeof *sorted, by_path);
    for (size_t i = 0; i < walk->n; i++)
        (*own)[sorted[i] - walk->list] = i == 0 || strcmp(sorted[i - 1]->path, sorted[i]->path) != 0;
    bn_free(sorted);
    return BN_OK;
}

struct cache {
    const struct bn_args *args;
    char root[BN_HUB_PATH_MAX];
    struct bn_hub_walk walk;
    bool *own; /* of each file: its bytes are not those of another one that stays, or comes before it */
    bn_json *doc, *files;
    uint64_t bytes;
    size_t n, n_old; /* clean: files; those of old snapshots that are left alone */
};

static bn_status open_cache(struct cache *c, const struct bn_args *args, bn_error *err)
{
    *c = (struct cache){.args = args};
    c->doc = bn_download_document("files", &c->files);
    BN_TRY(bn_hub_cache_root(c->root, err));
    bn_json_put_string(c->doc, "cache", c->root);
    BN_TRY(bn_hub_walk_open(&c->walk, c->root, err));
    return find_owners(&c->own, &c->walk, err);
}

static void close_cache(struct cache *c)
{
    bn_json_free(c->doc);
    bn_hub_walk_release(&c->walk);
    bn_free(c->own);
}

/* The table, and the sum of the bytes. */
static bn_status print_cache(struct cache *c, const char *what, bn_error *err)
{
    char size[BN_UNITS_ROOM], shown[1200];
    bn_json_put_u64(c->doc, "bytes", c->bytes);
    BN_TRY(print(c->args, c->doc, CACHE, err));
    if (!c->args->json)
        printf("%s %s %s\n", bn_units_text(size, (double)c->bytes, "bytes"), what,
               bn_escape(shown, sizeof shown, c->root, strlen(c->root)));
    return BN_OK;
}

static bn_status list_cached(const struct bn_args *args, bn_error *err)
{
    struct cache c;
    bn_status status = open_cache(&c, args, err);
    for (size_t i = 0; i < c.walk.n && status == BN_OK; i++) {
        (void)put_cached(c.files, &c.walk.list[i], c.walk.list[i].size);
        if (c.own[i]) c.bytes += c.walk.list[i].size;
    }
    if (status == BN_OK) status = print_cache(&c, "in", err);
    close_cache(&c);
    return status;
}

bn_status bn_download_list(struct bn_args *args, bn_error *err)
{
    const struct bn_download_options *o = args->fields;
    if (o->names && (args->json || o->cached))
        return bn_fail(err, BN_ERR_ARG, "--names cannot be combined with --json or --cached");
    if (o->cached) return list_cached(args, err);
    char root[BN_HUB_PATH_MAX];
    bn_json *files, *doc = bn_download_document("files", &files);
    (void)!bn_hub_cache_root(root, NULL);
    bn_json_put_text(doc, "cache", root);
    bn_status status = list_registry(files, root, o->names, err);
    if (status == BN_OK && !o->names) status = print(args, doc, REGISTRY, err);
    if (status == BN_OK && !o->names && !args->json)
        puts("\ndigest: pinned: known before the download; first: recorded at the first one");
    bn_json_free(doc);
    return status;
}

bn_status bn_download_path(struct bn_args *args, bn_error *err)
{
    char path[BN_HUB_PATH_MAX];
    BN_TRY(bn_hub_locate(path, args->operands[0], err));
    printf("%s\n", path);
    return BN_OK;
}

/* ---- clean ---- */

/* The link, the folders around it that are empty then, up to snapshots/, and the bytes. */
static bn_status remove_old(const struct cache *c, const struct bn_hub_cached *item, bool own, bn_error *err)
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
    return own ? bn_hub_walk_remove(c->root, item->path, false, err) : BN_OK;
}

/* Under the lock that a download of it takes. */
static bn_status remove_blob(const struct cache *c, const struct bn_hub_cached *item, bool *busy,
                             bn_error *err)
{
    char path[BN_HUB_PATH_MAX];
    struct bn_hub_lock *lock = NULL;
    BN_TRY(bn_hub_cache_lock(path, c->root, item->repo, item->etag, err));
    *busy = bn_hub_lock_take(&lock, path, 0, NULL, NULL, NULL) != BN_OK;
    if (*busy) return BN_OK;
    bn_status status = bn_hub_walk_remove(c->root, item->path, false, err);
    bn_hub_lock_release(lock);
    return status;
}

static bn_status clean_item(struct cache *c, size_t i, bn_error *err)
{
    const struct bn_download_options *o = c->args->fields;
    const struct bn_hub_cached *item = &c->walk.list[i];
    bool file = item->kind == BN_HUB_CACHED_FILE, busy = false;
    uint64_t bytes = c->own[i] ? item->size : 0;
    if (file && !(item->old && o->old)) {
        c->n_old += item->old;
        return BN_OK;
    }
    if (o->yes) BN_TRY(file ? remove_old(c, item, c->own[i], err) : remove_blob(c, item, &busy, err));
    bn_json *row = put_cached(c->files, item, bytes);
    bn_json_put_bool(row, "removed", o->yes && !busy);
    if (busy) bn_json_put_string(row, "kind", "in use by another process: kept");
    if (busy) return BN_OK;
    c->n++;
    c->bytes += bytes;
    return BN_OK;
}

bn_status bn_download_clean(struct bn_args *args, bn_error *err)
{
    const struct bn_download_options *o = args->fields;
    struct cache c;
    bn_status status = open_cache(&c, args, err);
    for (size_t i = 0; i < c.walk.n && status == BN_OK; i++)
        status = clean_item(&c, i, err);
    bn_json_put_bool(c.doc, "removed", o->yes);
    if (status == BN_OK) status = print_cache(&c, o->yes ? "removed from" : "unused in", err);
    if (status == BN_OK && !o->yes && c.n > 0) bn_report_note(0, "nothing was deleted; use --yes to delete");
    if (status == BN_OK && c.n_old > 0)
        bn_report_note(0, "%zu file%s of old snapshots kept; use --old to include them", c.n_old,
                       c.n_old == 1 ? "" : "s");
    close_cache(&c);
    return status;
}

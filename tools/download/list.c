/* SPDX-License-Identifier: MIT
 *
 * bn-download list: the models of the registry, or the files in the cache; and bn-download path.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "hub/cache/cache.h"
#include "hub/cache/pins.h"
#include "hub/cache/walk.h"
#include "hub/names/registry.h"
#include "tools/cli/print_json.h"
#include "tools/download/download.h"

#define MAX_NOTES 9u
#define LICENCE_COLUMNS 11u
#define ROW "%-28s %-11s %8s %-6s %-4s %-6s %s\n"

const struct bn_option bn_download_list_options[] = {
    BN_OPTION("names", "print the names only, one a line", BN_TO_BOOL(struct bn_download_options, names)),
    BN_OPTION("cached", "list the files in the cache, of other tools too",
              BN_TO_BOOL(struct bn_download_options, cached)),
    {0},
};

/* ---- the registry ---- */

/* Notes below the table, each once: why models cannot be run here, and names of licences that are long. */
struct notes {
    const char *text[MAX_NOTES];
    bool is_licence[MAX_NOTES];
    size_t n;
};

/* 1, 2, ...; 0 when there is no room for another one. */
static size_t number_of(struct notes *notes, const char *text, bool is_licence)
{
    for (size_t i = 0; i < notes->n; i++)
        if (strcmp(notes->text[i], text) == 0) return i + 1;
    if (notes->n == MAX_NOTES) return 0;
    notes->is_licence[notes->n] = is_licence;
    notes->text[notes->n++] = text;
    return notes->n;
}

/* The file in the cache, allocated; NULL when it is not there. */
static char *cached_path(const char *root, const struct bn_hub_file *file)
{
    char *path = NULL;
    if (root == NULL || file->file[0] == '\0') return NULL;
    bn_status status = bn_hub_cache_find(&path, root, file->repo, file->file, file->revision, NULL);
    return status == BN_OK ? path : NULL;
}

/* Where a digest is known from: "registry", "first use", or NULL. first_use is the digest of the latter. */
static const char *digest_source(const struct bn_hub_file *f, char first_use[BN_SHA256_HEX])
{
    char key[1400];
    first_use[0] = '\0';
    if (f->sha256 != NULL) return "registry";
    snprintf(key, sizeof key, "hf:%s:%s", f->repo, f->file);
    if (bn_hub_pin_find(first_use, key, NULL) != BN_OK) first_use[0] = '\0';
    return first_use[0] != '\0' ? "first use" : NULL;
}

static void print_file(const struct bn_hub_model *m, const struct bn_hub_file *f, bool cached,
                       struct notes *notes)
{
    char name[128], size[BN_UNITS_ROOM] = "-", runs[32] = "yes", licence[64] = "", shown[600];
    char first_use[BN_SHA256_HEX];
    const char *source = digest_source(f, first_use);
    bool first = f == m->files;
    if (first)
        snprintf(name, sizeof name, "%s", m->name);
    else
        snprintf(name, sizeof name, "  :%s", f->variant);
    if (f->size > 0) bn_units_text(size, (double)f->size, "B");
    if (strcmp(f->runs, "yes") != 0)
        snprintf(runs, sizeof runs, "no [%zu]", number_of(notes, f->runs, false));
    if (first && strlen(m->licence) > LICENCE_COLUMNS)
        snprintf(licence, sizeof licence, "[%zu]", number_of(notes, m->licence, true));
    else if (first)
        snprintf(licence, sizeof licence, "%s", m->licence);
    bn_escape(shown, sizeof shown, name, strlen(name));
    printf(ROW, shown, f->variant, size, runs, cached ? "yes" : "",
           source == NULL         ? "-"
           : first_use[0] != '\0' ? "first"
                                  : "pinned",
           licence);
}

static void put_file(bn_json *files, const struct bn_hub_file *f, const char *path)
{
    bn_json *o = bn_json_add_object(files);
    bn_json_put_string(o, "variant", f->variant);
    bn_json_put_string(o, "repo", f->repo);
    bn_json_put_text(o, "file", f->file);
    bn_json_put_string(o, "revision", f->revision);
    if (f->size > 0)
        bn_json_put_u64(o, "bytes", f->size);
    else
        bn_json_put_unavailable(o, "bytes", "not in the registry");
    char first_use[BN_SHA256_HEX];
    bn_json_put_string(o, "sha256", f->sha256);
    bn_json_put_text(o, "sha256_source", digest_source(f, first_use));
    bn_json_put_text(o, "first_use_sha256", first_use);
    bn_json_put_string(o, "runs", f->runs);
    bn_json_put_string(o, "path", path);
}

static void list_model(const struct bn_hub_model *m, const char *root, bn_json *models, struct notes *notes)
{
    bn_json *o = models != NULL ? bn_json_add_object(models) : NULL;
    bn_json_put_string(o, "name", m->name);
    bn_json_put_string(o, "title", m->title);
    bn_json_put_string(o, "parameters", m->parameters);
    bn_json_put_string(o, "arch", m->arch);
    bn_json_put_string(o, "licence", m->licence);
    bn_json_put_string(o, "licence_url", m->licence_url);
    bn_json *files = bn_json_put_array(o, "files");
    for (size_t i = 0; i < m->n_files; i++) {
        char *path = cached_path(root, &m->files[i]);
        if (models != NULL)
            put_file(files, &m->files[i], path);
        else
            print_file(m, &m->files[i], path != NULL, notes);
        bn_free(path);
    }
}

static bn_status list_registry(const char *root, bn_json *doc, bn_error *err)
{
    struct bn_hub_registry *registry;
    struct notes notes = {.n = 0};
    BN_TRY(bn_hub_registry_open(&registry, err));
    bn_json *models = doc != NULL ? bn_json_put_array(doc, "models") : NULL;
    if (doc == NULL) printf(ROW, "NAME", "VARIANT", "SIZE", "RUNS", "HERE", "DIGEST", "LICENCE");
    for (size_t i = 0; bn_hub_registry_at(registry, i) != NULL; i++)
        list_model(bn_hub_registry_at(registry, i), root, models, &notes);
    if (doc == NULL) puts("\nDIGEST  pinned: known before the download; first: recorded at the first one");
    for (size_t i = 0; i < notes.n; i++)
        printf("[%zu] %s%s\n", i + 1, notes.is_licence[i] ? "licence " : "", notes.text[i]);
    bn_status status = doc != NULL ? bn_cli_print_json(doc, err) : BN_OK;
    bn_hub_registry_close(registry);
    return status;
}

/* ---- the cache ---- */

static const char *const KINDS[] = {"file", "blob of no snapshot", "unfinished", "bad"};

static void print_cached(const struct bn_hub_cached *c, bool new_repo)
{
    char size[BN_UNITS_ROOM], shown[1200];
    bn_escape(shown, sizeof shown, c->repo, strlen(c->repo));
    if (new_repo) printf("%s\n", shown);
    const char *name = c->kind == BN_HUB_CACHED_FILE ? c->file : c->etag;
    bn_escape(shown, sizeof shown, name, strlen(name));
    printf("  %9s  ", bn_units_text(size, (double)c->size, "B"));
    if (c->kind == BN_HUB_CACHED_FILE)
        printf("%.8s%s  %s\n", c->commit, c->old ? " (old)" : "", shown);
    else
        printf("%.16s  (%s)\n", shown, KINDS[c->kind]);
}

static void put_cached(bn_json *files, const struct bn_hub_cached *c)
{
    bn_json *o = bn_json_add_object(files);
    bn_json_put_string(o, "kind", KINDS[c->kind]);
    bn_json_put_string(o, "repo", c->repo);
    bn_json_put_string(o, "file", c->kind == BN_HUB_CACHED_FILE ? c->file : NULL);
    bn_json_put_string(o, "commit", c->kind == BN_HUB_CACHED_FILE ? c->commit : NULL);
    bn_json_put_text(o, "etag", c->etag);
    bn_json_put_u64(o, "bytes", c->size);
    bn_json_put_bool(o, "old", c->old);
    bn_json_put_string(o, "path", c->link[0] != '\0' ? c->link : c->path);
}

/* Bytes on the disk: files of several snapshots count once. */
static uint64_t total_of(const struct bn_hub_walk *walk)
{
    uint64_t total = 0;
    for (size_t i = 0; i < walk->n; i++) {
        bool again = false;
        for (size_t k = 0; k < i && !again; k++)
            again = strcmp(walk->list[k].path, walk->list[i].path) == 0;
        if (!again) total += walk->list[i].size;
    }
    return total;
}

static bn_status list_cache(const char *root, bn_json *doc, bn_error *err)
{
    struct bn_hub_walk walk;
    char size[BN_UNITS_ROOM], shown[1200];
    bn_status status = bn_hub_walk_open(&walk, root, err);
    bn_json *files = doc != NULL ? bn_json_put_array(doc, "files") : NULL;
    for (size_t i = 0; i < walk.n && status == BN_OK; i++) {
        const struct bn_hub_cached *c = &walk.list[i];
        if (doc != NULL)
            put_cached(files, c);
        else
            print_cached(c, i == 0 || strcmp(c->repo, walk.list[i - 1].repo) != 0);
    }
    if (status == BN_OK && doc == NULL)
        printf("%s in %s\n", bn_units_text(size, (double)total_of(&walk), "B"),
               bn_escape(shown, sizeof shown, root, strlen(root)));
    if (status == BN_OK && doc != NULL) {
        bn_json_put_u64(doc, "bytes", total_of(&walk));
        status = bn_cli_print_json(doc, err);
    }
    bn_hub_walk_release(&walk);
    return status;
}

static bn_status list_names(bn_error *err)
{
    struct bn_hub_registry *registry;
    char shown[600];
    BN_TRY(bn_hub_registry_open(&registry, err));
    for (size_t i = 0; bn_hub_registry_at(registry, i) != NULL; i++) {
        const char *name = bn_hub_registry_at(registry, i)->name;
        puts(bn_escape(shown, sizeof shown, name, strlen(name)));
    }
    bn_hub_registry_close(registry);
    return BN_OK;
}

bn_status bn_download_list(struct bn_args *args, bn_error *err)
{
    const struct bn_download_options *o = args->fields;
    if (o->names) {
        if (!args->json && !o->cached) return list_names(err);
        return bn_fail(err, BN_ERR_ARG, "--names cannot be combined with --json or --cached");
    }
    char *root = NULL;
    bool cached = o->cached;
    bn_status status = bn_hub_cache_root(&root, cached ? err : NULL);
    if (status != BN_OK && cached) return status;
    bn_json *doc = args->json ? bn_json_new_object() : NULL;
    bn_json_put_string(doc, "schema", cached ? "bn.cache/1" : "bn.models/1");
    bn_json_put_string(doc, "cache", root);
    status = cached ? list_cache(root, doc, err) : list_registry(root, doc, err);
    bn_json_free(doc);
    bn_free(root);
    return status;
}

bn_status bn_download_path(struct bn_args *args, bn_error *err)
{
    char *path = NULL;
    BN_TRY(bn_hub_locate(&path, args->operands[0], err));
    printf("%s\n", path);
    bn_free(path);
    return BN_OK;
}

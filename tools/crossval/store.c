/* SPDX-License-Identifier: MIT
 *
 * The references that were set up: reading and writing their reference.json, and the commands refs and remove.
 */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "lab/kit/program.h"
#include "lab/kit/tree.h"
#include "lab/report/table.h"
#include "tools/cli/print_json.h"
#include "tools/crossval/setup.h"

#define REFERENCE_JSON "reference.json"

/* ---- paths ---- */

bn_status bn_stored_join(char out[PATH_MAX], const char *folder, const char *name, bn_error *err)
{
    int n = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    if (n > 0 && n < PATH_MAX) return BN_OK;
    return bn_fail_in(err, BN_ERR_LIMIT, folder, "the path is too long");
}

bn_status bn_stored_root(char out[PATH_MAX], bn_error *err)
{
    if (bn_file_user_path(out, PATH_MAX, "XDG_CACHE_HOME", ".cache", "bn/reference")) return BN_OK;
    return bn_hint(bn_fail(err, BN_ERR_NOT_FOUND, "XDG_CACHE_HOME and HOME are not set to absolute paths"),
                   err, "set XDG_CACHE_HOME to the folder for caches");
}

bn_status bn_stored_program(char out[PATH_MAX], const struct bn_stored *s, bn_error *err)
{
    char name[BN_STORED_NAME_MAX + 20];
    snprintf(name, sizeof name, "bn-bridge-%s", s->name);
    return bn_stored_join(out, s->folder, name, err);
}

/* ---- reading and writing ---- */

static void take(char *out, size_t room, const bn_json *doc, const char *name)
{
    const char *text = bn_json_text_of(doc, name);
    snprintf(out, room, "%s", strlen(text) < room ? text : "");
}
#define TAKE(s, doc, member) take((s)->member, sizeof(s)->member, doc, #member)
#define PUT(s, doc, member) bn_json_put_text(doc, #member, (s)->member)

/* False for a folder that is not one of ours. */
static bool read_one(struct bn_stored *s, const char *folder)
{
    char path[PATH_MAX];
    bn_json *doc = NULL;
    *s = (struct bn_stored){0};
    if (bn_stored_join(path, folder, REFERENCE_JSON, NULL) != BN_OK ||
        bn_json_read_file(&doc, path, NULL) != BN_OK)
        return false;
    snprintf(s->folder, sizeof s->folder, "%s", folder);
    TAKE(s, doc, tree);
    TAKE(s, doc, name);
    TAKE(s, doc, source);
    TAKE(s, doc, commit);
    TAKE(s, doc, digest);
    TAKE(s, doc, recipe);
    TAKE(s, doc, compiler);
    TAKE(s, doc, engine);
    TAKE(s, doc, created);
    TAKE(s, doc, bridge_sha256);
    TAKE(s, doc, program_sha256);
    s->ready = bn_json_flag_of(doc, "ready");
    bool ours = bn_json_text_is(doc, "schema", BN_STORED_SCHEMA) && s->name[0] != '\0';
    bn_json_free(doc);
    return ours;
}

static void put(bn_json *doc, const struct bn_stored *s)
{
    PUT(s, doc, name);
    PUT(s, doc, source);
    PUT(s, doc, commit);
    PUT(s, doc, digest);
    PUT(s, doc, tree);
    PUT(s, doc, recipe);
    PUT(s, doc, compiler);
    PUT(s, doc, engine);
    PUT(s, doc, created);
    PUT(s, doc, bridge_sha256);
    PUT(s, doc, program_sha256);
    bn_json_put_bool(doc, "ready", s->ready);
}

bn_status bn_stored_write(const struct bn_stored *s, bn_error *err)
{
    char path[PATH_MAX];
    BN_TRY(bn_stored_join(path, s->folder, REFERENCE_JSON, err));
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", BN_STORED_SCHEMA);
    put(doc, s);
    bn_status status = bn_json_write_file(doc, path, err);
    bn_json_free(doc);
    return status;
}

static int by_name(const void *a, const void *b)
{
    const struct bn_stored *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order != 0 ? order : strcmp(x->folder, y->folder);
}

bn_status bn_stored_read(struct bn_stored_list *all, bn_error *err)
{
    char root[PATH_MAX], folder[PATH_MAX];
    *all = (struct bn_stored_list){0};
    BN_TRY(bn_stored_root(root, err));
    DIR *dir = opendir(root);
    if (dir == NULL && errno == ENOENT) return BN_OK;
    if (dir == NULL) return bn_fail_errno(err, errno, root, "cannot open");
    bn_status status = BN_OK;
    for (struct dirent *e; status == BN_OK && (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.' || bn_stored_join(folder, root, e->d_name, NULL) != BN_OK) continue;
        status = bn_array_grow(&all->list, &all->room, all->n + 1, sizeof *all->list, err);
        if (status == BN_OK && read_one(&all->list[all->n], folder)) all->n++;
    }
    closedir(dir);
    if (all->n > 0) qsort(all->list, all->n, sizeof *all->list, by_name);
    return status;
}

bool bn_stored_find(struct bn_stored *out, const char *name)
{
    struct bn_stored_list all;
    bool found = false;
    if (bn_stored_read(&all, NULL) == BN_OK)
        for (size_t i = 0; i < all.n && !found; i++)
            if (all.list[i].ready && strcmp(all.list[i].name, name) == 0) {
                *out = all.list[i];
                found = true;
            }
    bn_free(all.list);
    return found;
}

bn_status bn_stored_check(const struct bn_stored *s, bn_error *err)
{
    char path[PATH_MAX], hex[BN_SHA256_HEX];
    BN_TRY(bn_stored_program(path, s, err));
    if (s->installed) return BN_OK;
    if (access(path, X_OK) != 0)
        return bn_hint(bn_fail_in(err, BN_ERR_NOT_FOUND, path, "the bridge of this reference is missing"),
                       err, "bn-crossval remove %s, then set it up again", s->name);
    BN_TRY(bn_sha256_file(path, hex, err));
    if (strcmp(hex, s->program_sha256) == 0) return BN_OK;
    return bn_hint(bn_fail_in(err, BN_ERR_INTEGRITY, path,
                              "the bridge has sha256 %.16s..., and %.16s... when it was set up", hex,
                              s->program_sha256),
                   err, "bn-crossval setup with --force builds it again");
}

bn_status bn_stored_add_bridges(struct bn_stored_list *all, bn_error *err)
{
    static const char *const FOLDERS[] = {"", "crossval/", "../libexec/bn/"};
    static const char PREFIX[] = "bn-bridge-";
    char own[PATH_MAX], pattern[PATH_MAX + 64];
    bn_program_path(own);
    for (size_t i = 0; i < BN_ARRAY_LEN(FOLDERS); i++) {
        glob_t found;
        snprintf(pattern, sizeof pattern, "%.*s/%s%s*", (int)(strrchr(own, '/') - own), own, FOLDERS[i],
                 PREFIX);
        if (glob(pattern, 0, NULL, &found) != 0) continue;
        bn_status status = BN_OK;
        for (size_t k = 0; k < found.gl_pathc && status == BN_OK; k++) {
            const char *slash = strrchr(found.gl_pathv[k], '/');
            status = bn_array_grow(&all->list, &all->room, all->n + 1, sizeof *all->list, err);
            if (status != BN_OK || access(found.gl_pathv[k], X_OK) != 0) continue;
            struct bn_stored *s = &all->list[all->n++];
            *s = (struct bn_stored){.ready = true, .installed = true};
            snprintf(s->name, sizeof s->name, "%s", slash + 1 + strlen(PREFIX));
            snprintf(s->folder, sizeof s->folder, "%.*s", (int)(slash - found.gl_pathv[k]),
                     found.gl_pathv[k]);
        }
        globfree(&found);
        BN_TRY(status);
    }
    return BN_OK;
}

/* ---- refs ---- */

static const char *state_of(const struct bn_stored *s)
{
    bn_error why = {0};
    if (!s->ready) return "not built";
    bn_status status = bn_stored_check(s, &why);
    return status == BN_OK ? "ready" : status == BN_ERR_INTEGRITY ? "changed" : "missing";
}

static bn_status print_refs(const struct bn_stored_list *all, bn_error *err)
{
    static const char *const HEADS[] = {"name", "state", "commit", "digest", "created"};
    struct bn_buf text = {.max = 1u << 20};
    struct bn_table t;
    bn_table_begin(&t, HEADS, "lllll");
    for (size_t i = 0; i < all->n; i++) {
        const struct bn_stored *s = &all->list[i];
        bn_table_row(&t, "");
        bn_table_text(&t, s->name);
        bn_table_text(&t, state_of(s));
        bn_table_printf(&t, "%.12s", s->commit[0] != '\0' ? s->commit : "-");
        bn_table_printf(&t, "%.16s", s->digest[0] != '\0' ? s->digest : "-");
        bn_table_printf(&t, "%.10s", s->created[0] != '\0' ? s->created : "-");
    }
    bn_table_put_text(&text, &t);
    bn_table_release(&t);
    bn_status status = bn_buf_check(&text, err);
    if (status == BN_OK) fputs(bn_buf_text(&text), stdout);
    bn_buf_release(&text);
    return status;
}

static bn_status json_refs(const struct bn_stored_list *all, bn_error *err)
{
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", "bn.crossval-refs/1");
    bn_json *list = bn_json_put_array(doc, "references");
    for (size_t i = 0; i < all->n; i++) {
        bn_json *o = bn_json_add_object(list);
        put(o, &all->list[i]);
        bn_json_put_string(o, "folder", all->list[i].folder);
        bn_json_put_string(o, "state", state_of(&all->list[i]));
    }
    bn_status status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    return status;
}

bn_status bn_crossval_refs(struct bn_args *args, bn_error *err)
{
    struct bn_stored_list all;
    bn_status status = bn_stored_read(&all, err);
    if (status == BN_OK) status = bn_stored_add_bridges(&all, err);
    if (status == BN_OK && args->json)
        status = json_refs(&all, err);
    else if (status == BN_OK && all.n == 0)
        puts("no reference is set up; bn-crossval setup --source DIR builds one");
    else if (status == BN_OK)
        status = print_refs(&all, err);
    bn_free(all.list);
    return status;
}

/* ---- remove ---- */

bn_status bn_crossval_remove(struct bn_args *args, bn_error *err)
{
    struct bn_stored_list all;
    size_t n_removed = 0;
    bn_status status = bn_stored_read(&all, err);
    for (size_t i = 0; i < all.n && status == BN_OK; i++) {
        if (strcmp(all.list[i].name, args->operands[0]) != 0) continue;
        status = bn_tree_remove(all.list[i].folder, err);
        if (status == BN_OK) printf("removed %s\n", all.list[i].folder);
        n_removed++;
    }
    bn_free(all.list);
    if (status == BN_OK && n_removed == 0)
        status = bn_hint(bn_fail_in(err, BN_ERR_NOT_FOUND, args->operands[0], "no such reference is set up"),
                         err, "bn-crossval refs lists them");
    return status;
}

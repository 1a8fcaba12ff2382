/* SPDX-License-Identifier: MIT
 *
 * The references that were set up: reading their reference.json; the commands refs and doctor; and the commands setup
 * and remove, which are the script crossval/setup.sh.
 */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "lab/host/machine.h"
#include "lab/kit/process.h"
#include "lab/report/table.h"
#include "tools/cli/program/doctor.h"
#include "tools/crossval/crossval.h"

#define STORED_SCHEMA "bn.reference/1"

/* One of them. Texts are empty where they are not known. */
struct stored {
    char folder[PATH_MAX], name[61], commit[65], digest[BN_SHA256_HEX], created[21];
    char program_sha256[BN_SHA256_HEX]; /* of the bridge */
    bool ready;
    bool installed; /* a bridge next to the program, not in the cache: only folder and name are known */
};
struct stored_list {
    struct stored *list;
    size_t n, room;
};

/* ---- paths ---- */

static bool join(char out[PATH_MAX], const char *folder, const char *before, const char *name)
{
    int n = snprintf(out, PATH_MAX, "%s/%s%s", folder, before, name);
    return n > 0 && n < PATH_MAX;
}

bool bn_crossval_find_program(const char *program, char out[PATH_MAX])
{
    return bn_program_near(out, "", program) || bn_program_near(out, "crossval/", program) ||
           bn_program_near(out, "../libexec/bn/", program);
}

static bn_status stored_root(char out[PATH_MAX], bn_error *err)
{
    if (bn_file_user_path(out, PATH_MAX, "XDG_CACHE_HOME", ".cache", "bn/reference")) return BN_OK;
    return bn_hint(bn_fail(err, BN_ERR_NOT_FOUND, "XDG_CACHE_HOME and HOME are not set to absolute paths"),
                   err, "set XDG_CACHE_HOME to the folder for caches");
}

/* ---- reading ---- */

/* False for a folder that is not one of ours. */
static bool read_one(struct stored *s, const char *folder)
{
    const struct {
        const char *name;
        char *to;
        size_t room;
    } texts[] = {{"name", s->name, sizeof s->name},
                 {"commit", s->commit, sizeof s->commit},
                 {"digest", s->digest, sizeof s->digest},
                 {"created", s->created, sizeof s->created},
                 {"program_sha256", s->program_sha256, sizeof s->program_sha256}};
    char path[PATH_MAX];
    bn_json *doc = NULL;
    *s = (struct stored){0};
    snprintf(s->folder, sizeof s->folder, "%s", folder);
    if (!join(path, folder, "", "reference.json") || bn_json_read_file(&doc, path, NULL) != BN_OK)
        return false;
    for (size_t i = 0; i < BN_ARRAY_LEN(texts); i++)
        snprintf(texts[i].to, texts[i].room, "%s", bn_json_text_of(doc, texts[i].name));
    s->ready = bn_json_flag_of(doc, "ready");
    bool ours = bn_json_text_is(doc, "schema", STORED_SCHEMA) && s->name[0] != '\0';
    bn_json_free(doc);
    return ours;
}

static int by_name(const void *a, const void *b)
{
    const struct stored *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order != 0 ? order : strcmp(x->folder, y->folder);
}

/* All that have a readable reference.json, also those that are not ready, by name. */
static bn_status read_all(struct stored_list *all, bn_error *err)
{
    char root[PATH_MAX], folder[PATH_MAX];
    *all = (struct stored_list){0};
    BN_TRY(stored_root(root, err));
    DIR *dir = opendir(root);
    if (dir == NULL && errno == ENOENT) return BN_OK;
    if (dir == NULL) return bn_fail_errno(err, errno, root, "cannot open");
    bn_status status = BN_OK;
    for (struct dirent *e; status == BN_OK && (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.' || !join(folder, root, "", e->d_name)) continue;
        status = bn_array_grow(&all->list, &all->room, all->n + 1, sizeof *all->list, err);
        if (status == BN_OK && read_one(&all->list[all->n], folder)) all->n++;
    }
    closedir(dir);
    if (all->n > 0) qsort(all->list, all->n, sizeof *all->list, by_name);
    return status;
}

/* Whether the bridge is the one that passed the handshake: BN_ERR_NOT_FOUND, BN_ERR_INTEGRITY. */
static bn_status check_stored(const struct stored *s, bn_error *err)
{
    char path[PATH_MAX], hex[BN_SHA256_HEX];
    if (s->installed) return BN_OK;
    if (!join(path, s->folder, "bn-bridge-", s->name) || access(path, X_OK) != 0)
        return bn_hint(bn_fail_in(err, BN_ERR_NOT_FOUND, path, "the bridge of this reference is missing"),
                       err, "bn-crossval remove %s, then set it up again", s->name);
    BN_TRY(bn_sha256_file(path, hex, err));
    if (strcmp(hex, s->program_sha256) == 0) return BN_OK;
    return bn_hint(bn_fail_in(err, BN_ERR_INTEGRITY, path,
                              "the bridge has sha256 %.16s..., and %.16s... when it was set up", hex,
                              s->program_sha256),
                   err, "bn-crossval setup with --force builds it again");
}

bn_status bn_stored_find(char out[PATH_MAX], const char *name, bn_error *err)
{
    struct stored_list all;
    bn_status status = BN_OK;
    out[0] = '\0';
    if (read_all(&all, NULL) == BN_OK)
        for (size_t i = 0; i < all.n && out[0] == '\0' && status == BN_OK; i++) {
            if (!all.list[i].ready || strcmp(all.list[i].name, name) != 0) continue;
            status = check_stored(&all.list[i], err);
            if (!join(out, all.list[i].folder, "bn-bridge-", name))
                status = bn_fail_in(err, BN_ERR_LIMIT, name, "the path of its bridge is too long");
        }
    bn_free(all.list);
    return status;
}

/* Adds the bridges that are installed next to the program, which --ref NAME starts, too. */
static bn_status add_bridges(struct stored_list *all, bn_error *err)
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
            struct stored *s = &all->list[all->n++];
            *s = (struct stored){.ready = true, .installed = true};
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

static const char *state_of(const struct stored *s)
{
    bn_error why = {0};
    if (!s->ready) return "not built";
    bn_status status = check_stored(s, &why);
    return status == BN_OK ? "ready" : status == BN_ERR_INTEGRITY ? "changed" : "missing";
}

static bn_status print_refs(const struct stored_list *all, bool json, bn_error *err)
{
    static const char *const HEADS[] = {"name", "state", "commit", "digest", "created", "folder"};
    static const int WIDTHS[] = {60, 60, 12, 16, 10, PATH_MAX};
    enum { COLUMNS = BN_ARRAY_LEN(HEADS) };
    struct bn_table t;
    bn_json *doc = bn_json_new_object(), *list;
    bn_json_put_string(doc, "schema", "bn.crossval/1");
    bn_json_put_string(doc, "command", "refs");
    list = bn_json_put_array(doc, "references");
    bn_table_begin(&t, HEADS, "llllln");
    for (size_t i = 0; i < all->n; i++) {
        const struct stored *s = &all->list[i];
        const char *const texts[COLUMNS] = {s->name,   state_of(s), s->commit,
                                            s->digest, s->created,  s->folder};
        bn_json *o = bn_json_add_object(list);
        bn_table_row(&t, "ok");
        for (size_t c = 0; c < COLUMNS; c++) {
            bn_json_put_text(o, HEADS[c], texts[c]);
            bn_table_printf(&t, "%.*s", WIDTHS[c], texts[c][0] != '\0' ? texts[c] : "-");
        }
    }
    bn_status status = json ? bn_cli_print_json(doc, err) : bn_cli_print_table(&t, err);
    if (json) bn_table_release(&t);
    bn_json_free(doc);
    return status;
}

bn_status bn_crossval_refs(struct bn_args *args, bn_error *err)
{
    struct stored_list all;
    bn_status status = read_all(&all, err);
    if (status == BN_OK) status = add_bridges(&all, err);
    if (status == BN_OK && !args->json && all.n == 0)
        puts("no reference is set up; bn-crossval setup node-llama-cpp installs one");
    else if (status == BN_OK)
        status = print_refs(&all, args->json, err);
    bn_free(all.list);
    return status;
}

/* ---- setup and remove ---- */

/* An option of the command, not one that all programs have. */
static bool is_own(const struct bn_command *command, const struct bn_option *option)
{
    const struct bn_option *own = command->options[0];
    while (own != NULL && own->name != NULL && own != option)
        own++;
    return own == option;
}

bn_status bn_crossval_script(struct bn_args *args, bn_error *err)
{
    char path[PATH_MAX];
    if (!bn_crossval_find_program("setup.sh", path))
        return bn_fail_in(err, BN_ERR_NOT_FOUND, "setup.sh",
                          "not found in crossval/ next to bn-crossval, nor in libexec/bn");
    char(*names)[40] = bn_alloc(args->n_values + 1, sizeof *names);
    const char **argv = bn_alloc(2 * args->n_values + args->n_operands + 3, sizeof *argv);
    if (names == NULL || argv == NULL) {
        bn_free(names);
        bn_free(argv);
        return bn_nomem(err);
    }
    size_t n = 0;
    argv[n++] = path;
    argv[n++] = args->command->name;
    for (size_t i = 0; i < args->n_values; i++) {
        const struct bn_value *v = &args->values[i];
        if (!is_own(args->command, v->option)) continue;
        snprintf(names[i], sizeof names[i], "--%s", v->option->name);
        argv[n++] = names[i];
        if (v->option->arg != NULL) argv[n++] = v->text;
    }
    memcpy(argv + n, args->operands, args->n_operands * sizeof *argv);
    argv[n + args->n_operands] = NULL;
    bn_report_flush();
    execv(path, (char *const *)(uintptr_t)argv);
    bn_free(names);
    bn_free(argv);
    return bn_fail_errno(err, errno, path, "cannot be started");
}

#define LEAST_DISK ((uint64_t)2 << 30) /* a tree, its build and some margin */

const struct bn_option bn_crossval_doctor_options[] = {BN_OPTION_REQUIRE, {0}};

/* A program in PATH that answers --version with status 0. */
static void check_program(struct bn_doctor *d, const char *name, const char *hint)
{
    const char *argv[] = {name, "--version", NULL};
    struct bn_buf text = {.max = 4096};
    struct bn_process_options options = {.argv = argv, .out = &text, .timeout_ns = 60ull * 1000000000u};
    struct bn_process process;
    bn_error why = {0};
    char end[64];
    bn_status status = bn_process_run(&process, &options, &why);
    bool good = status == BN_OK && process.end == BN_PROCESS_EXITED && process.code == 0;
    bn_process_describe(end, sizeof end, &process);
    if (good)
        bn_doctor_put(d, BN_DOCTOR_OK, name, NULL, "%.*s", (int)strcspn(bn_buf_text(&text), "\n"),
                      bn_buf_text(&text));
    else
        bn_doctor_put(d, BN_DOCTOR_NOTE, name, hint, "%s",
                      status == BN_OK              ? end
                      : status == BN_ERR_NOT_FOUND ? "not found"
                                                   : why.msg);
    bn_buf_release(&text);
}

/* Free space of the folder that setup builds in, or of the nearest one above it that exists. */
static void check_disk(struct bn_doctor *d)
{
    char path[PATH_MAX], there[PATH_MAX];
    uint64_t bytes = 0;
    bn_error why = {0};
    bool known = stored_root(path, &why) == BN_OK && bn_disk_free(&bytes, there, path);
    if (known)
        bn_doctor_put(d, BN_DOCTOR_IF(bytes >= LEAST_DISK), "disk",
                      "free 2 GiB there, or set XDG_CACHE_HOME to another disk", "%.1f GiB free in %s",
                      (double)bytes / (1u << 30), there);
    else
        bn_doctor_put(d, BN_DOCTOR_NOTE, "disk", NULL, "%s",
                      why.msg[0] != '\0' ? why.msg : "the free space cannot be read");
}

static bn_status check_references(struct bn_doctor *d, bn_error *err)
{
    static const char HINT[] = "bn-crossval setup node-llama-cpp installs one, setup --source DIR builds one";
    struct stored_list stored = {0};
    char path[PATH_MAX];
    bool oracle = bn_crossval_find_program("bn-reference", path);
    size_t n_usable = oracle;
    bn_doctor_put(d, BN_DOCTOR_IF(oracle), "oracle", "make reference, and make install to install it", "%s",
                  oracle ? path : "bn-reference was not found");
    bn_status status = read_all(&stored, err);
    if (status == BN_OK) status = add_bridges(&stored, err);
    for (size_t i = 0; i < stored.n && status == BN_OK; i++) {
        const struct stored *s = &stored.list[i];
        bn_error why = {0};
        if (!s->ready) continue;
        bool good = check_stored(s, &why) == BN_OK;
        n_usable += good;
        bn_doctor_put(d, BN_DOCTOR_IF(good), s->name, HINT, "%s", good ? s->folder : why.msg);
    }
    bn_free(stored.list);
    if (status == BN_OK)
        bn_doctor_put(d, n_usable > 0 ? BN_DOCTOR_OK : BN_DOCTOR_FAIL, "references", HINT,
                      n_usable > 0 ? "%zu can be used, and bn itself: --ref bn"
                                   : "%zu can be used; --ref bn compares this engine with itself only",
                      n_usable);
    return status;
}

bn_status bn_crossval_doctor(struct bn_args *args, bn_error *err)
{
    struct bn_doctor d;
    bn_doctor_begin(&d, args, "references");
    check_program(&d, "cc", "for setup: apt-get install gcc");
    check_program(&d, "c++", "for setup and the oracle: apt-get install g++");
    check_program(&d, "make", "for setup: apt-get install make");
    check_program(&d, "cmake", "for setup: apt-get install cmake");
    check_program(&d, "git", "for setup with a URL: apt-get install git");
    check_program(&d, "node", "for bridges in JavaScript: apt-get install nodejs, version 20 or later");
    check_disk(&d);
    return bn_doctor_end(&d, check_references(&d, err), err);
}

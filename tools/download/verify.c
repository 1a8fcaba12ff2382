/* SPDX-License-Identifier: MIT
 *
 * bn-download verify: compares files with every digest that is known of them, without the network: the hub's,
 * which is the name of the blob; the lock file's; and, for the revision that the registry names, the
 * registry's or that of the first download.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "hub/cache/cache.h"
#include "hub/names/names.h"
#include "lab/kit/put_counts.h"
#include "tools/download/download.h"

const struct bn_option bn_download_verify_options[] = {
    BN_OPTION("lock", "also compare with the digests of a lock file", .arg = "FILE",
              BN_TO_PATH(struct bn_download_options, lock, READ)),
    BN_OPTION("sha256", "required SHA-256 of the file", .arg = "HEX",
              BN_TO_TEXT(struct bn_download_options, sha256)),
    {0},
};

struct verify {
    const struct bn_args *args;
    struct bn_hub_registry *registry;
    struct bn_hub_lockfile lock;
    char root[BN_HUB_PATH_MAX];
    struct bn_hub_walk walk;
    const char *wanted; /* --sha256 */
    bn_json *files;     /* of the document */
    size_t n_ok, n_bad, n_unknown;
};

/* One file: which digests match, and which do not. */
struct finding {
    char sha256[BN_SHA256_HEX];
    char ok[200];  /* sources whose digest matches */
    char bad[200]; /* the first source whose digest differs, and that digest */
};

static void hold(struct finding *f, const char *source, const char *digest)
{
    size_t n = strlen(f->ok);
    if (digest == NULL || digest[0] == '\0') return;
    if (strcasecmp(digest, f->sha256) == 0)
        snprintf(f->ok + n, sizeof f->ok - n, "%s%s", n > 0 ? ", " : "", source);
    else if (f->bad[0] == '\0')
        snprintf(f->bad, sizeof f->bad, "%s expects %s", source, digest);
}

static void tell(struct verify *v, const char *name, const char *path, const struct finding *f)
{
    char shown[1200];
    const char *state = f->bad[0] != '\0' ? "BAD" : f->ok[0] != '\0' ? "ok" : "unknown";
    if (f->bad[0] != '\0')
        v->n_bad++;
    else if (f->ok[0] != '\0')
        v->n_ok++;
    else
        v->n_unknown++;
    if (!v->args->json) { /* at once: digests of large files take their time */
        printf("%-7s  %.16s  %s  (%s)\n", state, f->sha256,
               bn_escape(shown, sizeof shown, name, strlen(name)),
               f->bad[0] != '\0'  ? f->bad
               : f->ok[0] != '\0' ? f->ok
                                  : "no digest is known for it");
        fflush(stdout);
    }
    bn_json *o = bn_json_add_object(v->files);
    BN_PUT(o, BN_STRING("name", name), BN_STRING("path", path), BN_STRING("state", state),
           BN_STRING("sha256", f->sha256), BN_TEXT("held_against", f->ok), BN_TEXT("contradicts", f->bad));
}

/* ---- files of the cache ---- */

/* Is this the file of the registry: is the snapshot that of its revision? */
static bool is_of(const struct verify *v, const struct bn_hub_cached *c, const struct bn_hub_file *file)
{
    char path[BN_HUB_PATH_MAX];
    return strcmp(file->repo, c->repo) == 0 && strcmp(file->file, c->file) == 0 &&
           bn_hub_cache_find(path, v->root, c->repo, c->file, file->revision, NULL) == BN_OK &&
           strcmp(path, c->link) == 0;
}

static bn_status hold_registry(const struct verify *v, const struct bn_hub_cached *c, struct finding *f,
                               bn_error *err)
{
    const struct bn_hub_model *m;
    char key[1400], pin[BN_SHA256_HEX];
    for (size_t i = 0; (m = bn_hub_registry_at(v->registry, i)) != NULL; i++)
        for (size_t k = 0; k < m->n_files; k++) {
            if (!is_of(v, c, &m->files[k])) continue;
            hold(f, "registry", m->files[k].sha256);
            if (m->files[k].sha256 != NULL) continue;
            snprintf(key, sizeof key, "hf:%s:%s", c->repo, c->file);
            BN_TRY(bn_hub_pin_find(pin, key, err));
            hold(f, "first use", pin);
        }
    return BN_OK;
}

static bn_status verify_cached(struct verify *v, const struct bn_hub_cached *c, bn_error *err)
{
    struct finding f = {0};
    char name[1500];
    BN_TRY(bn_sha256_file(c->path, f.sha256, err));
    hold(&f, "--sha256", v->wanted);
    if (strlen(c->etag) == BN_SHA256_HEX - 1) hold(&f, "hub", c->etag);
    for (size_t i = 0; i < v->lock.n; i++) {
        const struct bn_hub_locked *e = &v->lock.list[i];
        if (e->repo != NULL && strcmp(e->repo, c->repo) == 0 && strcmp(e->file, c->file) == 0 &&
            strcmp(e->revision, c->commit) == 0)
            hold(&f, "lock file", e->sha256);
    }
    BN_TRY(hold_registry(v, c, &f, err));
    snprintf(name, sizeof name, "%s/%s@%.8s", c->repo, c->file, c->commit);
    tell(v, name, c->link, &f);
    return BN_OK;
}

/* ---- files elsewhere ---- */

/* A plain file has a name and bytes. Of the lock file the entry of that name counts; of the registry, any
 * with this digest. */
static bn_status verify_plain(struct verify *v, const char *path, bn_error *err)
{
    struct finding f = {0};
    const struct bn_hub_model *m;
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    BN_TRY(bn_sha256_file(path, f.sha256, err));
    hold(&f, "--sha256", v->wanted);
    for (size_t i = 0; i < v->lock.n; i++) {
        const struct bn_hub_locked *e = &v->lock.list[i];
        const char *file = e->file != NULL ? e->file : "", *last = strrchr(file, '/');
        if (strcmp(last != NULL ? last + 1 : file, name) == 0) hold(&f, "lock file", e->sha256);
    }
    for (size_t i = 0; (m = bn_hub_registry_at(v->registry, i)) != NULL; i++)
        for (size_t k = 0; k < m->n_files; k++)
            if (m->files[k].sha256 != NULL && strcmp(m->files[k].sha256, f.sha256) == 0)
                hold(&f, "registry", f.sha256);
    tell(v, path, path, &f);
    return BN_OK;
}

/* ---- the command ---- */

static bn_status verify_operand(struct verify *v, const char *text, bn_error *err)
{
    char path[BN_HUB_PATH_MAX];
    if (access(text, F_OK) == 0 || !bn_hub_is_reference(text)) return verify_plain(v, text, err);
    BN_TRY(bn_hub_find(path, text, err));
    bn_status status = BN_OK;
    bool found = false;
    for (size_t i = 0; i < v->walk.n && status == BN_OK; i++) {
        if (strcmp(v->walk.list[i].link, path) != 0) continue;
        found = true;
        status = verify_cached(v, &v->walk.list[i], err);
    }
    return status == BN_OK && !found ? verify_plain(v, path, err) : status;
}

static bn_status open_sources(struct verify *v, bn_error *err)
{
    const struct bn_download_options *o = v->args->fields;
    v->wanted = o->sha256;
    if (v->wanted != NULL && v->args->n_operands != 1)
        return bn_fail(err, BN_ERR_ARG, "--sha256 needs exactly one MODEL");
    BN_TRY(bn_hub_registry_open(&v->registry, err));
    if (o->lock != NULL) BN_TRY(bn_hub_lockfile_read(&v->lock, o->lock, err));
    if (bn_hub_cache_root(v->root, v->args->n_operands > 0 ? NULL : err) != BN_OK)
        return v->args->n_operands > 0 ? BN_OK : BN_ERR_NOT_FOUND;
    return bn_hub_walk_open(&v->walk, v->root, err);
}

static bn_status verify_all(struct verify *v, bn_error *err)
{
    for (size_t i = 0; i < v->args->n_operands; i++)
        BN_TRY(verify_operand(v, v->args->operands[i], err));
    for (size_t i = 0; v->args->n_operands == 0 && i < v->walk.n; i++)
        if (v->walk.list[i].kind == BN_HUB_CACHED_FILE) BN_TRY(verify_cached(v, &v->walk.list[i], err));
    return BN_OK;
}

static bn_status conclude(struct verify *v, bn_json *doc, bn_error *err)
{
    BN_PUT(doc, BN_U64("ok", v->n_ok), BN_U64("bad", v->n_bad), BN_U64("unknown", v->n_unknown));
    if (v->args->json) BN_TRY(bn_cli_print_json(doc, err));
    bn_report_note(0, "%zu ok, %zu bad, %zu unknown", v->n_ok, v->n_bad, v->n_unknown);
    return BN_OK;
}

bn_status bn_download_verify(struct bn_args *args, bn_error *err)
{
    struct verify v = {.args = args};
    bn_json *doc = bn_download_document("files", &v.files);
    bn_status status = open_sources(&v, err);
    if (status == BN_OK) status = verify_all(&v, err);
    if (status == BN_OK) status = conclude(&v, doc, err);
    if (v.n_bad > 0)
        args->exit_code = BN_EXIT_INTEGRITY;
    else if (v.n_ok == 0)
        args->exit_code = BN_EXIT_NEGATIVE;
    bn_json_free(doc);
    bn_hub_walk_release(&v.walk);
    bn_hub_lockfile_release(&v.lock);
    bn_hub_registry_close(v.registry);
    return status;
}

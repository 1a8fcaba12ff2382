/* SPDX-License-Identifier: MIT
 *
 * Reads the registry of models. Texts of models and files point into the parsed document, which the registry
 * keeps.
 */
#include "hub/names/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"

#define MAX_MODELS 10000u
#define MAX_TEXT_BYTES 1000u

extern const char bn_hub_registry_text[];
extern const uint64_t bn_hub_registry_bytes;

struct bn_hub_registry {
    bn_json *document;
    struct bn_hub_model *models;
    size_t n_models;
    struct bn_hub_file *files; /* of all models, one after the other */
};

/* ---- reading ---- */

/* A member that must be a text, and one that can be printed as it is. */
static bn_status text(const char **out, const bn_json *object, const char *name, bn_error *err)
{
    char shown[MAX_TEXT_BYTES + 1];
    if (!bn_json_string(bn_json_get(object, name), out))
        return bn_fail(err, BN_ERR_FORMAT, "an entry of the registry has no text '%s'", name);
    if (strcmp(bn_escape(shown, sizeof shown, *out, strlen(*out)), *out) == 0) return BN_OK;
    return bn_fail_in(err, BN_ERR_FORMAT, *out, "'%s' has control characters or more than %u bytes", name,
                      MAX_TEXT_BYTES);
}

static bn_status read_file(struct bn_hub_file *out, const bn_json *o, bn_error *err)
{
    BN_TRY(text(&out->variant, o, "variant", err));
    BN_TRY(text(&out->repo, o, "repo", err));
    BN_TRY(text(&out->runs, o, "runs", err));
    const bn_json *size = bn_json_get(o, "size"), *sha256 = bn_json_get(o, "sha256");
    out->revision = "main";
    if (bn_json_get(o, "revision") != NULL) BN_TRY(text(&out->revision, o, "revision", err));
    if (!bn_json_string(bn_json_get(o, "file"), &out->file)) out->file = "";
    if (size != NULL && (!bn_json_u64(size, &out->size) || out->size == 0))
        return bn_fail_in(err, BN_ERR_FORMAT, out->repo, "the size is not a positive number");
    if (sha256 != NULL && (!bn_json_string(sha256, &out->sha256) || !bn_is_sha256(out->sha256)))
        return bn_fail_in(err, BN_ERR_FORMAT, out->repo, "sha256 is not 64 hexadecimal digits");
    if (!bn_hub_safe_path(out->repo) || !bn_hub_safe_path(out->revision) ||
        (out->file[0] != '\0' && !bn_hub_safe_path(out->file)))
        return bn_fail_in(err, BN_ERR_FORMAT, out->repo,
                          "the repository, revision or file is not a safe path");
    return BN_OK;
}

static bn_status read_model(struct bn_hub_registry *r, const bn_json *o, struct bn_hub_file **next,
                            bn_error *err)
{
    struct bn_hub_model *m = &r->models[r->n_models++];
    BN_TRY(text(&m->name, o, "name", err));
    BN_TRY(text(&m->title, o, "title", err));
    BN_TRY(text(&m->parameters, o, "parameters", err));
    BN_TRY(text(&m->arch, o, "arch", err));
    BN_TRY(text(&m->licence, o, "licence", err));
    BN_TRY(text(&m->licence_url, o, "licence_url", err));
    m->files = *next;
    for (const bn_json *f = bn_json_first(bn_json_get(o, "files")); f != NULL; f = bn_json_next(f)) {
        BN_TRY(read_file(*next, f, err));
        ++*next;
        m->n_files++;
    }
    if (m->n_files > 0) return BN_OK;
    return bn_fail_in(err, BN_ERR_FORMAT, m->name, "the model has no files");
}

static bn_status read_models(struct bn_hub_registry *r, bn_error *err)
{
    const bn_json *models = bn_json_get(r->document, "models");
    size_t n_files = 0;
    if (!bn_json_text_is(r->document, "schema", "bn.registry/1") || bn_json_kind(models) != BN_JSON_ARRAY)
        return bn_fail(err, BN_ERR_FORMAT, "not a model registry (schema bn.registry/1 expected)");
    if (bn_json_size(models) > MAX_MODELS)
        return bn_fail(err, BN_ERR_LIMIT, "more than %u models", MAX_MODELS);
    for (const bn_json *o = bn_json_first(models); o != NULL; o = bn_json_next(o))
        n_files += bn_json_size(bn_json_get(o, "files"));
    r->models = bn_alloc(bn_json_size(models), sizeof *r->models);
    r->files = bn_alloc(n_files, sizeof *r->files);
    if (r->models == NULL || r->files == NULL) return bn_nomem(err);
    struct bn_hub_file *next = r->files;
    for (const bn_json *o = bn_json_first(models); o != NULL; o = bn_json_next(o))
        BN_TRY(read_model(r, o, &next, err));
    return BN_OK;
}

bn_status bn_hub_registry_parse(struct bn_hub_registry **out, const char *json, size_t n, bn_error *err)
{
    struct bn_hub_registry *r = bn_alloc(1, sizeof *r);
    *out = NULL;
    if (r == NULL) return bn_nomem(err);
    bn_status status = bn_json_parse(&r->document, json, n, err);
    if (status == BN_OK) status = read_models(r, err);
    if (status == BN_OK)
        *out = r;
    else
        bn_hub_registry_close(r);
    return status;
}

static bn_status open_private(struct bn_hub_registry **out, const char *path, bn_error *err)
{
    struct bn_buf json = {.max = BN_JSON_MAX_BYTES};
    bn_status status = bn_file_read(path, &json, err);
    if (status == BN_OK) status = bn_hub_registry_parse(out, bn_buf_text(&json), json.len, err);
    bn_buf_release(&json);
    if (status == BN_OK) return BN_OK;
    bn_error_name(err, path);
    bn_error_hint(err, "BN_REGISTRY names this file; unset it to use the built-in registry");
    return status;
}

bn_status bn_hub_registry_open(struct bn_hub_registry **out, bn_error *err)
{
    const char *path = getenv("BN_REGISTRY");
    *out = NULL;
    if (path != NULL && path[0] != '\0') return open_private(out, path, err);
    return bn_hub_registry_parse(out, bn_hub_registry_text, (size_t)bn_hub_registry_bytes, err);
}

void bn_hub_registry_close(struct bn_hub_registry *registry)
{
    if (registry == NULL) return;
    bn_json_free(registry->document);
    bn_free(registry->models);
    bn_free(registry->files);
    bn_free(registry);
}

/* ---- asking ---- */

const struct bn_hub_model *bn_hub_registry_at(const struct bn_hub_registry *registry, size_t i)
{
    return i < registry->n_models ? &registry->models[i] : NULL;
}

static bool has_alias(const bn_json *entry, const char *name)
{
    const char *alias;
    for (const bn_json *a = bn_json_first(bn_json_get(entry, "aliases")); a != NULL; a = bn_json_next(a))
        if (bn_json_string(a, &alias) && strcasecmp(alias, name) == 0) return true;
    return false;
}

static const struct bn_hub_model *find(const struct bn_hub_registry *registry, const char *name)
{
    const bn_json *entry = bn_json_first(bn_json_get(registry->document, "models"));
    for (size_t i = 0; i < registry->n_models; i++, entry = bn_json_next(entry))
        if (strcasecmp(registry->models[i].name, name) == 0 || has_alias(entry, name))
            return &registry->models[i];
    return NULL;
}

static const struct bn_hub_file *file_of(const struct bn_hub_model *model, const char *variant)
{
    if (variant[0] == '\0') return &model->files[0];
    for (size_t i = 0; i < model->n_files; i++)
        if (strcasecmp(model->files[i].variant, variant) == 0) return &model->files[i];
    return NULL;
}

static bn_status fail_name(const struct bn_hub_registry *registry, const char *name, bn_error *err)
{
    struct bn_suggestion near = {.typed = name};
    const bn_json *entry = bn_json_first(bn_json_get(registry->document, "models"));
    const char *alias;
    for (; entry != NULL; entry = bn_json_next(entry)) {
        if (bn_json_string(bn_json_get(entry, "name"), &alias)) bn_suggest(&near, alias);
        for (const bn_json *a = bn_json_first(bn_json_get(entry, "aliases")); a != NULL; a = bn_json_next(a))
            if (bn_json_string(a, &alias)) bn_suggest(&near, alias);
    }
    bn_fail(err, BN_ERR_NOT_FOUND, "unknown model '%s'", name);
    if (near.best != NULL)
        bn_error_hint(err, "did you mean '%s'?", near.best);
    else
        bn_error_hint(err,
                      "'bn-download list' shows the names; or give OWNER/REPO of a Hugging Face repository");
    return BN_ERR_NOT_FOUND;
}

bn_status bn_hub_registry_look_up(const struct bn_hub_model **model, const struct bn_hub_file **file,
                                  const struct bn_hub_registry *registry, const char *name,
                                  const char *variant, bn_error *err)
{
    char names[200] = "";
    const struct bn_hub_model *m = find(registry, name);
    if (model != NULL) *model = m;
    *file = m != NULL ? file_of(m, variant) : NULL;
    if (*file != NULL) return BN_OK;
    if (m == NULL) return fail_name(registry, name, err);
    for (size_t i = 0, n = 0; i < m->n_files && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "", m->files[i].variant);
    return bn_hint(bn_fail_in(err, BN_ERR_NOT_FOUND, m->name, "the model has no variant '%s'", variant), err,
                   "its variants are %s", names);
}

/* SPDX-License-Identifier: MIT
 *
 * Parses what a user writes for a model: a name, hf:OWNER/REPO or a URL; and reads the registry of models. Texts of
 * models and files point into the parsed document, which the registry keeps.
 */
#include "hub/names/names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"

#define MAX_PART_BYTES 255u

/* ---- safe texts ---- */

static bool is_safe_part(const char *part, size_t n)
{
    if (n == 0 || n > MAX_PART_BYTES || part[0] == '-') return false;
    if (n <= 2 && strncmp("..", part, n) == 0) return false; /* "." and ".." */
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)part[i];
        if (c < 0x20 || c == 0x7F || c == '\\') return false;
        if (c == 0xC2 && i + 1 < n && (unsigned char)part[i + 1] < 0xA0) return false; /* U+0080 to U+009F */
    }
    return true;
}

bool bn_hub_safe_path(const char *path)
{
    for (;;) {
        size_t n = strcspn(path, "/");
        if (!is_safe_part(path, n)) return false;
        if (path[n] == '\0') return true;
        path += n + 1;
    }
}

bool bn_hub_is_commit(const char *revision)
{
    size_t n = strspn(revision, "0123456789abcdef");
    return n >= 40 && n <= 64 && revision[n] == '\0';
}

/* Letters, digits, dot, underscore, hyphen: owners, repositories, names. */
static bool is_word(const char *text, size_t n)
{
    if (!is_safe_part(text, n) || n > 96 || text[0] == '.') return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && strchr("._-", text[i]) == NULL) return false;
    return true;
}

static bool is_safe_url_text(const char *url)
{
    for (const char *c = url; *c != '\0'; c++)
        if ((unsigned char)*c <= 0x20 || (unsigned char)*c >= 0x7F || strchr("\"<>\\^`{|}", *c) != NULL)
            return false;
    return true;
}

bool bn_hub_is_loopback(const char *host)
{
    static const char *const HOSTS[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < BN_ARRAY_LEN(HOSTS); i++) {
        size_t n = strlen(HOSTS[i]);
        if (strncasecmp(host, HOSTS[i], n) == 0 && (host[n] == '\0' || strchr(":/?#", host[n]) != NULL))
            return true;
    }
    return false;
}

/* ---- forms ---- */

static bool is_url(const char *text)
{
    return strncmp(text + strcspn(text, ":"), "://", 3) == 0;
}

static bool is_name(const char *text)
{
    size_t n = strcspn(text, ":");
    return is_word(text, n) && n < sizeof((struct bn_hub_reference *)0)->name;
}

/* "owner/repo", what people copy from the hub; more may follow, as after "hf:". */
static bool is_repo(const char *text)
{
    size_t n = strcspn(text, ":@");
    const char *slash = memchr(text, '/', n);
    return slash != NULL && is_word(text, (size_t)(slash - text)) &&
           is_word(slash + 1, n - (size_t)(slash - text) - 1);
}

bool bn_hub_is_reference(const char *text)
{
    if (is_url(text) || strncmp(text, "hf:", 3) == 0) return true;
    size_t n = strcspn(text, ":@"); /* names have dots too: "bitnet-b1.58-2b-4t" */
    if (n > 5 && strncasecmp(text + n - 5, ".gguf", 5) == 0) return false;
    return is_name(text) || is_repo(text);
}

static bn_status copy(char *out, size_t room, const char *text, size_t n, const char *what, bn_error *err)
{
    if (n >= room) return bn_fail(err, BN_ERR_ARG, "the %s is longer than %zu bytes", what, room - 1);
    memcpy(out, text, n);
    out[n] = '\0';
    return BN_OK;
}

static bn_status parse_url(struct bn_hub_reference *out, const char *text, bn_error *err)
{
    out->kind = BN_HUB_URL;
    BN_TRY(copy(out->url, sizeof out->url, text, strlen(text), "URL", err));
    const char *host = strstr(text, "://") + 3;
    size_t n = strcspn(host, "/?#");
    bool https = strncasecmp(text, "https://", 8) == 0;
    if (!https && strncasecmp(text, "http://", 7) != 0)
        return bn_hint(bn_fail_in(err, BN_ERR_ARG, text, "not a URL of https or http"), err,
                       "a file on this machine is used by its path, without download: bn-run -m FILE");
    if (!is_safe_url_text(text) || n == 0) return bn_fail_in(err, BN_ERR_ARG, text, "not a valid URL");
    if (memchr(host, '@', n) != NULL)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "a URL must not contain a user name or a password"), err,
                       "set HF_TOKEN instead");
    if (!https && !bn_hub_is_loopback(host))
        return bn_hint(
            bn_fail_in(err, BN_ERR_ARG, text,
                       "http is allowed for this machine only: others could change the bytes on the way"),
            err, "use https");
    return BN_OK;
}

/* owner/repo[:file][@revision]; a revision may have slashes, a file may have '@' only before the last one.
 */
static bn_status parse_repo(struct bn_hub_reference *out, const char *text, bn_error *err)
{
    out->kind = BN_HUB_REPO;
    size_t n_all = strlen(text), n_repo = strcspn(text, ":@");
    if (!is_repo(text))
        return bn_hint(bn_fail_in(err, BN_ERR_ARG, text, "not a repository"), err,
                       "write OWNER/REPO, OWNER/REPO:FILE or OWNER/REPO:FILE@REVISION");
    BN_TRY(copy(out->repo, sizeof out->repo, text, n_repo, "repository", err));
    const char *at = strrchr(text + n_repo, '@');
    size_t end = at != NULL ? (size_t)(at - text) : n_all;
    BN_TRY(copy(out->revision, sizeof out->revision, at != NULL ? at + 1 : "main",
                at != NULL ? strlen(at + 1) : 4, "revision", err));
    if (text[n_repo] == ':')
        BN_TRY(copy(out->file, sizeof out->file, text + n_repo + 1, end - n_repo - 1, "file name", err));
    if (text[n_repo] == ':' && !bn_hub_safe_path(out->file))
        return bn_fail_in(err, BN_ERR_ARG, out->file, "not a valid path in a repository");
    if (!bn_hub_safe_path(out->revision) || strpbrk(out->revision, " ?#%") != NULL)
        return bn_fail_in(err, BN_ERR_ARG, out->revision, "not a valid revision (branch, tag or commit)");
    return BN_OK;
}

bn_status bn_hub_reference_parse(struct bn_hub_reference *out, const char *text, bn_error *err)
{
    *out = (struct bn_hub_reference){0};
    if (is_url(text)) return parse_url(out, text, err);
    if (strncmp(text, "hf:", 3) == 0) return parse_repo(out, text + 3, err);
    if (is_repo(text)) return parse_repo(out, text, err);
    if (!is_name(text))
        return bn_hint(bn_fail_in(err, BN_ERR_ARG, text, "not a model name, OWNER/REPO or URL"), err,
                       "'bn-download list' shows the names");
    size_t n = strcspn(text, ":");
    for (size_t i = 0; i < n; i++)
        out->name[i] = (char)tolower((unsigned char)text[i]);
    if (text[n] == ':')
        return copy(out->variant, sizeof out->variant, text + n + 1, strlen(text + n + 1), "variant", err);
    return BN_OK;
}

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
    BN_TRY(BN_NEW(r->models, bn_json_size(models), err));
    BN_TRY(BN_NEW(r->files, n_files, err));
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
    *file = NULL;
    if (m == NULL) return fail_name(registry, name, err);
    for (size_t i = 0; i < m->n_files && *file == NULL; i++)
        if (variant[0] == '\0' || strcasecmp(m->files[i].variant, variant) == 0) *file = &m->files[i];
    if (*file != NULL) return BN_OK;
    for (size_t i = 0, n = 0; i < m->n_files && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "", m->files[i].variant);
    return bn_hint(bn_fail_in(err, BN_ERR_NOT_FOUND, m->name, "the model has no variant '%s'", variant), err,
                   "its variants are %s", names);
}

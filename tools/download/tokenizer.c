/* SPDX-License-Identifier: MIT
 *
 * bn-download tokenizer: downloads the tokenizer files of a model's repository, and compares their vocabulary
 * with that of a model.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "hub/cache/cache.h"
#include "hub/names/names.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"
#include "tools/download/download.h"
#include "tools/download/vocabulary.h"

static const char *const FILES[] = {"tokenizer.json", "tokenizer_config.json", "tokenizer.model"};

const struct bn_option bn_download_tokenizer_options[] = {
    BN_OPTION("to", "download to plain files in DIR, not to the cache", .letter = 'o', .arg = "DIR",
              BN_TO_TEXT(struct bn_download_options, to)),
    BN_OPTION("check", "compare the vocabulary with that of a GGUF model", .arg = "MODEL",
              BN_TO_TEXT(struct bn_download_options, check)),
    {0},
};

struct tokenizer {
    const struct bn_args *args;
    struct bn_hub_fetch fetch;
    struct bn_download_show show;
    struct bn_vocabulary vocabulary;
    char repo[193];
    bn_json *doc, *files; /* files are in doc */
    size_t n_files;
};

/* ---- downloading ---- */

/* A file that the repository does not have is left out. */
static bn_status get_file(struct tokenizer *t, const char *repo, const char *revision, const char *file,
                          bn_error *why, bn_error *err)
{
    struct bn_hub_fetch *f = &t->fetch;
    char reference[1600];
    snprintf(reference, sizeof reference, "hf:%s:%s@%s", repo, file, revision);
    f->reference = reference;
    bn_download_show_begin(&t->show, f, t->args);
    t->show.json = false; /* one document, at the end */
    bn_error failed = {0};
    bn_status status = bn_hub_fetch(f, &failed);
    bn_download_show_end(&t->show);
    f->reference = NULL;
    if (status == BN_ERR_NOT_FOUND) {
        *why = failed;
        return BN_OK;
    }
    if (status != BN_OK) {
        if (err != NULL && err->code == BN_OK) *err = failed;
        return status;
    }
    BN_TRY(bn_vocabulary_read(&t->vocabulary, f->path, err));
    snprintf(t->repo, sizeof t->repo, "%s", repo);
    t->n_files++;
    bn_json *o = bn_json_add_object(t->files);
    bn_json_put_string(o, "file", file);
    bn_json_put_string(o, "path", f->path);
    bn_json_put_text(o, "commit", f->commit);
    bn_json_put_text(o, "sha256", f->transfer.digest);
    if (!t->args->json) printf("%s\n", f->path);
    return BN_OK;
}

static bn_status get_repo(struct tokenizer *t, const char *repo, const char *revision, bn_error *why,
                          bn_error *err)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(FILES); i++)
        BN_TRY(get_file(t, repo, revision, FILES[i], why, err));
    return BN_OK;
}

/* The repositories of a model's variants in turn: one with a GGUF file often has no tokenizer. Digests of
 * first use are recorded, as for the model itself. */
static bn_status get_name(struct tokenizer *t, const struct bn_hub_reference *ref, bn_error *why,
                          bn_error *err)
{
    struct bn_hub_registry *registry;
    const struct bn_hub_model *model;
    const struct bn_hub_file *file;
    BN_TRY(bn_hub_registry_open(&registry, err));
    bn_status status = bn_hub_registry_look_up(&model, &file, registry, ref->name, ref->variant, err);
    t->fetch.pin = true;
    for (size_t i = 0; status == BN_OK && i < model->n_files && t->n_files == 0; i++) {
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++)
            seen = strcmp(model->files[k].repo, model->files[i].repo) == 0;
        if (!seen) status = get_repo(t, model->files[i].repo, model->files[i].revision, why, err);
    }
    bn_hub_registry_close(registry);
    return status;
}

static bn_status get_all(struct tokenizer *t, const char *text, bn_error *err)
{
    struct bn_hub_reference ref;
    bn_error why = {0};
    BN_TRY(bn_hub_reference_parse(&ref, text, err));
    if (ref.kind == BN_HUB_URL || (ref.kind == BN_HUB_REPO && ref.file[0] != '\0'))
        return bn_fail(err, BN_ERR_ARG, "'%s' is not a model of the registry or a repository (OWNER/REPO)",
                       text);
    if (ref.kind == BN_HUB_NAME)
        BN_TRY(get_name(t, &ref, &why, err));
    else
        BN_TRY(get_repo(t, ref.repo, ref.revision, &why, err));
    if (t->n_files > 0) return BN_OK;
    bn_fail_in(err, BN_ERR_NOT_FOUND, text, "no tokenizer file found: %s", why.msg);
    return bn_hint(BN_ERR_NOT_FOUND, err,
                   t->fetch.server.offline ? "run without --offline and HF_HUB_OFFLINE to download it"
                                           : "name the original model's repository: bn-download tokenizer "
                                             "OWNER/REPO");
}

/* ---- comparing ---- */

static bn_status check(struct tokenizer *t, const char *model, bool *fits, bn_error *err)
{
    char *path = NULL;
    uint32_t n_model = 0;
    const char *text = NULL;
    bool named = access(model, F_OK) != 0 && bn_hub_is_reference(model);
    if (named) BN_TRY(bn_hub_find(&path, model, err));
    bn_json *o = bn_json_put_object(t->doc, "check");
    bn_json_put_string(o, "model", named ? path : model);
    bn_json *differences = bn_json_put_array(o, "differences");
    bn_status status =
        bn_vocabulary_compare(&t->vocabulary, named ? path : model, &n_model, differences, err);
    bn_free(path);
    BN_TRY(status);
    *fits = bn_json_size(differences) == 0;
    bn_json_put_bool(o, "fits", *fits);
    bn_json_put_u64(o, "n_tokens", n_model);
    for (const bn_json *d = bn_json_first(differences); d != NULL && !t->args->json; d = bn_json_next(d))
        if (bn_json_string(d, &text)) printf("differs: %s\n", text);
    bn_report_note(0, "%s %s: %u tokens in the model", t->repo,
                   *fits ? "fits the model" : "does not fit the model", (unsigned)n_model);
    return BN_OK;
}

/* ---- the command ---- */

static bn_status run(struct tokenizer *t, bool *fits, bn_error *err)
{
    const struct bn_download_options *o = t->args->fields;
    t->fetch.to = o->to;
    t->fetch.fn = bn_download_show_event;
    t->fetch.user = &t->show;
    BN_TRY(bn_download_settings(&t->fetch, t->args, err));
    BN_TRY(get_all(t, t->args->operands[0], err));
    bn_json_put_string(t->doc, "repo", t->repo);
    bn_json_put_count(t->doc, "n_tokens", t->vocabulary.n_tokens);
    bn_json_put_u64(t->doc, "n_special", t->vocabulary.n_special);
    if (t->vocabulary.n_tokens > 0)
        bn_report_note(0, "%s: %u tokens, %u of them special", t->repo, (unsigned)t->vocabulary.n_tokens,
                       (unsigned)t->vocabulary.n_special);
    if (o->check != NULL) BN_TRY(check(t, o->check, fits, err));
    return t->args->json ? bn_cli_print_json(t->doc, err) : BN_OK;
}

bn_status bn_download_tokenizer(struct bn_args *args, bn_error *err)
{
    struct tokenizer *t = bn_alloc(1, sizeof *t);
    bool fits = true;
    if (t == NULL) return bn_nomem(err);
    bn_cli_catch_interrupt();
    t->args = args;
    t->doc = bn_download_document("files", &t->files);
    bn_status status = t->doc != NULL ? run(t, &fits, err) : bn_nomem(err);
    if (status == BN_OK && !fits) args->exit_code = BN_EXIT_NEGATIVE;
    bn_vocabulary_release(&t->vocabulary);
    bn_json_free(t->doc);
    bn_free(t);
    if (bn_cli_interrupted() == 0 || status == BN_OK) return status;
    args->exit_code = 128 + bn_cli_interrupted();
    bn_report_note(0, "%s", err->msg);
    return BN_OK;
}

/* SPDX-License-Identifier: MIT
 *
 * Opens the model that the command line names, or the built-in one, whose bytes are in default_model.S.
 */
#define _GNU_SOURCE
#include "tools/cli/default_model.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/team.h"
#include "hub/cache/cache.h"
#include "hub/names/names.h"
#include "model/model.h"
#include "tools/cli/provenance.h"
#include "tools/cli/ranks.h"
#include "tools/cli/report.h"

const char *bn_cli_model_name(const struct bn_args *args)
{
    return args->model != NULL ? args->model : BN_DEFAULT_MODEL_NAME;
}

bn_status bn_cli_model_path(char **path, const char *text, bn_error *err)
{
    bn_error why = {0};
    char located[BN_HUB_PATH_MAX];
    bn_status status = BN_OK;
    *path = NULL;
    if (text == NULL) return BN_OK;
    if (text[0] == '\0') return bn_fail(err, BN_ERR_ARG, "empty model name");
    bool here = access(text, F_OK) == 0 || !bn_hub_is_reference(text);
    if (!here) status = bn_hub_locate(located, text, &why);
    if (status == BN_OK) {
        const char *found = here ? text : located;
        *path = bn_strndup(found, strlen(found));
        return *path != NULL ? BN_OK : bn_nomem(err);
    }
    if (status != BN_ERR_NOT_FOUND) {
        if (err != NULL && err->code == BN_OK) *err = why;
        return status;
    }
    bn_fail_at(err, status, BN_NO_OFFSET, text, "no such file here; %s%s%s", why.where,
               why.where[0] != '\0' ? ": " : "", why.msg);
    if (why.hint[0] != '\0') bn_error_hint(err, "%s", why.hint);
    return status;
}

const char *bn_cli_evaluator(const bn_model *model)
{
    return bn_model_device(model) != NULL ? bn_model_device(model)->name : bn_isa_name();
}

bn_status bn_cli_device(const char **name, const struct bn_args *args, bn_error *err)
{
    const char *device = args->device, *number = "";
    char typed[BN_TYPED];
    *name = NULL;
    if (device == NULL || strcmp(device, "cpu") == 0) return BN_OK;
    *name = device;
    if (strncmp(device, "opencl:", 7) == 0) number = device + 7;
    bool is_number =
        number[0] != '\0' && strlen(number) <= 4 && strspn(number, "0123456789") == strlen(number);
    if (strcmp(device, "opencl") == 0 || strcmp(device, "auto") == 0 || is_number) return BN_OK;
    return bn_hint(bn_fail(err, BN_ERR_ARG, "%s is '%.40s', expected cpu, opencl, opencl:N or auto",
                           bn_args_typed(args, &args->device, typed), device),
                   err, "'bn-run devices' lists the devices of this machine");
}

bn_status bn_cli_open_model(bn_model **out, const struct bn_args *args, const bn_model_options *options,
                            bn_error *err)
{
    static const bn_repack REPACK[] = {BN_REPACK_AUTO, BN_REPACK_NEVER, BN_REPACK_ALWAYS};
    const char *path = args->model;
    bn_model_options with = {0};
    *out = NULL;
    if (options != NULL) with = *options;
    if (args->repack != 0) { /* auto leaves the command's own choice */
        with.repack = REPACK[args->repack];
        with.repack_later = false;
    }
    BN_TRY(bn_cli_device(&with.device, args, err));
    if (args->max_memory != 0) bn_mem_set_budget(args->max_memory);
    if (args->isa != NULL) BN_TRY(bn_isa_select(args->isa, err));
    char *file = NULL, typed[BN_TYPED];
    bool is_default = path == NULL, is_empty = path != NULL && path[0] == '\0';
    bn_status status = bn_cli_model_path(&file, path, err);
    if (is_empty) bn_error_name(err, bn_args_typed(args, &args->model, typed));
    if (status == BN_OK)
        status = bn_model_open_divided(
            out, is_default ? BN_DEFAULT_MODEL_NAME : file, is_default ? bn_default_model_data : NULL,
            is_default ? (size_t)bn_default_model_bytes : 0, &with, bn_cli_ranks(), err);
    bn_free(file);
    if ((status == BN_ERR_NOT_FOUND && !is_default) || is_empty)
        bn_error_hint(err, "leave %s out to use the built-in model",
                      bn_args_typed(args, &args->model, typed));
    bn_cli_note_device(status == BN_OK ? bn_model_device(*out) : NULL);
    return status;
}

void bn_cli_warn_threads(const bn_session *session, uint32_t asked)
{
    unsigned got = bn_session_n_threads(session), cores = bn_team_cores();
    const char *threads = got == 1 ? "thread" : "threads";
    if (asked <= got) return;
    if (got == cores)
        bn_report_warning("%u threads asked for, but this process may use %u %s: using %u %s", asked, cores,
                          cores == 1 ? "core" : "cores", got, threads);
    else
        bn_report_warning("%u threads asked for, but the system allows %u: using %u %s", asked, got, got,
                          threads);
}

bn_json *bn_cli_put_model(bn_json *document, const struct bn_args *args)
{
    char hex[BN_SHA256_HEX], *path = NULL;
    bn_error err = {0};
    bn_json *model = bn_json_put_object(document, "model");
    bn_json_put_object(model, "unavailable");
    bn_json_put_string(model, "name", bn_cli_model_name(args));
    if (bn_cli_model_path(&path, args->model, &err) != BN_OK) {
        bn_json_put_unavailable(model, "sha256", err.msg);
    } else if (path != NULL) {
        bn_cli_put_file_digest(model, "sha256", path);
    } else {
        bn_sha256_hex(bn_default_model_data, (size_t)bn_default_model_bytes, hex);
        bn_json_put_string(model, "sha256", hex);
    }
    bn_free(path);
    return model;
}

bn_status bn_cli_live_open(struct bn_live **out, const struct bn_args *args, const struct bn_cli_live *choice,
                           bn_session *session, bn_error *err)
{
    char program[64];
    *out = NULL;
    if (!choice->on && choice->file == NULL) return BN_OK;
    snprintf(program, sizeof program, "%s%s%s", args->program->name,
             args->command->name[0] != '\0' ? " " : "", args->command->name);
    struct bn_live_options options = {
        .path = choice->file,
        .level = (enum bn_prof_level)(BN_PROF_LAYER + choice->level),
        .program = program,
        .model = bn_cli_model_name(args),
    };
    bn_status status = bn_live_open(out, session, &options, err);
    if (status == BN_OK) bn_report_note(1, "the profile is published; 'bn-bench top' shows it");
    return status;
}

/* SPDX-License-Identifier: MIT
 *
 * References by name or by command. A name is looked up when the program runs: nothing
 * about references is decided when it is built.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>

#include "base/file.h"
#include "base/suggest.h"
#include "lab/kit/process.h"
#include "tools/crossval/crossval.h"

/* ---- finding ---- */

/* Turns "oracle --float-quant" into a command; anything else stays as it is. */
static bn_status make_command(const char *given, struct bn_buf *command, bn_error *err)
{
    char path[PATH_MAX], name[80];
    size_t n = strcspn(given, " ");
    if (n == 0)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "--ref: '%s' does not begin with a name or a command", given),
                       err, "bn-crossval refs lists the references");
    snprintf(name, sizeof name, "bn-bridge-%.*s", (int)bn_min_size(n, 60), given);
    bool oracle = n == 6 && strncmp(given, "oracle", n) == 0, bn = n == 2 && strncmp(given, "bn", n) == 0;
    path[0] = '\0';
    if (!oracle && !bn) BN_TRY(bn_stored_find(path, name + strlen("bn-bridge-"), err));
    bool stored = path[0] != '\0';
    if (bn) {
        bn_program_path(path);
    } else if (oracle && !bn_crossval_find_program("bn-reference", path)) {
        return bn_hint(bn_fail_in(err, BN_ERR_NOT_FOUND, "bn-reference",
                                  "not found next to bn-crossval, nor in libexec/bn"),
                       err, "`make` builds it when there is a C++ compiler, and `make install` installs it");
    } else if (!oracle && !stored && (strchr(name, '/') != NULL || !bn_crossval_find_program(name, path))) {
        bn_buf_puts(command, given);
        return bn_buf_check(command, err);
    }
    bn_buf_put_word(command, path);
    if (oracle || bn) bn_buf_puts(command, " serve");
    bn_buf_puts(command, given + n);
    return bn_buf_check(command, err);
}

/* ---- starting, ending ---- */

static void show_stderr(void *user, const char *bytes, size_t n)
{
    (void)user;
    fwrite(bytes, 1, n, stderr);
}

/* The last lines of its standard error, as far as they fit. */
static void keep_last_words(struct bn_xref *ref)
{
    if (ref->process == NULL) return;
    const char *all = bn_reference_stderr(ref->process);
    size_t n = strlen(all), room = sizeof ref->last_words / 4;
    while (n > 0 && (all[n - 1] == '\n' || all[n - 1] == '\r'))
        n--;
    const char *from = n > room ? all + n - room : all;
    bn_escape(ref->last_words, sizeof ref->last_words, from, (size_t)(all + n - from));
}

void bn_xref_failed(struct bn_xref *ref, const bn_error *why)
{
    if (ref->broken) return;
    ref->broken = true;
    ref->failure = *why;
    keep_last_words(ref);
}

bn_status bn_xref_note(struct bn_xref *ref, bn_status status, const bn_error *why, bn_error *err)
{
    if (status == BN_OK) return BN_OK;
    if (status == BN_ERR_NOMEM || status == BN_ERR_CANCELLED || status == BN_ERR_ARG) {
        *err = *why;
        return status;
    }
    bn_xref_failed(ref, why);
    return BN_OK;
}

bn_status bn_xrefs_take(struct bn_crossval *x, bn_error *err)
{
    const struct bn_texts *refs = &x->options->refs, *models = &x->options->ref_models;
    if (refs->n == 0 || refs->n > BN_XREFS_MAX)
        return bn_hint(bn_fail(err, BN_ERR_ARG,
                               refs->n == 0 ? "no reference is given" : "more than 8 references are given"),
                       err, "--ref oracle, --ref bn, or --ref 'COMMAND'; at most 8");
    for (size_t i = 0; i < refs->n; i++) {
        x->refs[i].given = refs->list[i];
        if (i < models->n && strcmp(models->list[i], "-") != 0) x->refs[i].model = models->list[i];
    }
    x->n_refs = refs->n;
    return BN_OK;
}

/* The shell found no program of this name. */
static void not_found(const char *name, bn_error *why)
{
    struct bn_suggestion s = {.typed = name};
    *why = (bn_error){.offset = BN_NO_OFFSET};
    (void)bn_fail(why, BN_ERR_NOT_FOUND, "not found: neither a reference that was set up nor a program");
    bn_suggest(&s, "oracle");
    bn_suggest(&s, "bn");
    bn_suggest(&s, "node-llama-cpp");
    if (s.best != NULL)
        bn_error_hint(why, "did you mean %s?", s.best);
    else
        bn_error_hint(why, "bn-crossval refs lists the references");
}

static bn_status start_process(struct bn_crossval *x, struct bn_xref *ref, bn_error *why)
{
    struct bn_buf command = {.max = 1u << 16};
    uint64_t seconds = x->options->timeout_s;
    struct bn_reference_options options = {.cancelled = bn_cli_is_interrupted,
                                           .on_stderr = x->args->verbose > 0 ? show_stderr : NULL};
    if (seconds == 0 || seconds > 86400 * 7)
        return bn_fail(why, BN_ERR_ARG, "--timeout wants a second at least, and a week at most");
    options.timeout_ns = seconds * 1000000000u;
    bn_status status = make_command(ref->given, &command, why);
    options.command = command.data;
    if (status == BN_OK) status = bn_reference_start(&ref->process, &options, why);
    if (status == BN_ERR_NOT_FOUND && ref->process != NULL && strpbrk(ref->given, " /") == NULL)
        not_found(ref->given, why);
    if (status == BN_OK) {
        ref->info = *bn_reference_info(ref->process);
        status = bn_reference_open(ref->process, ref->model != NULL ? ref->model : x->model_path,
                                   x->n_threads, why);
        ref->info = *bn_reference_info(ref->process);
    }
    ref->command = command.data;
    return status;
}

bn_status bn_xref_start(struct bn_crossval *x, struct bn_xref *ref, bn_error *err)
{
    bn_error why = {0};
    bn_status status = BN_OK;
    if (ref->process == NULL) status = start_process(x, ref, &why);
    /* 0 is unknown, of a server that gives no logits. */
    bool sized = ref->info.n_vocab > 0 || (ref->info.can & BN_CAN_LOGITS) != 0;
    if (status == BN_OK && sized && ref->info.n_vocab != x->n_vocab)
        status = bn_fail(&why, BN_ERR_MISMATCH, "has a vocabulary of %llu, this engine of %zu",
                         (unsigned long long)ref->info.n_vocab, x->n_vocab);
    ref->started = status == BN_OK;
    BN_TRY(bn_thresholds_parse(&ref->limits, x->limits.data, x->limits.len, ref->info.name, err));
    bn_thresholds_deepen(&ref->limits, bn_model_hparams(x->model)->n_layer);
    return bn_xref_note(ref, status, &why, err);
}

void bn_xref_finish(struct bn_xref *ref)
{
    bn_error why = {0};
    if (ref->process != NULL && !ref->broken && bn_reference_finish(ref->process, &why) != BN_OK)
        bn_xref_failed(ref, &why);
    bn_reference_close(ref->process);
    ref->process = NULL;
}

void bn_xref_end(struct bn_xref *ref)
{
    bn_xref_finish(ref);
    bn_free(ref->command);
    bn_free(ref->logits);
    bn_free(ref->rows);
    for (size_t r = 0; r < BN_RUNG_COUNT; r++)
        bn_free(ref->rungs[r].ids);
    bn_bisection_release(&ref->trace);
    ref->logits = NULL;
    ref->rows = NULL;
}

void bn_xref_reset(struct bn_xref *ref)
{
    struct bn_xref kept = {.given = ref->given,
                           .command = ref->command,
                           .model = ref->model,
                           .process = ref->process,
                           .info = ref->info};
    bool keep = ref->process != NULL && !ref->broken;
    if (keep) {
        ref->process = NULL;
        ref->command = NULL;
    }
    bn_xref_end(ref);
    *ref = keep ? kept : (struct bn_xref){0};
}

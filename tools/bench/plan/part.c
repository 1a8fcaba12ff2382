/* SPDX-License-Identifier: MIT
 *
 * One part of a suite: a process of bn-bench, whose document is kept. A document is reused when program, model,
 * machine, options and environment are those that would be measured, and the process ended with 0.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "lab/kit/process.h"
#include "tools/bench/plan/suite.h"
#include "tools/cli/provenance.h"
#include "tools/cli/report.h"

/* Variables that change what a command measures. */
static const char *const VARIABLES[] = {"BN_ISA", "BN_THREADS", "RAYON_NUM_THREADS", "BN_MODEL",
                                        "BITNET_SEED"};

static bool interrupted(void)
{
    return bn_cli_interrupted() != 0;
}

/* ---- what was measured ---- */

/* The member "suite" of a document: what was asked for. */
static void put_request(bn_json *doc, const struct bn_plan_part *part, int exit_code)
{
    bn_json *o = bn_json_put_object(doc, "suite");
    bn_json_put_string(o, "label", part->label);
    bn_json_put_texts(o, "arguments", (const char *const *)part->arguments, part->n);
    bn_json *environment = bn_json_put_object(o, "environment");
    for (size_t i = 0; i < BN_ARRAY_LEN(VARIABLES); i++)
        if (getenv(VARIABLES[i]) != NULL) bn_json_put_string(environment, VARIABLES[i], getenv(VARIABLES[i]));
    bn_json_put_u64(o, "exit_code", (uint64_t)exit_code);
}

/* Two digests that are known and equal. */
static bool is_digest(const bn_json *doc, const char *path, const char *expected)
{
    return expected[0] != '\0' && bn_json_text_is(doc, path, expected);
}

static bool is_model(const bn_json *doc, const struct bn_plan_part *part)
{
    const struct bn_args args = {.model = part->model};
    if (bn_json_get(doc, "model") == NULL)
        return part->model == NULL && strcmp(part->command, "kernels") == 0;
    bn_json *now = bn_json_new_object();
    (void)bn_cli_put_model(now, &args);
    bool same = is_digest(doc, "model.sha256", bn_json_text_of(now, "model.sha256"));
    bn_json_free(now);
    return same;
}

static bool is_request(const bn_json *doc, const struct bn_plan_part *part, bn_error *err)
{
    char a[BN_SHA256_HEX], b[BN_SHA256_HEX];
    const bn_json *request = bn_json_get(doc, "suite");
    bn_json *now = bn_json_new_object();
    put_request(now, part, 0);
    bool same = request != NULL && bn_json_digest(request, a, err) == BN_OK &&
                bn_json_digest(bn_json_get(now, "suite"), b, err) == BN_OK && strcmp(a, b) == 0;
    bn_json_free(now);
    return same;
}

/* Notes what the report and the table need of a document. */
static void note(struct bn_part_result *result, const bn_json *doc)
{
    snprintf(result->created, sizeof result->created, "%s", bn_json_text_of(doc, "created"));
    result->has_series = bn_json_size(bn_json_get(doc, "series")) > 0;
}

/* Whether the folder holds the document that the part would make. */
static bool reuse(struct bn_suite_run *s, const struct bn_plan_part *part, struct bn_part_result *result)
{
    bn_json *doc = NULL;
    bn_error ignored = {0};
    if (s->o->force || bn_json_read_file(&doc, result->path, &ignored) != BN_OK) return false;
    bool same = is_digest(doc, "program.binary_sha256", s->program_sha256) &&
                is_digest(doc, "machine.key", s->machine.key) && is_request(doc, part, &ignored) &&
                is_model(doc, part);
    if (same) {
        result->state = BN_PART_REUSED;
        note(result, doc);
    }
    bn_json_free(doc);
    return same;
}

/* ---- measuring ---- */

static void fail(struct bn_part_result *result, const char *what, const char *detail)
{
    size_t n = strcspn(detail, "\n");
    result->state = BN_PART_FAILED;
    bn_escape(result->reason, sizeof result->reason, detail, n);
    if (n == 0) snprintf(result->reason, sizeof result->reason, "%s", what);
}

/* The document that a process printed, NULL without one. A document of an error is not one. */
static bn_json *read_output(const struct bn_buf *out, struct bn_part_result *result, const char *ended)
{
    bn_json *doc = NULL;
    bn_error err = {0};
    if (out->failed) {
        fail(result, "its document is too large", "");
    } else if (out->len == 0 || bn_json_parse(&doc, out->data, out->len, &err) != BN_OK) {
        fail(result, ended, "");
    } else if (bn_json_text_is(doc, "schema", "bn.error/1")) {
        const char *where = bn_json_text_of(doc, "where");
        char text[400];
        snprintf(text, sizeof text, "%.180s%s%.200s", where, where[0] != '\0' ? ": " : "",
                 bn_json_text_of(doc, "message"));
        fail(result, ended, text);
        bn_json_free(doc);
        doc = NULL;
    }
    return doc;
}

static bn_status keep(const struct bn_plan_part *part, struct bn_part_result *result, bn_json *doc,
                      bn_error *err)
{
    put_request(doc, part, result->exit_code);
    note(result, doc);
    bn_status status = bn_file_make_folders(result->path, err);
    return status == BN_OK ? bn_json_write_file(doc, result->path, err) : status;
}

static bn_status run_process(const struct bn_suite_run *s, const struct bn_plan_part *part,
                             struct bn_process *process, struct bn_buf *out, struct bn_buf *errors,
                             bn_error *err)
{
    const char **argv = bn_alloc(part->n + 2, sizeof *argv);
    if (argv == NULL) return bn_nomem(err);
    argv[0] = s->program;
    for (size_t i = 0; i < part->n; i++)
        argv[i + 1] = part->arguments[i];
    struct bn_process_options options = {.argv = argv,
                                         .out = out,
                                         .errors = errors,
                                         .timeout_ns = (uint64_t)(s->plan.fields->timeout * 1e9),
                                         .cancelled = interrupted};
    bn_status status = bn_process_run(process, &options, err);
    bn_free(argv);
    return status;
}

static bn_status measure(struct bn_suite_run *s, const struct bn_plan_part *part,
                         struct bn_part_result *result, bn_error *err)
{
    struct bn_process process;
    struct bn_buf out = {.max = BN_JSON_MAX_BYTES}, errors = {.max = 1u << 16};
    char ended[100];
    bn_json *doc = NULL;
    bn_status status = run_process(s, part, &process, &out, &errors, err);
    if (status == BN_OK) {
        bn_process_describe(ended, sizeof ended, &process);
        result->seconds = (double)process.wall_ns / 1e9;
        result->exit_code = process.end == BN_PROCESS_EXITED ? process.code : 128;
        doc = read_output(&out, result, ended);
        if (doc != NULL && result->exit_code != 0) fail(result, ended, bn_buf_text(&errors));
    }
    if (doc != NULL) status = keep(part, result, doc, err);
    bn_json_free(doc);
    bn_buf_release(&out);
    bn_buf_release(&errors);
    return status;
}

bn_status bn_suite_part(struct bn_suite_run *s, size_t i, bn_error *err)
{
    const struct bn_plan_part *part = &s->plan.parts[i];
    struct bn_part_result *result = &s->results[i];
    if (snprintf(result->path, sizeof result->path, "%s/%s", s->dir, part->file) >= (int)sizeof result->path)
        return bn_fail(err, BN_ERR_LIMIT, "the path of %s is too long", part->file);
    return reuse(s, part, result) ? BN_OK : measure(s, part, result, err);
}

/* SPDX-License-Identifier: MIT
 *
 * bn-bench suite: the command. It runs the parts of a configuration file one after the other, each as a process
 * of its own, keeps their documents in one folder, and writes the report of all of them. A document is reused when
 * program, model, machine, options and environment are those that would be measured, and the process ended with 0.
 */
#include "tools/bench/suite/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "lab/kit/process.h"
#include "tools/bench/report/report.h"
#include "tools/cli/provenance.h"

#define DIRECTORY "benchmark-results"
#define TIMED_OUT 124 /* the exit code of a part that was ended, as timeout(1) has it */

const struct bn_option bn_bench_suite_options[] = {
    BN_OPTION("output", "directory of documents and report [benchmark-results]", .letter = 'o', .arg = "DIR",
              BN_TO_TEXT(struct bn_bench_options, dir)),
    BN_OPTION("force", "measure every part, also those that did not change",
              BN_TO_BOOL(struct bn_bench_options, force)),
    BN_OPTION("dry-run", "print the commands and measure nothing",
              BN_TO_BOOL(struct bn_bench_options, dry_run)),
    {0},
};

struct suite {
    const struct bn_args *args;
    const struct bn_bench_options *o;
    struct bn_suite_plan plan;
    const char *dir;
    bn_json *doc; /* of this suite: its program and machine are those of reused documents */
};

/* ---- what was measured ---- */

/* The word after -m. */
static const char *model_of(const struct bn_suite_part *part)
{
    for (size_t i = 0; i + 1 < part->words.n; i++)
        if (strcmp(part->words.list[i], "-m") == 0 || strcmp(part->words.list[i], "--model") == 0)
            return part->words.list[i + 1];
    return NULL;
}

/* The member "suite" of a document: what was asked for, with the digests of files that arguments name, and the
 * variables that change what a command measures. */
static void put_request(bn_json *doc, const struct bn_suite_part *part, int exit_code)
{
    static const char *const VARIABLES[] = {"BN_ISA", "BN_THREADS", "RAYON_NUM_THREADS", "BN_MODEL",
                                            "BITNET_SEED"};
    bn_json *o = bn_json_put_object(doc, "suite");
    bn_json_put_string(o, "label", part->label);
    bn_json_put_texts(o, "arguments", (const char *const *)part->words.list, part->words.n);
    bn_json *environment = bn_json_put_object(o, "environment");
    for (size_t i = 0; i < BN_ARRAY_LEN(VARIABLES); i++)
        if (getenv(VARIABLES[i]) != NULL) bn_json_put_string(environment, VARIABLES[i], getenv(VARIABLES[i]));
    bn_json *files = bn_json_put_object(o, "files");
    for (size_t i = 2; i < part->words.n; i++)
        if (part->words.list[i] != model_of(part) && access(part->words.list[i], R_OK) == 0)
            bn_cli_put_file_digest(files, part->words.list[i], part->words.list[i]);
    bn_json_put_u64(o, "exit_code", (uint64_t)exit_code);
}

/* Two texts that are known and equal. */
static bool agree(const bn_json *doc, const bn_json *now, const char *path)
{
    const char *expected = bn_json_text_of(now, path);
    return expected[0] != '\0' && bn_json_text_is(doc, path, expected);
}

/* Is it the document of the model and of the request that would be measured? A document without a model is known to depend on
 * nothing else only when it is one of kernels; one of serve depends on bn-serve. */
static bool is_same(const bn_json *doc, const struct bn_suite_part *part)
{
    char a[BN_SHA256_HEX], b[BN_SHA256_HEX];
    const struct bn_args args = {.model = model_of(part)};
    const bn_json *request = bn_json_get(doc, "suite");
    bn_json *now = bn_json_new_object();
    put_request(now, part, 0);
    bool same = request != NULL && bn_json_digest(request, a, NULL) == BN_OK &&
                bn_json_digest(bn_json_get(now, "suite"), b, NULL) == BN_OK && strcmp(a, b) == 0;
    if (same && bn_json_get(doc, "model") == NULL) {
        same = args.model == NULL && bn_json_text_is(doc, "command", "kernels");
    } else if (same) {
        (void)bn_cli_put_model(now, &args);
        same = agree(doc, now, "model.sha256") && !bn_json_text_is(doc, "command", "serve");
    }
    bn_json_free(now);
    return same;
}

/* Notes what the report and the table need of a document. */
static void note(struct bn_suite_part *part, const bn_json *doc)
{
    snprintf(part->created, sizeof part->created, "%s", bn_json_text_of(doc, "created"));
    snprintf(part->model_sha256, sizeof part->model_sha256, "%s", bn_json_text_of(doc, "model.sha256"));
    part->has_series = bn_json_size(bn_json_get(doc, "series")) > 0;
    part->others = bn_others_read(doc);
}

/* Whether the folder holds the document that the part would make. */
static bool reuse(const struct suite *s, struct bn_suite_part *part)
{
    bn_json *doc = NULL;
    if (s->o->force || bn_json_read_file(&doc, part->path, NULL) != BN_OK) return false;
    bool same = agree(doc, s->doc, "program.binary_sha256") && agree(doc, s->doc, "machine.key") &&
                is_same(doc, part);
    if (same) {
        part->state = BN_PART_REUSED;
        note(part, doc);
    }
    bn_json_free(doc);
    return same;
}

/* ---- measuring ---- */

/* An optional part is skipped for what this machine lacks: a file or a reference, an instruction set, memory, speed. */
static void fail(struct bn_suite_part *part, const char *what, const char *detail)
{
    static const int LACKING[] = {BN_EXIT_NOT_FOUND, BN_EXIT_UNSUPPORTED, BN_EXIT_INTERNAL, TIMED_OUT};
    static const char ERROR[] = ": error: ";
    const char *error = strstr(detail, ERROR);
    if (error != NULL) detail = error + strlen(ERROR);
    part->state = BN_PART_FAILED;
    for (size_t i = 0; i < BN_ARRAY_LEN(LACKING) && part->optional; i++)
        if (part->exit_code == LACKING[i]) part->state = BN_PART_SKIPPED;
    snprintf(part->reason, sizeof part->reason, "%s", detail[0] != '\0' ? detail : what);
}

/* The document with series that a process printed, NULL without one: then the part failed, or was done. */
static bn_json *read_output(const struct bn_buf *out, struct bn_suite_part *part, const char *ended,
                            const char *errors)
{
    bn_json *doc = NULL;
    if (out->len > 0 && !out->failed && bn_json_parse(&doc, out->data, out->len, NULL) != BN_OK) doc = NULL;
    bool has_series = bn_json_size(bn_json_get(doc, "series")) > 0;
    part->state = has_series ? BN_PART_MEASURED : BN_PART_DONE;
    if (part->exit_code != 0)
        fail(part, ended, errors);
    else if (out->failed)
        fail(part, "its document is too large", "");
    if (has_series) return doc;
    bn_json_free(doc);
    return NULL;
}

/* program: the path of the part's program. */
static bn_status run_process(const struct suite *s, const struct bn_suite_part *part, const char *program,
                             struct bn_process *process, struct bn_buf *out, struct bn_buf *errors,
                             bn_error *err)
{
    const char **argv = bn_alloc(part->words.n + 1, sizeof *argv);
    if (argv == NULL) return bn_nomem(err);
    memcpy(argv, part->words.list, part->words.n * sizeof *argv);
    argv[0] = program;
    struct bn_process_options options = {.argv = argv,
                                         .out = out,
                                         .errors = errors,
                                         .timeout_ns = (uint64_t)(s->plan.o->timeout * 1e9),
                                         .cancelled = bn_cli_is_interrupted};
    bn_status status = bn_process_run(process, &options, err);
    bn_free(argv);
    return status;
}

static bn_status measure(const struct suite *s, struct bn_suite_part *part, bn_error *err)
{
    struct bn_process process;
    struct bn_buf out = {.max = BN_JSON_MAX_BYTES}, errors = {.max = 1u << 16};
    char program[PATH_MAX], ended[100], line[BN_BENCH_LINE];
    bn_json *doc = NULL;
    if (!bn_program_near(program, "", part->words.list[0])) {
        part->exit_code = BN_EXIT_NOT_FOUND;
        snprintf(line, sizeof line, "there is no program %.60s next to bn-bench", part->words.list[0]);
        fail(part, line, "");
        return BN_OK;
    }
    bn_status status = run_process(s, part, program, &process, &out, &errors, err);
    if (status == BN_OK) {
        bn_process_describe(ended, sizeof ended, &process);
        part->seconds = (double)process.wall_ns / 1e9;
        part->exit_code = process.end == BN_PROCESS_EXITED    ? process.code
                          : process.end == BN_PROCESS_TIMEOUT ? TIMED_OUT
                                                              : 128 + process.code;
        doc = read_output(&out, part, ended, bn_bench_last_line(line, &errors));
    }
    if (doc != NULL) {
        put_request(doc, part, part->exit_code);
        note(part, doc);
        status = bn_file_make_folders(part->path, err);
        if (status == BN_OK) status = bn_json_write_file(doc, part->path, err);
    }
    bn_json_free(doc);
    bn_buf_release(&out);
    bn_buf_release(&errors);
    return status;
}

static const char *const STATES[] = {[BN_PART_MEASURED] = "measured",
                                     [BN_PART_REUSED] = "reused",
                                     [BN_PART_DONE] = "done",
                                     [BN_PART_SKIPPED] = "skipped",
                                     [BN_PART_FAILED] = "failed"};

/* A part that fails is a result. An error is BN_ERR_CANCELLED, or that a file cannot be written. */
static bn_status run_part(struct suite *s, size_t i, bn_error *err)
{
    struct bn_suite_part *part = &s->plan.parts[i];
    char text[320];
    snprintf(part->path, sizeof part->path, "%.3900s/%s", s->dir, part->file);
    if (!reuse(s, part)) BN_TRY(measure(s, part, err));
    if (part->state == BN_PART_REUSED)
        snprintf(text, sizeof text, "reused, measured at %s", part->created);
    else if (part->state == BN_PART_MEASURED || part->state == BN_PART_DONE)
        snprintf(text, sizeof text, "%s in %.1f s", STATES[part->state], part->seconds);
    else
        snprintf(text, sizeof text, "%s: %s", part->state == BN_PART_FAILED ? "FAILED" : "skipped",
                 part->reason);
    if (s->args->json)
        bn_report_note(0, "[%zu/%zu] %s: %s", i + 1, s->plan.n_parts, part->label, text);
    else
        printf("[%zu/%zu] %-24s %s\n", i + 1, s->plan.n_parts, part->label, text);
    fflush(stdout);
    return BN_OK;
}

/* ---- results ---- */

static void put_results(struct suite *s, const char *config)
{
    bn_json_put_string(s->doc, "configuration", config);
    bn_cli_put_file_digest(s->doc, "configuration_sha256", config);
    /* What makes two results alike: the processes and their models. */
    bn_json *settings = bn_json_put_object(s->doc, "settings");
    bn_json *parts = bn_json_put_array(s->doc, "parts");
    for (size_t i = 0; i < s->plan.n_parts; i++) {
        const struct bn_suite_part *part = &s->plan.parts[i];
        bn_json *o = bn_json_put_object(settings, part->file);
        bn_json_put_texts(o, "arguments", (const char *const *)part->words.list, part->words.n);
        bn_json_put_text(o, "model_sha256", part->model_sha256);
        o = bn_json_add_object(parts);
        BN_PUT_STRINGS(o, {"label", part->label}, {"file", part->file}, {"state", STATES[part->state]});
        bn_json_put_text(o, "created", part->created);
        if (part->others.known)
            bn_json_put_bool(o, "contended", bn_others_disturb(&part->others));
        else
            bn_json_put_null(o, "contended");
        bn_json_put_number(o, "seconds", part->seconds);
        bn_json_put_u64(o, "exit_code", (uint64_t)part->exit_code);
        bn_json_put_text(o, "reason", part->reason);
    }
}

/* The median of each series of all documents, under the labels of their parts: what other commands read as one result, which
 * cannot count for more than its documents. */
static bn_status put_series(struct suite *s, const struct bn_report *report, bn_error *err)
{
    struct bn_series_list all = {0};
    bn_status status = BN_OK;
    bool contended = false, failed = false;
    for (size_t i = 0, k = 0; i < s->plan.n_parts && status == BN_OK; i++) {
        const struct bn_suite_part *part = &s->plan.parts[i];
        failed = failed || part->state == BN_PART_FAILED;
        if (!part->has_series) continue;
        contended = contended || bn_others_disturb(&part->others);
        status = bn_series_add_medians(&all, &report->sources[k++].series, part->label, err);
    }
    if (failed || contended) bn_json_put_string(s->doc, "result_class", failed ? "invalid" : "contended");
    if (status == BN_OK) bn_series_put(s->doc, &all);
    bn_series_release(&all);
    return status;
}

/* Writes the report of the documents of all parts, and prints its table of models; without any document there is none. */
static bn_status report(struct suite *s, bn_error *err)
{
    size_t n = 0;
    struct bn_report report = {0};
    struct bn_table table;
    const char **paths = bn_alloc(s->plan.n_parts, sizeof *paths);
    if (paths == NULL) return bn_nomem(err);
    for (size_t i = 0; i < s->plan.n_parts; i++)
        if (s->plan.parts[i].has_series) paths[n++] = s->plan.parts[i].path;
    bn_status status = n > 0 ? bn_report_read(&report, paths, n, err) : BN_OK;
    if (status == BN_OK) status = put_series(s, &report, err);
    if (status == BN_OK && n > 0) status = bn_report_write_dir(&report, s->dir, &s->plan.o->formats, err);
    if (status == BN_OK && !s->args->json) {
        bn_report_fill_models(&table, &report);
        status = bn_bench_print_rows(&table, err);
    }
    bn_report_release(&report);
    bn_free(paths);
    return status;
}

static bn_status finish(struct suite *s, struct bn_args *args, bn_error *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%.4000s/suite.json", s->dir);
    put_results(s, args->operands[0]);
    BN_TRY(report(s, err));
    BN_TRY(bn_file_make_folders(path, err));
    BN_TRY(bn_json_write_file(s->doc, path, err));
    for (size_t i = 0; i < s->plan.n_parts; i++)
        if (s->plan.parts[i].state == BN_PART_FAILED) args->exit_code = BN_EXIT_NEGATIVE;
    return args->json ? bn_cli_print_json(s->doc, err) : BN_OK;
}

/* ---- the command ---- */

static bn_status print_commands(const struct bn_suite_plan *plan, bn_error *err)
{
    struct bn_buf text = {.max = 1u << 20};
    for (size_t i = 0; i < plan->n_parts; i++) {
        for (size_t k = 0; k < plan->parts[i].words.n; k++) {
            bn_buf_put_word(&text, plan->parts[i].words.list[k]);
            bn_buf_putc(&text, ' ');
        }
        bn_buf_printf(&text, ">%s\n", plan->parts[i].file);
    }
    return bn_cli_print_text(&text, err);
}

static bn_status run(struct suite *s, struct bn_args *args, bn_error *err)
{
    BN_TRY(bn_suite_read(&s->plan, args->operands[0], err));
    if (s->o->dry_run) return print_commands(&s->plan, err);
    s->doc = bn_bench_document("suite", NULL);
    s->dir = s->o->dir != NULL ? s->o->dir : s->plan.o->dir != NULL ? s->plan.o->dir : DIRECTORY;
    bn_cli_catch_interrupt();
    for (size_t i = 0; i < s->plan.n_parts; i++) {
        bn_status status = run_part(s, i, err);
        if (status == BN_ERR_CANCELLED && bn_cli_is_interrupted()) {
            args->exit_code = 128 + bn_cli_interrupted();
            return BN_OK;
        }
        BN_TRY(status);
    }
    return finish(s, args, err);
}

bn_status bn_bench_suite(struct bn_args *args, bn_error *err)
{
    struct suite s = {.args = args, .o = args->fields, .plan.program = args->program};
    if (s.o->dry_run && args->json)
        return bn_fail(err, BN_ERR_ARG, "--dry-run cannot be combined with --json");
    bn_status status = run(&s, args, err);
    bn_json_free(s.doc);
    bn_suite_release(&s.plan);
    return status;
}

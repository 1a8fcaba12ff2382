/* SPDX-License-Identifier: MIT
 *
 * bn-bench suite: the command. It runs the parts of a configuration file one after the other, each as a process
 * of its own, keeps their documents in one folder, and writes the report of all of them.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "lab/kit/process.h"
#include "tools/bench/plan/suite.h"
#include "tools/cli/print_json.h"
#include "tools/cli/report.h"

#define DIRECTORY "benchmark-results"

const struct bn_option bn_bench_suite_command_options[] = {
    BN_OPTION("output", "directory of documents and report [benchmark-results]", .letter = 'o', .arg = "DIR",
              BN_TO_TEXT(struct bn_bench_options, dir)),
    BN_OPTION("force", "measure every part, also those that did not change",
              BN_TO_BOOL(struct bn_bench_options, force)),
    BN_OPTION("dry-run", "print the commands and measure nothing",
              BN_TO_BOOL(struct bn_bench_options, dry_run)),
    {0},
};

static const char *const STATES[] = {
    [BN_PART_MEASURED] = "measured", [BN_PART_REUSED] = "reused", [BN_PART_FAILED] = "failed"};

/* ---- progress ---- */

static void print_part(const struct bn_suite_run *s, size_t i)
{
    const struct bn_part_result *r = &s->results[i];
    char text[320];
    if (r->state == BN_PART_REUSED)
        snprintf(text, sizeof text, "reused, measured at %s", r->created);
    else if (r->state == BN_PART_MEASURED)
        snprintf(text, sizeof text, "measured in %.1f s", r->seconds);
    else
        snprintf(text, sizeof text, "FAILED: %s", r->reason);
    if (s->args->json)
        bn_report_note(0, "[%zu/%zu] %s: %s", i + 1, s->plan.n_parts, s->plan.parts[i].label, text);
    else
        printf("[%zu/%zu] %-24s %s\n", i + 1, s->plan.n_parts, s->plan.parts[i].label, text);
    fflush(stdout);
}

static void print_commands(const struct bn_plan *plan)
{
    for (size_t i = 0; i < plan->n_parts; i++) {
        printf("bn-bench");
        for (size_t k = 0; k < plan->parts[i].n; k++)
            printf(" %s", plan->parts[i].arguments[k]);
        printf(" >%s\n", plan->parts[i].file);
    }
}

/* ---- results ---- */

static bn_json *summary(struct bn_suite_run *s, const char *config)
{
    char now[21], hex[BN_SHA256_HEX];
    bn_json *doc = bn_json_new_object();
    bn_clock_format(bn_clock_utc(), now);
    bn_json_put_string(doc, "schema", "bn.bench/1");
    bn_json_put_string(doc, "created", now);
    bn_json_put_object(doc, "unavailable");
    bn_json_put_string(doc, "configuration", config);
    bn_json_put_known(doc, "configuration_sha256",
                      strcmp(config, "-") != 0 && bn_sha256_file(config, hex, NULL) == BN_OK ? hex : "",
                      "it was read from standard input");
    bn_json_put_string(doc, "program_sha256", s->program_sha256);
    bn_json_put_string(doc, "machine", s->machine.label);
    bn_json *parts = bn_json_put_array(doc, "parts");
    for (size_t i = 0; i < s->plan.n_parts; i++) {
        const struct bn_part_result *r = &s->results[i];
        bn_json *o = bn_json_add_object(parts);
        bn_json_put_string(o, "label", s->plan.parts[i].label);
        bn_json_put_string(o, "file", s->plan.parts[i].file);
        bn_json_put_string(o, "state", STATES[r->state]);
        bn_json_put_text(o, "created", r->created);
        bn_json_put_number(o, "seconds", r->seconds);
        bn_json_put_u64(o, "exit_code", (uint64_t)r->exit_code);
        bn_json_put_text(o, "reason", r->reason);
    }
    return doc;
}

/* Reads the documents of all parts and writes the report; without any document there is none. */
static bn_status make_report(struct bn_suite_run *s, bn_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < s->plan.n_parts; i++)
        if (s->results[i].has_series) s->paths[n++] = s->results[i].path;
    if (n == 0) return BN_OK;
    BN_TRY(bn_report_read(&s->report, s->paths, n, err));
    return bn_report_write_dir(&s->report, s->dir, &s->plan.fields->formats, err);
}

/* Prints a table after a blank line, when it has rows, and releases it. */
static bn_status print_table(struct bn_table *table, bn_error *err)
{
    if (table->n_rows > 0 || table->failed) {
        putchar('\n');
        return bn_bench_print_table(table, err);
    }
    bn_table_release(table);
    return BN_OK;
}

static bn_status print_results(struct bn_suite_run *s, bn_error *err)
{
    struct bn_table models;
    bn_report_fill_models(&models, &s->report);
    BN_TRY(print_table(&models, err));
    bn_report_fill_model_memory(&models, &s->report);
    return print_table(&models, err);
}

static bn_status finish(struct bn_suite_run *s, struct bn_args *args, bn_error *err)
{
    struct bn_buf path = {.max = 1u << 13};
    BN_TRY(make_report(s, err));
    bn_json *doc = summary(s, args->operands[0]);
    bn_buf_printf(&path, "%s/suite.json", s->dir);
    bn_status status = bn_buf_check(&path, err);
    if (status == BN_OK) status = bn_file_make_folders(path.data, err);
    if (status == BN_OK) status = bn_json_write_file(doc, path.data, err);
    if (status == BN_OK) status = args->json ? bn_cli_print_json(doc, err) : print_results(s, err);
    for (size_t i = 0; i < s->plan.n_parts; i++)
        if (s->results[i].state == BN_PART_FAILED) args->exit_code = BN_EXIT_NEGATIVE;
    bn_buf_release(&path);
    bn_json_free(doc);
    return status;
}

/* ---- the command ---- */

static bn_status prepare(struct bn_suite_run *s, bn_error *err)
{
    struct bn_machine machine;
    bn_machine_read(&machine);
    BN_TRY(bn_machine_identify(&s->machine, &machine, err));
    bn_program_path(s->program);
    BN_TRY(bn_sha256_file(s->program, s->program_sha256, err));
    s->dir = s->o->dir != NULL                   ? s->o->dir
             : s->plan.fields->directory != NULL ? s->plan.fields->directory
                                                 : DIRECTORY;
    s->results = bn_alloc(s->plan.n_parts, sizeof *s->results);
    s->paths = bn_alloc(s->plan.n_parts, sizeof *s->paths);
    return s->results != NULL && s->paths != NULL ? BN_OK : bn_nomem(err);
}

static bn_status run(struct bn_suite_run *s, struct bn_args *args, bn_error *err)
{
    BN_TRY(bn_plan_read(&s->plan, args->operands[0], err));
    if (s->o->dry_run) {
        print_commands(&s->plan);
        return BN_OK;
    }
    BN_TRY(prepare(s, err));
    bn_cli_catch_interrupt();
    for (size_t i = 0; i < s->plan.n_parts; i++) {
        bn_status status = bn_suite_part(s, i, err);
        if (status == BN_ERR_CANCELLED && bn_cli_interrupted() != 0) {
            args->exit_code = 128 + bn_cli_interrupted();
            return BN_OK;
        }
        BN_TRY(status);
        print_part(s, i);
    }
    return finish(s, args, err);
}

bn_status bn_bench_suite(struct bn_args *args, bn_error *err)
{
    struct bn_suite_run *s = bn_alloc(1, sizeof *s);
    if (s == NULL) return bn_nomem(err);
    s->args = args;
    s->o = args->fields;
    if (s->o->dry_run && args->json) {
        bn_free(s);
        return bn_fail(err, BN_ERR_ARG, "--dry-run cannot be combined with --json");
    }
    bn_status status = run(s, args, err);
    bn_report_release(&s->report);
    bn_free(s->paths);
    bn_free(s->results);
    bn_plan_release(&s->plan);
    bn_free(s);
    return status;
}

/* SPDX-License-Identifier: MIT
 *
 * bn - the front door: `bn run ...` becomes bn-run from the folder that bn itself lies in, else from PATH,
 * with all that follows untouched. Its own help lists the programs. The one command that is its own is doctor.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "base/suggest.h"
#include "lab/kit/process.h"
#include "tools/cli/options.h"
#include "tools/cli/program/doctor.h"
#include "tools/cli/programs.h"
#include "tools/cli/report.h"

#define PROGRAM_NAME 128 /* "bn-run" */

/* A command that is reached here comes after options of bn itself. */
static bn_status misplaced(struct bn_args *args, bn_error *err)
{
    const char *name = args->command->name;
    return bn_hint(bn_fail(err, BN_ERR_ARG, "options before the command '%s'", name), err,
                   "write them after it: bn %s ...", name);
}

/* ---- all doctors ---- */

/* Runs the doctor of a program, and takes over its rows. *sections: where the names of their sections stay. */
static bn_status run_doctor(struct bn_doctor *d, const char *file, bn_json **sections, bn_error *err)
{
    const char *argv[] = {file, "doctor", "--json", NULL};
    static const char *const STATES[] = {"ok", "note", "FAIL"};
    struct bn_buf text = {.max = 1u << 20}, said = {.max = 1u << 16};
    struct bn_process_options options = {.argv = argv, .out = &text, .errors = &said};
    struct bn_process process;
    bn_status status = bn_process_run(&process, &options, err);
    if (status == BN_OK) status = bn_json_parse(sections, bn_buf_text(&text), text.len, err);
    if (status == BN_OK && bn_json_get(*sections, "rows") == NULL)
        bn_doctor_put(d, BN_DOCTOR_FAIL, "doctor", NULL, "%s doctor: %s", file, bn_buf_text(&said));
    for (const bn_json *row = bn_json_first(bn_json_get(*sections, "rows")); row != NULL;
         row = bn_json_next(row)) {
        unsigned state = (unsigned)bn_find_text(STATES, 2, sizeof *STATES, bn_json_text_of(row, "state"));
        d->section = bn_json_text_of(row, "section");
        bn_doctor_put(d, (enum bn_doctor_state)state, bn_json_text_of(row, "check"),
                      bn_json_text_of(row, "hint"), "%s", bn_json_text_of(row, "value"));
    }
    bn_buf_release(&text);
    bn_buf_release(&said);
    return status;
}

static bn_status doctor(struct bn_args *args, bn_error *err)
{
    static const char *const NAMES[] = {"bench", "flamegraph", "crossval", "download"};
    bn_json *sections[BN_ARRAY_LEN(NAMES)] = {NULL};
    struct bn_doctor d;
    bn_status status = BN_OK;
    bn_doctor_begin(&d, args, "programs");
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES) && status == BN_OK; i++) {
        char name[PROGRAM_NAME], path[PATH_MAX];
        snprintf(name, sizeof name, "bn-%s", NAMES[i]);
        status = run_doctor(&d, bn_program_near(path, "", name) ? path : name, &sections[i], err);
        if (status == BN_ERR_NOT_FOUND) status = BN_OK; /* not installed */
    }
    status = bn_doctor_end(&d, status, err);
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMES); i++)
        bn_json_free(sections[i]);
    return status;
}

static const struct bn_option REQUIRE[] = {BN_OPTION_REQUIRE, {0}};

/* "run" is the program "bn-run". */
#define FORWARDED(the_name, the_summary)                                         \
    {                                                                            \
        .name = (the_name), .summary = (the_summary), .synopsis = "[ARGUMENTS]", \
        BN_OPERANDS(0, BN_OPERANDS_ANY, "ARGUMENTS"), .run = misplaced           \
    }
static const struct bn_command COMMANDS[] = {
    FORWARDED("download", BN_SUMMARY_DOWNLOAD),
    FORWARDED("convert", BN_SUMMARY_CONVERT),
    FORWARDED("run", BN_SUMMARY_RUN),
    FORWARDED("serve", BN_SUMMARY_SERVE),
    FORWARDED("verify-receipt", BN_SUMMARY_VERIFY_RECEIPT),
    FORWARDED("bench", BN_SUMMARY_BENCH),
    FORWARDED("flamegraph", BN_SUMMARY_FLAMEGRAPH),
    FORWARDED("train", BN_SUMMARY_TRAIN),
    FORWARDED("crossval", BN_SUMMARY_CROSSVAL),
    FORWARDED("fixtures", BN_SUMMARY_FIXTURES),
    FORWARDED("git", BN_SUMMARY_GIT),
    {.name = "doctor",
     .summary = "check this machine, its samplers, references and downloads",
     .text =
         "Runs the doctors of the programs that are installed. The exit code is 1 when one of their checks "
         "fails.",
     .synopsis = "[--require CHECK]... [--json]",
     .options = {REQUIRE},
     .json = true,
     .run = doctor},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn",
    .summary = "toolchain for ternary language models",
    .text =
        "Runs the program bn-COMMAND with the arguments that follow: bn run 'To be' is bn-run "
        "'To be'. bn searches its own folder for the program, then PATH. 'bn help COMMAND' is 'bn "
        "COMMAND --help'. 'bn doctor' runs the doctors of all programs: machine, samplers, references, downloads.",
    .synopsis = "COMMAND [ARGUMENTS]",
    .commands = COMMANDS,
    .forwards = true,
    .exits = {{"2", "no such command"}, {"3", "the command's program is not installed"}},
};

static int unknown_command(const char *command)
{
    bn_error err = {0};
    char shown[80];
    struct bn_suggestion s = {.typed = command};
    bn_escape(shown, sizeof shown, command, strlen(command));
    for (const struct bn_command *c = COMMANDS; c->run == misplaced; c++) {
        if (strcmp(c->name, command) == 0) {
            bn_fail(&err, BN_ERR_NOT_FOUND, "bn-%s is not installed", command);
            bn_error_hint(&err, "it is neither in the folder of bn nor in PATH");
            return bn_report_error(&err);
        }
        bn_suggest(&s, c->name);
    }
    bn_fail(&err, BN_ERR_ARG, "unknown command '%s'", shown);
    const char *here = bn_foreign_command(command);
    if (here != NULL)
        bn_error_hint(&err, "here: %s; see bn --help", here);
    else
        bn_error_hint(&err, "%s%s%ssee bn --help", s.best != NULL ? "did you mean " : "",
                      s.best != NULL ? s.best : "", s.best != NULL ? "? " : "");
    return bn_report_error(&err);
}

/* Becomes bn-<argv[0]> with the arguments after it; returns only when that fails. */
static int become(const char *command, char **argv)
{
    char name[PROGRAM_NAME], path[PATH_MAX];
    bn_error err = {0};
    if (strspn(command, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(command) || strlen(command) > 100)
        return unknown_command(command);
    snprintf(name, sizeof name, "bn-%s", command);
    argv[0] = name;
    if (bn_program_near(path, "", name))
        execv(path, argv);
    else
        execvp(name, argv);
    /* A folder of PATH that may not be entered gives EACCES. */
    if (errno == ENOENT || errno == EACCES) return unknown_command(command);
    bn_fail_errno(&err, errno, name, "cannot be started");
    return bn_report_error(&err);
}

/* `bn --complete run WORDS...` is `bn-run --complete WORDS...`. */
static int complete(int argc, char **argv)
{
    static char option[] = "--complete";
    char *command = argv[2];
    if (argc < 4) return bn_cli_main(&PROGRAM, argc, argv);
    argv[2] = option;
    return become(command, argv + 1);
}

/* `bn help run tokenize` is `bn-run tokenize --help`. */
static int help(int argc, char **argv)
{
    static char option[] = "--help";
    memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
    argv[argc - 1] = option;
    return become(argv[1], argv + 1);
}

int main(int argc, char **argv)
{
    static char name[] = "bn", option[] = "--help";
    char *list[] = {name, option, NULL};
    bn_report_start("bn");
    if (argc < 2) return bn_cli_main(&PROGRAM, 2, list);
    if (strcmp(argv[1], "--complete") == 0) return complete(argc, argv);
    if (argv[1][0] == '-' || strcmp(argv[1], "doctor") == 0) return bn_cli_main(&PROGRAM, argc, argv);
    if (strcmp(argv[1], "help") == 0)
        return argc > 2 && argv[2][0] != '-' ? help(argc, argv) : bn_cli_main(&PROGRAM, 2, list);
    return become(argv[1], argv + 1);
}

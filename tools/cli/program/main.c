/* SPDX-License-Identifier: MIT
 *
 * The main function that all programs share; see options.h.
 */
#include <string.h>

#include "base/error.h"
#include "tools/cli/options.h"
#include "tools/cli/program/help.h"
#include "tools/cli/program/sandbox.h"
#include "tools/cli/ranks.h"
#include "tools/cli/report.h"

static bn_status run(const struct bn_program *program, struct bn_args *args, int argc, char **argv,
                     bn_error *err)
{
    const char *first = argc > 1 ? argv[1] : "";
    *args = (struct bn_args){.program = program};
    if (strcmp(first, "--complete") == 0) {
        bn_complete(stdout, program, argc - 2, argv + 2);
        return BN_OK;
    }
    if (strcmp(first, "--dump-markdown") == 0) {
        bn_program_check(program);
        bn_dump_markdown(stdout, program);
        return BN_OK;
    }
    BN_TRY(bn_args_parse(args, program, argc, argv, err));
    bn_report_set((enum bn_color)args->color, args->quiet, args->verbose, args->json);
    if (args->want_help) {
        bn_help_print(stdout, program, args->command, args->want_all, bn_report_columns(stdout));
        return BN_OK;
    }
    if (args->want_version) {
        bn_help_version(stdout, program);
        return BN_OK;
    }
    if (args->command->sandbox != NULL) BN_TRY(args->command->sandbox->enter(args, err));
    if (args->command->follow != NULL) return bn_cli_run_divided(args, err);
    if (!args->command->divides) BN_TRY(bn_cli_refuse_ranks(args, err));
    return args->command->run(args, err);
}

int bn_cli_main(const struct bn_program *program, int argc, char **argv)
{
    struct bn_args args;
    bn_error err = {0};
    bn_crypto_reserve();
    bn_report_start(program->name);
    bn_status status = run(program, &args, argc, argv, &err);
    int exit_code = args.exit_code;
    if (status != BN_OK) {
        if (err.code == BN_OK) bn_fail(&err, status, "%s", bn_status_name(status));
        if (args.meant != NULL && (status == BN_ERR_ARG || status == BN_ERR_NOT_FOUND)) {
            err.hint[0] = '\0';
            bn_args_help_hint(&args, &err, "", args.meant);
        }
        if (status == BN_ERR_ARG) bn_args_help_hint(&args, &err, NULL, NULL);
        if (args.command != NULL && args.command->sandbox != NULL) args.command->sandbox->explain(&err);
        exit_code = bn_report_error(&err);
        if (status == BN_ERR_CANCELLED && bn_cli_interrupted() != 0) exit_code = 128 + bn_cli_interrupted();
        if (args.want_usage) bn_help_usage(stderr, program, args.command, bn_report_columns(stderr));
        bn_report_json_error(&err, exit_code);
    }
    bn_args_release(&args);
    return bn_report_finish(exit_code);
}

/* SPDX-License-Identifier: MIT
 *
 * --live: opens the live profile that the options ask for, under the name of the program and of its model.
 */
#include "tools/cli/live/live.h"

#include <stdio.h>

#include "tools/cli/default_model.h"
#include "tools/cli/report.h"

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
        .isa = bn_isa_name(),
    };
    bn_status status = bn_live_open(out, session, &options, err);
    if (status == BN_OK) bn_report_note(1, "the profile is published; 'bn-bench top' shows it");
    return status;
}

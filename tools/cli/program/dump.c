/* SPDX-License-Identifier: MIT
 *
 * Writes man pages, Markdown pages and completions from the option tables; see dump.h.
 */
#include "tools/cli/program/dump.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "tools/cli/table.h"

enum bn_value_kind bn_dump_kind(const struct bn_option *option)
{
    if (option->arg == NULL) return BN_VALUE_NONE;
    if (bn_table_choice(option, 0, &(size_t){0}) != NULL) return BN_VALUE_CHOICE;
    if (option->words != NULL) return BN_VALUE_CHOICE;
    if (strcmp(option->arg, "FILE") == 0) return BN_VALUE_FILE;
    if (strcmp(option->arg, "MODEL") == 0) return BN_VALUE_MODEL;
    if (strcmp(option->arg, "DIR") == 0) return BN_VALUE_FOLDER;
    return BN_VALUE_ANY;
}

bool bn_dump_takes_models(const struct bn_command *command)
{
    return command->operand != NULL && strcmp(command->operand, "MODEL") == 0;
}

bool bn_dump(FILE *out, const struct bn_program *program, int argc, char **argv, bn_status *status,
             bn_error *err)
{
    static const struct {
        const char *option, *shell;
        void (*dump)(FILE *out, const struct bn_program *program);
    } DUMPS[] = {
        {"--dump-man", NULL, bn_dump_man},           {"--dump-markdown", NULL, bn_dump_markdown},
        {"--dump-completion", "bash", bn_dump_bash}, {"--dump-completion", "zsh", bn_dump_zsh},
        {"--dump-completion", "fish", bn_dump_fish},
    };
    bool known = false;
    for (size_t i = 0; i < BN_ARRAY_LEN(DUMPS) && argc > 1; i++) {
        if (strcmp(argv[1], DUMPS[i].option) != 0) continue;
        known = true;
        if (DUMPS[i].shell != NULL && (argc < 3 || strcmp(argv[2], DUMPS[i].shell) != 0)) continue;
        bn_program_check(program);
        DUMPS[i].dump(out, program);
        *status = BN_OK;
        return true;
    }
    if (known) *status = bn_fail(err, BN_ERR_ARG, "--dump-completion needs a value: bash, zsh or fish");
    return known;
}

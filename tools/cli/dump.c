/* SPDX-License-Identifier: MIT
 *
 * See dump.h.
 */
#include "tools/cli/dump.h"

#include <string.h>

#include "base/error.h"
#include "tools/cli/table.h"

enum bn_value_kind bn_dump_kind(const struct bn_option *option)
{
    if (option->arg == NULL) return BN_VALUE_NONE;
    if (bn_table_choice(option, 0, &(size_t){0}) != NULL) return BN_VALUE_CHOICE;
    if (strcmp(option->arg, "FILE") == 0 || strcmp(option->arg, "MODEL") == 0) return BN_VALUE_FILE;
    if (strcmp(option->arg, "DIR") == 0) return BN_VALUE_FOLDER;
    return BN_VALUE_ANY;
}

bool bn_dump(FILE *out, const struct bn_program *program, int argc, char **argv, bn_status *status,
             bn_error *err)
{
    if (argc < 2 || strncmp(argv[1], "--dump-", 7) != 0) return false;
    const char *what = argv[1] + 7, *shell = argc > 2 ? argv[2] : "";
    bn_program_check(program);
    *status = BN_OK;
    if (strcmp(what, "man") == 0)
        bn_dump_man(out, program);
    else if (strcmp(what, "markdown") == 0)
        bn_dump_markdown(out, program);
    else if (strcmp(what, "completion") == 0 && strcmp(shell, "bash") == 0)
        bn_dump_bash(out, program);
    else if (strcmp(what, "completion") == 0 && strcmp(shell, "zsh") == 0)
        bn_dump_zsh(out, program);
    else if (strcmp(what, "completion") == 0 && strcmp(shell, "fish") == 0)
        bn_dump_fish(out, program);
    else
        *status = bn_fail(err, BN_ERR_ARG, "--dump-man, --dump-markdown, or --dump-completion bash|zsh|fish");
    return true;
}

/* SPDX-License-Identifier: MIT
 *
 * The documents that are made of a program's table: --dump-man, --dump-markdown and --dump-completion SHELL,
 * which no help mentions. `make docs` calls them; their output is committed, and `make lint` compares it with
 * them.
 */
#ifndef BN_CLI_DUMP_H
#define BN_CLI_DUMP_H

#include <stdio.h>

#include "tools/cli/options.h"

/* Serves a --dump option in argv[1]: returns false when there is none, else sets *status. */
bool bn_dump(FILE *out, const struct bn_program *program, int argc, char **argv, bn_status *status,
             bn_error *err);

void bn_dump_man(FILE *out, const struct bn_program *program);
void bn_dump_markdown(FILE *out, const struct bn_program *program);
void bn_dump_bash(FILE *out, const struct bn_program *program);
void bn_dump_zsh(FILE *out, const struct bn_program *program);
void bn_dump_fish(FILE *out, const struct bn_program *program);

/* What the value of an option can be completed to. */
enum bn_value_kind {
    BN_VALUE_NONE,
    BN_VALUE_ANY,
    BN_VALUE_CHOICE, /* the list of its arg, or its words */
    BN_VALUE_FILE,
    BN_VALUE_MODEL, /* a file, or a name that bn-download lists */
    BN_VALUE_FOLDER
};
enum bn_value_kind bn_dump_kind(const struct bn_option *option);
/* Whether the arguments of a command are models. */
bool bn_dump_takes_models(const struct bn_command *command);
#define BN_DUMP_NAMES "$(bn-download list --names 2>/dev/null)"

#endif

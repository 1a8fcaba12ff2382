/* SPDX-License-Identifier: MIT
 *
 * --help, --help=all and --version, printed from the table.
 */
#ifndef BN_CLI_HELP_H
#define BN_CLI_HELP_H

#include <stdio.h>

#include "tools/cli/options.h"

/* Help of the program when command is NULL or the default one, else of that command. all: every option in its
 * group, every example, environment and exit codes; else what fits a screen: the first paragraph, the options
 * that are not rare, some examples. */
void bn_help_print(FILE *out, const struct bn_program *program, const struct bn_command *command, bool all,
                   size_t columns);
/* After a usage error: how the command is called, and the names of the commands. */
void bn_help_usage(FILE *out, const struct bn_program *program, const struct bn_command *command,
                   size_t columns);
void bn_help_version(FILE *out, const struct bn_program *program);

/* Words of a text, wrapped: the cursor is in column at, later lines begin in column indent; blank lines
 * part paragraphs. Ends with a newline. */
void bn_help_wrap(FILE *out, const char *text, size_t at, size_t indent, size_t columns);
/* The groups of a command's options in the order of their first option; NULL past the end. */
const char *bn_help_group(const struct bn_command *command, size_t i);
/* "Options" for options that name none. */
const char *bn_help_group_of(const struct bn_option *option);

#endif

/* SPDX-License-Identifier: MIT
 *
 * What bn_cli_main prints of a program's table: help, completions, the reference page. And a reserve of memory.
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
/* The usage lines of a command, each after a lead, which becomes blanks of the width of "Usage: " unless it is "". */
void bn_help_put_usage(FILE *out, const struct bn_program *program, const struct bn_command *command,
                       const char **lead, size_t columns);
void bn_help_version(FILE *out, const struct bn_program *program);

/* Words of a text, wrapped: the cursor is in column at, later lines begin in column indent; blank lines
 * part paragraphs. Ends with a newline. */
void bn_help_wrap(FILE *out, const char *text, size_t at, size_t indent, size_t columns);

/* --complete WORDS...: what the last word can become. */
void bn_complete(FILE *out, const struct bn_program *program, int n_words, char **words);
/* --dump-markdown: the page of docs/reference, of which ci/man.awk makes the man page. */
void bn_dump_markdown(FILE *out, const struct bn_program *program);

/* Lets libcrypto, and the libraries that use it, survive failed allocations. Called once, when a program starts. */
void bn_crypto_reserve(void);

#endif

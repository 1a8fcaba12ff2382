/* SPDX-License-Identifier: MIT
 *
 * Words that people know from llama.cpp and ollama, and what they are here.
 */
#ifndef BN_CLI_FOREIGN_H
#define BN_CLI_FOREIGN_H

#include "tools/cli/options.h"

/* What to write in place of an option of another program ("-ngl", "--ctx-size"; n bytes of it are read); NULL when it is
 * not known, or when the command has no such option. *instead: it is an option that takes the value that was typed;
 * otherwise the text is a sentence. */
const char *bn_foreign_option(const struct bn_args *args, const char *typed, size_t n, bool *instead);
/* The command to write in place of a command of another program: "bn download list" for "list"; NULL: not known. */
const char *bn_foreign_command(const char *typed);

#endif

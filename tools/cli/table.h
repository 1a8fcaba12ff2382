/* SPDX-License-Identifier: MIT
 *
 * What parsing, help and the generated documents ask of a program's table.
 */
#ifndef BN_CLI_TABLE_H
#define BN_CLI_TABLE_H

#include "tools/cli/options.h"

/* Options of every command, and the one of commands that write JSON. Tables end with an empty row. */
extern const struct bn_option bn_table_common[];
extern const struct bn_option bn_table_json[];

/* Fills list (room for BN_OPTIONS_MAX) with all options of a command and returns how many: its own, then --json
 * where it is taken, then the common ones. */
size_t bn_table_options(const struct bn_command *command, const struct bn_option **list);

/* The command of that name (n characters), NULL when there is none. */
const struct bn_command *bn_table_command(const struct bn_program *program, const char *name, size_t n);
/* The command that is meant when none is named; NULL when one must be. */
const struct bn_command *bn_table_default(const struct bn_program *program);
/* False for a program that has one nameless command. */
bool bn_table_has_commands(const struct bn_program *program);

/* What an option's value is called: its arg, else "N", "X", "FILE" and so on by the type of its field; NULL: a flag. */
const char *bn_table_arg(const struct bn_option *option);
/* The heading of an option in a command's help. */
const char *bn_table_group(const struct bn_command *command, const struct bn_option *option);
/* Whether it is the group of the options that every command has. */
bool bn_table_is_common(const char *group);
/* The groups of a command's options in the order of their first option; NULL past the end. */
const char *bn_table_groups(const struct bn_command *command, size_t i);
/* The size of the struct that a command's options fill. program may be NULL. */
size_t bn_table_bytes(const struct bn_program *program, const struct bn_command *command);

/* The i-th value of a list "a|b|c" (not terminated); NULL past the end and for an arg that is not a list. */
const char *bn_table_choice(const struct bn_option *option, size_t i, size_t *n);

/* Which value of its list a text is, counted from 0; -1 for none. */
int bn_table_chosen(const struct bn_option *option, const char *text);

#endif

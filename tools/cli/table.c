/* SPDX-License-Identifier: MIT
 *
 * Looks things up in a program's table, and checks it: a table is code, so a wrong one stops the process.
 */
#include "tools/cli/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define GROUP "Common"
const struct bn_option bn_table_common[] = {
    BN_OPTION("quiet", "print no warnings and no progress", .letter = 'q', .group = GROUP),
    BN_OPTION("verbose", "print more details on standard error; -vv prints all", .letter = 'v',
              .group = GROUP, .repeatable = true),
    BN_OPTION("color", "colours in messages; auto: on a terminal, without NO_COLOR",
              .arg = "auto|always|never", .group = GROUP, .preset = "auto"),
    BN_OPTION("help", "print help and exit; --help=all shows every option", .letter = 'h', .group = GROUP),
    BN_OPTION("version", "print version, commit and compiler, and exit", .letter = 'V', .group = GROUP),
    {0},
};

const struct bn_option bn_table_json[] = {
    BN_OPTION("json", "print JSON on standard output", .group = "Output"),
    {0},
};

static size_t add_table(const struct bn_option **list, size_t n, const struct bn_option *table)
{
    for (; table->name != NULL && n < BN_OPTIONS_MAX; table++)
        list[n++] = table;
    return n;
}

size_t bn_table_options(const struct bn_command *command, const struct bn_option **list)
{
    size_t n = 0;
    for (size_t i = 0; i < BN_ARRAY_LEN(command->options) && command->options[i] != NULL; i++)
        n = add_table(list, n, command->options[i]);
    if (command->json) n = add_table(list, n, bn_table_json);
    return add_table(list, n, bn_table_common);
}

const struct bn_command *bn_table_command(const struct bn_program *program, const char *name, size_t n)
{
    for (const struct bn_command *c = program->commands; c->run != NULL; c++)
        if (strlen(c->name) == n && memcmp(c->name, name, n) == 0) return c;
    return NULL;
}

bool bn_table_has_commands(const struct bn_program *program)
{
    return program->commands[0].run == NULL || program->commands[0].name[0] != '\0';
}

const struct bn_command *bn_table_default(const struct bn_program *program)
{
    if (!bn_table_has_commands(program)) return program->commands;
    const char *name = program->default_command;
    return name == NULL ? NULL : bn_table_command(program, name, strlen(name));
}

const char *bn_table_choice(const struct bn_option *option, size_t i, size_t *n)
{
    if (option->arg == NULL || strchr(option->arg, '|') == NULL) return NULL;
    for (const char *at = option->arg;; i--) {
        *n = strcspn(at, "|");
        if (i == 0) return at;
        if (at[*n] == '\0') return NULL;
        at += *n + 1;
    }
}

int bn_table_chosen(const struct bn_option *option, const char *text)
{
    const char *choice;
    size_t n;
    for (size_t i = 0; (choice = bn_table_choice(option, i, &n)) != NULL; i++)
        if (strlen(text) == n && memcmp(choice, text, n) == 0) return (int)i;
    return -1;
}

/* ---- the check ---- */

static _Noreturn void wrong(const struct bn_command *command, const char *name, const char *what)
{
    fprintf(stderr, "bug in the option table: command '%s', '%s': %s\n", command->name, name, what);
    abort();
}

static void check_field(const struct bn_command *command, const struct bn_option *o)
{
    if (o->to == BN_FIELD_NONE) return;
    if (o->at >= (o->shared ? sizeof(struct bn_args) : command->bytes))
        wrong(command, o->name, "a field outside of the command's struct");
    if ((o->to == BN_FIELD_BOOL || o->to == BN_FIELD_PLACE) != (o->arg == NULL))
        wrong(command, o->name, "a field of another kind");
    if (o->to == BN_FIELD_CHOICE && bn_table_choice(o, 0, &(size_t){0}) == NULL)
        wrong(command, o->name, "a choice without a list");
}

static void check_option(const struct bn_command *command, const struct bn_option *o)
{
    check_field(command, o);
    if (o->help == NULL) wrong(command, o->name, "no help text");
    if (o->arg == NULL && o->preset != NULL) wrong(command, o->name, "a flag with a preset");
    if (o->preset != NULL && bn_table_choice(o, 0, &(size_t){0}) != NULL && bn_table_chosen(o, o->preset) < 0)
        wrong(command, o->name, "a preset that is not in its list");
}

static void check_command(const struct bn_command *command)
{
    const struct bn_option *list[BN_OPTIONS_MAX];
    size_t n = bn_table_options(command, list);
    if (n >= BN_OPTIONS_MAX) wrong(command, "", "too many options");
    if (command->summary == NULL || command->synopsis == NULL)
        wrong(command, "", "no summary or no synopsis");
    if (command->max_operands > 0 && command->operand == NULL) wrong(command, "", "no name for its operands");
    for (size_t i = 0; i < n; i++) {
        check_option(command, list[i]);
        for (size_t j = 0; j < i; j++)
            if (strcmp(list[i]->name, list[j]->name) == 0 ||
                (list[i]->letter != 0 && list[i]->letter == list[j]->letter))
                wrong(command, list[i]->name, "defined twice");
    }
}

void bn_program_check(const struct bn_program *program)
{
    for (const struct bn_command *c = program->commands; c->run != NULL; c++) {
        check_command(c);
        if (c->name[0] == '\0' && (c != program->commands || c[1].run != NULL))
            wrong(c, "", "nameless, and not the only one");
    }
    if (program->default_command != NULL && bn_table_default(program) == NULL)
        wrong(program->commands, program->default_command, "the default command does not exist");
}

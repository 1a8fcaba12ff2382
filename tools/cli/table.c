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
    BN_OPTION("verbose", "print more details; -vv prints all", .letter = 'v', .repeatable = true),
    BN_OPTION("color", "colours in messages; auto: on a terminal, without NO_COLOR",
              .arg = "auto|always|never", .preset = "auto"),
    BN_OPTION("help", "print help and exit; --help=all shows every option", .letter = 'h'),
    BN_OPTION("version", "print version, commit and compiler, and exit", .letter = 'V'),
    {0},
};

const struct bn_option bn_table_json[] = {
    BN_OPTION("json", "print JSON on standard output", .group = "Output"),
    {0},
};

static const struct bn_option SANDBOX[] = {
    BN_RARE("no-sandbox", "keep all rights of the user; a warning is printed", .group = "Machine",
            .env = "BN_NO_SANDBOX", BN_TO_BOOL(struct bn_args, no_sandbox), .shared = true),
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
    if (command->sandbox != NULL) n = add_table(list, n, SANDBOX);
    return add_table(list, n, bn_table_common);
}

const char *bn_table_arg(const struct bn_option *option)
{
    static const char *const ARGS[] = {
        [BN_FIELD_TEXT] = "FILE",  [BN_FIELD_U32] = "N",        [BN_FIELD_U32_ALL] = "N",
        [BN_FIELD_U32_AUTO] = "N", [BN_FIELD_U64] = "N",        [BN_FIELD_F32] = "X",
        [BN_FIELD_F64] = "X",      [BN_FIELD_SECONDS] = "TIME", [BN_FIELD_BYTES] = "SIZE",
        [BN_FIELD_TEXTS] = "FILE", [BN_FIELD_IDS] = "IDS",      [BN_FIELD_LIST] = "LIST"};
    return option->arg != NULL ? option->arg : ARGS[option->to];
}

const char *bn_table_group(const struct bn_command *command, const struct bn_option *option)
{
    const struct bn_option *list[BN_OPTIONS_MAX];
    size_t n = bn_table_options(command, list);
    const char *group = "Options";
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && list[i] != list[i - 1] + 1) group = "Options"; /* another table */
        if (list[i]->group != NULL) group = list[i]->group;
        if (list[i] == option) break;
    }
    return group;
}

bool bn_table_is_common(const char *group)
{
    return strcmp(group, GROUP) == 0;
}

const char *bn_table_groups(const struct bn_command *command, size_t i)
{
    const struct bn_option *list[BN_OPTIONS_MAX];
    size_t n = bn_table_options(command, list);
    for (size_t j = 0; j < n; j++) {
        const char *group = bn_table_group(command, list[j]);
        bool seen = false;
        for (size_t k = 0; k < j && !seen; k++)
            seen = strcmp(bn_table_group(command, list[k]), group) == 0;
        if (!seen && i-- == 0) return group;
    }
    return NULL;
}

size_t bn_table_bytes(const struct bn_program *program, const struct bn_command *command)
{
    return command->bytes == 0 && program != NULL ? program->bytes : command->bytes;
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
    const char *at = bn_table_arg(option);
    if (at == NULL || strchr(at, '|') == NULL) return NULL;
    for (;; i--) {
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

static void need(bool good, const struct bn_command *command, const char *name, const char *what)
{
    if (good) return;
    fprintf(stderr, "bug in the option table: command '%s', '%s': %s\n", command->name, name, what);
    abort();
}

static bool is_path(const char *arg)
{
    return arg != NULL && strlen(arg) > 2 && strstr("FILE DIR MODEL PATH", arg) != NULL;
}

static void check_option(const struct bn_command *c, const struct bn_option *o, size_t bytes)
{
    size_t n;
    bool flag = bn_table_arg(o) == NULL, choice = bn_table_choice(o, 0, &n) != NULL;
    bool of_flag = o->to == BN_FIELD_BOOL || o->to == BN_FIELD_PLACE, none = o->to == BN_FIELD_NONE;
    need(none || o->at < (o->shared ? sizeof(struct bn_args) : bytes), c, o->name, "a field outside");
    need(none || of_flag == flag, c, o->name, "a field of another kind");
    need(c->sandbox == NULL || o->path != BN_PATH_UNSAID || !is_path(bn_table_arg(o)), c, o->name,
         "a path, and no use of it");
    need(o->to != BN_FIELD_CHOICE || choice, c, o->name, "a choice without a list");
    need(o->help != NULL, c, o->name, "no help text");
    need(o->preset == NULL || !flag, c, o->name, "a flag with a preset");
    need(o->preset == NULL || !choice || bn_table_chosen(o, o->preset) >= 0, c, o->name,
         "a preset that is not in its list");
}

void bn_program_check(const struct bn_program *program)
{
    const struct bn_option *list[BN_OPTIONS_MAX];
    for (const struct bn_command *c = program->commands; c->run != NULL; c++) {
        size_t n = bn_table_options(c, list);
        need(n < BN_OPTIONS_MAX, c, "", "too many options");
        need(c->summary != NULL && c->synopsis != NULL, c, "", "no summary or no synopsis");
        need(c->max_operands == 0 || c->operand != NULL, c, "", "no name for its operands");
        need(c->sandbox == NULL || c->operand_path != BN_PATH_UNSAID || !is_path(c->operand), c, c->operand,
             "a path, and no use of it");
        need(c->name[0] != '\0' || (c == program->commands && c[1].run == NULL), c, "",
             "nameless, and not the only one");
        for (size_t i = 0; i < n; i++) {
            check_option(c, list[i], bn_table_bytes(program, c));
            for (size_t j = 0; j < i; j++)
                need(strcmp(list[i]->name, list[j]->name) != 0 &&
                         (list[i]->letter == 0 || list[i]->letter != list[j]->letter),
                     c, list[i]->name, "defined twice");
        }
    }
    need(program->default_command == NULL || bn_table_default(program) != NULL, program->commands, "",
         "the default command does not exist");
}

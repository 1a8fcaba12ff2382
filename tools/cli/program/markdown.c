/* SPDX-License-Identifier: MIT
 *
 * A reference page in Markdown; ci/man.awk makes a man page of it.
 */
#include <string.h>

#include "tools/cli/program/help.h"
#include "tools/cli/table.h"

#define TABLE_HEAD "| option | meaning | default | environment |\n|---|---|---|---|\n"

static void put_escaped(FILE *out, const char *text, const char *special)
{
    for (; *text != '\0'; text++)
        fprintf(out, "%s%c", strchr(special, *text) != NULL ? "\\" : "", *text);
}

/* Text in a table's cell: bars would end it, angle brackets would be tags. */
static void put_cell(FILE *out, const char *text)
{
    put_escaped(out, text, "|<*_");
}

/* The same within backquotes, where only bars matter. */
static void put_code(FILE *out, const char *text)
{
    fputc('`', out);
    put_escaped(out, text, "|");
    fputc('`', out);
}

static void put_option(FILE *out, const struct bn_option *o)
{
    char text[256];
    fputs("| ", out);
    if (o->letter != '\0') fprintf(out, "`-%c`, ", o->letter);
    const char *arg = bn_table_arg(o);
    snprintf(text, sizeof text, "--%s%s%s", o->name, arg != NULL ? " " : "", arg != NULL ? arg : "");
    put_code(out, text);
    fputs(" | ", out);
    put_cell(out, o->help);
    if (o->repeatable) fputs("; may be repeated", out);
    fputs(" | ", out);
    if (o->preset != NULL && o->preset[0] != '\0') put_code(out, o->preset);
    fputs(" | ", out);
    if (o->env != NULL) put_code(out, o->env);
    if (o->env_too != NULL) {
        fputs(", ", out);
        put_code(out, o->env_too);
    }
    fputs(" |\n", out);
}

/* Whether two rows of a page would be the same. */
static bool same_row(const struct bn_option *a, const struct bn_option *b)
{
    const char *arg_a = bn_table_arg(a), *arg_b = bn_table_arg(b);
    const char *pairs[][2] = {
        {a->name, b->name}, {a->help, b->help}, {arg_a, arg_b}, {a->preset, b->preset}, {a->env, b->env}};
    bool same = a->letter == b->letter && a->repeatable == b->repeatable;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        same = same &&
               strcmp(pairs[i][0] != NULL ? pairs[i][0] : "", pairs[i][1] != NULL ? pairs[i][1] : "") == 0;
    return same;
}

/* A command's options but those that every command has. */
static size_t own_options(const struct bn_command *command, const struct bn_option **list)
{
    size_t n = bn_table_options(command, list), kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!bn_table_is_common(bn_table_group(command, list[i]))) list[kept++] = list[i];
    return kept;
}

/* Fills list with the options that two or more commands have alike, of each name the first such. */
static size_t shared_options(const struct bn_program *program, const struct bn_option **list)
{
    const struct bn_option *mine[BN_OPTIONS_MAX], *others[BN_OPTIONS_MAX];
    size_t n = 0;
    for (const struct bn_command *c = program->commands; c->run != NULL; c++) {
        size_t n_mine = own_options(c, mine);
        for (size_t i = 0; i < n_mine; i++) {
            bool known = false, twice = false;
            for (size_t j = 0; j < n; j++)
                known = known || strcmp(list[j]->name, mine[i]->name) == 0;
            for (const struct bn_command *d = c + 1; d->run != NULL; d++)
                for (size_t j = own_options(d, others); j-- > 0;)
                    twice = twice || same_row(mine[i], others[j]);
            if (twice && !known && n < BN_OPTIONS_MAX) list[n++] = mine[i];
        }
    }
    return n;
}

/* A table of the options that shared has not, and a line with the names of those that it has. */
static void put_options(FILE *out, const struct bn_command *command, const struct bn_option **shared,
                        size_t n_shared)
{
    const struct bn_option *list[BN_OPTIONS_MAX];
    size_t n = own_options(command, list), own = 0, named = 0;
    for (size_t i = 0; i < n; i++) {
        bool is_shared = false;
        for (size_t j = 0; j < n_shared; j++)
            is_shared = is_shared || same_row(list[i], shared[j]);
        if (is_shared)
            list[named++] = list[i];
        else {
            if (own++ == 0) fputs(TABLE_HEAD, out);
            put_option(out, list[i]);
        }
    }
    for (size_t i = 0; i < named; i++)
        fprintf(out, "%s--%s%s", i == 0 ? "\nShared options: " : ", ", list[i]->name,
                i + 1 == named ? ".\n" : "");
}

static void put_command(FILE *out, const struct bn_program *program, const struct bn_command *command,
                        const struct bn_option **shared, size_t n_shared)
{
    if (command->name[0] != '\0')
        fprintf(out, "\n## %s %s\n%c%s%s. ", program->name, command->name, command->summary[0] & ~('a' ^ 'A'),
                command->summary + 1, command == bn_table_default(program) ? " (the default)" : "");
    if (command->text != NULL) fputs(command->text, out);
    fputs("\n```\n", out);
    const char *lead = "";
    bn_help_put_usage(out, program, command, &lead, SIZE_MAX / 2);
    for (size_t i = 0; i < 8 && command->examples[i].line != NULL; i++)
        fprintf(out, "%s  # %s\n", command->examples[i].line, command->examples[i].what);
    fputs("```\n", out);
    put_options(out, command, shared, n_shared);
}

void bn_dump_markdown(FILE *out, const struct bn_program *program)
{
    const struct bn_option *shared[BN_OPTIONS_MAX];
    size_t n_shared = shared_options(program, shared);
    fprintf(out, "<!-- Written by make docs from the table in tools/%s.c. -->\n# %s\n\n%s - %s\n\n%s\n",
            program->name, program->name, program->name, program->summary, program->text);
    if (program->forwards) {
        fputs("\n| command | program |\n|---|---|\n", out);
        for (const struct bn_command *c = program->commands; c->run != NULL; c++)
            if (strcmp(c->name, "doctor") == 0)
                fprintf(out, "| `%s %s` | %s |\n", program->name, c->name, c->summary);
            else
                fprintf(out, "| `%s %s` | [%s-%s](%s-%s.md): %s |\n", program->name, c->name, program->name,
                        c->name, program->name, c->name, c->summary);
        fputs("\n## Options of all programs\n" TABLE_HEAD, out);
        for (size_t i = 0; bn_table_common[i].name != NULL; i++)
            put_option(out, &bn_table_common[i]);
    } else {
        for (const struct bn_command *c = program->commands; c->run != NULL; c++)
            put_command(out, program, c, shared, n_shared);
        fputs("\n## Shared options\nAll programs have --quiet, --verbose, --color, --help and --version: "
              "[bn](bn.md).\n",
              out);
        for (size_t i = 0; i < n_shared; i++) {
            if (i == 0) fputs("\n" TABLE_HEAD, out);
            put_option(out, shared[i]);
        }
    }
    if (program->environment[0].word != NULL)
        fputs("\n## Environment\n| variable | meaning |\n|---|---|\n", out);
    for (size_t i = 0; i < 8 && program->environment[i].word != NULL; i++) {
        fprintf(out, "| `%s` | ", program->environment[i].word);
        put_cell(out, program->environment[i].text);
        fputs(" |\n", out);
    }
    fputs("\n## Exit codes\n| code | meaning |\n|---|---|\n| 0 | done |\n", out);
    for (size_t i = 0; i < 10 && program->exits[i].word != NULL; i++) {
        if (strcmp(program->exits[i].word, "0") == 0) continue;
        fprintf(out, "| %s | ", program->exits[i].word);
        put_cell(out, program->exits[i].text);
        fputs(" |\n", out);
    }
    fputs("\nThe other codes are the same in all programs: [exit codes](../man/bn.7).\n", out);
}

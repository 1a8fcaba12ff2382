/* SPDX-License-Identifier: MIT
 *
 * A reference page in Markdown; ci/man.awk makes a man page of it.
 */
#include <string.h>

#include "tools/cli/program/help.h"
#include "tools/cli/table.h"

/* Text in a table's cell: bars would end it, angle brackets would be tags. */
static void put_cell(FILE *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '|' || *c == '<' || *c == '*' || *c == '_') fputc('\\', out);
        fputc(*c, out);
    }
}

/* The same within backquotes, where only bars matter. */
static void put_code(FILE *out, const char *text)
{
    fputc('`', out);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '|') fputc('\\', out);
        fputc(*c, out);
    }
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

static void put_options(FILE *out, const struct bn_command *command, bool common)
{
    const struct bn_option *list[BN_OPTIONS_MAX];
    size_t n = bn_table_options(command, list);
    const char *group;
    for (size_t i = 0; (group = bn_table_groups(command, i)) != NULL; i++) {
        if (bn_table_is_common(group) != common) continue;
        fprintf(out, "\n| %s | meaning | default | environment |\n|---|---|---|---|\n", group);
        for (size_t j = 0; j < n; j++)
            if (strcmp(bn_table_group(command, list[j]), group) == 0) put_option(out, list[j]);
    }
}

static void put_usage(FILE *out, const struct bn_program *program, const struct bn_command *command)
{
    bool usual = command == bn_table_default(program) && command->name[0] != '\0';
    for (const char *line = command->synopsis;;) {
        int n = (int)strcspn(line, "\n");
        fprintf(out, "%s%s%s%s%s %.*s\n", program->name, command->name[0] != '\0' ? " " : "",
                usual ? "[" : "", command->name, usual ? "]" : "", n, line);
        if (line[n] == '\0') break;
        line += n + 1;
    }
}

static void put_command(FILE *out, const struct bn_program *program, const struct bn_command *command)
{
    if (command->name[0] != '\0')
        fprintf(out, "\n## %s %s\n\n%c%s%s.\n", program->name, command->name,
                command->summary[0] & ~('a' ^ 'A'), command->summary + 1,
                command == bn_table_default(program) ? " (the default)" : "");
    fputs("\n```\n", out);
    put_usage(out, program, command);
    fputs("```\n", out);
    if (command->text != NULL) fprintf(out, "\n%s\n", command->text);
    put_options(out, command, false);
    for (size_t i = 0; i < 8 && command->examples[i].line != NULL; i++)
        fprintf(out, "%s# %s\n%s\n%s", i == 0 ? "\n```sh\n" : "", command->examples[i].what,
                command->examples[i].line, i == 7 || command->examples[i + 1].line == NULL ? "```\n" : "");
}

void bn_dump_markdown(FILE *out, const struct bn_program *program)
{
    fprintf(out, "<!-- Written by make docs from the table in tools/%s.c. -->\n# %s\n\n%s - %s\n\n%s\n",
            program->name, program->name, program->name, program->summary, program->text);
    if (program->forwards) {
        fputs("\n| command | program |\n|---|---|\n", out);
        for (const struct bn_command *c = program->commands; c->run != NULL; c++)
            fprintf(out, "| `%s %s` | [%s-%s](%s-%s.md): %s |\n", program->name, c->name, program->name,
                    c->name, program->name, c->name, c->summary);
    } else {
        for (const struct bn_command *c = program->commands; c->run != NULL; c++)
            put_command(out, program, c);
    }
    static const struct bn_command common = {.name = ""};
    fprintf(out, "\n## Common options\n");
    put_options(out, &common, true);
    if (program->environment[0].word != NULL)
        fputs("\n## Environment\n\n| variable | meaning |\n|---|---|\n", out);
    for (size_t i = 0; i < 8 && program->environment[i].word != NULL; i++) {
        fprintf(out, "| `%s` | ", program->environment[i].word);
        put_cell(out, program->environment[i].text);
        fputs(" |\n", out);
    }
    fputs("\n## Exit codes\n\n| code | meaning |\n|---|---|\n| 0 | done |\n", out);
    for (size_t i = 0; i < 10 && program->exits[i].word != NULL; i++) {
        if (strcmp(program->exits[i].word, "0") == 0) continue;
        fprintf(out, "| %s | ", program->exits[i].word);
        put_cell(out, program->exits[i].text);
        fputs(" |\n", out);
    }
    fputs("\nThe other codes are the same in all programs: [exit codes](../man/bn.7).\n", out);
}

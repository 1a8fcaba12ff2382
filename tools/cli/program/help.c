/* SPDX-License-Identifier: MIT
 *
 * Prints --help, --help=all and --version; see help.h.
 */
#include "tools/cli/program/help.h"

#include <string.h>

#include "base/buf.h"
#include "build_info.h"
#include "tools/cli/table.h"

#define HELP_COLUMN 26u /* where the texts of options and commands begin */

/* ---- wrapping ---- */

static void pad(FILE *out, size_t n)
{
    fprintf(out, "%*s", (int)n, "");
}

/* Columns of n bytes of UTF-8: everything but continuation bytes. */
static size_t columns_of(const char *text, size_t n)
{
    size_t columns = 0;
    for (size_t i = 0; i < n; i++)
        columns += ((unsigned char)text[i] & 0xC0) != 0x80;
    return columns;
}

void bn_help_wrap(FILE *out, const char *text, size_t at, size_t indent, size_t columns)
{
    bool fresh = true; /* nothing is on this line yet */
    for (const char *c = text; *c != '\0';) {
        if (c[0] == '\n' && c[1] == '\n') {
            fputs("\n\n", out);
            pad(out, indent);
            at = indent;
            fresh = true;
            c += 2;
            continue;
        }
        if (*c == ' ' || *c == '\n') {
            c++;
            continue;
        }
        size_t n = strcspn(c, " \n"), width = columns_of(c, n);
        if (!fresh && at + 1 + width > columns) {
            fputc('\n', out);
            pad(out, indent);
            at = indent;
            fresh = true;
        }
        if (!fresh) fputc(' ', out);
        fwrite(c, 1, n, out);
        at += width + !fresh;
        fresh = false;
        c += n;
    }
    fputc('\n', out);
}

/* "  word" and its text in the second column, or below when the word is too long. */
static void put_row(FILE *out, const char *word, const char *text, size_t columns)
{
    size_t width = columns_of(word, strlen(word)) + 2;
    fprintf(out, "  %s", word);
    if (width + 2 > HELP_COLUMN) {
        fputc('\n', out);
        width = 0;
    }
    pad(out, HELP_COLUMN - width);
    bn_help_wrap(out, text, HELP_COLUMN, HELP_COLUMN, columns);
}

/* ---- sections ---- */

const char *bn_help_group_of(const struct bn_option *option)
{
    return option->group != NULL ? option->group : "Options";
}

const char *bn_help_group(const struct bn_command *command, size_t i)
{
    const struct bn_option *list[BN_OPTIONS_MAX];
    size_t n = bn_table_options(command, list);
    for (size_t j = 0; j < n; j++) {
        bool seen = false;
        for (size_t k = 0; k < j && !seen; k++)
            seen = strcmp(bn_help_group_of(list[k]), bn_help_group_of(list[j])) == 0;
        if (!seen && i-- == 0) return bn_help_group_of(list[j]);
    }
    return NULL;
}

/* "a|b|c" as "; one of a, b, c". */
static void list_values(char *out, size_t room, const char *arg)
{
    size_t used = (size_t)snprintf(out, room, "; one of ");
    for (; *arg != '\0' && used + 3 < room; arg++) {
        out[used++] = *arg == '|' ? ',' : *arg;
        if (*arg == '|') out[used++] = ' ';
    }
    out[used] = '\0';
}

/* A list of values that is wider than the line goes into the text. all: with the variable, and whether it may
 * be repeated. */
static void put_option(FILE *out, const struct bn_option *o, bool all, size_t columns)
{
    char word[256], text[1024], values[512] = "";
    char letter[8] = "    ";
    const char *arg = o->arg != NULL ? o->arg : "";
    if (strchr(arg, '|') != NULL && strlen(arg) + strlen(o->name) + 10 > columns) {
        list_values(values, sizeof values, arg);
        arg = "NAME";
    }
    if (o->letter != '\0') snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(word, sizeof word, "%s--%s%s%s", letter, o->name, arg[0] != '\0' ? " " : "", arg);
    snprintf(text, sizeof text, "%s%s%s%s%s%s", o->help, values,
             all && o->repeatable ? "; may be repeated" : "", o->preset != NULL ? " [" : "",
             o->preset != NULL ? o->preset : "", o->preset != NULL ? "]" : "");
    const char *variables[] = {o->env, o->env_too};
    for (size_t i = 0; all && i < 2 && variables[i] != NULL; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), " [$%s]", variables[i]);
    put_row(out, word, text, columns);
}

static void put_options(FILE *out, const struct bn_command *command, size_t columns)
{
    const struct bn_option *list[BN_OPTIONS_MAX];
    size_t n = bn_table_options(command, list);
    const char *group;
    for (size_t i = 0; (group = bn_help_group(command, i)) != NULL; i++) {
        fprintf(out, "\n%s:\n", group);
        for (size_t j = 0; j < n; j++)
            if (strcmp(bn_help_group_of(list[j]), group) == 0) put_option(out, list[j], true, columns);
    }
}

static void put_usage(FILE *out, const struct bn_program *program, const struct bn_command *command,
                      const char **lead, size_t columns)
{
    bool usual = command == bn_table_default(program);
    const char *left = usual && command->name[0] != '\0' ? "[" : "", *right = left[0] != '\0' ? "]" : "";
    for (const char *line = command->synopsis;;) {
        char text[1024];
        size_t n = strcspn(line, "\n");
        snprintf(text, sizeof text, "%s%s%s%s %.*s", command->name[0] != '\0' ? " " : "", left, command->name,
                 right, (int)n, line);
        fprintf(out, "%s%s ", *lead, program->name);
        *lead = "       ";
        size_t at = 8 + strlen(program->name);
        bn_help_wrap(out, text, at, at + 4, columns);
        if (line[n] == '\0') break;
        line += n + 1;
    }
}

static void put_examples(FILE *out, const struct bn_command *command, bool *first, size_t columns)
{
    for (size_t i = 0; i < 8 && command->examples[i].line != NULL; i++) {
        char what[512];
        snprintf(what, sizeof what, "%s:", command->examples[i].what);
        fputs(*first ? "\nExamples:\n  " : "  ", out);
        *first = false;
        bn_help_wrap(out, what, 2, 2, columns);
        fprintf(out, "      %s\n", command->examples[i].line);
    }
}

static void put_meanings(FILE *out, const char *title, const struct bn_meaning *list, size_t n,
                         size_t columns)
{
    if (list[0].word == NULL) return;
    fprintf(out, "\n%s:\n", title);
    for (size_t i = 0; i < n && list[i].word != NULL; i++)
        put_row(out, list[i].word, list[i].text, columns);
}

static void put_title(FILE *out, const struct bn_program *program, const char *command, const char *summary,
                      size_t columns)
{
    char title[512];
    snprintf(title, sizeof title, "%s%s%s - %s", program->name, command[0] != '\0' ? " " : "", command,
             summary);
    bn_help_wrap(out, title, 0, 4, columns);
    fputc('\n', out);
}

static void put_commands(FILE *out, const struct bn_program *program, size_t columns)
{
    const struct bn_command *usual = bn_table_default(program);
    if (!bn_table_has_commands(program)) return;
    fputs("\nCommands:\n", out);
    for (const struct bn_command *c = program->commands; c->run != NULL; c++) {
        char text[512];
        snprintf(text, sizeof text, "%s%s", c->summary, c == usual ? " (the default)" : "");
        put_row(out, c->name, text, columns);
    }
}

static void put_text(FILE *out, const char *text, size_t columns)
{
    if (text == NULL) return;
    fputc('\n', out);
    bn_help_wrap(out, text, 0, 0, columns);
}

/* ---- all ---- */

static void put_program(FILE *out, const struct bn_program *program, size_t columns)
{
    static const struct bn_command none = {.name = ""};
    const struct bn_command *usual = bn_table_default(program);
    const char *lead = "Usage: ";
    bool first = true;
    put_title(out, program, "", program->summary, columns);
    if (program->synopsis != NULL) fprintf(out, "%s%s %s\n", lead, program->name, program->synopsis);
    for (const struct bn_command *c = program->commands; c->run != NULL && program->synopsis == NULL; c++)
        put_usage(out, program, c, &lead, columns);
    put_text(out, program->text, columns);
    if (usual != NULL) put_text(out, usual->text, columns);
    put_commands(out, program, columns);
    put_options(out, usual != NULL ? usual : &none, columns);
    put_meanings(out, "Environment", program->environment, 8, columns);
    for (const struct bn_command *c = program->commands; c->run != NULL; c++)
        put_examples(out, c, &first, columns);
    put_meanings(out, "Exit codes (all of them in bn(7))", program->exits, 10, columns);
}

static void put_command(FILE *out, const struct bn_program *program, const struct bn_command *command,
                        size_t columns)
{
    const char *lead = "Usage: ";
    bool first = true;
    put_title(out, program, command->name, command->summary, columns);
    put_usage(out, program, command, &lead, columns);
    put_text(out, command->text, columns);
    put_options(out, command, columns);
    put_examples(out, command, &first, columns);
}

/* ---- in short ---- */

#define SHORT_EXAMPLES 3u

static void put_first_paragraph(FILE *out, const char *text, size_t columns)
{
    char paragraph[1024];
    const char *end = text != NULL ? strstr(text, "\n\n") : NULL;
    if (text == NULL) return;
    snprintf(paragraph, sizeof paragraph, "%.*s", (int)(end != NULL ? (size_t)(end - text) : strlen(text)),
             text);
    put_text(out, paragraph, columns);
}

/* The options that are neither rare nor those of every command; returns how many are left out. */
static size_t put_usual_options(FILE *out, const struct bn_command *command, size_t columns)
{
    const struct bn_option *list[BN_OPTIONS_MAX];
    size_t n = bn_table_options(command, list), n_shown = 0;
    for (size_t i = 0; i < n; i++) {
        bool common = list[i] >= bn_table_common && strcmp(bn_help_group_of(list[i]), "Common") == 0;
        if (list[i]->rare || common) continue;
        if (n_shown++ == 0) fputs("\nOptions:\n", out);
        put_option(out, list[i], false, columns);
    }
    return n - n_shown;
}

static void put_short_examples(FILE *out, const struct bn_command *command)
{
    for (size_t i = 0; i < SHORT_EXAMPLES && command->examples[i].line != NULL; i++)
        fprintf(out, "%s  %s\n", i == 0 ? "\nExamples:\n" : "", command->examples[i].line);
}

static void put_short(FILE *out, const struct bn_program *program, const struct bn_command *command,
                      bool whole, size_t columns)
{
    static const struct bn_command none = {.name = ""};
    const struct bn_command *c = command != NULL ? command : &none;
    const char *lead = "Usage: ";
    char more[512];
    put_title(out, program, whole ? "" : c->name, whole ? program->summary : c->summary, columns);
    if (command != NULL && program->synopsis == NULL) put_usage(out, program, c, &lead, columns);
    if (whole && program->synopsis != NULL)
        fprintf(out, "%s%s %s\n", lead, program->name, program->synopsis);
    else if (whole && bn_table_has_commands(program))
        fprintf(out, "%s%s COMMAND ...\n", lead, program->name);
    put_first_paragraph(out, whole ? program->text : c->text, columns);
    if (whole) put_commands(out, program, columns);
    size_t n_more = put_usual_options(out, c, columns);
    put_short_examples(out, c);
    bool lists = whole && bn_table_has_commands(program);
    snprintf(more, sizeof more, "More: %s%s%s --help=all (%zu more options)%s%s%s", program->name,
             whole || c->name[0] == '\0' ? "" : " ", whole ? "" : c->name, n_more, lists ? ", " : "",
             lists ? program->name : "", lists ? " COMMAND --help" : "");
    put_text(out, more, columns);
}

void bn_help_print(FILE *out, const struct bn_program *program, const struct bn_command *command, bool all,
                   size_t columns)
{
    bool whole = command == NULL || command == bn_table_default(program);
    if (!all)
        put_short(out, program, command, whole, columns);
    else if (whole)
        put_program(out, program, columns);
    else
        put_command(out, program, command, columns);
}

void bn_help_usage(FILE *out, const struct bn_program *program, const struct bn_command *command,
                   size_t columns)
{
    const char *lead = "Usage: ";
    if (command != NULL)
        put_usage(out, program, command, &lead, columns);
    else
        fprintf(out, "%s%s COMMAND [ARGUMENTS]\n", lead, program->name);
    if (!bn_table_has_commands(program) || (command != NULL && command != bn_table_default(program))) return;
    struct bn_buf names = {.max = 4096};
    for (const struct bn_command *c = program->commands; c->run != NULL; c++)
        bn_buf_printf(&names, "%s%s", c != program->commands ? ", " : "", c->name);
    fputs("Commands: ", out);
    bn_help_wrap(out, names.data != NULL ? names.data : "", 10, 10, columns);
    bn_buf_release(&names);
}

void bn_help_version(FILE *out, const struct bn_program *program)
{
    fprintf(out, "%s %s\ncommit: %s%s\ncompiler: %s\n", program->name, bn_version(), BN_BUILD_COMMIT,
            BN_BUILD_DIRTY ? "+dirty" : "", BN_BUILD_COMPILER);
    fputs("instruction sets of this machine:", out);
    for (size_t i = 0; bn_isa_available(i) != NULL; i++)
        fprintf(out, " %s", bn_isa_available(i));
    fputc('\n', out);
}

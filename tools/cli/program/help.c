/* SPDX-License-Identifier: MIT
 *
 * Prints --help, --help=all and --version; see help.h.
 */
#include "tools/cli/program/help.h"

#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "build_info.h"
#include "tools/cli/table.h"

#define HELP_COLUMN 26u /* where the texts of options and commands begin */
#define SHORT_EXAMPLES 3u

/* ---- wrapping ---- */

void bn_help_wrap(FILE *out, const char *text, size_t at, size_t indent, size_t columns)
{
    bool fresh = true; /* nothing is on this line yet */
    for (const char *c = text; *c != '\0';) {
        if (c[0] == '\n' && c[1] == '\n') {
            fprintf(out, "\n\n%*s", (int)indent, "");
            at = indent;
            fresh = true;
            c += 2;
            continue;
        }
        if (*c == ' ' || *c == '\n') {
            c++;
            continue;
        }
        size_t n = strcspn(c, " \n"), width = bn_utf8_count(c, n);
        if (!fresh && at + 1 + width > columns) {
            fprintf(out, "\n%*s", (int)indent, "");
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
    size_t width = bn_utf8_count(word, strlen(word)) + 2;
    fprintf(out, "  %s", word);
    if (width + 2 > HELP_COLUMN) {
        fputc('\n', out);
        width = 0;
    }
    fprintf(out, "%*s", (int)(HELP_COLUMN - width), "");
    bn_help_wrap(out, text, HELP_COLUMN, HELP_COLUMN, columns);
}

/* ---- sections ---- */

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
    const char *arg = bn_table_arg(o) != NULL ? bn_table_arg(o) : "";
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

/* Each group of all options; else those that are neither rare nor of every command. Returns how many are left out. */
static size_t put_options(FILE *out, const struct bn_command *command, bool all, size_t columns)
{
    const struct bn_option *list[BN_OPTIONS_MAX];
    size_t n = bn_table_options(command, list), n_shown = 0;
    const char *group;
    for (size_t i = 0; (group = all ? bn_table_groups(command, i) : i == 0 ? "Options" : NULL) != NULL; i++) {
        n_shown = 0;
        for (size_t j = 0; j < n; j++) {
            const char *own = bn_table_group(command, list[j]);
            if (all ? strcmp(own, group) != 0 : list[j]->rare || bn_table_is_common(own)) continue;
            if (n_shown++ == 0) fprintf(out, "\n%s:\n", group);
            put_option(out, list[j], all, columns);
        }
    }
    return n - n_shown;
}

void bn_help_put_usage(FILE *out, const struct bn_program *program, const struct bn_command *command,
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
        if (**lead != '\0') *lead = "       ";
        size_t at = 8 + strlen(program->name);
        bn_help_wrap(out, text, at, at + 4, columns);
        if (line[n] == '\0') break;
        line += n + 1;
    }
}

/* Those of a command, with what they do; or only some of them. */
static void put_examples(FILE *out, const struct bn_command *command, bool all, bool *first, size_t columns)
{
    for (size_t i = 0; i < (all ? 8 : SHORT_EXAMPLES) && command->examples[i].line != NULL; i++) {
        char what[512];
        snprintf(what, sizeof what, "%s:", command->examples[i].what);
        fputs(*first ? "\nExamples:\n  " : "  ", out);
        *first = false;
        if (all) bn_help_wrap(out, what, 2, 2, columns);
        fprintf(out, "%s%s\n", all ? "      " : "", command->examples[i].line);
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
    fputs("\nCommands:\n", out);
    for (const struct bn_command *c = program->commands; c->run != NULL; c++) {
        char text[512];
        snprintf(text, sizeof text, "%s%s", c->summary, c == usual ? " (the default)" : "");
        put_row(out, c->name, text, columns);
    }
}

/* All paragraphs, or the first one. */
static void put_text(FILE *out, const char *text, bool all, size_t columns)
{
    char paragraph[1024];
    const char *end = text != NULL && !all ? strstr(text, "\n\n") : NULL;
    if (text == NULL) return;
    if (end != NULL) snprintf(paragraph, sizeof paragraph, "%.*s", (int)(end - text), text);
    fputc('\n', out);
    bn_help_wrap(out, end != NULL ? paragraph : text, 0, 0, columns);
}

void bn_help_print(FILE *out, const struct bn_program *program, const struct bn_command *command, bool all,
                   size_t columns)
{
    static const struct bn_command none = {.name = ""};
    const struct bn_command *usual = bn_table_default(program);
    const struct bn_command *c = command != NULL ? command : usual != NULL ? usual : &none;
    bool whole = command == NULL || command == usual, several = whole && bn_table_has_commands(program);
    bool first = true;
    const char *lead = "Usage: ";
    put_title(out, program, whole ? "" : c->name, whole ? program->summary : c->summary, columns);
    if (whole && program->synopsis != NULL) fprintf(out, "%s%s %s\n", lead, program->name, program->synopsis);
    for (const struct bn_command *e = program->commands; e->run != NULL; e++)
        if (!(whole && program->synopsis != NULL) && (e == c || (whole && all)))
            bn_help_put_usage(out, program, e, &lead, columns);
    if (several && !all && program->synopsis == NULL) fprintf(out, "%s%s COMMAND ...\n", lead, program->name);
    put_text(out, whole ? program->text : c->text, all, columns);
    if (whole && all) put_text(out, c->text, true, columns);
    if (several) put_commands(out, program, columns);
    size_t n_more = put_options(out, c, all, columns);
    if (whole && all) put_meanings(out, "Environment", program->environment, 8, columns);
    for (const struct bn_command *e = program->commands; e->run != NULL; e++)
        if (e == c || (whole && all)) put_examples(out, e, all, &first, columns);
    if (whole && all) put_meanings(out, "Exit codes (all of them in bn(7))", program->exits, 10, columns);
    if (all) return;
    char more[512];
    snprintf(more, sizeof more, "More: %s%s%s --help=all (%zu more options)%s%s%s", program->name,
             whole || c->name[0] == '\0' ? "" : " ", whole ? "" : c->name, n_more, several ? ", " : "",
             several ? program->name : "", several ? " COMMAND --help" : "");
    put_text(out, more, true, columns);
}

void bn_help_usage(FILE *out, const struct bn_program *program, const struct bn_command *command,
                   size_t columns)
{
    const char *lead = "Usage: ";
    if (command != NULL)
        bn_help_put_usage(out, program, command, &lead, columns);
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

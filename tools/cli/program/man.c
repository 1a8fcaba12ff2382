/* SPDX-License-Identifier: MIT
 *
 * A man page in man(7) source. Prose begins a new line after each sentence, as roff wants it.
 */
#include <ctype.h>
#include <string.h>

#include "tools/cli/program/dump.h"
#include "tools/cli/program/help.h"
#include "tools/cli/table.h"

#define LINE_COLUMNS 76u
#define RELEASE_DATE "2026-11-21" /* of bn_version() */

/* One character as roff must be told it: what is typed keeps its ASCII minus and quotes. */
static const char *roff(char c, bool typed, char out[2])
{
    if (c == '\\') return "\\e";
    if (c == '-' && typed) return "\\-";
    if (c == '\'' && typed) return "\\(aq";
    if (c == '`') return "\\(ga";
    if (c == '^') return "\\(ha";
    if (c == '~') return "\\(ti";
    out[0] = c;
    out[1] = '\0';
    return out;
}

/* n characters, all typed. */
static void put_typed(FILE *out, const char *text, size_t n)
{
    char one[2];
    if (n > 0 && (text[0] == '.' || text[0] == '\'')) fputs("\\&", out);
    for (size_t i = 0; i < n; i++)
        fputs(roff(text[i], true, one), out);
}

static void put_word(FILE *out, const char *word, size_t n, bool line_start)
{
    /* Options and program names keep their minus; so does everything quoted. */
    bool typed = word[0] == '-' || strncmp(word, "bn-", 3) == 0 || word[0] == '\'';
    char one[2];
    if (line_start && (word[0] == '.' || word[0] == '\'')) fputs("\\&", out);
    for (size_t i = 0; i < n; i++)
        fputs(roff(word[i], typed, one), out);
}

static void put_prose(FILE *out, const char *text)
{
    size_t at = 0;
    for (const char *c = text; *c != '\0';) {
        if (c[0] == '\n' && c[1] == '\n') {
            fputs("\n.PP\n", out);
            at = 0;
        }
        if (isspace((unsigned char)*c)) {
            c++;
            continue;
        }
        size_t n = strcspn(c, " \n");
        bool sentence = at > 0 && strchr(".:", c[-2]) != NULL && c[-1] == ' ';
        if (at > 0 && (sentence || at + 1 + n > LINE_COLUMNS)) {
            fputc('\n', out);
            at = 0;
        }
        if (at > 0) fputc(' ', out), at++;
        put_word(out, c, n, at == 0);
        at += n;
        c += n;
    }
    fputc('\n', out);
}

/* Half a line from a table as a sentence. */
static void put_sentence(FILE *out, const char *text, const char *end)
{
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "%c%s%s", toupper((unsigned char)text[0]),
             text[0] != '\0' ? text + 1 : "", end);
    put_prose(out, sentence);
}

/* n characters, all typed, broken at spaces into lines that the page joins again. */
static void put_form(FILE *out, const char *text, size_t n)
{
    size_t at = 0;
    for (const char *c = text; c < text + n;) {
        size_t word = strcspn(c, " \n");
        if (at > 0 && at + 1 + word > LINE_COLUMNS / 2) {
            fputc('\n', out);
            at = 0;
        }
        if (at > 0) fputc(' ', out);
        put_typed(out, c, word);
        at += word + 1;
        c += word + (c + word < text + n);
    }
    if (n > 0) fputc('\n', out);
}

static void put_synopsis(FILE *out, const struct bn_program *program, const struct bn_command *command,
                         bool *first)
{
    bool usual = command == bn_table_default(program);
    for (const char *line = command->synopsis;;) {
        size_t n = strcspn(line, "\n");
        if (!*first) fputs(".br\n", out);
        *first = false;
        fputs(".B ", out);
        put_typed(out, program->name, strlen(program->name));
        fputc('\n', out);
        if (command->name[0] != '\0') {
            fputs(usual ? "[" : "", out);
            put_typed(out, command->name, strlen(command->name));
            fputs(usual ? "]\n" : "\n", out);
        }
        put_form(out, line, n);
        if (line[n] == '\0') break;
        line += n + 1;
    }
}

static void put_option(FILE *out, const struct bn_option *o)
{
    fputs(".TP\n", out);
    if (o->letter != '\0') fprintf(out, "\\fB\\-%c\\fR, ", o->letter);
    fputs("\\fB\\-\\-", out);
    put_typed(out, o->name, strlen(o->name));
    fputs("\\fR", out);
    if (o->arg != NULL) {
        fputs(" \\fI", out);
        put_typed(out, o->arg, strlen(o->arg));
        fputs("\\fR", out);
    }
    fputc('\n', out);
    put_sentence(out, o->help, ".");
    if (o->repeatable) fputs("May be repeated.\n", out);
    if (o->preset != NULL) {
        fputs("Default: ", out);
        put_typed(out, o->preset, strlen(o->preset));
        fputs(".\n", out);
    }
    if (o->env != NULL)
        fprintf(out, "Environment: \\fB%s\\fR%s%s%s.\n", o->env, o->env_too != NULL ? " or \\fB" : "",
                o->env_too != NULL ? o->env_too : "", o->env_too != NULL ? "\\fR" : "");
}

/* A command's own options under their groups; the common ones for the command that does nothing. */
static void put_options(FILE *out, const struct bn_command *command)
{
    const struct bn_option *list[BN_OPTIONS_MAX];
    size_t n = bn_table_options(command, list);
    const char *group;
    for (size_t i = 0; (group = bn_help_group(command, i)) != NULL; i++) {
        if (strcmp(group, bn_table_common[0].group) == 0 && command->run != NULL) continue;
        bool first = i == 0 && command->name[0] == '\0'; /* a paragraph after a section's heading */
        if (command->run != NULL) fprintf(out, "%s%s:\n", first ? "" : ".PP\n", group);
        for (size_t j = 0; j < n; j++)
            if (strcmp(bn_help_group_of(list[j]), group) == 0) put_option(out, list[j]);
    }
}

static void put_commands(FILE *out, const struct bn_program *program)
{
    bool several = bn_table_has_commands(program);
    fputs(several ? ".SH COMMANDS\n" : ".SH OPTIONS\n", out);
    for (const struct bn_command *c = program->commands; c->run != NULL; c++) {
        if (several) {
            fputs(".SS ", out);
            put_typed(out, c->name, strlen(c->name));
            fputc('\n', out);
            put_sentence(out, c->summary, c == bn_table_default(program) ? " (the default)." : ".");
        }
        if (c->text != NULL) {
            if (several) fputs(".PP\n", out);
            put_prose(out, c->text);
        }
        put_options(out, c);
    }
    static const struct bn_command common = {.name = ""};
    fputs(several ? ".SH OPTIONS OF ALL COMMANDS\n" : ".PP\nCommon:\n", out);
    put_options(out, &common);
}

static void put_environment(FILE *out, const struct bn_program *program)
{
    fputs(".SH ENVIRONMENT\n", out);
    for (size_t i = 0; i < 8 && program->environment[i].word != NULL; i++) {
        fprintf(out, ".TP\n\\fB%s\\fR\n", program->environment[i].word);
        put_sentence(out, program->environment[i].text, ".");
    }
    const char *seen[BN_OPTIONS_MAX];
    size_t n_seen = 0;
    for (const struct bn_command *c = program->commands; c->run != NULL; c++) {
        const struct bn_option *list[BN_OPTIONS_MAX];
        size_t n = bn_table_options(c, list);
        for (size_t i = 0; i < n; i++) {
            bool known = list[i]->env == NULL;
            for (size_t k = 0; k < n_seen && !known; k++)
                known = strcmp(seen[k], list[i]->env) == 0;
            if (known || n_seen == BN_OPTIONS_MAX) continue;
            seen[n_seen++] = list[i]->env;
            fprintf(out, ".TP\n\\fB%s\\fR\nUsed when \\fB\\-\\-", list[i]->env);
            put_typed(out, list[i]->name, strlen(list[i]->name));
            fputs("\\fR is not given.\n", out);
        }
    }
    fputs(".TP\n\\fBNO_COLOR\\fR\nWhen set, messages have no colours.\n", out);
}

static void put_examples(FILE *out, const struct bn_program *program)
{
    bool first = true;
    for (const struct bn_command *c = program->commands; c->run != NULL; c++)
        for (size_t i = 0; i < 8 && c->examples[i].line != NULL; i++) {
            if (first) fputs(".SH EXAMPLES\n", out);
            if (!first) fputs(".PP\n", out);
            first = false;
            put_sentence(out, c->examples[i].what, ":");
            fputs(".PP\n.RS 4\n.nf\n", out);
            put_typed(out, c->examples[i].line, strlen(c->examples[i].line));
            fputs("\n.fi\n.RE\n", out);
        }
}

void bn_dump_man(FILE *out, const struct bn_program *program)
{
    bool first = true;
    fprintf(out, ".\\\" Written by make docs from the table in tools/%s.c.\n.TH ", program->name);
    for (const char *c = program->name; *c != '\0'; c++)
        fputs(*c == '-' ? "\\-" : (char[2]){(char)toupper((unsigned char)*c)}, out);
    fprintf(out, " 1 %s \"bn %s\" \"bn manual\"\n.SH NAME\n", RELEASE_DATE, bn_version());
    put_typed(out, program->name, strlen(program->name));
    fprintf(out, " \\- %s\n.SH SYNOPSIS\n", program->summary);
    if (program->synopsis != NULL) {
        fprintf(out, ".B %s\n%s\n", program->name, program->synopsis);
    } else {
        for (const struct bn_command *c = program->commands; c->run != NULL; c++)
            put_synopsis(out, program, c, &first);
    }
    fputs(".SH DESCRIPTION\n", out);
    put_prose(out, program->text);
    put_commands(out, program);
    put_environment(out, program);
    fputs(".SH EXIT STATUS\n.TP\n0\nDone.\n", out);
    for (size_t i = 0; i < 10 && program->exits[i].word != NULL; i++) {
        if (strcmp(program->exits[i].word, "0") == 0) continue;
        fprintf(out, ".TP\n%s\n", program->exits[i].word);
        put_sentence(out, program->exits[i].text, ".");
    }
    fputs(".PP\nThe other codes are the same in all programs; bn(7) lists them.\n", out);
    put_examples(out, program);
    fputs(".SH SEE ALSO\n", out);
    const char *see = program->see_also != NULL ? program->see_also : "bn(1), bn(7)";
    put_typed(out, see, strlen(see));
    fputc('\n', out);
}

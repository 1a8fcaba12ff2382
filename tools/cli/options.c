/* SPDX-License-Identifier: MIT
 *
 * Parses command lines by the table of a program; see options.h.
 *
 * getopt_long is not used: it accepts abbreviations of long options and cannot be told not to, it obeys
 * POSIXLY_CORRECT, and it keeps its place in global variables.
 */
#include "tools/cli/options.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "tools/cli/fields.h"
#include "tools/cli/table.h"

/* ---- parsing ---- */

struct parser {
    struct bn_args *args;
    char **argv;
    int argc, at; /* at: the word being looked at */
    bool ended;   /* by "--": all that follows are operands */
    bn_error *err;
};

/* By its name of n characters, or by its letter. */
static const struct bn_option *find(const struct bn_args *args, const char *name, size_t n, char letter)
{
    for (size_t i = 0; i < args->n_options; i++) {
        const struct bn_option *o = args->options[i];
        if (letter != '\0' ? o->letter == letter : strlen(o->name) == n && memcmp(o->name, name, n) == 0)
            return o;
    }
    return NULL;
}

void bn_args_help_hint(const struct bn_args *args, bn_error *err, const char *dashes, const char *meant)
{
    const struct bn_command *c = args->command;
    const struct bn_command *usual = bn_table_default(args->program);
    bool named = c != NULL && c != usual;
    bool text = dashes != NULL && dashes[0] == '\0' && usual != NULL && usual->operand_is_text;
    char question[128] = "";
    if (meant != NULL)
        snprintf(question, sizeof question, "did you mean %s%s? %s%s%s", dashes != NULL ? dashes : "", meant,
                 text ? "a " : "", text ? usual->operand : "", text ? " of this word needs -p; " : "");
    bn_error_hint(err, "%ssee %s%s%s --help", question, args->program->name, named ? " " : "",
                  named ? c->name : "");
}

/* A usage error with the usual hint. */
static bn_status misuse(const struct parser *p, const char *fmt, ...) BN_PRINTF(2, 3);
static bn_status misuse(const struct parser *p, const char *fmt, ...)
{
    char message[256];
    va_list list;
    va_start(list, fmt);
    vsnprintf(message, sizeof message, fmt, list);
    va_end(list);
    bn_fail(p->err, BN_ERR_ARG, "%s", message);
    bn_args_help_hint(p->args, p->err, NULL, NULL);
    return BN_ERR_ARG;
}

/* A word that begins with an option of another program. */
static bool is_foreign(const struct parser *p, const char *word)
{
    return bn_foreign_option(p->args, word, p->at + 1 < p->argc ? p->argv[p->at + 1] : NULL, p->err);
}

static bn_status unknown_long(const struct parser *p, const char *name, size_t n)
{
    struct bn_quoted q = bn_fields_quote(name, n);
    struct bn_suggestion s = {.typed = q.text};
    if (is_foreign(p, name - 2)) return BN_ERR_ARG;
    for (size_t i = 0; i < p->args->n_options; i++)
        bn_suggest(&s, p->args->options[i]->name);
    bn_fail(p->err, BN_ERR_ARG, "unknown option '--%s'", q.text);
    bn_args_help_hint(p->args, p->err, "--", s.best);
    return BN_ERR_ARG;
}

static bn_status unknown_letter(const struct parser *p, const char *word, char letter)
{
    struct bn_quoted q = bn_fields_quote(&letter, 1);
    if (is_foreign(p, word)) return BN_ERR_ARG;
    const struct bn_option *spelled = find(p->args, word + 1, strcspn(word + 1, "="), '\0');
    bn_fail(p->err, BN_ERR_ARG, "unknown option '-%s'", q.text);
    bn_args_help_hint(p->args, p->err, "--", spelled != NULL ? spelled->name : NULL);
    return BN_ERR_ARG;
}

/* BN_OK when a text is one of an option's listed values, or when it has no list. */
static bn_status check_choice(const struct bn_value *v, bn_error *err)
{
    const struct bn_option *o = v->option;
    const char *text = v->text;
    struct bn_suggestion s = {.typed = text};
    char words[16][32];
    const char *choice;
    size_t n;
    if (bn_table_choice(o, 0, &n) == NULL || bn_table_chosen(o, text) >= 0) return BN_OK;
    for (size_t i = 0; i < BN_ARRAY_LEN(words) && (choice = bn_table_choice(o, i, &n)) != NULL; i++) {
        snprintf(words[i], sizeof words[i], "%.*s", (int)n, choice);
        bn_suggest(&s, words[i]);
    }
    char typed[BN_TYPED];
    bn_fail(err, BN_ERR_ARG, "%s: '%s' is not one of %s", bn_fields_typed(o, v, typed),
            bn_fields_quote(text, strlen(text)).text, bn_table_arg(o));
    if (s.best != NULL) bn_error_hint(err, "did you mean %s?", s.best);
    return BN_ERR_ARG;
}

/* Records that an option was seen. The text is NULL for a flag. */
static bn_status take(struct bn_args *args, struct bn_value v, bn_error *err)
{
    const struct bn_option *o = v.option;
    if (v.text != NULL) BN_TRY(check_choice(&v, err));
    for (size_t i = 0; i < args->n_values && o->once; i++)
        if (args->values[i].option == o)
            return bn_fail(err, BN_ERR_ARG, "option --%s is given twice, expected one %s: '%s' and '%s'",
                           o->name, bn_table_arg(o),
                           bn_fields_quote(args->values[i].text, strlen(args->values[i].text)).text,
                           bn_fields_quote(v.text, strlen(v.text)).text);
    v.place = args->n_operands;
    args->values[args->n_values++] = v;
    if (strcmp(o->name, "help") == 0) args->want_help = true;
    if (strcmp(o->name, "version") == 0) args->want_version = true;
    if (strcmp(o->name, "quiet") == 0) args->quiet = true;
    if (strcmp(o->name, "verbose") == 0) args->verbose++;
    if (strcmp(o->name, "color") == 0) args->color = bn_table_chosen(o, v.text);
    if (o == bn_table_json) args->json = true;
    return BN_OK;
}

static bn_status missing_value(const struct parser *p, const struct bn_option *o, bool by_letter)
{
    char typed[BN_TYPED];
    const struct bn_value v = {.by_letter = by_letter};
    return misuse(p, "option %s needs a value: %s", bn_fields_typed(o, &v, typed), bn_table_arg(o));
}

static bn_status parse_long(struct parser *p, const char *word)
{
    size_t n = strcspn(word, "=");
    const char *text = word[n] == '=' ? word + n + 1 : NULL;
    const struct bn_option *o = find(p->args, word, n, '\0');
    if (o == NULL) return unknown_long(p, word, n);
    if (strcmp(word, "help=all") == 0) {
        p->args->want_all = true;
        text = NULL;
    }
    if (bn_table_arg(o) == NULL && text != NULL) return misuse(p, "option --%s takes no value", o->name);
    if (bn_table_arg(o) != NULL && text == NULL) {
        if (p->at + 1 >= p->argc) return missing_value(p, o, false);
        text = p->argv[++p->at];
    }
    return take(p->args, (struct bn_value){.option = o, .text = text}, p->err);
}

/* "-qv", "-n32", "-n 32". */
static bn_status parse_letters(struct parser *p, const char *word)
{
    /* Else "-ngl 99" is -n with the value "gl". */
    if (word[2] != '\0' && !isdigit((unsigned char)word[2]) && is_foreign(p, word)) return BN_ERR_ARG;
    for (const char *c = word + 1; *c != '\0'; c++) {
        const struct bn_option *o = find(p->args, "", 0, *c);
        if (o == NULL) return unknown_letter(p, word, *c);
        if ((*c == 'h' || *c == 'V') && word[2] != '\0') /* a slip */
            return misuse(p, "-%c cannot be combined with other options (got '%s')", *c,
                          bn_fields_quote(word, strlen(word)).text);
        struct bn_value v = {.option = o, .by_letter = true};
        if (bn_table_arg(o) == NULL) {
            BN_TRY(take(p->args, v, p->err));
            continue;
        }
        v.text = c + 1;
        if (*v.text == '\0') {
            if (p->at + 1 >= p->argc) return missing_value(p, o, true);
            v.text = p->argv[++p->at];
        }
        return take(p->args, v, p->err);
    }
    return BN_OK;
}

/* All words but the one at skip, which is the command's name (0: none). */
static bn_status parse_words(struct parser *p, int skip)
{
    struct bn_args *args = p->args;
    for (p->at = 1; p->at < p->argc; p->at++) {
        const char *word = p->argv[p->at];
        if (p->at == skip) continue;
        if (p->ended || word[0] != '-' || word[1] == '\0')
            args->operands[args->n_operands++] = word;
        else if (strcmp(word, "--") == 0)
            p->ended = true;
        else
            BN_TRY(word[1] == '-' ? parse_long(p, word + 2) : parse_letters(p, word));
        if (args->want_help || args->want_version) return BN_OK;
    }
    return BN_OK;
}

/* The place of the first word that is not an option when only common options stand before it, else 0. */
static int find_command_word(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (word[0] != '-') return i;
        if (strcmp(word, "--color") == 0) {
            i++;
            continue;
        }
        bool common = strncmp(word, "--color=", 8) == 0 || strcmp(word, "--json") == 0;
        for (const struct bn_option *o = bn_table_common; o->name != NULL; o++)
            common = common || (word[1] == '-' && bn_table_arg(o) == NULL && strcmp(word + 2, o->name) == 0);
        if (word[1] != '-') common = word[1] != '\0' && word[1 + strspn(word + 1, "qvhV")] == '\0';
        if (!common) return 0;
    }
    return 0;
}

/* The command that a word may be meant for; NULL: none is near. */
static const char *near_command(const struct bn_program *program, const char *word)
{
    struct bn_suggestion s = {.typed = word};
    for (const struct bn_command *c = program->commands; c->run != NULL; c++)
        bn_suggest(&s, c->name);
    return s.best;
}

/* Letters, digits, hyphens and underscores only, and a command that is meant, or one that other programs have. */
static bool may_be_command(const struct bn_program *program, const char *word)
{
    size_t n = 0;
    while (isalnum((unsigned char)word[n]) || word[n] == '-' || word[n] == '_')
        n++;
    return word[n] == '\0' && (near_command(program, word) != NULL || bn_foreign_command(word) != NULL);
}

static bn_status unknown_command(const struct bn_args *args, const char *word, bn_error *err)
{
    const struct bn_command *usual = bn_table_default(args->program);
    struct bn_quoted q = bn_fields_quote(word, strlen(word));
    const char *near = near_command(args->program, q.text);
    if (bn_table_command(args->program, word, strlen(word)) != NULL)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "the command '%s' is not the first word", q.text), err,
                       "write %s %s, then the options", args->program->name, q.text);
    bn_fail(err, BN_ERR_ARG, "unknown command '%s'", q.text);
    const char *here = usual != NULL && usual->operand_is_text ? bn_foreign_command(word) : NULL;
    if (here != NULL)
        bn_error_hint(err, "here: %s; a %s of this word needs -p; see %s --help", here, usual->operand,
                      args->program->name);
    else
        bn_args_help_hint(args, err, "", near);
    return BN_ERR_ARG;
}

/* "help" and "help COMMAND" are --help, in a program that has no command of that name. */
static bn_status take_help(struct parser *p, int at)
{
    struct bn_args *args = p->args;
    const char *word = at + 1 < p->argc && p->argv[at + 1][0] != '-' ? p->argv[at + 1] : NULL;
    args->want_help = true;
    if (word == NULL) return BN_OK;
    args->command = bn_table_command(args->program, word, strlen(word));
    return args->command != NULL ? BN_OK : unknown_command(args, word, p->err);
}

/* Sets args->command and the place of its word. */
static bn_status choose_command(struct parser *p, int *place)
{
    const struct bn_program *program = p->args->program;
    const struct bn_command *usual = bn_table_default(program);
    int at = bn_table_has_commands(program) ? find_command_word(p->argc, p->argv) : 0;
    *place = 0;
    p->args->command = usual;
    if (at == 0) return BN_OK;
    const char *word = p->argv[at];
    const struct bn_command *named = bn_table_command(program, word, strlen(word));
    if (named != NULL) {
        *place = at;
        p->args->command = named;
        return BN_OK;
    }
    if (strcmp(word, "help") == 0) return take_help(p, at);
    if (access(word, F_OK) != 0) p->args->meant = near_command(program, word);
    if (usual != NULL && usual->max_operands > 0 &&
        !(usual->operand_is_text && may_be_command(program, word)))
        return BN_OK;
    return unknown_command(p->args, word, p->err);
}

/* Values of variables for options that the line did not give. */
static bn_status take_environment(struct bn_args *args, bn_error *err)
{
    for (size_t i = 0; i < args->n_options; i++) {
        const struct bn_option *o = args->options[i];
        const char *env = o->env, *text = env != NULL ? getenv(env) : NULL;
        if (text == NULL && o->env_too != NULL) {
            text = getenv(env = o->env_too);
            if (text != NULL && strcmp(text, "0") == 0) continue; /* there it means: choose yourself */
        }
        if (text == NULL || text[0] == '\0' || bn_fields_value(args, o) != NULL) continue;
        struct bn_value v = {.option = o, .text = bn_table_arg(o) != NULL ? text : NULL, .env = env};
        if (bn_table_arg(o) != NULL || strcmp(text, "0") != 0) BN_TRY(take(args, v, err));
    }
    return BN_OK;
}

/* named: the line names the command. */
static bn_status check_operands(struct bn_args *args, bool named, bool ended, bn_error *err)
{
    const struct bn_command *c = args->command;
    if (c->operand_is_text && !named && !ended && args->n_operands > 0 &&
        may_be_command(args->program, args->operands[0]))
        return unknown_command(args, args->operands[0], err);
    if (args->n_operands > c->max_operands) {
        const char *extra = args->operands[c->max_operands];
        bn_fail(err, BN_ERR_ARG, "unexpected argument '%s'", bn_fields_quote(extra, strlen(extra)).text);
        if (c->operand_is_text) bn_error_hint(err, "a %s of several words needs quotes", c->operand);
        for (size_t i = 0; i < args->n_options; i++)
            if (strcmp(args->options[i]->name, "model") == 0 && strstr(extra, ".gguf") != NULL)
                bn_error_hint(err, "if it is a model: -m %s", bn_fields_quote(extra, strlen(extra)).text);
    } else if (args->n_operands < c->min_operands) {
        bn_fail(err, BN_ERR_ARG, "%s is missing", c->operand);
        args->want_usage = true;
    } else {
        return BN_OK;
    }
    bn_args_help_hint(args, err, NULL, NULL);
    return BN_ERR_ARG;
}

bn_status bn_args_parse(struct bn_args *args, const struct bn_program *program, int argc, char **argv,
                        bn_error *err)
{
    *args = (struct bn_args){.program = program};
    struct parser p = {.args = args, .argv = argv, .argc = argc, .err = err};
    int place;
    bn_program_check(program);
    BN_TRY(choose_command(&p, &place));
    if (args->want_help) return BN_OK;
    /* Without a command only the common options can be meant; the first command's tables have those. */
    static const struct bn_command none = {.name = "", .json = true};
    args->n_options = bn_table_options(args->command != NULL ? args->command : &none, args->options);
    size_t n_letters = 0; /* an upper bound of how many values words can give */
    for (int i = 0; i < argc; i++)
        n_letters += strlen(argv[i]);
    BN_TRY(BN_NEW(args->values, n_letters + args->n_options + 1, err));
    BN_TRY(BN_NEW(args->operands, (size_t)argc + 1, err));
    BN_TRY(parse_words(&p, place));
    if (args->want_help || args->want_version) return BN_OK;
    args->want_usage = args->command == NULL;
    if (args->command == NULL) return misuse(&p, "no command given");
    BN_TRY(take_environment(args, err));
    BN_TRY(check_operands(args, place != 0, p.ended, err));
    return bn_fields_fill(args, err);
}

void bn_args_release(struct bn_args *args)
{
    bn_fields_release(args);
    bn_free(args->values);
    bn_free(args->operands);
    args->values = NULL;
    args->operands = NULL;
    args->n_values = args->n_operands = 0;
}

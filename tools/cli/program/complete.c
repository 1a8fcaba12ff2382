/* SPDX-License-Identifier: MIT
 *
 * --complete WORDS..., which the completions of shells call (tools/cli/completions): prints what the last word can
 * become, one a line with its help after a tab. ":files", ":folders" and ":models" stand for what the shell knows.
 */
#include <string.h>

#include "tools/cli/program/help.h"
#include "tools/cli/table.h"

struct completion {
    FILE *out;
    const char *typed; /* the last word, or what follows the = in it */
    int n_lead;        /* bytes of that word before */
    const char *lead;
};

static void offer(const struct completion *c, const char *word, size_t n, const char *help)
{
    size_t n_typed = strlen(c->typed);
    if (n < n_typed || memcmp(word, c->typed, n_typed) != 0) return;
    fprintf(c->out, "%.*s%.*s\t%s\n", c->n_lead, c->lead, (int)n, word, help);
}

static void offer_values(const struct completion *c, const struct bn_option *o)
{
    const char *arg = bn_table_arg(o), *words = o->words, *choice;
    size_t n;
    for (size_t i = 0; (choice = bn_table_choice(o, i, &n)) != NULL; i++)
        offer(c, choice, n, "");
    for (; words != NULL && *words != '\0'; words += n + strspn(words + n, " ")) {
        n = strcspn(words, " ");
        offer(c, words, n, "");
    }
    if (strcmp(arg, "DIR") == 0) fputs(":folders\n", c->out);
    if (strcmp(arg, "FILE") == 0 || strcmp(arg, "MODEL") == 0) fputs(":files\n", c->out);
    if (strcmp(arg, "MODEL") == 0) fputs(":models\n", c->out);
}

static void offer_options(const struct completion *c, const struct bn_option *const *list, size_t n)
{
    char word[64];
    for (size_t i = 0; i < n; i++) {
        int n_word = snprintf(word, sizeof word, "--%s", list[i]->name);
        offer(c, word, (size_t)n_word, list[i]->help);
    }
}

static void offer_operands(const struct completion *c, const struct bn_program *program,
                           const struct bn_command *command, bool first)
{
    first = first && bn_table_has_commands(program);
    for (const struct bn_command *each = program->commands; first && each->run != NULL; each++)
        offer(c, each->name, strlen(each->name), each->summary);
    if (!first) fputs(":files\n", c->out);
    if (command->operand != NULL && strcmp(command->operand, "MODEL") == 0) fputs(":models\n", c->out);
}

/* The option of a word such as --name or -n; NULL when the word is none that takes a value. */
static const struct bn_option *find(const struct bn_option *const *list, size_t n, const char *word,
                                    size_t n_word)
{
    for (size_t i = 0; i < n; i++) {
        bool same = word[0] == '-' && word[1] == '-' && strlen(list[i]->name) == n_word - 2 &&
                    memcmp(word + 2, list[i]->name, n_word - 2) == 0;
        bool by_letter = n_word == 2 && word[0] == '-' && list[i]->letter == word[1] && word[1] != '-';
        if ((same || by_letter) && bn_table_arg(list[i]) != NULL) return list[i];
    }
    return NULL;
}

void bn_complete(FILE *out, const struct bn_program *program, int n_words, char **words)
{
    static const struct bn_command none = {.name = ""};
    const struct bn_option *list[BN_OPTIONS_MAX], *valued = NULL;
    const char *typed = n_words > 0 ? words[n_words - 1] : "";
    const struct bn_command *command = NULL, *usual = bn_table_default(program);
    struct completion c = {.out = out, .typed = typed, .lead = typed};
    int before = n_words - 2;
    /* bash makes words of its own of the = between a name and its value. */
    if (strcmp(typed, "=") == 0)
        c.typed = "";
    else if (before >= 0 && strcmp(words[before], "=") == 0)
        before--;
    for (int i = 0; i <= before && command == NULL; i++)
        command = bn_table_command(program, words[i], strlen(words[i]));
    bool first = command == NULL && n_words <= 1;
    if (command == NULL) command = usual != NULL ? usual : &none;
    size_t n = bn_table_options(command, list), n_name = strcspn(typed, "=");
    if (before >= 0) valued = find(list, n, words[before], strlen(words[before]));
    if (valued == NULL && n_name > 2 && typed[n_name] == '=') {
        valued = find(list, n, typed, n_name);
        c.typed = typed + n_name + 1;
        c.n_lead = (int)n_name + 1;
    }
    if (valued != NULL)
        offer_values(&c, valued);
    else if (typed[0] == '-')
        offer_options(&c, list, n);
    else
        offer_operands(&c, program, command, first);
}

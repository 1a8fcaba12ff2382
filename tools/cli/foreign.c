/* SPDX-License-Identifier: MIT
 *
 * Words that people know from llama.cpp and ollama, and what to write here; see options.h. A new word is a row, or a word in one.
 */
#include <string.h>

#include "base/error.h"
#include "tools/cli/fields.h"
#include "tools/cli/options.h"
#include "tools/cli/table.h"

/* typed: the words of others. here: the option that takes the same value, or a sentence. needs: the command has this option, or
 * this operand. */
static const struct row {
    const char *typed, *here, *needs;
} OPTIONS[] =
    {
        {"-hf --hf-repo", "-m hf:", "model"},
        {"-hf", "hf:", "MODEL"},
        {"-c --ctx-size --num-ctx", "--ctx ", "ctx"},
        {"--temperature", "--temp ", "temp"},
        {"-s", "--seed ", "seed"},
        {"-b -ub --batch-size --ubatch-size", "--batch ", "batch"},
        {"-sys --system-prompt", "--system ", "system"},
        {"--chat-template", "--template ", "template"},
        {"--grammar-file", "--grammar ", "grammar"},
        {"-j --json-schema-file", "--json-schema ", "json-schema"},
        {"-r --reverse-prompt", "--stop ", "stop"},
        {"--model-draft", "--draft ", "draft"},
        {"-np --parallel", "--sequences ", "sequences"},
        {"--api-key", "--api-key-file ", "api-key-file"},
        {"-ngl --gpu-layers --n-gpu-layers --main-gpu", "it is --device auto here, for the whole model",
         "device"},
        {"--flash-attn --mlock --no-mmap", "it is not needed", "model"},
        {"-cnv --conversation --interactive", "it is a command: bn run chat", "model"},
        {0},
},
  COMMANDS[] = {
      {"list ls", "bn download list --cached", ""},
      {"chat", "bn run chat", ""},
      {"cli generate", "bn run", ""},
      {"create quantize", "bn convert", ""},
      {"embedding", "bn run embed", ""},
      {"perplexity", "bn run score", ""},
      {"ps", "bn bench top --list", ""},
      {"pull", "bn download", ""},
      {"rm", "bn download clean", ""},
      {"server", "bn serve", ""},
      {"show", "bn run inspect -m MODEL", ""},
      {0},
};

static bool has(const struct bn_args *args, const char *needs)
{
    const struct bn_command *c = args->command;
    for (size_t i = 0; i < args->n_options; i++)
        if (strcmp(args->options[i]->name, needs) == 0) return true;
    return c != NULL && c->operand != NULL && strcmp(c->operand, needs) == 0;
}

static const char *find(const struct row *row, const struct bn_args *args, const char *word, size_t n)
{
    for (; row->typed != NULL; row++)
        for (const char *at = row->typed; *at != '\0'; at += strspn(at, " ")) {
            size_t length = strcspn(at, " ");
            if (length == n && memcmp(at, word, n) == 0 && (args == NULL || has(args, row->needs)))
                return row->here;
            at += length;
        }
    return NULL;
}

bool bn_foreign_option(const struct bn_args *args, const char *word, const char *next, bn_error *err)
{
    size_t n = strcspn(word, "=");
    const char *here = find(OPTIONS, args, word, n);
    if (here == NULL) return false;
    const char *value = word[n] == '=' ? word + n + 1 : next != NULL && next[0] != '-' ? next : "...";
    bool usual = args->command == bn_table_default(args->program);
    bn_fail(err, BN_ERR_ARG, "unknown option '%s'", bn_fields_quote(word, n).text);
    if (strncmp(here, "it is ", 6) == 0)
        bn_error_hint(err, "%s", here);
    else
        bn_error_hint(err, "here: %s%s%s %s%s", args->program->name, usual ? "" : " ",
                      usual ? "" : args->command->name, here, bn_fields_quote(value, strlen(value)).text);
    return true;
}

const char *bn_foreign_command(const char *word)
{
    return find(COMMANDS, NULL, word, strlen(word));
}

/* SPDX-License-Identifier: MIT
 *
 * Words that people know from llama.cpp and ollama, and what they are here; see foreign.h. A new word is a row.
 */
#include "tools/cli/foreign.h"

#include <string.h>

#include "base/mem.h"

#define ON_CPU "it is not needed: bn computes on the processor"
#define BY_MAP "it is not needed: weights are read from the file's map"

/* An option of another program, and the option here, or a sentence. needs: the row holds for a command that has this
 * option, or this operand. */
static const struct {
    const char *typed, *here, *needs;
} OPTIONS[] = {
    {"-hf", "-m hf:", "model"},
    {"-hf", "hf:", "MODEL"},
    {"--hf-repo", "-m hf:", "model"},
    {"-c", "--ctx ", "ctx"},
    {"--ctx-size", "--ctx ", "ctx"},
    {"--num-ctx", "--ctx ", "ctx"},
    {"--temperature", "--temp ", "temp"},
    {"-s", "--seed ", "seed"},
    {"--top_k", "--top-k ", "top-k"},
    {"--top_p", "--top-p ", "top-p"},
    {"--min_p", "--min-p ", "min-p"},
    {"--repeat_penalty", "--repeat-penalty ", "repeat-penalty"},
    {"-b", "--batch ", "batch"},
    {"--batch-size", "--batch ", "batch"},
    {"-ub", "--batch ", "batch"},
    {"--ubatch-size", "--batch ", "batch"},
    {"-sys", "--system ", "system"},
    {"--system-prompt", "--system ", "system"},
    {"--chat-template", "--template ", "template"},
    {"--grammar-file", "--grammar ", "grammar"},
    {"-j", "--json-schema ", "json-schema"},
    {"--json-schema-file", "--json-schema ", "json-schema"},
    {"-r", "--stop ", "stop"},
    {"--reverse-prompt", "--stop ", "stop"},
    {"-md", "--draft ", "draft"},
    {"--model-draft", "--draft ", "draft"},
    {"-np", "--sequences ", "sequences"},
    {"--parallel", "--sequences ", "sequences"},
    {"--api-key", "--api-key-file ", "api-key-file"},
    {"-ngl", ON_CPU, "model"},
    {"--gpu-layers", ON_CPU, "model"},
    {"--n-gpu-layers", ON_CPU, "model"},
    {"--main-gpu", ON_CPU, "model"},
    {"--flash-attn", "it is not needed: attention has one form", "model"},
    {"--mlock", BY_MAP, "model"},
    {"--no-mmap", BY_MAP, "model"},
    {"-cnv", "it is a command: bn run chat", "model"},
    {"--conversation", "it is a command: bn run chat", "model"},
    {"--interactive", "it is a command: bn run chat", "model"},
};

static const struct {
    const char *typed, *here;
} COMMANDS[] = {
    {"list", "bn download list --cached"},
    {"ls", "bn download list --cached"},
    {"chat", "bn run chat"},
    {"cli", "bn run"},
    {"create", "bn convert"},
    {"embedding", "bn run embed"},
    {"generate", "bn run"},
    {"perplexity", "bn run score"},
    {"ps", "bn bench top --list"},
    {"pull", "bn download"},
    {"quantize", "bn convert"},
    {"rm", "bn download clean"},
    {"server", "bn serve"},
    {"show", "bn run inspect -m MODEL"},
};

static bool has(const struct bn_args *args, const char *needs)
{
    for (size_t i = 0; i < args->n_options; i++)
        if (strcmp(args->options[i]->name, needs) == 0) return true;
    const struct bn_command *c = args->command;
    return c != NULL && c->operand != NULL && strcmp(c->operand, needs) == 0;
}

const char *bn_foreign_option(const struct bn_args *args, const char *typed, size_t n, bool *instead)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(OPTIONS); i++) {
        if (strlen(OPTIONS[i].typed) != n || memcmp(OPTIONS[i].typed, typed, n) != 0) continue;
        if (!has(args, OPTIONS[i].needs)) continue;
        *instead = strncmp(OPTIONS[i].here, "it is ", 6) != 0;
        return OPTIONS[i].here;
    }
    return NULL;
}

const char *bn_foreign_command(const char *typed)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(COMMANDS); i++)
        if (strcmp(COMMANDS[i].typed, typed) == 0) return COMMANDS[i].here;
    return NULL;
}

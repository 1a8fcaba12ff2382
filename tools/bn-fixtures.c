/* SPDX-License-Identifier: MIT
 *
 * bn-fixtures - makes what tests and measurements feed on: random models of any size that are the same bytes
 * everywhere.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "tools/cli/options.h"
#include "tools/cli/print_json.h"
#include "tools/cli/programs.h"
#include "tools/fixtures/files.h"

/* ---- gen ------------------------------------------------------------------------------------------------
 */

static const struct bn_option GEN[] = {
    {.name = "size",
     .arg = "nano|tiny|small|medium|2b",
     .group = "Model",
     .preset = "tiny",
     .help = "shape; 2b is that of microsoft/bitnet-b1.58-2B-4T"},
    {.name = "arch",
     .arg = "bitnet-b1.58|bitnet|llama",
     .group = "Model",
     .preset = "bitnet-b1.58",
     .help = "architecture"},
    {.name = "format",
     .arg = "i2_s|tq2_0|tq1_0|f16",
     .group = "Model",
     .preset = "i2_s",
     .help = "how the ternary matrices are stored; all hold the same values"},
    {.name = "vocab",
     .arg = "N",
     .group = "Model",
     .help = "tokens of a synthetic vocabulary, at least 262; without it the size decides"},
    {.name = "tokenizer",
     .arg = "FILE",
     .group = "Model",
     .help = "tiktoken rank file to take the vocabulary from"},
    {.name = "tied", .group = "Model", .help = "llama: no output.weight, the embedding is the head"},
    {.name = "seed", .arg = "N", .group = "Model", .preset = "42", .help = "of the random numbers"},
    {.name = "output", .letter = 'o', .arg = "DIR", .preset = ".", .help = "folder to write into"},
    {0},
};

static bn_status read_spec(const struct bn_args *args, struct bn_fixture_spec *spec, bn_error *err)
{
    spec->size = bn_fixture_size_find(bn_opt_str(args, "size"));
    bool known = spec->size != NULL && bn_fixture_arch_find(bn_opt_str(args, "arch"), &spec->arch) &&
                 bn_fixture_format_find(bn_opt_str(args, "format"), &spec->format);
    if (!known) return bn_fail(err, BN_ERR_INTERNAL, "an option's list and the tables differ");
    spec->tokenizer = bn_opt_str(args, "tokenizer");
    spec->tied = bn_opt_flag(args, "tied");
    if (spec->tokenizer != NULL && bn_opt_given(args, "vocab"))
        return bn_fail(err, BN_ERR_ARG, "--vocab and --tokenizer exclude each other");
    BN_TRY(bn_opt_u32(args, "vocab", 262, 1u << 20, &spec->n_vocab, err));
    return bn_opt_u64(args, "seed", 0, UINT64_MAX, &spec->seed, err);
}

static bn_status print_file(const struct bn_args *args, const struct bn_fixture_file *file, bn_error *err)
{
    if (!args->json) {
        printf("%s  %s\n", file->sha256, file->path);
        return BN_OK;
    }
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", "bn.fixture/1");
    bn_json_put_string(doc, "path", file->path);
    bn_json_put_u64(doc, "bytes", file->n_bytes);
    bn_json_put_string(doc, "sha256", file->sha256);
    bn_status status = bn_cli_print_json(doc, err);
    bn_json_free(doc);
    return status;
}

static bn_status gen(struct bn_args *args, bn_error *err)
{
    struct bn_fixture_spec spec = {0};
    struct bn_fixture_file file;
    BN_TRY(read_spec(args, &spec, err));
    BN_TRY(bn_fixture_write_file(&spec, bn_opt_str(args, "output"), &file, err));
    return print_file(args, &file, err);
}

/* ---- the program ----------------------------------------------------------------------------------------
 */

static const struct bn_command COMMANDS[] = {
    {.name = "gen",
     .summary = "write a random model",
     .text = "The same options give the same bytes on every machine. The digest and the path are printed as "
             "sha256sum does.",
     .synopsis = "[--size SIZE] [--arch ARCH] [--format FORMAT] [--seed N] [-o DIR]",
     .options = {GEN},
     .json = true,
     .examples = {{"bn-fixtures gen --size tiny -o /tmp", "a model of half a megabyte"},
                  {"bn-fixtures gen --size 2b --tokenizer tokenizer.model -o /tmp",
                   "a stand-in for BitNet 2B-4T: the same keys, shapes and length, random weights"}},
     .run = gen},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-fixtures",
    .summary = BN_SUMMARY_FIXTURES,
    .text = "Makes the models, golden outputs and bad inputs that the tests use, and proves that the ones in "
            "fixtures/ are what comes out.",
    .commands = COMMANDS,
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}

/* SPDX-License-Identifier: MIT
 *
 * bn-fixtures: makes inputs for tests and measurements: random models of any size, the same bytes on every
 * machine; golden outputs. It verifies that fixtures/ holds exactly these.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "lab/kit/put_counts.h"
#include "tools/cli/options.h"
#include "tools/cli/programs.h"
#include "tools/cli/report.h"
#include "tools/fixtures/fixtures.h"

/* The options of all commands; each has some of them. Those of gen fill the spec; its other members follow from them. */
struct options {
    struct bn_fixture_spec spec;
    const char *size, *arch, *format, *output, *fixtures;
    double zeros;
    int embedding;
};

/* ---- gen ---- */

#define OF struct options /* whose fields the options set */

static const struct bn_option GEN[] = {
    BN_OPTION(
        "size", "shape; 2b is that of microsoft/bitnet-b1.58-2B-4T",
        .arg =
            "nano|pair|quad|micro|tiny|deep|small|medium|270m|0.6b|2b|bonsai-1.7b|bonsai-4b|bonsai-8b|bonsai-27b|duo|maple-20b",
        .group = "Model", .preset = "tiny", BN_TO_TEXT(OF, size)),
    BN_OPTION("arch", "architecture [qwen3 for bonsai-*, else bitnet-b1.58]",
              .arg = "bitnet-b1.58|bitnet|llama|qwen3|qwen35|gemma3|minicpm|maple", BN_TO_TEXT(OF, arch)),
    BN_OPTION("format", "storage of the matrices [q2_0 for bonsai-*, else i2_s]",
              .arg = "i2_s|tq2_0|tq1_0|q2_0|q2_0-g128|pq2_0|ptq1_0|f16|f32", BN_TO_TEXT(OF, format)),
    BN_RARE("group", "weights that share a scale [by format; i2_s: all]",
            BN_TO_U32(OF, spec.group, 64, 1024)),
    BN_OPTION("zeros", "share of the weights that are zero [0.42]", BN_TO_F64(OF, zeros, 0, 0.9)),
    BN_RARE("idle", "percent of the units of a feed-forward part that are never active [0]",
            BN_TO_U32(OF, spec.idle, 1, 90)),
    BN_RARE("embedding", "qwen3, maple: storage of embedding and head", .arg = "ternary|f16",
            .preset = "ternary", BN_TO_CHOICE(OF, embedding)),
    BN_RARE("head-width", "width of an attention head [by architecture]",
            BN_TO_U32(OF, spec.head_width, 2, 1024)),
    BN_OPTION("yarn", "extend the context fourfold by YaRN; bonsai-* always do", BN_TO_BOOL(OF, spec.yarn)),
    BN_RARE("long-rope", "llama, minicpm: divisors of frequencies as in MiniCPM4",
            BN_TO_BOOL(OF, spec.long_rope)),
    BN_RARE("hadamard", "blocks of a Hadamard transform: 64, 256 or 1024",
            BN_TO_U32(OF, spec.hadamard, 64, 1024)),
    BN_RARE("input-norms", "qwen3, gemma3: an embedding model without a head",
            BN_TO_BOOL(OF, spec.input_norms)),
    BN_RARE("window", "gemma3, maple: positions that local layers attend to [all; 8]",
            BN_TO_U32(OF, spec.window, 1, 1u << 20)),
    BN_RARE("period", "gemma3, maple: every N-th layer is not local [6; 4]",
            BN_TO_U32(OF, spec.period, 1, 64)),
    BN_OPTION("vocab", "size of a synthetic vocabulary, 262 or more [by size]",
              BN_TO_U32(OF, spec.n_vocab, 262, 1u << 20)),
    BN_OPTION("tokenizer", "tiktoken rank file with the vocabulary", BN_TO_TEXT(OF, spec.tokenizer)),
    BN_OPTION("tied", "use the embedding as the head, where models have both", BN_TO_BOOL(OF, spec.tied)),
    BN_OPTION("tokenizer-only", "write the vocabulary without tensors", BN_TO_BOOL(OF, spec.tokenizer_only)),
    BN_RARE("spm", "with --tokenizer-only: a SentencePiece vocabulary", BN_TO_BOOL(OF, spec.spm)),
    BN_OPTION("seed", "seed of the random numbers", .preset = "42", BN_TO_U64(OF, spec.seed, 0, 0)),
    BN_OPTION("output", "folder to write into, or FILE.gguf", .letter = 'o', .arg = "DIR", .preset = ".",
              BN_TO_TEXT(OF, output)),
    {0},
};

static bn_status read_spec(const struct bn_args *args, struct bn_fixture_spec *spec, bn_error *err)
{
    const struct options *o = args->fields;
    *spec = o->spec;
    spec->size = bn_fixture_size_find(o->size);
    bool bonsai = spec->size != NULL && spec->size->bonsai;
    const char *arch = o->arch != NULL ? o->arch : bonsai ? "qwen3" : "bitnet-b1.58";
    const char *format = o->format != NULL ? o->format : bonsai ? "q2_0" : "i2_s";
    bool known =
        spec->size != NULL && bn_fixture_arch_find(arch, &spec->arch) && bn_fixture_format_find(format, spec);
    if (!known) return bn_fail(err, BN_ERR_INTERNAL, "an option's list and the tables differ");
    spec->tied |= spec->size->tied;
    spec->yarn |= bonsai;
    spec->n_zero = (uint32_t)(o->zeros * 256 + 0.5);
    spec->f16_embedding = o->embedding == 1;
    return bn_fixture_check(spec, err);
}

static bn_status print_file(const struct bn_args *args, const struct bn_fixture_file *file, bn_error *err)
{
    if (!args->json) {
        printf("%s  %s\n", file->sha256, file->path);
        return BN_OK;
    }
    bn_json *doc = bn_json_new_object();
    BN_PUT(doc, BN_STRING("schema", "bn.fixture/1"), BN_STRING("path", file->path),
           BN_U64("bytes", file->n_bytes), BN_STRING("sha256", file->sha256));
    return bn_cli_flush_json(doc, false, err);
}

static bn_status gen(struct bn_args *args, bn_error *err)
{
    struct bn_fixture_spec spec;
    struct bn_fixture_file file;
    BN_TRY(read_spec(args, &spec, err));
    BN_TRY(bn_fixture_write_file(&spec, ((const struct options *)args->fields)->output, &file, err));
    return print_file(args, &file, err);
}

/* ---- golden ---- */

static const struct bn_option GOLDEN[] = {
    BN_OPTION("fixtures", "folder with the models", .arg = "DIR", .preset = "fixtures",
              BN_TO_TEXT(OF, fixtures)),
    BN_OPTION("output", "folder to write golden.json into", .letter = 'o', .arg = "DIR", .preset = "fixtures",
              BN_TO_TEXT(OF, output)),
    {0},
};

static bn_status golden(struct bn_args *args, bn_error *err)
{
    const struct options *o = args->fields;
    char path[BN_FIXTURE_PATH_BYTES];
    const char *dir = o->output;
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", "bn.fixture/1");
    bn_status status = bn_golden_put(doc, o->fixtures, err);
    if (status == BN_OK) status = bn_fixture_join(path, dir, BN_GOLDEN_FILE, err);
    if (status == BN_OK) status = bn_file_make_folders(path, err);
    if (status == BN_OK) status = bn_json_write_file(doc, path, err);
    if (status == BN_OK) printf("%s\n", path);
    bn_json_free(doc);
    return status;
}

/* ---- verify ---- */

static const struct bn_option VERIFY[] = {
    BN_OPTION("output", "folder of fixtures", .letter = 'o', .arg = "DIR", .preset = "fixtures",
              BN_TO_TEXT(OF, output)),
    {0},
};

struct tally {
    struct bn_args *args;
    bn_json *checks;
    size_t n_good, n_bad;
};

static void count_check(void *user, const char *check, const char *name, const bn_error *err)
{
    struct tally *tally = user;
    bool good = err->code == BN_OK;
    if (good)
        tally->n_good++;
    else if (tally->n_bad++ == 0)
        tally->args->exit_code = (int)bn_status_exit(err->code);
    if (tally->args->json) {
        bn_json *o = bn_json_add_object(tally->checks);
        BN_PUT(o, BN_STRING("check", check), BN_STRING("file", name),
               BN_STRING("status", bn_status_name(err->code)));
        if (!good) bn_json_put_string(o, "message", err->msg);
    } else if (!good) {
        printf("bad   %-10s %s: %s\n", check, name, err->msg);
    } else if (tally->args->verbose > 0) {
        printf("good  %-10s %s\n", check, name);
    }
}

static bn_status verify(struct bn_args *args, bn_error *err)
{
    bn_json *doc = args->json ? bn_json_new_object() : NULL;
    bn_json_put_string(doc, "schema", "bn.fixture/1");
    struct tally tally = {.args = args, .checks = bn_json_put_array(doc, "checks")};
    bn_status status =
        bn_fixtures_verify(((const struct options *)args->fields)->output, count_check, &tally, err);
    BN_PUT(doc, BN_U64("good", tally.n_good), BN_U64("bad", tally.n_bad));
    if (status == BN_OK && args->json)
        status = bn_cli_print_json(doc, err);
    else if (status == BN_OK)
        printf("%zu checks hold, %zu do not\n", tally.n_good, tally.n_bad);
    bn_json_free(doc);
    return status;
}

static bn_status sums(struct bn_args *args, bn_error *err)
{
    size_t n_files = 0;
    BN_TRY(bn_sums_write(((const struct options *)args->fields)->output, &n_files, err));
    printf("%zu files are listed\n", n_files);
    return BN_OK;
}

/* ---- the program ---- */

static const struct bn_command COMMANDS[] = {
    {.name = "gen",
     .summary = "write a random model",
     .text = "The same options give the same bytes on every machine. The digest and the path are printed "
             "as sha256sum does.",
     .synopsis = "[--size SIZE] [--arch ARCH] [--format FORMAT] [--seed N] [-o DIR]",
     .options = {GEN},
     .json = true,
     .examples = {{"bn-fixtures gen --size tiny -o /tmp", "a model of half a megabyte"},
                  {"bn-fixtures gen --size bonsai-1.7b --zeros 0.38 -o /tmp",
                   "the shape of Ternary-Bonsai 1.7B, with random weights"},
                  {"bn-fixtures gen --size 2b --tokenizer tokenizer.model -o /tmp",
                   "the keys, shapes and length of BitNet 2B-4T, with random weights"}},
     .run = gen},
    {.name = "golden",
     .summary = "write the engine's outputs for the committed models",
     .text = "Needed only after an intended change of the arithmetic; the digests are committed.",
     .synopsis = "[--fixtures DIR] [-o DIR]",
     .options = {GOLDEN},
     .examples = {{"bn-fixtures golden -o /tmp", "compute them into another directory"}},
     .run = golden},
    {.name = "verify",
     .summary = "check digests, regenerate models, recompute golden outputs",
     .synopsis = "[-o DIR]",
     .options = {VERIFY},
     .json = true,
     .examples = {{"bn-fixtures verify", "check the folder fixtures"}},
     .run = verify},
    {.name = "sums",
     .summary = "rewrite SHA256SUMS after an intended change",
     .synopsis = "[-o DIR]",
     .options = {VERIFY},
     .examples = {{"bn-fixtures sums", "list the files of the folder fixtures"}},
     .run = sums},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-fixtures",
    .summary = BN_SUMMARY_FIXTURES,
    .text = "Makes the models and golden outputs that the tests use, and verifies those in fixtures/.",
    .commands = COMMANDS,
    .bytes = sizeof(OF),
    .exits = {{"1", "a generated model or a golden output differs"}, {"5", "a digest differs"}},
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}

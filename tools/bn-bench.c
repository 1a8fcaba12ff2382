/* SPDX-License-Identifier: MIT
 *
 * bn-bench: how fast this machine runs a model, and how fast it could. This file is the table of its
 * commands; they are in bench/.
 */
#include "tools/bench/bench.h"
#include "tools/cli/programs.h"

static const struct bn_option MACHINE[] = {
    {.name = "threads",
     .letter = 't',
     .arg = "LIST",
     .group = "Machine",
     .env = "BN_THREADS",
     .help = "numbers of threads, 1,2; without it 1, and one per core that this process may use"},
    {0},
};

static const struct bn_option KERNELS[] = {
    {.name = "model",
     .letter = 'm',
     .arg = "MODEL",
     .group = "Model",
     .env = "BN_MODEL",
     .help = "take the shapes of this GGUF file; without it those of the 2B model"},
    {.name = "isa",
     .arg = "NAME",
     .group = "Machine",
     .env = "BN_ISA",
     .preset = "auto",
     .help = "instruction set: auto, ref, avx2, avxvnni, avx512vnni, avx512vbmi, neon; all for every one "
             "that this machine has"},
    {.name = "filter",
     .arg = "PART",
     .group = "Measurement",
     .help = "only kernels with this in the first three columns: gemv, n=32, cache"},
    {.name = "min-time",
     .arg = "SECONDS",
     .group = "Measurement",
     .preset = "0.3",
     .help = "time spent on each line; three samples at least"},
    {.name = "set",
     .arg = "SIZE",
     .group = "Measurement",
     .help = "bytes of weights used in turn, 16K to 256M, so that they come from memory; without it eight "
             "times the last cache"},
    {0},
};

static const struct bn_option RUN[] = {
    BN_OPTION_MODEL,
    BN_OPTION_ISA,
    BN_OPTION_REPACK,
    {.name = "batch",
     .arg = "N",
     .group = "Machine",
     .help = "tokens of a prompt evaluated together, 1 to 4096; without it 128"},
    {.name = "n-prompt",
     .letter = 'p',
     .arg = "LIST",
     .group = "Tests",
     .preset = "128,512",
     .help = "tokens of prompts; 0 for none"},
    {.name = "n-predict",
     .letter = 'n',
     .arg = "LIST",
     .group = "Tests",
     .preset = "32",
     .help = "tokens to decode, one by one; 0 for none"},
    {.name = "depth",
     .letter = 'd',
     .arg = "LIST",
     .group = "Tests",
     .preset = "0",
     .help = "tokens that are in the context before, which is not timed"},
    {.name = "reps",
     .letter = 'r',
     .arg = "N",
     .group = "Measurement",
     .preset = "5",
     .help = "samples of each test"},
    {.name = "warmup",
     .arg = "N",
     .group = "Measurement",
     .preset = "1",
     .help = "samples before those, which do not count"},
    {.name = "seed",
     .arg = "N",
     .group = "Measurement",
     .preset = "42",
     .help = "of the ids of prompts, which are random"},
    {0},
};

static const struct bn_command COMMANDS[] = {
    {.name = "run",
     .summary = "time prompts and decoding",
     .text = "Each test runs as a generation does: a prompt is evaluated until its first token is chosen; "
             "decoding chooses tokens greedily, behind a prompt of one token. Tests take turns, so that "
             "what changes on the machine meets all of them, and before each round the speed of reading is "
             "measured, with a set as large as what one token reads. Medians are shown; +- is the median "
             "of the distances from it. A quantile is shown when there are samples enough for it.",
     .synopsis = "[-m MODEL] [-p LIST] [-n LIST] [-d LIST] [-t LIST] [-r N]",
     .options = {RUN, MACHINE},
     .json = true,
     .run = bn_bench_run,
     .examples = {{"bn-bench run", "the model that the program carries"},
                  {"bn-bench run -m model.gguf -p 512 -n 32 -t 1,2", "one prompt, one answer, two ways"},
                  {"bn-bench run -m model.gguf -p 0 -n 32 -d 0,1024,4096",
                   "what a long context costs a token"},
                  {"bn-bench run --json >before.json", "every sample, to be compared with later ones"}}},
    {.name = "kernels",
     .summary = "time the kernels, and hold them against the machine",
     .text = "First the limits are measured: reading memory and caches, dot products of bytes, fused "
             "multiply-adds. Then each kernel is compared with the reference, bit for bit, and timed. "
             "share says how much of the time the limit alone would take, and which limit it is. Kernels in "
             "plain C have none.",
     .synopsis = "[-m MODEL] [--isa NAME|all] [--filter PART] [-t LIST]",
     .options = {KERNELS, MACHINE},
     .json = true,
     .run = bn_bench_kernels,
     .examples = {{"bn-bench kernels", "all kernels at the shapes of the 2B model"},
                  {"bn-bench kernels --filter i2s_gemv --isa all -t 1", "one kernel, each instruction set"},
                  {"bn-bench kernels -m model.gguf --min-time 1 --json", "another model's shapes"}}},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-bench",
    .summary = BN_SUMMARY_BENCH,
    .text = "Speed means something beside its limit, so both are measured in the same minutes. All samples "
            "are in the JSON document; docs/reference/bench.md describes it.",
    .commands = COMMANDS,
    .exits = {{"1", "a kernel's result differs from the reference's"}},
    .see_also = "bn-run(1), bn(7)",
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}

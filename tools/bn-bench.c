/* SPDX-License-Identifier: MIT
 *
 * bn-bench: how fast this machine runs a model, and how fast it could. This file is the table of its
 * commands; they are in bench/, each with its options.
 */
#include "tools/bench/bench.h"
#include "tools/cli/programs.h"

static const struct bn_command COMMANDS[] = {
    {.name = "run",
     .summary = "time prompts and decoding",
     .text = "Each test runs as a generation does: a prompt is evaluated until its first token is chosen; "
             "decoding chooses tokens greedily, behind a prompt of one token. Tests take turns, so that "
             "what changes on the machine meets all of them, and before each round the speed of reading is "
             "measured, with a set as large as what one token reads. Medians are shown; +- is the median "
             "of the distances from it. A quantile is shown when there are samples enough for it.",
     .synopsis = "[-m MODEL] [-p LIST] [-n LIST] [-d LIST] [-t LIST] [-r N]",
     .options = {bn_bench_run_options, bn_bench_threads_option},
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
     .options = {bn_bench_kernels_options, bn_bench_threads_option},
     .json = true,
     .run = bn_bench_kernels,
     .examples = {{"bn-bench kernels", "all kernels at the shapes of the 2B model"},
                  {"bn-bench kernels --filter i2s_gemv --isa all -t 1", "one kernel, each instruction set"},
                  {"bn-bench kernels -m model.gguf --min-time 1 --json", "another model's shapes"}}},
    {.name = "profile",
     .summary = "say where the time of a pass goes, brick by brick",
     .text =
         "A prompt and some decoding run with the profiler and without it, in turn, and the last run with "
         "it is shown: for every brick of the forward pass what it took (self: without the bricks inside "
         "it), its share of all bricks and of the wall time of all threads, and what no brick accounts "
         "for. Every event has its begin and its end from one clock; nothing is derived from a share. The "
         "result is negative when events were dropped, when sums are not exact, or when bricks account "
         "for less than 85 % of the time.",
     .synopsis = "[-m MODEL] [-p N] [-n N] [-t N] [--level LEVEL] [--mode MODE] [--roofline]\n--graph FORM "
                 "[--pass PASS] [--what-if BRICK=FACTOR]...\n--check FILE [--check FILE]...",
     .options = {bn_bench_profile_options, bn_bench_profile_graph_options},
     .json = true,
     .run = bn_bench_profile,
     .examples = {{"bn-bench profile", "the model that the program carries"},
                  {"bn-bench profile --level kernel -t 1", "kernels and the parts of attention too"},
                  {"bn-bench profile --json >profile.json", "every event of it"},
                  {"bn-bench profile --graph tree", "the last token's layers, bricks and kernels"},
                  {"bn-bench profile --graph path --what-if DownProjection=2",
                   "what had to wait for what, and what a faster brick would change"},
                  {"bn-bench profile --graph chrome --pass all >trace.json", "for ui.perfetto.dev"},
                  {"bn-bench profile --check profile.json", "was that measured, or made up?"}}},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-bench",
    .summary = BN_SUMMARY_BENCH,
    .text = "Speed means something beside its limit, so both are measured in the same minutes. All samples "
            "are in the JSON document; docs/reference/bench.md describes it.",
    .commands = COMMANDS,
    .exits =
        {{"1",
          "a kernel's result differs from the reference's; a profile is incomplete, or was not measured"}},
    .see_also = "bn-run(1), bn(7)",
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}

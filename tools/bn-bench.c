/* SPDX-License-Identifier: MIT
 *
 * bn-bench: how fast this machine runs a model, and how fast it could. This file is the table of its
 * commands; they are in bench/, each with its options.
 */
#include "tools/bench/bench.h"
#include "tools/bench/judging.h"
#include "tools/bench/ledgers.h"
#include "tools/bench/suite.h"
#include "tools/cli/programs.h"

static const struct bn_command COMMANDS[] = {
    {.name = "run",
     .summary = "time prompts and decoding",
     .text =
         "Each test runs as a generation does: a prompt is evaluated until its first token is chosen; "
         "decoding chooses tokens greedily, behind a prompt of one token. Tests take turns, so that "
         "what changes on the machine meets all of them, and before each round the speed of reading is "
         "measured, with a set as large as what one token reads. Samples count once the times of a test show "
         "no trend. Medians are shown, with the interval that holds the median 95 times of 100 (from six "
         "samples on; else the range); +- is the median of the distances from it. A quantile is shown when "
         "there are samples enough for it.\n\n"
         "Nothing is dropped: samples that stand apart are counted, and it is said whether the machine was "
         "disturbed meanwhile. A test whose result differs from round to round, between numbers of threads "
         "or batches, whose clock stands still, or whose sample takes more than --timeout has no figures, "
         "and the exit code is 1.",
     .synopsis = "[-m MODEL] [-p LIST] [-n LIST] [-d LIST] [-b LIST] [-t LIST] [-r N|auto]",
     .options = {bn_bench_run_options, bn_bench_threads_option},
     .json = true,
     .run = bn_bench_run,
     .examples = {{"bn-bench run", "the model that the program carries"},
                  {"bn-bench run -m model.gguf -p 512 -n 32 -t 1,2", "one prompt, one answer, two ways"},
                  {"bn-bench run -m model.gguf -p 0 -n 32 -d 0,1024,4096",
                   "what a long context costs a token"},
                  {"bn-bench run -m model.gguf -n 64 -r auto --precision 0.5",
                   "until half a per cent is sure"},
                  {"bn-bench run -m model.gguf -p 0 -t 1 --concurrent 1,2,4", "several answers at once"},
                  {"bn-bench run -m model.gguf --cold --loads 5 -p 0 -n 1", "opening the file from the disk"},
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
    {.name = "memory",
     .summary = "time allocation, pages, bandwidth and latency; check that everything is given back",
     .text =
         "Blocks taken and given back in three patterns, by the library's allocator and libc's in turn; "
         "pages at first touch; fragmentation; bandwidth of loops that read and write, by size of the set; "
         "latency of dependent loads; what a model and a session hold, and that closing gives it back. A "
         "rate that is above what the machine was seen to do is INVALID.",
     .synopsis = "[-m MODEL] [--filter PART] [--min-time SECONDS] [-t LIST]",
     .options = {bn_bench_memory_options, bn_bench_suite_options, bn_bench_threads_option},
     .json = true,
     .run = bn_bench_memory,
     .examples = {{"bn-bench memory", "everything"},
                  {"bn-bench memory --filter latency", "nanoseconds of a load, by size of the set"},
                  {"bn-bench memory -m model.gguf --filter load", "mapping a file against reading it"}}},
    {.name = "quant",
     .summary = "time quantising, packing and their reverse; say what each format keeps",
     .text =
         "Weights are quantised (absmean ternary, and 4 and 8 bits to compare with), packed, and taken apart "
         "again; activations are quantised. Each result is compared with the reference bit for bit before "
         "it is timed and after; one that differs is INVALID. Then errors, entropy and bits of every "
         "format, the choices that another one beats in everything, and the codes of a model. packed "
         "counts the bytes of the format, as F16 two bytes a weight, both in GB/s.",
     .synopsis = "[-m MODEL] [--shape ROWSxK]... [--isa NAME|all] [--filter PART] [-t LIST]",
     .options = {bn_bench_quant_options, bn_bench_suite_options, bn_bench_threads_option},
     .json = true,
     .run = bn_bench_quant,
     .examples = {{"bn-bench quant --shape 2560x6912 -t 1", "one matrix"},
                  {"bn-bench quant --filter quality", "errors and bits only"},
                  {"bn-bench quant --filter activations --isa all", "one kernel, each instruction set"}}},
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
    {.name = "doctor",
     .summary = "say what this machine can measure, and how fast it is",
     .text =
         "Each source of measurement is tried: clocks, counters, timers, energy, pages, quotas, programs. "
         "What is missing says why, and what would help. Then the roofs: reading sets that fit into each "
         "cache and one that does not, multiply-adds of bytes and floats with each instruction set; "
         "medians over repeated measurements.",
     .synopsis = "[--require NAME]... [--no-roofs] [-t LIST]",
     .options = {bn_bench_doctor_options, bn_bench_threads_option},
     .json = true,
     .run = bn_bench_doctor,
     .examples = {{"bn-bench doctor", "everything"},
                  {"bn-bench doctor --no-roofs --require perf-software", "may this process count events?"}}},
    {.name = "ab",
     .summary = "compare two commands that take turns",
     .text =
         "Each round runs A, B, and A once more (A'), in an order that cancels a drift of the machine; every "
         "run is a fresh process. A series is REGRESSED or IMPROVED when the interval of the change lies "
         "beyond the margin and beyond what A differs from A', SAME when it lies within the margin, else "
         "INCONCLUSIVE. Before each run a fixed piece of work is timed, the control: where that is not "
         "equally fast beside A and beside B, or in both halves, the machine was not itself, and everything "
         "is INCONCLUSIVE.\n\n"
         "INCONCLUSIVE is no verdict, so it exits with 0 unless --strict is given. A series that one side "
         "lacks, and a command that runs into --timeout, leave the gate without data: exit 1.",
     .synopsis = "[-r N] [--series] [--extract NAME=REGEX] -- COMMAND_A ... --vs COMMAND_B ...\n"
                 "--self-test [-r N] [--sessions N]",
     .options = {bn_bench_ab_options},
     .json = true,
     .max_operands = BN_OPERANDS_ANY,
     .operand = "COMMAND",
     .run = bn_bench_ab,
     .examples = {{"bn-bench ab -- old/bn-run -q -p To -n 64 --vs new/bn-run -q -p To -n 64",
                   "wall time, CPU time, memory"},
                  {"bn-bench ab --series -- old/bn-bench run --json -n 32 --vs new/bn-bench run --json -n 32",
                   "every series that both print"},
                  {"bn-bench ab --extract 'tps=([0-9.]+) tok/s:higher' -- ./a --vs ./b",
                   "a number that they print"},
                  {"bn-bench ab --self-test", "how often this is right, on this machine, now"}}},
    {.name = "compare",
     .summary = "hold two documents against each other",
     .text =
         "Series are paired by test and metric. Documents that were not measured in turn tell little: the "
         "machine may have changed between them, so less than --drift is inconclusive, and bn-bench ab would "
         "tell. A list of values without samples, {\"baselines\": {PLATFORM: {IMPLEMENTATION: {METRIC: "
         "NUMBER}}}}, is read too; then only the levels speak.",
     .synopsis = "[--drift PERCENT] [--thresholds FILE] A B",
     .options = {bn_bench_judging_options},
     .json = true,
     .min_operands = 2,
     .max_operands = 2,
     .operand = "document",
     .run = bn_bench_compare,
     .examples = {{"bn-bench compare before.json after.json", "what changed, as far as it can be told"}}},
    {.name = "baseline",
     .summary = "remember runs, and judge later ones by them",
     .text =
         "save appends a run to the ledger of its machine and suite. It refuses what could not be trusted "
         "later: sources that differ from the commit, a program of another commit, a machine that was busy. "
         "The first run of a name is its baseline, for the same machine, settings and model; later ones are "
         "held against it, and become it when they are promoted, which those that regressed cannot be.\n\n"
         "check holds a run against the baseline; without one it fails. list and show say what there is. "
         "docs/howto/track-performance.md is the way through.",
     .synopsis = "save NAME FILE\nlist\nshow NAME|ID\ncheck FILE [--baseline NAME] [--save-baseline "
                 "NAME]\npromote ID",
     .options = {bn_bench_ledger_options, bn_bench_baseline_options, bn_bench_judging_options},
     .json = true,
     .min_operands = 1,
     .max_operands = 3,
     .operand = "verb",
     .run = bn_bench_baseline,
     .examples = {{"bn-bench run --json >run.json", "measure"},
                  {"bn-bench baseline save main run.json", "remember"},
                  {"bn-bench baseline check run.json", "judge a later run"},
                  {"bn-bench run --json | bn-bench baseline check - --save-baseline next",
                   "measure, judge, and remember what passed"},
                  {"bn-bench baseline promote 1a2b3c4d5e6f", "make a run the baseline"}}},
    {.name = "trend",
     .summary = "how figures went from run to run, and where they changed",
     .text = "Every series of the runs in the ledgers, a line each, in the order in which they were saved. "
             "Where the "
             "runs before and behind a point differ by more than shuffles of them do (E-divisive, p < 0.01), "
             "and by "
             "more than --margin, it says so: how much, since when, between which commits, and how to "
             "confirm it. "
             "A last run alone never counts as a change.",
     .synopsis = "[--suite NAME] [--test PATTERN] [--metric PATTERN]",
     .options = {bn_bench_ledger_options, bn_bench_trend_options},
     .json = true,
     .run = bn_bench_trend,
     .examples = {{"bn-bench trend --suite run --metric ns_per_token",
                   "time of a token over all saved runs"}}},
    {.name = "report",
     .summary = "documents of bn-bench as text, tables, pages, and for other programs",
     .text =
         "Reads documents that bn-bench wrote with --json, ledgers of baselines and profiles, and writes one "
         "report of all of them. Every format takes its figures from the same place: formats for programs "
         "have them exactly, those for people round them. The HTML page is one file with its plots in it; "
         "it loads nothing. What the report finds is found by rules, and each finding names its figures. "
         "docs/reference/report.md describes the formats.",
     .synopsis = "[--format NAME] [-o FILE] FILE...\n--dir DIR FILE...",
     .options = {bn_bench_report_options},
     .json = true,
     .min_operands = 1,
     .max_operands = BN_OPERANDS_ANY,
     .operand = "FILE",
     .run = bn_bench_report,
     .examples = {{"bn-bench report run.json", "tables for the terminal"},
                  {"bn-bench report --format html -o report.html run.json ab.json", "a page to look at"},
                  {"bn-bench report --dir benchmark-results run.json", "all files that a build server keeps"},
                  {"bn-bench kernels --json | bn-bench report --format csv -", "figures for a spreadsheet"}}},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-bench",
    .summary = BN_SUMMARY_BENCH,
    .text = "Speed means something beside its limit, so both are measured in the same minutes. All samples "
            "are in the JSON document; docs/reference/bench.md describes it.",
    .commands = COMMANDS,
    .exits = {{"1", "a wrong result, a regression, a gate without data, or a measurement that is none"},
              {"5", "a ledger was changed by somebody else"},
              {"9", "not alike: another machine, other settings, another model"}},
    .see_also = "bn-run(1), bn(7)",
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}

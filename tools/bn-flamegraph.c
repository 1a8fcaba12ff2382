/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph: the table of its commands. Each command is a file in flamegraph/, with its options.
 */
#include "tools/cli/programs.h"
#include "tools/flamegraph/flamegraph.h"

static const struct bn_command COMMANDS[] = {
    {.name = "record",
     .summary = "sample a program or a generation, and write its stacks",
     .text = "Samples the program after --, or without one a generation in this process. The first sampler "
             "that works is used; the document says why better ones were not. Without a sample no file is "
             "written and the exit status is 1.\n\nFormats by file name: .json (everything), .svg, .folded, "
             ".txt, .speedscope.json, .trace.json, .pb. Without --output a "
             "table of functions is printed.\n\nA program needs perf events; a generation is recorded by "
             "timers where they are not permitted. Programs can also be recorded with perf: render reads the "
             "output of `perf script`.",
     .synopsis = "[options] [-o FILE]... [-- COMMAND [ARGUMENTS]]",
     .options = {bn_flamegraph_record_options, bn_flamegraph_workload_options, bn_flamegraph_view_options,
                 bn_flamegraph_picture_options},
     .run = bn_flamegraph_record,
     BN_OPERANDS(0, BN_OPERANDS_ANY, "COMMAND"),
     .examples = {{"bn-flamegraph record -o run.json -o run.svg -- ./program --fast",
                   "record a program, keep the stacks and draw them"},
                  {"bn-flamegraph record -r 5 -F 4999 -o before.json -- ./program",
                   "record five runs, to compare them later"}}},
    {.name = "render",
     .summary = "draw stacks as a flame graph, one SVG file without external parts",
     .text = "Draws the stacks of all files and runs together. In a browser: click or Enter zooms, Escape "
             "zooms out, / or Ctrl-F searches (n, N: next, previous), arrow keys move. The address keeps "
             "zoom and search. The same stacks and options give the same bytes.",
     .synopsis = "[FILE...] [-o FILE] [--title TEXT] [--tags LIST] [--palette bitnet|safe]",
     .options = {bn_flamegraph_output_option, bn_flamegraph_picture_options, bn_flamegraph_view_options},
     BN_OPERANDS(0, BN_OPERANDS_ANY, "FILE"),
     .examples = {{"bn-flamegraph render run.json -o run.svg", "draw a recording"},
                  {"bn-flamegraph render --tags phase,layer run.json -o layers.svg",
                   "divide it by phase and layer"},
                  {"perf script | bn-flamegraph render --title 'my program' >perf.svg",
                   "draw a recording of perf"}},
     .run = bn_flamegraph_convert},
    {.name = "text",
     .summary = "print a table of functions or the call tree",
     .text = "self is the time in a function itself; total includes the functions that it called. +- is half "
             "of the 95 % interval: of samples by Wilson, of measured times by Student over the runs.",
     .synopsis = "[--top N] [--sort self|total] [FILE...]\n--tree [--min PERCENT] [FILE...]",
     .options = {bn_flamegraph_text_options, bn_flamegraph_output_option, bn_flamegraph_view_options},
     .json = true,
     BN_OPERANDS(0, BN_OPERANDS_ANY, "FILE"),
     .examples = {{"bn-flamegraph text stacks.json", "the functions with the most time"},
                  {"bn-flamegraph text --tree --tags phase,layer,brick stacks.json",
                   "the time of each brick in each layer"}},
     .run = bn_flamegraph_text},
    {.name = "fold",
     .summary = "print stacks as folded text, one line for each call path",
     .text = "Adds up documents of record, profiles of bn-run, output of `perf script` and folded text. Each "
             "line is a call path, outermost frame first, and its weight. Kernel frames end in _[k], inlined "
             "ones in _[i].",
     .synopsis = "[--tags LIST] [--root NAME] [-o FILE] [FILE...]",
     .options = {bn_flamegraph_output_option, bn_flamegraph_view_options},
     BN_OPERANDS(0, BN_OPERANDS_ANY, "FILE"),
     .examples = {{"bn-flamegraph fold stacks.json", "the functions, without tags"},
                  {"perf script | bn-flamegraph fold --tags thread -", "a recording of perf, by thread"}},
     .run = bn_flamegraph_convert},
    {.name = "export",
     .summary = "convert stacks for speedscope, pprof and Perfetto",
     .text = "json is the complete document, bn.stacks/1, when no view option is given. The other formats "
             "add all runs up (chrome: one thread per run) and have no tags unless --tags selects "
             "some.\n\nspeedscope: https://www.speedscope.app. pprof: "
             "`pprof -http=: FILE`. chrome: https://ui.perfetto.dev.",
     .synopsis = "[--format FORMAT] [--tags LIST] [--root NAME] [-o FILE] [FILE...]",
     .options = {bn_flamegraph_export_options, bn_flamegraph_output_option, bn_flamegraph_view_options},
     BN_OPERANDS(0, BN_OPERANDS_ANY, "FILE"),
     .examples = {{"bn-flamegraph export stacks.json -o stacks.speedscope.json", "for speedscope"},
                  {"bn-flamegraph export --format pprof -o stacks.pb stacks.json", "for pprof"},
                  {"perf script | bn-flamegraph export --format json -o stacks.json -",
                   "keep a recording of perf as a document"}},
     .run = bn_flamegraph_convert},
    {.name = "diff",
     .summary = "compare two sets of recordings",
     .text = "Compares the share of each function before and after, self and total. With two or more runs on "
             "each side, a difference is significant if it exceeds the variation between runs; with one, "
             "only the variation between samples is known.\n\nFunctions are matched by name. Each file has "
             "one run or more; --vs separates several files.",
     .synopsis = "BEFORE AFTER [-o FILE] [--fail-above PERCENT]\nBEFORE... --vs AFTER... [-o FILE]",
     .options = {bn_flamegraph_output_option, bn_flamegraph_diff_options, bn_flamegraph_view_options,
                 bn_flamegraph_picture_options},
     BN_OPERANDS(2, BN_OPERANDS_ANY, "BEFORE or AFTER"),
     .examples = {{"bn-flamegraph diff old.json new.json", "print a table of changes"},
                  {"bn-flamegraph diff old.json new.json -o diff.svg", "draw them"},
                  {"bn-flamegraph diff old*.json --vs new*.json --fail-above 1",
                   "exit 1 if a function grew by more than one point"}},
     .run = bn_flamegraph_diff},
    {.name = "bricks",
     .summary = "print the measured bricks, and check them against the samples",
     .text = "Prints the time of each brick (docs/explain/profiling.md). If the files have samples too, "
             "compares the share of samples in each brick with its share of measured time; exits with 1 if "
             "they differ.",
     .synopsis = "[FILE...] [--check]",
     .options = {bn_flamegraph_bricks_options, bn_flamegraph_output_option},
     .json = true,
     BN_OPERANDS(0, BN_OPERANDS_ANY, "FILE"),
     .run = bn_flamegraph_bricks,
     .examples = {{"bn-flamegraph bricks profile.json", "print a profile of bn-run as a tree"},
                  {"bn-flamegraph bricks --check run.json", "check that both agree in a recording"}}},
    {.name = "doctor",
     .summary = "show which samplers work on this machine",
     .text = "Tries each sampler and perf event for some milliseconds. Prints why one does not work and what "
             "changes that. The exit status is 1 when no sampler works.",
     .synopsis = "[--require CHECK]...",
     .options = {bn_flamegraph_doctor_options},
     .run = bn_flamegraph_doctor,
     .json = true,
     .examples = {{"bn-flamegraph doctor", "show what works"}}},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-flamegraph",
    .summary = BN_SUMMARY_FLAMEGRAPH,
    .text = "Samples a generation, or where perf events are permitted any program, without privileges, "
            "and draws the stacks as flame graphs. Every picture says how it was recorded.",
    .commands = COMMANDS,
    .bytes = sizeof(struct bn_flamegraph_options),
    .exits = {{"1", "a change over the limit, disagreement, or a recording without samples"},
              {"9", "no sampler works here; the message says why"}},
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}

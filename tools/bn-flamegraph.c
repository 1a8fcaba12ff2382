/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph: where the time goes. This file is the table of its commands; they are in flamegraph/, each
 * with its options.
 */
#include "tools/cli/programs.h"
#include "tools/flamegraph/flamegraph.h"

static const struct bn_command COMMANDS[] = {
    {
        .name = "text",
        .summary = "print where the time goes: a table of functions, or the tree of calls",
        .text = "self is what was spent in a function itself, total also what was spent in what it called; a "
                "function "
                "that calls itself counts once. +- is half of the 95 % interval of the share: of samples "
                "Wilson's, of "
                "measured times Student's over the runs; '-' where it cannot be had.",
        .synopsis = "[--top N] [--sort self|total] [FILE...]\n--tree [--min PERCENT] [FILE...]",
        .options = {bn_flamegraph_text_options, bn_flamegraph_output_option, bn_flamegraph_view_options},
        .json = true,
        .max_operands = BN_OPERANDS_ANY,
        .operand = "FILE",
        .examples = {{"bn-flamegraph text stacks.json", "the functions that the time went into"},
                     {"bn-flamegraph text --tree --tags phase,layer,brick stacks.json",
                      "what each layer's bricks took"}},
        .run = bn_flamegraph_text,
    },
    {
        .name = "fold",
        .summary = "print stacks as folded text, one line for each call path",
        .text =
            "Reads what `bn-flamegraph record` wrote, and what others write: profiles of bn-run, the text of "
            "`perf script`, speedscope's files, folded text. Several files are added up. The first line "
            "names "
            "the unit; then each line is a call path, the outermost frame first, and its weight, sorted. "
            "Frames of the operating system end in _[k], inlined ones in _[i]; a ';' in a name becomes ':'.",
        .synopsis = "[--tags LIST] [--root NAME] [-o FILE] [FILE...]",
        .options = {bn_flamegraph_output_option, bn_flamegraph_view_options},
        .max_operands = BN_OPERANDS_ANY,
        .operand = "FILE",
        .examples = {{"bn-flamegraph fold stacks.json", "the functions, without tags"},
                     {"perf script | bn-flamegraph fold --tags thread -", "what perf recorded, by thread"}},
        .run = bn_flamegraph_fold,
    },
    {
        .name = "export",
        .summary = "write stacks for speedscope, Firefox Profiler, pprof, Chrome, KCachegrind",
        .text = "json is the project's own document, bn.stacks/1: without an option of the view it has "
                "everything, "
                "runs and tags and measured times. The others have all runs added up (chrome: each as a "
                "thread) and, "
                "as elsewhere, no tags unless --tags asks for them. speedscope: https://www.speedscope.app. "
                "firefox: "
                "https://profiler.firefox.com, \"Load a profile from file\". pprof: `pprof -http=: FILE`. "
                "chrome: "
                "https://ui.perfetto.dev. callgrind: `kcachegrind FILE`, `callgrind_annotate FILE`. Weights "
                "in pprof "
                "and callgrind are whole numbers, whose sum is the rounded sum.",
        .synopsis = "[--format FORMAT] [--tags LIST] [--root NAME] [-o FILE] [FILE...]",
        .options = {bn_flamegraph_export_options, bn_flamegraph_output_option, bn_flamegraph_view_options},
        .max_operands = BN_OPERANDS_ANY,
        .operand = "FILE",
        .examples = {{"bn-flamegraph export stacks.json -o stacks.speedscope.json", "for speedscope"},
                     {"bn-flamegraph export --format pprof -o stacks.pb.gz stacks.json", "for pprof"},
                     {"perf script | bn-flamegraph export --format json -o stacks.json -",
                      "keep what perf recorded as a document"}},
        .run = bn_flamegraph_export,
    },
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-flamegraph",
    .summary = BN_SUMMARY_FLAMEGRAPH,
    .text = "Samples a run of a model, or any program, by the best way that the machine permits, without "
            "privileges; names the functions; draws them. What was asked for and what came, why better ways "
            "were refused, and how many samples could not be told, stands with every picture.",
    .commands = COMMANDS,
    .exits = {{"1", "a difference over the limit, views that do not agree, or a recording without samples"},
              {"9", "nothing here can be sampled: the message says what each way lacks"}},
    .see_also = "bn-bench(1), bn-run(1), bn(7)",
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}

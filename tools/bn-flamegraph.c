/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph: where the time goes. This file is the table of its commands; they are in flamegraph/, each
 * with its options.
 */
#include "tools/cli/programs.h"
#include "tools/flamegraph/flamegraph.h"

static const struct bn_command COMMANDS[] = {
    {.name = "diff",
     .summary = "what changed between two sets of recordings",
     .text =
         "Puts the paths of both sides on one tree, and says for each function what it had of the time "
         "before and after, alone and with all it calls. Runs of one side are compared with those of the "
         "other: with two or more on each side a difference must exceed what runs of the same side differ "
         "by; with one, only what samples differ by, which is less than what runs do.\n\n"
         "Frames are matched by name. Each file is a run, or several.",
     .synopsis = "BEFORE... --vs AFTER... [-o FILE] [--fail-above PERCENT]",
     .options = {bn_flamegraph_diff_options, bn_flamegraph_view_options, bn_flamegraph_output_option},
     .json = true,
     .min_operands = 2,
     .max_operands = BN_OPERANDS_ANY,
     .operand = "FILE",
     .examples = {{"bn-flamegraph diff old*.json --vs new*.json", "a table of what changed"},
                  {"bn-flamegraph diff old*.json --vs new*.json -o diff.svg", "the same as a picture"},
                  {"bn-flamegraph diff old*.json --vs new*.json --fail-above 1",
                   "exit 1 when a function takes over one point more of the time"}},
     .run = bn_flamegraph_diff},
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

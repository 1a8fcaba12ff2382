/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph: where the time goes. This file is the table of its commands; they are in flamegraph/, each
 * with its options.
 */
#include "tools/cli/programs.h"
#include "tools/flamegraph/flamegraph.h"

static const struct bn_command COMMANDS[] = {
    {.name = "render",
     .summary = "draw stacks as a flame graph: one SVG file that loads nothing",
     .text =
         "Draws the stacks of all files and runs together. The picture can be read anywhere. Opened in a "
         "browser it can be zoomed (click, Enter, Escape) and searched (Ctrl-F or /, then n and N, also for "
         "frames that are too narrow to be drawn), turned upside down, and walked with the arrow keys; its "
         "address keeps zoom and search. The same stacks and options give the same bytes.",
     .synopsis = "[FILE...] [-o FILE] [--title TEXT] [--tags LIST] [--palette bitnet|safe]",
     .options = {bn_flamegraph_output_option, bn_flamegraph_picture_options, bn_flamegraph_view_options},
     .max_operands = BN_OPERANDS_ANY,
     .operand = "FILE",
     .examples = {{"bn-flamegraph render run.json -o run.svg", "a picture of what was recorded"},
                  {"bn-flamegraph render --tags phase,layer run.json -o layers.svg",
                   "the same, divided by phase and layer"},
                  {"perf script | bn-flamegraph render --title 'my program' >perf.svg",
                   "of what perf recorded"}},
     .run = bn_flamegraph_render},
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

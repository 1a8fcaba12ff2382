/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph: where the time goes. This file is the table of its commands; they are in flamegraph/, each
 * with its options.
 */
#include "tools/cli/programs.h"
#include "tools/flamegraph/flamegraph.h"

static const struct bn_command COMMANDS[] = {
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

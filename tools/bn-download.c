/* SPDX-License-Identifier: MIT
 *
 * bn-download: models arrive whole, or not at all. This file is the table of its commands; they are in
 * download/.
 */
#include "tools/cli/programs.h"
#include "tools/download/download.h"

static const struct bn_command COMMANDS[] = {
    {.name = "get",
     .summary = "fetch a model",
     .synopsis = "MODEL [--to DIR] [--sha256 HEX]",
     .options = {bn_download_get_options, bn_download_network_options},
     .min_operands = 1,
     .max_operands = 1,
     .operand = "MODEL",
     .run = bn_download_get,
     .examples = {{"bn-download bitnet-b1.58-2b-4t", "by its name in the registry"}}},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-download",
    .summary = BN_SUMMARY_DOWNLOAD,
    .text = "Fetches models from the Hugging Face hub, or any URL.",
    .commands = COMMANDS,
    .default_command = "get",
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}

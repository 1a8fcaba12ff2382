/* SPDX-License-Identifier: MIT
 *
 * The names and summaries of all programs; see programs.h.
 */
#include "tools/cli/programs.h"

#include <stddef.h>

const struct bn_program_name bn_program_names[] = {
    {"download", BN_SUMMARY_DOWNLOAD},
    {"convert", BN_SUMMARY_CONVERT},
    {"run", BN_SUMMARY_RUN},
    {"serve", BN_SUMMARY_SERVE},
    {"verify-receipt", BN_SUMMARY_VERIFY_RECEIPT},
    {"bench", BN_SUMMARY_BENCH},
    {"flamegraph", BN_SUMMARY_FLAMEGRAPH},
    {"train", BN_SUMMARY_TRAIN},
    {"crossval", BN_SUMMARY_CROSSVAL},
    {"fixtures", BN_SUMMARY_FIXTURES},
    {"git", BN_SUMMARY_GIT},
    {NULL, NULL},
};

/* SPDX-License-Identifier: MIT
 *
 * See programs.h.
 */
#include "tools/cli/programs.h"

#include <stddef.h>

const struct bn_program_name bn_program_names[] = {
    {"run", BN_SUMMARY_RUN},
    {"download", BN_SUMMARY_DOWNLOAD},
    {"bench", BN_SUMMARY_BENCH},
    {"verify-receipt", BN_SUMMARY_VERIFY_RECEIPT},
    {"flamegraph", BN_SUMMARY_FLAMEGRAPH},
    {"crossval", BN_SUMMARY_CROSSVAL},
    {"fixtures", BN_SUMMARY_FIXTURES},
    {"train", BN_SUMMARY_TRAIN},
    {NULL, NULL},
};

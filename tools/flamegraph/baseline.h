/* SPDX-License-Identifier: MIT
 *
 * The parts of the command baseline.
 */
#ifndef BN_FLAMEGRAPH_BASELINE_H
#define BN_FLAMEGRAPH_BASELINE_H

#include "base/digest.h"
#include "tools/flamegraph/files.h"
#include "tools/flamegraph/flamegraph.h"

#define BN_BASELINE_RECORDINGS 2u

/* What is recorded: the same two every time, so that recordings can be compared. */
struct bn_baseline_work {
    const char *name, *title, *prompt;
    uint32_t n_predict;
};
extern const struct bn_baseline_work bn_baseline_works[BN_BASELINE_RECORDINGS];

struct bn_baseline {
    const struct bn_args *args;
    const char *dir;
    bn_stacks *stacks[BN_BASELINE_RECORDINGS];
    char digests[BN_BASELINE_RECORDINGS][BN_SHA256_HEX];
    bn_json *index;     /* of the archive */
    char folder[80];    /* that this recording is kept in; "" when it is not */
    const char *had_in; /* the archive's folder that has the same already; NULL for none */
    struct bn_flamegraph_files files;
};

/* Adds README.md: an index of what is in the folder, from the pages. */
void bn_baseline_readme(struct bn_baseline *baseline);

#endif

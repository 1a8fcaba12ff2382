/* SPDX-License-Identifier: MIT
 *
 * The sources of measurement that a machine may have. Each is tried: it works, or the reason and a remedy are
 * reported. Nothing is inferred from a version number or a setting.
 */
#ifndef BN_BENCH_SOURCES_H
#define BN_BENCH_SOURCES_H

#include "lab/host/machine.h"

struct bn_source {
    const char *name; /* "perf-software" */
    const char *what; /* what it measures, half a line */
    bool available;
    char detail[200]; /* what it reported; else the reason */
    char remedy[160]; /* what would make it available; empty when unknown */
};

/* The i-th name, NULL past the end. */
const char *bn_source_name(size_t i);
/* Tries the i-th source. */
void bn_source_try(struct bn_source *out, size_t i, const struct bn_machine *machine);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The sources of measurement that a machine may have, each tried: it answers, or it is known why not and what
 * would help. Nothing is taken from a version number or a setting that a try can tell.
 */
#ifndef BN_BENCH_SOURCES_H
#define BN_BENCH_SOURCES_H

#include "lab/host/machine.h"

struct bn_source {
    const char *name; /* "perf-software" */
    const char *what; /* what it measures, half a line */
    bool available;
    char detail[200]; /* what it answered; else why not */
    char remedy[160]; /* what would help, empty when nothing is known to */
};

/* The i-th name, NULL past the end. */
const char *bn_source_name(size_t i);
/* Tries the i-th source. */
void bn_source_try(struct bn_source *out, size_t i, const struct bn_machine *machine);

/* Why perf_event_open failed, and what would help; level is perf_event_paranoid, INT32_MIN when unknown. */
void bn_perf_reason(struct bn_source *out, int sys_errno, int level);

#endif

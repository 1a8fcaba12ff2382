/* SPDX-License-Identifier: MIT
 *
 * The recordings of `bn-flamegraph baseline`, and the files that are made of them. baseline.c chooses and
 * records, baseline_files.c draws and writes.
 */
#ifndef BN_FLAMEGRAPH_BASELINE_H
#define BN_FLAMEGRAPH_BASELINE_H

#include "tools/flamegraph/archive.h"
#include "tools/flamegraph/flamegraph.h"

struct bn_baseline_file {
    char path[4096];
    struct bn_buf bytes;
};

enum { BN_BASELINE_SVG, BN_BASELINE_MD, BN_BASELINE_JSON, BN_BASELINE_FILES };

struct bn_baseline_recording {
    char name[BN_ARCHIVE_NAME]; /* of its files: "phase2_1tok-avx2-t2" */
    /* The configuration; only of those that this command records. */
    bool asked;
    size_t place; /* in the order of names */
    size_t work;  /* which workload */
    size_t model;
    const char *isa;
    uint32_t n_threads;

    bn_stacks *stacks;
    struct bn_buf shows; /* sentences, with line breaks between them */
    struct bn_baseline_file files[BN_BASELINE_FILES];
    char folder[128]; /* of the archive; "" without --archive */
    bool archived;    /* before this command */
};

struct bn_baseline {
    const struct bn_args *args;
    const char *dir;
    struct bn_baseline_recording *list;
    size_t n;
    struct bn_baseline_file readme;
};

/* Names all files, makes their folder, and checks that they can be written. */
BN_MUST_CHECK bn_status bn_baseline_check_files(struct bn_baseline *b, bn_error *err);
/* Makes all files in memory, then writes them and their copies in the archive. */
BN_MUST_CHECK bn_status bn_baseline_write(struct bn_baseline *b, bn_error *err);

#endif

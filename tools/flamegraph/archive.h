/* SPDX-License-Identifier: MIT
 *
 * Recordings that `baseline --archive` kept: DIR/archives/<date>-<commit>[-dirty][-<n>]/ has the files of
 * one. The folders are the index: they are read and sorted by the times of their recordings.
 */
#ifndef BN_FLAMEGRAPH_ARCHIVE_H
#define BN_FLAMEGRAPH_ARCHIVE_H

#include "lab/stacks/diff.h"

struct bn_archived {
    char folder[128];
    bn_stacks *stacks;
};
struct bn_archive {
    struct bn_archived *list; /* oldest first */
    size_t n;
};

/* Reads NAME.json in all folders of DIR/archives; none when there is no such directory. */
BN_MUST_CHECK bn_status bn_archive_read(struct bn_archive *out, const char *dir, const char *name,
                                        bn_error *err);
void bn_archive_release(struct bn_archive *archive);
/* The name of a new folder for a recording: its date and commit. n > 1 is appended. */
void bn_archive_folder(char out[128], const bn_json *about, unsigned n);

/* Compares the functions of two recordings; inlined functions count towards their callers. */
BN_MUST_CHECK bn_status bn_archive_compare(struct bn_stacks_diff *out, const bn_stacks *before,
                                           const bn_stacks *after, bn_error *err);

#endif

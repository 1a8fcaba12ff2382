/* SPDX-License-Identifier: MIT
 *
 * Recordings of `baseline`, by name, and those that `baseline --archive` kept in
 * DIR/archives/<date>-<commit>[-dirty][-<n>]/. The folders are the index: they are read and sorted by the times of their recordings.
 */
#ifndef BN_FLAMEGRAPH_ARCHIVE_H
#define BN_FLAMEGRAPH_ARCHIVE_H

#include "lab/stacks/diff.h"

#define BN_ARCHIVE_NAME 160u
#define BN_ARCHIVE_FIRST "phase2_1tok", "phase2_10tok" /* the default configuration */

/* Names of recordings: "phase2_1tok", "phase2_10tok", and of other configurations, "phase2_1tok-t2". */
struct bn_archive_names {
    char (*list)[BN_ARCHIVE_NAME];
    size_t n;
};
/* Adds a name, unless it is in the list: the default configuration comes first, then by configuration. */
BN_MUST_CHECK bn_status bn_archive_add_name(struct bn_archive_names *names, const char *name, bn_error *err);
/* Adds the names of all recordings in a folder; none when there is no such folder. */
BN_MUST_CHECK bn_status bn_archive_find_names(struct bn_archive_names *names, const char *dir, bn_error *err);
/* The same, in all folders of DIR/archives. */
BN_MUST_CHECK bn_status bn_archive_find_all_names(struct bn_archive_names *names, const char *dir,
                                                  bn_error *err);

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

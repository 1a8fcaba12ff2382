/* SPDX-License-Identifier: MIT
 *
 * Several files that belong together: made in memory, written beside their targets, and put in place only
 * when all of them are on the disk, so that a failure leaves the old ones.
 */
#ifndef BN_FLAMEGRAPH_FILES_H
#define BN_FLAMEGRAPH_FILES_H

#include "base/buf.h"

#define BN_FLAMEGRAPH_FILES 24u

struct bn_flamegraph_file {
    char path[4096];
    struct bn_buf bytes;
};

struct bn_flamegraph_files {
    struct bn_flamegraph_file *list[BN_FLAMEGRAPH_FILES];
    size_t n;
    struct bn_buf lost; /* takes nothing: what is appended when there is no room or memory */
};

/* A file FOLDER/NAME EXTENSION, empty. Without room or memory for it, writing says so. */
struct bn_buf *bn_flamegraph_files_add(struct bn_flamegraph_files *files, const char *folder,
                                       const char *name, const char *extension);
/* The same with these bytes. */
void bn_flamegraph_files_copy(struct bn_flamegraph_files *files, const char *folder, const char *name,
                              const char *extension, const struct bn_buf *bytes);
/* Notes on standard error name the files that were there before. */
BN_MUST_CHECK bn_status bn_flamegraph_files_write(const struct bn_flamegraph_files *files, bn_error *err);
void bn_flamegraph_files_release(struct bn_flamegraph_files *files);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Recordings that are kept: DIR/archives/<date>-<commit>[-dirty][-<n>]/ with the files of each, where -2, -3,
 * ... is for further ones of the same day and commit, and DIR/archives/index.json (bn.flamearchive/1), which
 * lists them in the order of keeping:
 *
 *     {"schema": "bn.flamearchive/1", "entries": [
 *       {"folder": "2026-11-21-a723cb94e39a", "created": "2026-11-21T13:04:06Z", "commit": "a723...",
 *        "dirty": false, "recordings": [{"name": "phase2_1tok", "sha256": "..."}]}]}
 *
 * The digest is that of the stacks' document without its member about.page, which is made of it. The index
 * is untrusted like any file: a folder or a name that leads elsewhere is refused.
 */
#ifndef BN_FLAMEGRAPH_ARCHIVE_H
#define BN_FLAMEGRAPH_ARCHIVE_H

#include "base/digest.h"
#include "lab/stacks/stacks.h"

/* The index of DIR; one without entries when there is none yet. BN_ERR_FORMAT when it is malformed. */
BN_MUST_CHECK bn_status bn_flamegraph_archive_read(bn_json **index, const char *dir, bn_error *err);
/* The digest of a recording as the index has it. */
BN_MUST_CHECK bn_status bn_flamegraph_archive_digest(char hex[BN_SHA256_HEX], bn_stacks *stacks,
                                                     bn_error *err);
/* The folder of the entry that has exactly these n digests; NULL when there is none. */
const char *bn_flamegraph_archive_find(const bn_json *index, char (*digests)[BN_SHA256_HEX], size_t n);
/* A folder's name that no entry has, for what these stacks say about themselves. */
void bn_flamegraph_archive_name(char *out, size_t room, const bn_json *index, const bn_json *about);
/* Appends an entry. */
void bn_flamegraph_archive_add(bn_json *index, const char *folder, const bn_json *about,
                               const char *const *names, char (*digests)[BN_SHA256_HEX], size_t n);
/* Reads a recording of an entry. */
BN_MUST_CHECK bn_status bn_flamegraph_archive_open(bn_stacks **out, const char *dir, const bn_json *entry,
                                                   const char *name, bn_error *err);
/* The digest of the recording of that name in an entry; NULL when it has none. */
const char *bn_flamegraph_archive_has(const bn_json *entry, const char *name);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Trees of files: their digest, their removal, and writing small files into them. Symbolic links are never
 * followed.
 */
#ifndef BN_KIT_TREE_H
#define BN_KIT_TREE_H

#include "base/digest.h"

/* The digest of all files in a folder, without those named .git and what is in them. It is the SHA-256 of one
 * line for each file, in the order of the bytes of the paths:
 *
 *     <SHA-256 of the file> two spaces ./<path> line feed
 *
 * which is what sha256sum(1) prints. The content of a symbolic link is its target. Modes and empty folders do
 * not count. BN_ERR_FORMAT for a path with a line feed or a backslash, and for a folder without files. */
BN_MUST_CHECK bn_status bn_tree_digest(const char *folder, char hex[BN_SHA256_HEX], size_t *n_files,
                                       bn_error *err);

/* Removes a folder and everything in it. A folder that does not exist is not an error. */
BN_MUST_CHECK bn_status bn_tree_remove(const char *folder, bn_error *err);

#endif

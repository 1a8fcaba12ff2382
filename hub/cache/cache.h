/* SPDX-License-Identifier: MIT
 *
 * The cache of the Hugging Face hub on this machine, in the layout that its own libraries use, so that a file
 * is on disk once, whichever program downloaded it:
 *
 *     <root>/models--owner--repo/blobs/<etag>                     the bytes; the sha256 for large files
 *     <root>/models--owner--repo/snapshots/<commit>/<file>        a link to its blob
 *     <root>/models--owner--repo/refs/<revision>                  the commit of a branch or tag
 *     <root>/.locks/models--owner--repo/<etag>.lock               locked (flock) during a download
 *
 * Nothing here needs the network.
 */
#ifndef BN_HUB_CACHE_H
#define BN_HUB_CACHE_H

#include "base/buf.h"

/* HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub;
 * allocated. BN_ERR_NOT_FOUND when none of these is set. */
BN_MUST_CHECK bn_status bn_hub_cache_root(char **out, bn_error *err);

/* A file in the state folder of this user: XDG_STATE_HOME/bn/NAME, else ~/.local/state/bn/NAME. False when
 * neither is set, or the path is too long. */
#define BN_HUB_PATH_MAX 4096u
bool bn_hub_state_path(char out[BN_HUB_PATH_MAX], const char *name);

/* The path of a complete file at a revision (branch, tag or commit); allocated.
 * BN_ERR_NOT_FOUND otherwise. */
BN_MUST_CHECK bn_status bn_hub_cache_find(char **out, const char *root, const char *repo, const char *file,
                                          const char *revision, bn_error *err);
/* Where the blob of an etag belongs; makes the folders. The etag is checked: hex digits only. Allocated. */
BN_MUST_CHECK bn_status bn_hub_cache_blob(char **out, const char *root, const char *repo, const char *etag,
                                          bn_error *err);
/* The lock file for downloads of a blob. Allocated. */
BN_MUST_CHECK bn_status bn_hub_cache_lock(char **out, const char *root, const char *repo, const char *etag,
                                          bn_error *err);
/* Links a complete blob into the snapshot of a commit (relative link; a copy where links cannot be made)
 * and records the revision. Gives the snapshot's path, allocated. */
BN_MUST_CHECK bn_status bn_hub_cache_link(char **out, const char *root, const char *repo, const char *etag,
                                          const char *commit, const char *revision, const char *file,
                                          bn_error *err);

/* The file that a reference (reference.h) names, without any network. Allocated. BN_ERR_NOT_FOUND with the
 * hint "bn-download TEXT", or where the names are listed. */
BN_MUST_CHECK bn_status bn_hub_find(char **path, const char *text, bn_error *err);
/* The same for programs that open it (bn-run and others): the bytes are also compared with the digest that is
 * known for the file: the registry's, that of the first download, or the name of its blob. They are read when
 * they are new or have changed (digests.h). BN_ERR_INTEGRITY. */
BN_MUST_CHECK bn_status bn_hub_locate(char **path, const char *text, bn_error *err);

#endif

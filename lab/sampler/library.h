/* SPDX-License-Identifier: MIT
 *
 * The library that samples other programs (preload.c), as a file that LD_PRELOAD can name.
 *
 * A program that is recorded may start others long after the recording, and some keep the path in their
 * environment (preload_exec.c says which). So the path has to stay safe for ever: the file lies in a folder
 * of this user's own, mode 0700, below folders that nobody but this user and the owner of the system can
 * change. It is named by its digest and stays: a path that is still in use leads to the same library or to
 * nothing, never to another user's file.
 */
#ifndef BN_SAMPLER_LIBRARY_H
#define BN_SAMPLER_LIBRARY_H

#include "base/buf.h"

#define BN_SAMPLER_PATH_BYTES 1024u

/* Writes the library's path, and the file where it is not there yet: below XDG_RUNTIME_DIR, /run (for root),
 * XDG_CACHE_HOME, HOME/.cache, or TMPDIR or /tmp (not for root), the first that is safe and does not forbid
 * to load programs. BN_ERR_UNSUPPORTED when none is. */
BN_MUST_CHECK bn_status bn_sampler_library_path(char path[BN_SAMPLER_PATH_BYTES], bn_error *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The library that samples other programs (preload.c), as a file that LD_PRELOAD can name.
 *
 * A recorded program may start others long after the recording, and some keep the path in their environment
 * (see preload_exec.c). So the path has to stay safe for ever: the file is in a directory of this user,
 * mode 0700, below directories that only this user and the owner of the system can change. The name of the
 * file contains its digest and the file stays: a path that is still in use leads to the same library or to
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

/* SPDX-License-Identifier: MIT
 *
 * The SHA-256 of files that are opened again and again. It is computed once and remembered with the file's
 * device, inode, size and times in XDG_STATE_HOME/bn/digests, else ~/.local/state/bn/digests; a file that
 * was changed or replaced since then is read again. Not for decisions of trust: another process may write to
 * the file while it is used.
 */
#ifndef BN_HUB_DIGESTS_H
#define BN_HUB_DIGESTS_H

#include "base/digest.h"

BN_MUST_CHECK bn_status bn_hub_digest(char sha256[BN_SHA256_HEX], const char *path, bn_error *err);
/* Remembers a digest that was just computed. Where nothing can be written, nothing is remembered. */
void bn_hub_digest_record(const char *path, const char *sha256);

#endif

/* SPDX-License-Identifier: MIT
 *
 * One process at a time fetches a file.
 */
#ifndef BN_HUB_LOCK_H
#define BN_HUB_LOCK_H

#include "base/mem.h"

/* An exclusive lock, by flock(2) on a file that is made with its folders: the lock that the libraries of the
 * Hugging Face hub use too. The system releases it when its holder dies. Where flock is not supported (some
 * network file systems), O_EXCL on "<path>.held" with process, machine and boot in it, so that a dead
 * holder's is recognised and taken over. Waits until it is free, calling tick (may be NULL) ten times a
 * second; BN_ERR_CANCELLED when that returns false. wait false: BN_ERR_IO "another process is fetching this".
 */
struct bn_hub_lock;
BN_MUST_CHECK bn_status bn_hub_lock_take(struct bn_hub_lock **out, const char *path, bool wait,
                                         bool (*tick)(void *user), void *user, bn_error *err);
void bn_hub_lock_release(struct bn_hub_lock *lock);

#endif

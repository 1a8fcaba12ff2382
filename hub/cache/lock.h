/* SPDX-License-Identifier: MIT
 *
 * One process at a time downloads a file.
 */
#ifndef BN_HUB_LOCK_H
#define BN_HUB_LOCK_H

#include "base/mem.h"

/* An exclusive lock, by flock(2) on a file that is made with its folders: the lock that the libraries of the
 * Hugging Face hub use too. The system releases it when its holder dies. Where flock is not supported (some
 * network file systems), O_EXCL on "<path>.held" with process, machine and boot in it, so that the lock of a
 * dead holder is recognised and taken over. Waits until the lock is free, calling tick (may be NULL) ten
 * times a second; BN_ERR_CANCELLED when that returns false. Without BN_HUB_LOCK_WAIT: BN_ERR_IO "another
 * process is downloading this file". */
enum bn_hub_lock_flags {
    BN_HUB_LOCK_WAIT = 1,
    BN_HUB_LOCK_REMOVE = 2 /* the release removes the file; not for locks that other programs use too */
};
struct bn_hub_lock;
BN_MUST_CHECK bn_status bn_hub_lock_take(struct bn_hub_lock **out, const char *path, unsigned flags,
                                         bool (*tick)(void *user), void *user, bn_error *err);
void bn_hub_lock_release(struct bn_hub_lock *lock);

#endif

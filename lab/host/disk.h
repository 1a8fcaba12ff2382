/* SPDX-License-Identifier: MIT
 *
 * Free space of the disk that a folder is on, or would be created on.
 */
#ifndef BN_HOST_DISK_H
#define BN_HOST_DISK_H

#include <linux/limits.h>

#include "base/mem.h"

/* The folder itself, or the nearest one above it that exists. */
void bn_disk_nearest(char there[PATH_MAX], const char *folder);
/* Bytes that this user may still write there; false when they cannot be read. there: see above. */
bool bn_disk_free(uint64_t *bytes, char there[PATH_MAX], const char *folder);

#endif

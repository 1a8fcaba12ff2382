/* SPDX-License-Identifier: MIT
 *
 * Free space, by statvfs.
 */
#define _POSIX_C_SOURCE 200809L
#include "lab/host/disk.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

void bn_disk_nearest(char there[PATH_MAX], const char *folder)
{
    snprintf(there, PATH_MAX, "%s", folder);
    while (access(there, F_OK) != 0) {
        char *slash = strrchr(there, '/');
        if (slash == NULL || slash == there) {
            snprintf(there, PATH_MAX, "%s", slash == NULL ? "." : "/");
            return;
        }
        *slash = '\0';
    }
}

bool bn_disk_free(uint64_t *bytes, char there[PATH_MAX], const char *folder)
{
    struct statvfs fs;
    bn_disk_nearest(there, folder);
    if (statvfs(there, &fs) != 0) return false;
    *bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    return true;
}

/* SPDX-License-Identifier: MIT
 *
 * What fuzz targets share: libFuzzer's entry, which each of them defines and replay.c calls as well, and their checks.
 */
#ifndef BN_FUZZ_H
#define BN_FUZZ_H

#define _GNU_SOURCE /* memfd_create, mkdtemp */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void hold(bool ok)
{
    if (!ok) abort();
}

__attribute__((unused)) static bn_error err; /* of the last call under succeeds */

/* Whether a call that takes &err succeeds; a failure has a reason. */
#define succeeds(call) (err = (bn_error){0}, fuzz_succeeds(call))

static inline bool fuzz_succeeds(bn_status status)
{
    hold(status == BN_OK || (err.code == status && err.msg[0] != '\0'));
    return status == BN_OK;
}

static inline void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "w");
    hold(file != NULL && fwrite(bytes, 1, n, file) == n && fclose(file) == 0);
}

/* The bytes as a file, until the next call. Returns its path. */
static inline const char *fuzz_file(const void *bytes, size_t n)
{
    static char path[40];
    static int fd = -1;
    if (fd < 0) fd = memfd_create("input", MFD_CLOEXEC);
    hold(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, bytes, n, 0) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

static char fuzz_made[] = "/tmp/bn-fuzz-XXXXXX";

static inline void fuzz_remove_folder(void)
{
    (void)rmdir(fuzz_made);
}

/* A folder of this process; it goes when it is empty at the end. */
static inline const char *fuzz_folder(void)
{
    static bool is_made;
    hold(is_made || (mkdtemp(fuzz_made) != NULL && atexit(fuzz_remove_folder) == 0));
    is_made = true;
    return fuzz_made;
}

#endif

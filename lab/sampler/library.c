/* SPDX-License-Identifier: MIT
 *
 * Writes the sampler's library to a file in a directory that no other user can change.
 */
#define _GNU_SOURCE
#include "lab/sampler/library.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "lab/sampler/agent.h"

/* In sampler_library.S. */
extern const unsigned char bn_sampler_library[];
extern const uint64_t bn_sampler_library_bytes;

/* ---- folders ---- */

/* Whether nobody but this user and the system's owner can put another folder in place of this one, or of one
 * that it lies in. In a folder with the sticky bit others can make files, but not replace ours. The owner of
 * / counts as the system's: in a user namespace that is not user 0. */
static bool is_safe(const char *folder)
{
    char path[BN_SAMPLER_PATH_BYTES];
    struct stat root, st;
    if (lstat("/", &root) != 0) return false;
    for (size_t n = 1;; n++) {
        if (n > 1 && folder[n] != '/' && folder[n] != '\0') continue;
        memcpy(path, folder, n);
        path[n] = '\0';
        if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode)) return false;
        if (st.st_uid != 0 && st.st_uid != geteuid() && st.st_uid != root.st_uid) return false;
        if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (st.st_mode & S_ISVTX) == 0) return false;
        if (folder[n] == '\0') return true;
    }
}

/* LD_PRELOAD is divided at spaces and colons, and $ is expanded in it. */
static bool can_be_preloaded(const char *path)
{
    for (const char *c = path; *c != '\0'; c++)
        if ((*c < 'a' || *c > 'z') && (*c < 'A' || *c > 'Z') && (*c < '0' || *c > '9') &&
            strchr("/._-+,@%=", *c) == NULL)
            return false;
    return path[0] == '/';
}

/* Whether a folder belongs to this user alone. */
static bool is_private(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 077) == 0;
}

/* ---- the file ---- */

/* Whether the file is there, is the library, and can be mapped as a program. */
static bool holds_library(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    bool same = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
                (uint64_t)st.st_size == bn_sampler_library_bytes;
    size_t n = (size_t)bn_sampler_library_bytes;
    void *bytes = same ? mmap(NULL, n, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    same = bytes != MAP_FAILED && memcmp(bytes, bn_sampler_library, n) == 0;
    if (bytes != MAP_FAILED) munmap(bytes, n);
    close(fd);
    return same;
}

static bool put_library(char path[BN_SAMPLER_PATH_BYTES], const char *folder)
{
    char digest[BN_SHA256_HEX];
    bn_error ignored = {0};
    size_t n = (size_t)bn_sampler_library_bytes;
    if (bn_sha256_hex(bn_sampler_library, n, digest, &ignored) != BN_OK) return false;
    int wrote = snprintf(path, BN_SAMPLER_PATH_BYTES, "%s/" BN_AGENT_LIBRARY "-%.16s.so", folder, digest);
    if (wrote < 0 || (unsigned)wrote >= BN_SAMPLER_PATH_BYTES) return false;
    if (holds_library(path)) return true;
    return (unlink(path) == 0 || errno == ENOENT) &&
           bn_file_write_atomic(path, bn_sampler_library, n, &ignored) == BN_OK && chmod(path, 0500) == 0 &&
           holds_library(path);
}

/* shared: others may make files in the base too. It is safe for as long as our folder is there. */
static bool try_base(char path[BN_SAMPLER_PATH_BYTES], const char *base, bool shared)
{
    char real[PATH_MAX], folder[BN_SAMPLER_PATH_BYTES];
    struct stat st;
    if (base == NULL || base[0] != '/' || realpath(base, real) == NULL || strlen(real) >= sizeof folder ||
        !is_safe(real) || stat(real, &st) != 0)
        return false;
    if (!shared && (st.st_mode & (S_IWGRP | S_IWOTH)) != 0) return false;
    int n = snprintf(folder, sizeof folder, "%s/bn-sampler-%u", real, (unsigned)geteuid());
    if (n < 0 || (size_t)n >= sizeof folder || !can_be_preloaded(folder)) return false;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) return false;
    return is_private(folder) && put_library(path, folder);
}

static bool try_home(char path[BN_SAMPLER_PATH_BYTES])
{
    char cache[BN_SAMPLER_PATH_BYTES];
    const char *home = getenv("HOME");
    struct stat st;
    if (home == NULL || home[0] != '/' || stat(home, &st) != 0) return false;
    int n = snprintf(cache, sizeof cache, "%s/.cache", home);
    if (n < 0 || (size_t)n >= sizeof cache) return false;
    if (st.st_uid == geteuid()) (void)mkdir(cache, 0700);
    return try_base(path, cache, false);
}

bn_status bn_sampler_library_path(char path[BN_SAMPLER_PATH_BYTES], bn_error *err)
{
    const char *temporary = getenv("TMPDIR");
    bool root = geteuid() == 0;
    if (try_base(path, getenv("XDG_RUNTIME_DIR"), false) || (root && try_base(path, "/run", false)) ||
        try_base(path, getenv("XDG_CACHE_HOME"), false) || try_home(path) ||
        (!root && (try_base(path, temporary, true) || try_base(path, "/tmp", true))))
        return BN_OK;
    bn_fail(
        err, BN_ERR_UNSUPPORTED,
        "no directory for the sampler's library: only this user may write to it, and it must not be mounted "
        "noexec");
    bn_error_hint(err, "set XDG_RUNTIME_DIR to a directory of mode 0700");
    return BN_ERR_UNSUPPORTED;
}

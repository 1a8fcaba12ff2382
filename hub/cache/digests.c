/* SPDX-License-Identifier: MIT
 *
 * Remembers the digests of files, in one file for each: "sha256 size mtime ctime", times in nanoseconds.
 */
#define _GNU_SOURCE
#include "hub/cache/digests.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "hub/cache/cache.h"

#define LINE_BYTES 192u
/* The clock of file times ticks every few milliseconds: a change within this time may not show in them. */
#define TICK_NS INT64_C(20000000)

static int64_t ns_of(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What is written for a file in this state; and where, false when no place for it is set. */
static bool describe(char line[LINE_BYTES], char record[BN_HUB_PATH_MAX], const struct stat *st,
                     const char *sha256)
{
    char name[64];
    snprintf(line, LINE_BYTES, "%s %lld %lld %lld\n", sha256, (long long)st->st_size,
             (long long)ns_of(st->st_mtim), (long long)ns_of(st->st_ctim));
    snprintf(name, sizeof name, "digests/%llx-%llx", (unsigned long long)st->st_dev,
             (unsigned long long)st->st_ino);
    return bn_hub_state_path(record, name);
}

static bool recall(char sha256[BN_SHA256_HEX], const struct stat *st)
{
    char line[LINE_BYTES], record[BN_HUB_PATH_MAX];
    struct bn_buf text = {.max = LINE_BYTES};
    struct stat written;
    bool known = describe(line, record, st, "") && stat(record, &written) == 0 &&
                 ns_of(written.st_mtim) > ns_of(st->st_ctim) + TICK_NS &&
                 bn_file_read_regular(record, &text, NULL) == BN_OK && text.len > BN_SHA256_HEX - 1 &&
                 strcmp(text.data + BN_SHA256_HEX - 1, line) == 0;
    snprintf(sha256, BN_SHA256_HEX, "%.64s", known ? text.data : "");
    bn_buf_release(&text);
    return bn_is_sha256(sha256);
}

static void record(const struct stat *st, const char *sha256)
{
    char line[LINE_BYTES], path[BN_HUB_PATH_MAX];
    if (!describe(line, path, st, sha256) || bn_file_make_folders(path, NULL) != BN_OK) return;
    bn_status ignored = bn_file_write_atomic(path, line, strlen(line), NULL);
    (void)ignored;
}

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           ns_of(a->st_mtim) == ns_of(b->st_mtim) && ns_of(a->st_ctim) == ns_of(b->st_ctim);
}

bn_status bn_hub_digest(char sha256[BN_SHA256_HEX], const char *path, bn_error *err)
{
    struct stat before, after;
    bool known = stat(path, &before) == 0;
    if (known && recall(sha256, &before)) return BN_OK;
    BN_TRY(bn_sha256_file(path, sha256, err));
    if (known && stat(path, &after) == 0 && same(&before, &after)) record(&after, sha256);
    return BN_OK;
}

void bn_hub_digest_record(const char *path, const char *sha256)
{
    struct stat st;
    if (bn_is_sha256(sha256) && stat(path, &st) == 0) record(&st, sha256);
}

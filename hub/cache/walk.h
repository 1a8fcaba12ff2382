/* SPDX-License-Identifier: MIT
 *
 * Lists the files in the cache (cache.h), also those of other programs.
 */
#ifndef BN_HUB_WALK_H
#define BN_HUB_WALK_H

#include "base/mem.h"

enum bn_hub_cached_kind {
    BN_HUB_CACHED_FILE, /* complete, and in a snapshot */
    BN_HUB_CACHED_BLOB, /* in no snapshot */
    BN_HUB_CACHED_PART, /* an unfinished download, or its journal */
    BN_HUB_CACHED_BAD   /* bytes with the wrong digest */
};

/* Texts are never NULL. */
struct bn_hub_cached {
    enum bn_hub_cached_kind kind;
    char *repo;
    char *file, *commit; /* of FILE, else "" */
    char *etag;          /* the name of the blob, without .part and the like; "" of a copy in a snapshot */
    char *path;          /* of the bytes */
    char *link;          /* of FILE: its name in the snapshot */
    uint64_t size;       /* bytes; of PART those that it takes on the disk */
    bool old;            /* of FILE: the repository has refs, and none of them is at this commit */
};

struct bn_hub_walk {
    struct bn_hub_cached *list; /* sorted by repository, file, commit, path */
    size_t n, room;
};

/* A cache that does not exist is an empty one. A file of several snapshots is listed for each. Links are not
 * followed to other folders, and files with names that no download tool creates are not listed. Released by
 * _release, in any case. */
BN_MUST_CHECK bn_status bn_hub_walk_open(struct bn_hub_walk *out, const char *root, bn_error *err);
void bn_hub_walk_release(struct bn_hub_walk *walk);

/* Removes a file of the cache, or an empty folder; path is below root, as in a walk. One that is reached
 * through a linked folder is not in the cache and stays (an error). A missing file is not an error. */
BN_MUST_CHECK bn_status bn_hub_walk_remove(const char *root, const char *path, bool folder, bn_error *err);

#endif

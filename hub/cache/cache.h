/* SPDX-License-Identifier: MIT
 *
 * The cache of the Hugging Face hub on this machine, in the layout that its own libraries use, so that a file
 * is on disk once, whichever program downloaded it:
 *
 *     <root>/models--owner--repo/blobs/<etag>                     the bytes; the sha256 for large files
 *     <root>/models--owner--repo/snapshots/<commit>/<file>        a link to its blob
 *     <root>/models--owner--repo/refs/<revision>                  the commit of a branch or tag
 *     <root>/.locks/models--owner--repo/<etag>.lock               locked (flock) during a download
 *
 * Nothing here needs the network.
 */
#ifndef BN_HUB_CACHE_H
#define BN_HUB_CACHE_H

#include <sys/types.h>

#include "base/digest.h"
#include "base/mem.h"

#define BN_HUB_PATH_MAX 4096u

/* HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub.
 * BN_ERR_NOT_FOUND when none of these is set, out is "" then. */
BN_MUST_CHECK bn_status bn_hub_cache_root(char out[BN_HUB_PATH_MAX], bn_error *err);

/* A file in the state folder of this user: XDG_STATE_HOME/bn/NAME, else ~/.local/state/bn/NAME. False when
 * neither is set, or the path is too long. */
bool bn_hub_state_path(char out[BN_HUB_PATH_MAX], const char *name);

/* The path of a complete file at a revision (branch, tag or commit). BN_ERR_NOT_FOUND otherwise, out is "" then. */
BN_MUST_CHECK bn_status bn_hub_cache_find(char out[BN_HUB_PATH_MAX], const char *root, const char *repo,
                                          const char *file, const char *revision, bn_error *err);
/* Where the blob of an etag belongs; makes the folders. The etag is checked: hex digits only. */
BN_MUST_CHECK bn_status bn_hub_cache_blob(char out[BN_HUB_PATH_MAX], const char *root, const char *repo,
                                          const char *etag, bn_error *err);
/* The lock file for downloads of a blob. */
BN_MUST_CHECK bn_status bn_hub_cache_lock(char out[BN_HUB_PATH_MAX], const char *root, const char *repo,
                                          const char *etag, bn_error *err);
/* Links a complete blob into the snapshot of a commit (relative link; a copy where links cannot be made)
 * and records the revision. Gives the snapshot's path. */
BN_MUST_CHECK bn_status bn_hub_cache_link(char out[BN_HUB_PATH_MAX], const char *root, const char *repo,
                                          const char *etag, const char *commit, const char *revision,
                                          const char *file, bn_error *err);

/* The file that a reference (names.h) names, without any network. BN_ERR_NOT_FOUND with the
 * hint "bn-download TEXT", or where the names are listed. */
BN_MUST_CHECK bn_status bn_hub_find(char path[BN_HUB_PATH_MAX], const char *text, bn_error *err);
/* The same for programs that open it (bn-run and others): the bytes are also compared with the digest that is
 * known for the file: the registry's, that of the first download, or the name of its blob. They are read when
 * they are new or have changed: BN_ERR_INTEGRITY. */
BN_MUST_CHECK bn_status bn_hub_locate(char path[BN_HUB_PATH_MAX], const char *text, bn_error *err);

/* ---- walk.c: what is in the cache, of other programs too ---- */

enum bn_hub_cached_kind {
    BN_HUB_CACHED_FILE, /* complete, and in a snapshot */
    BN_HUB_CACHED_BLOB, /* in no snapshot */
    BN_HUB_CACHED_PART, /* an unfinished download, or its journal */
    BN_HUB_CACHED_BAD   /* bytes with the wrong digest */
};

/* Texts are never NULL. */
struct bn_hub_cached {
    enum bn_hub_cached_kind kind;
    const char *repo;
    const char *file, *commit; /* of FILE, else "" */
    const char *etag; /* the name of the blob, without .part and the like; "" of a copy in a snapshot */
    const char *path; /* of the bytes */
    const char *link; /* of FILE: its name in the snapshot */
    uint64_t size;    /* bytes; of PART those that it takes on the disk */
    bool old;         /* of FILE: the repository has refs, and none of them is at this commit */

    char *texts; /* all of these; this and the rest are for walk.c */
    dev_t device;
    ino_t inode;
    bool linked;
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

/* ---- records.c: one process at a time downloads a file ---- */

/* An exclusive lock, by flock(2) on a file that is made with its folders: the lock that the libraries of the
 * Hugging Face hub use too. The system releases it when its holder dies. Waits until the lock is free, calling tick
 * (may be NULL) ten times a second; BN_ERR_CANCELLED when that returns false. Without BN_HUB_LOCK_WAIT: BN_ERR_IO
 * "another process is downloading this file". */
enum bn_hub_lock_flags {
    BN_HUB_LOCK_WAIT = 1,
    BN_HUB_LOCK_REMOVE = 2 /* the release removes the file; not for locks that other programs use too */
};
struct bn_hub_lock;
BN_MUST_CHECK bn_status bn_hub_lock_take(struct bn_hub_lock **out, const char *path, unsigned flags,
                                         bool (*tick)(void *user), void *user, bn_error *err);
void bn_hub_lock_release(struct bn_hub_lock *lock);

/* ---- records.c: digests of files that were read, and of first downloads, in the state folder ---- */

/* The SHA-256 of a file that is opened again and again. It is computed once and remembered with the file's
 * device, inode, size and times in the folder digests; a file that was changed or replaced since then is read again.
 * Not for decisions of trust: another process may write to the file while it is used. */
BN_MUST_CHECK bn_status bn_hub_digest(char sha256[BN_SHA256_HEX], const char *path, bn_error *err);
/* Remembers a digest that was just computed. Where nothing can be written, nothing is remembered. */
void bn_hub_digest_record(const char *path, const char *sha256);

/* pins.json has the digests of first use: that of the first download of a model whose digest was not known. A later
 * download of something else under the same name is then an error. The digest recorded for a key
 * ("hf:owner/repo:file"); "" when there is none. BN_ERR_FORMAT for a file that is damaged: it must not silently count
 * as empty. */
BN_MUST_CHECK bn_status bn_hub_pin_find(char sha256[BN_SHA256_HEX], const char *key, bn_error *err);
/* Records a digest, unless the key has one. */
BN_MUST_CHECK bn_status bn_hub_pin_record(const char *key, const char *sha256, bn_error *err);

/* ---- lockfile.c: the exact bytes of a set of models ----
 *
 * So another machine, or the same machine a year later, downloads the same bytes. JSON of schema bn.lock/1
 * (docs/reference/files.md); the same files give the same text. */

#define BN_HUB_LOCKED_URLS 8u

struct bn_hub_locked {
    const char *id;       /* the name that the user gave */
    const char *repo;     /* "owner/repo"; NULL: not of a repository; the first URL is used */
    const char *revision; /* the commit */
    const char *file;
    const char *sha256, *licence; /* licence NULL: not known */
    const char *tokenizer_sha256; /* of the vocabulary, as receipts name it; NULL: not known */
    uint64_t size;
    const char *urls[BN_HUB_LOCKED_URLS];
    size_t n_urls;
};

struct cJSON;
struct bn_hub_lockfile {
    struct cJSON *document; /* that the texts belong to */
    struct bn_hub_locked *list;
    size_t n;
};

/* The content is checked like the input of a user: names, paths, digests, URLs. Release it also after an
 * error. */
BN_MUST_CHECK bn_status bn_hub_lockfile_read(struct bn_hub_lockfile *out, const char *path, bn_error *err);
void bn_hub_lockfile_release(struct bn_hub_lockfile *lock);
/* An empty one to be written (hub/files/document.h); NULL when memory is short. Adds an entry at its place by id. */
struct cJSON *bn_hub_lockfile_new(void);
BN_MUST_CHECK bn_status bn_hub_lockfile_add(struct cJSON *document, const struct bn_hub_locked *f,
                                            bn_error *err);

#endif

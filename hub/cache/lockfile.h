/* SPDX-License-Identifier: MIT
 *
 * Lock files: the exact bytes of a set of models, so that another machine, or the same machine a year later,
 * downloads the same bytes. JSON of schema bn.lock/1 (docs/reference/downloads.md); the same files give the
 * same text.
 */
#ifndef BN_HUB_LOCKFILE_H
#define BN_HUB_LOCKFILE_H

#include "base/json.h"

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

struct bn_hub_lockfile {
    bn_json *document; /* that the texts belong to */
    struct bn_hub_locked *list;
    size_t n;
};

/* The content is checked like the input of a user: names, paths, digests, URLs. Release it also after an
 * error. */
BN_MUST_CHECK bn_status bn_hub_lockfile_read(struct bn_hub_lockfile *out, const char *path, bn_error *err);
void bn_hub_lockfile_release(struct bn_hub_lockfile *lock);
/* Sorts the list by id, and appends its text. */
BN_MUST_CHECK bn_status bn_hub_lockfile_write(struct bn_buf *out, struct bn_hub_locked *list, size_t n,
                                              bn_error *err);

#endif

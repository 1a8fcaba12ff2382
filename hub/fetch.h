/* SPDX-License-Identifier: MIT
 *
 * Turns the name of a model into a file on this machine: registry, cache, server, lock, transfer, in this
 * order.
 */
#ifndef BN_HUB_FETCH_H
#define BN_HUB_FETCH_H

#include "hub/net/resolve.h"
#include "hub/net/transfer.h"

struct bn_hub_fetch {
    const char *reference;      /* names.h */
    const char *to;             /* a folder for plain files; NULL: the cache (URLs: the current folder) */
    const char *sha256;         /* given by the user; NULL: none */
    uint64_t size_wanted;       /* of a lock file; 0: none */
    const char *const *mirrors; /* other endpoints with the same files */
    size_t n_mirrors;
    const char *const *urls; /* other addresses of the same bytes, tried last */
    size_t n_urls;
    struct bn_hub_server server;
    unsigned parallel, retries, stall_s;
    uint64_t limit_rate;
    bool force, no_wait; /* no_wait: fail when another process downloads it */
    bool dry_run;        /* resolve, and download nothing */
    bool pin; /* a digest of first use for a file of a repository, as names of the registry have it */
    bn_transfer_fn fn;
    void *user;

    /* Results. */
    char path[4096];
    char repo[193], file[1025], revision[256], commit[65], etag[129];
    char sha256_wanted[BN_SHA256_HEX]; /* "" when no digest was known */
    const char *sha256_source;         /* "--sha256", "registry", "hub", "first use"; NULL */
    char licence[64], runs[200];       /* of the registry, "" when unknown */
    char licence_url[200], url[2049];  /* "" when unknown */
    uint64_t size;                     /* 0: not known */
    bool from_cache;                   /* without any network request */
    bool first_use;                    /* its digest was recorded, for later downloads */
    bool unchanged;                    /* a URL's file was here, and the server still has it, */
    bool same_size;                    /* or has one of this size and names no version */
    char replaced[BN_SHA256_HEX];      /* the digest of a URL's file that was here before; else "" */
    struct bn_transfer transfer;       /* its results */
};

/* Does not use the network when the file is in the cache and the revision is a commit or a pin of the
 * registry, or with offline. A URL's file that is here, and whose digest is not known, is downloaded when the
 * server has another version. The path is that of a complete file. */
BN_MUST_CHECK bn_status bn_hub_fetch(struct bn_hub_fetch *fetch, bn_error *err);

#endif

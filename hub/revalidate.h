/* SPDX-License-Identifier: MIT
 *
 * Whether a file that was downloaded from a URL is still what the server has there. A server that gave an
 * ETag or a date of change is asked with If-None-Match and If-Modified-Since. Without them the size, and the
 * digest where the server names one, decide.
 */
#ifndef BN_HUB_REVALIDATE_H
#define BN_HUB_REVALIDATE_H

#include "hub/net/resolve.h"

enum bn_hub_freshness {
    BN_HUB_CHANGED,   /* the server has another file, or the file here is not the one that was downloaded */
    BN_HUB_UNCHANGED, /* the server says so (HTTP 304), or names the digest of the file here */
    BN_HUB_SAME_SIZE  /* nothing else is known */
};

/* The file here has this size and digest. */
BN_MUST_CHECK bn_status bn_hub_revalidate(enum bn_hub_freshness *out, const struct bn_hub_server *server,
                                          const char *url, uint64_t size, const char *sha256, bn_error *err);

#endif

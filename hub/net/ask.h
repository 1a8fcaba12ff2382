/* SPDX-License-Identifier: MIT
 *
 * Finds where the bytes of a URL are and which version they have. Redirects are followed here, so that a
 * token is sent only to the origin that it is for.
 */
#ifndef BN_HUB_ASK_H
#define BN_HUB_ASK_H

#include "hub/net/http.h"

struct bn_http_source {
    char url[BN_HTTP_URL_MAX];   /* where the bytes are, after all redirects */
    struct bn_http_answer first; /* of the requested URL, or of its new name there: the headers of the hub */
    struct bn_http_answer last;  /* of the final URL */
    bool ranges;                 /* it serves parts */
    uint64_t size;               /* 0: not known */
    char validator[256];         /* strong ETag, else Last-Modified, else "" */
    char sha256[65];             /* that the first answer names, as the hub does; else "" */
};

/* Requests one byte of the wanted URL, because not every server answers HEAD, and discards the body. At most
 * five redirects. The token and the conditions of the wanted request are sent; the token only to its origin.
 * On success the last answer's status is 200 or 206, or 304 for a request with conditions; any other is an
 * error: BN_ERR_NOT_FOUND, BN_ERR_AUTH, BN_ERR_NETWORK, by the status and the X-Error-Code of the
 * hub. *again is true when a later attempt may succeed, after retry_after_s of `last` if that is not -1. */
BN_MUST_CHECK bn_status bn_http_ask(struct bn_http_source *out, struct bn_http *http,
                                    const struct bn_http_request *wanted, bool (*tick)(void *user),
                                    void *user, bool *again, bn_error *err);

/* The error for an HTTP status; *again as above. */
bn_status bn_http_fail(const struct bn_http_answer *answer, const char *url, bool *again, bn_error *err);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Asking a URL where its bytes are and which version they have: redirects are followed by hand, so that a
 * token goes to the origin that it is for and to no other.
 */
#ifndef BN_HUB_ASK_H
#define BN_HUB_ASK_H

#include "hub/http.h"

struct bn_http_source {
    char url[BN_HTTP_URL_MAX];   /* where the bytes are, after all redirects */
    struct bn_http_answer first; /* of the URL asked for, or of its new name there: what the hub says */
    struct bn_http_answer last;  /* of the final URL */
    bool ranges;                 /* it serves parts */
    uint64_t size;               /* 0: not known */
    char validator[256];         /* strong ETag, else Last-Modified, else "" */
};

/* One byte is asked for, since not every server answers HEAD; nothing of the body is kept. At most five
 * redirects. On success the last answer's status is 200 or 206; any other is an error:
 * BN_ERR_NOT_FOUND, BN_ERR_AUTH, BN_ERR_NETWORK, told apart by the status and by what the hub says
 * (X-Error-Code). *again is true when trying again later may help, after retry_after_s of `last` if that is
 * not -1. */
BN_MUST_CHECK bn_status bn_http_ask(struct bn_http_source *out, struct bn_http *http, const char *url,
                                    const char *token, bool (*tick)(void *user), void *user, bool *again,
                                    bn_error *err);

/* The error for an HTTP status; *again as above. */
bn_status bn_http_fail(const struct bn_http_answer *answer, const char *url, bool *again, bn_error *err);

#endif

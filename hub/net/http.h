/* SPDX-License-Identifier: MIT
 *
 * HTTP for the hub, over libcurl; http.c is the only file that includes it. TLS is verified. For https,
 * proxies come from the environment as in curl; http, which is for this machine alone, never uses one.
 * Nothing is compressed. Redirects are not followed: the caller decides where a token may go.
 */
#ifndef BN_HUB_HTTP_H
#define BN_HUB_HTTP_H

#include "base/mem.h"

#define BN_HTTP_URL_MAX 4096u
#define BN_HTTP_STALL_BYTES 1000u /* a second: a slower connection is stalled */

/* The headers of an answer. Texts are empty, numbers 0, when a header is missing. */
struct bn_http_answer {
    long status;
    bool has_length;
    uint64_t length;          /* Content-Length */
    bool has_range;           /* a Content-Range "bytes from-to/total" that could be read */
    uint64_t from, to, total; /* total 0: "*" */
    char etag[256];           /* as sent, with quotes and W/ */
    char last_modified[64], content_type[96], content_encoding[32];
    char location[BN_HTTP_URL_MAX];
    uint64_t retry_after_s; /* a date becomes the seconds until then */
    /* of the hub */
    char commit[65], linked_etag[256], error_code[64];
    uint64_t linked_size;
};

struct bn_http_request {
    const char *url;
    bool ranged; /* ask for bytes from .. to; to UINT64_MAX: until the end */
    uint64_t from, to;
    const char *if_range; /* a strong validator; NULL: none */
    /* Conditions, as the server once gave them; NULL: none. An unchanged file is answered with 304. */
    const char *if_none_match, *if_modified_since;
    const char *token; /* for this URL; NULL: none */
    /* Called once after the headers and before the body; then for the body. Returning
     * false ends the call (BN_HTTP_STOPPED). Either may be NULL. */
    bool (*on_answer)(void *user, const struct bn_http_answer *answer);
    bool (*on_body)(void *user, const void *bytes, size_t n);
    void *user;
};

enum bn_http_end {
    BN_HTTP_DONE,    /* the answer is complete, whatever its status */
    BN_HTTP_STOPPED, /* by a callback */
    BN_HTTP_BROKEN,  /* no connection, reset, cut short, stalled: another attempt may succeed */
    BN_HTTP_REFUSED  /* certificate, protocol, URL: another attempt would not succeed */
};

struct bn_http_result {
    enum bn_http_end end;
    struct bn_http_answer answer;
    uint64_t received; /* bytes of the body */
    char message[200]; /* of anything but DONE: curl's words */
};

struct bn_http_options {
    uint64_t limit_rate; /* bytes a second of each call; 0: any */
    unsigned stall_s;    /* below 1000 bytes/s for this long is a stall; 0: 30 */
};

struct bn_http;
struct bn_http_call;
BN_MUST_CHECK bn_status bn_http_open(struct bn_http **out, const struct bn_http_options *options,
                                     bn_error *err);
void bn_http_close(struct bn_http *http);

/* Starts a call; the texts of the request live as long as the call. Calls run inside bn_http_poll. */
BN_MUST_CHECK bn_status bn_http_start(struct bn_http *http, const struct bn_http_request *request,
                                      struct bn_http_call **out, bn_error *err);
/* Runs all calls for at most wait_ms, or until one ends, whose handle is then in *ended (else NULL). */
BN_MUST_CHECK bn_status bn_http_poll(struct bn_http *http, unsigned wait_ms, struct bn_http_call **ended,
                                     bn_error *err);
/* *user: that of its request. */
const struct bn_http_result *bn_http_call_result(const struct bn_http_call *call, void **user);
/* Ends a call that runs, and releases it. */
void bn_http_call_close(struct bn_http_call *call);

/* One call, start to end. tick (may be NULL) is called ten times a second; false stops it. */
BN_MUST_CHECK bn_status bn_http_get(struct bn_http *http, const struct bn_http_request *request,
                                    bool (*tick)(void *user), void *user, struct bn_http_result *out,
                                    bn_error *err);

/* Makes the target of a redirect absolute. BN_ERR_FORMAT when it is not a URL or not an allowed one: other protocols than
 * https (http on this machine alone; and never from https to http). */
BN_MUST_CHECK bn_status bn_http_join(char out[BN_HTTP_URL_MAX], const char *base, const char *location,
                                     bn_error *err);
/* Same scheme, host and port? What may see the same token. */
bool bn_http_same_origin(const char *a, const char *b);
/* The URL without query, fragment and credentials: for messages. */
void bn_http_show(char *out, size_t room, const char *url);

/* ---- resolve.c: where the bytes of a URL are, and which version they have ---- */

struct bn_http_source {
    char url[BN_HTTP_URL_MAX];   /* where the bytes are, after all redirects */
    struct bn_http_answer first; /* of the requested URL, or of its new name there: the headers of the hub */
    struct bn_http_answer last;  /* of the final URL */
    bool ranges;                 /* it serves parts */
    uint64_t size;               /* 0: not known */
    char validator[256];         /* strong ETag, else Last-Modified, else "" */
    char sha256[65];             /* that the first answer names, as the hub does; else "" */
};

/* How long a question waits for its answer, and how often it is repeated. */
struct bn_http_patience {
    unsigned retries; /* after no answer, or a server error */
    unsigned stall_s; /* of the connection: bn_http_options */
    /* Called ten times a second, and before each wait for another attempt; false stops. Both may be NULL. */
    bool (*tick)(void *user);
    bool (*retry)(void *user, uint64_t wait_ms, unsigned attempt, const char *why);
    void *user;
};

/* Requests one byte of the wanted URL, because not every server answers HEAD, and discards it; with on_body all of it,
 * which begins again with each on_answer. At most five redirects: a token is sent only to the origin that it is for.
 * On success the last answer's status is 200 or 206, or 304 for a request with conditions; any other is an
 * error: BN_ERR_NOT_FOUND, BN_ERR_AUTH, BN_ERR_NETWORK, by the status and the X-Error-Code of the hub. */
BN_MUST_CHECK bn_status bn_http_ask(struct bn_http_source *out, struct bn_http *http,
                                    const struct bn_http_request *wanted,
                                    const struct bn_http_patience *patience, bn_error *err);
/* The error for an HTTP status; *again is true when a later attempt may succeed. */
bn_status bn_http_fail(const struct bn_http_answer *answer, const char *url, bool *again, bn_error *err);
/* The wait before attempt number `attempt`, at random up to twice as long as before; at least what the server asks
 * for, up to 300 s. */
uint64_t bn_http_wait_ms(unsigned attempt, uint64_t retry_after_s);

#endif

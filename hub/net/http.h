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

/* The headers of an answer. Texts are empty, numbers 0 or -1, when a header is missing. */
struct bn_http_answer {
    long status;
    bool has_length;
    uint64_t length;          /* Content-Length */
    bool has_range;           /* a Content-Range "bytes from-to/total" that could be read */
    uint64_t from, to, total; /* total 0: "*" */
    char etag[256];           /* as sent, with quotes and W/ */
    char last_modified[64], content_type[96], content_encoding[32];
    char location[BN_HTTP_URL_MAX];
    int64_t retry_after_s; /* -1: none; a date becomes the seconds until then */
    /* of the hub */
    char commit[65], linked_etag[256], error_code[64];
    uint64_t linked_size;
};

/* Takes one line of a header, without its line break: a status line begins a new answer, as after 1xx. */
void bn_http_read_line(struct bn_http_answer *answer, const char *line);

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
    uint64_t limit_rate; /* the caller will not poll for more bytes a second than this; 0: any */
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
const struct bn_http_result *bn_http_call_result(const struct bn_http_call *call);
void *bn_http_call_user(const struct bn_http_call *call);
/* Ends a call that runs, and releases it. */
void bn_http_call_close(struct bn_http_call *call);

/* One call, start to end. tick (may be NULL) is called ten times a second; false stops it. */
BN_MUST_CHECK bn_status bn_http_get(struct bn_http *http, const struct bn_http_request *request,
                                    bool (*tick)(void *user), void *user, struct bn_http_result *out,
                                    bn_error *err);

/* Makes a Location absolute. BN_ERR_FORMAT when it is not a URL or not an allowed one: other protocols than
 * https (http on this machine alone; and never from https to http). */
BN_MUST_CHECK bn_status bn_http_join(char out[BN_HTTP_URL_MAX], const char *base, const char *location,
                                     bn_error *err);
/* Same scheme, host and port? What may see the same token. */
bool bn_http_same_origin(const char *a, const char *b);
/* The URL without query, fragment and credentials: for messages. */
void bn_http_show(char *out, size_t room, const char *url);

#endif

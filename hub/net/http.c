/* SPDX-License-Identifier: MIT
 *
 * HTTP requests by libcurl. Its multi interface makes all calls in the caller's thread. A body is accepted only after
 * the headers are known.
 */
#include "hub/net/http.h"

#include <ctype.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "hub/names/names.h"

#define BUFFER_BYTES (512L << 10)
#define MAX_HEADER_BYTES (64u << 10)
#define ORIGIN_BYTES 600u
#define TICK_MS 100u

struct bn_http {
    CURLM *multi;
    struct bn_http_options options;
};

struct bn_http_call {
    struct bn_http *http;
    CURL *easy;
    struct curl_slist *fields;
    struct bn_http_request request;
    struct bn_http_result result;
    size_t header_bytes;
    bool announced, stopped;
    char words[CURL_ERROR_SIZE];
};

/* ---- the answer ---- */

/* Digits and nothing else. */
static bool read_u64(const char *text, uint64_t *out)
{
    char *end;
    if (*text < '0' || *text > '9' || strlen(text) > 19) return false;
    *out = strtoull(text, &end, 10);
    return *end == '\0';
}

/* "bytes 0-99/1000", "bytes 0-99/ *": three numbers that fit each other. */
static void read_range(struct bn_http_answer *a, const char *value)
{
    char from[24], to[24], total[24];
    int used = 0;
    if (sscanf(value, "bytes %23[0-9]-%23[0-9]/%23[0-9*]%n", from, to, total, &used) != 3) return;
    if (value[used] != '\0' || !read_u64(from, &a->from) || !read_u64(to, &a->to)) return;
    bool ok = strcmp(total, "*") == 0 || (read_u64(total, &a->total) && a->to < a->total);
    a->has_range = ok && a->from <= a->to;
}

static void read_answer(struct bn_http_answer *a, CURL *easy)
{
    char range[80] = "", size[24] = "";
    const struct {
        const char *name;
        char *out;
        size_t room;
    } TEXTS[] = {{"ETag", a->etag, sizeof a->etag},
                 {"Last-Modified", a->last_modified, sizeof a->last_modified},
                 {"Content-Type", a->content_type, sizeof a->content_type},
                 {"Content-Encoding", a->content_encoding, sizeof a->content_encoding},
                 {"Content-Range", range, sizeof range},
                 {"Location", a->location, sizeof a->location},
                 {"X-Repo-Commit", a->commit, sizeof a->commit},
                 {"X-Linked-Etag", a->linked_etag, sizeof a->linked_etag},
                 {"X-Linked-Size", size, sizeof size},
                 {"X-Error-Code", a->error_code, sizeof a->error_code}};
    struct curl_header *field;
    curl_off_t length = -1, wait_s = 0;
    for (size_t i = 0; i < BN_ARRAY_LEN(TEXTS); i++)
        /* A value that does not fit is none: half an address or half a digest is worse. */
        if (curl_easy_header(easy, TEXTS[i].name, 0, CURLH_HEADER, -1, &field) == CURLHE_OK &&
            strlen(field->value) < TEXTS[i].room)
            memcpy(TEXTS[i].out, field->value, strlen(field->value) + 1);
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &a->status);
    (void)curl_easy_getinfo(easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    (void)curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &wait_s);
    a->has_length = length >= 0;
    a->length = length >= 0 ? (uint64_t)length : 0;
    a->retry_after_s = wait_s > 0 ? (uint64_t)wait_s : 0;
    read_range(a, range);
    (void)read_u64(size, &a->linked_size);
}

/* Only counts: curl has a limit for a line, and none for their number. */
static size_t on_header(char *bytes, size_t size, size_t n, void *user)
{
    struct bn_http_call *call = user;
    (void)bytes;
    call->header_bytes += size * n;
    if (call->header_bytes <= MAX_HEADER_BYTES) return size * n;
    snprintf(call->words, sizeof call->words, "the header is over %u bytes", MAX_HEADER_BYTES);
    return 0;
}

/* ---- the body ---- */

static bool announce(struct bn_http_call *call)
{
    if (call->announced) return true;
    call->announced = true;
    const struct bn_http_request *r = &call->request;
    read_answer(&call->result.answer, call->easy);
    call->stopped = r->on_answer != NULL && !r->on_answer(r->user, &call->result.answer);
    return !call->stopped;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *user)
{
    struct bn_http_call *call = user;
    const struct bn_http_request *r = &call->request;
    if (!announce(call)) return 0;
    call->result.received += size * n;
    call->stopped = r->on_body != NULL && !r->on_body(r->user, bytes, size * n);
    return call->stopped ? 0 : size * n;
}

/* ---- calls ---- */

/* NULL adds nothing, nor does a value with a line break. */
static bool add_field(struct bn_http_call *call, const char *name, const char *value)
{
    char line[BN_HTTP_URL_MAX];
    if (value == NULL || strpbrk(value, "\r\n") != NULL) return true;
    int n = snprintf(line, sizeof line, "%s: %s", name, value);
    struct curl_slist *longer =
        n > 0 && (size_t)n < sizeof line ? curl_slist_append(call->fields, line) : NULL;
    if (longer != NULL) call->fields = longer;
    return longer != NULL;
}

static bool set_fields(struct bn_http_call *call)
{
    const struct bn_http_request *r = &call->request;
    char bearer[1024], range[64];
    snprintf(bearer, sizeof bearer, "Bearer %s", r->token != NULL ? r->token : "");
    snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)r->from, (unsigned long long)r->to);
    if (r->ranged && r->to == UINT64_MAX) range[strcspn(range, "-") + 1] = '\0';
    bool ok = add_field(call, "Accept-Encoding", "identity") &&
              add_field(call, "Authorization", r->token != NULL ? bearer : NULL) &&
              add_field(call, "If-Range", r->if_range) &&
              add_field(call, "If-None-Match", r->if_none_match) &&
              add_field(call, "If-Modified-Since", r->if_modified_since);
    if (r->ranged) ok = ok && curl_easy_setopt(call->easy, CURLOPT_RANGE, range) == CURLE_OK;
    return ok && curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->fields) == CURLE_OK;
}

/* The file of certificates of authorities: what the user names, else what libcurl was built for, else what other
 * distributions have. NULL: none of these exists. */
static const char *certificates(void)
{
    static const char *const NAMED[] = {"CURL_CA_BUNDLE", "SSL_CERT_FILE"};
    for (size_t i = 0; i < BN_ARRAY_LEN(NAMED); i++)
        if (getenv(NAMED[i]) != NULL && getenv(NAMED[i])[0] != '\0') return getenv(NAMED[i]);
    const char *const known[] = {curl_version_info(CURLVERSION_NOW)->cainfo,
                                 "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                 "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};
    for (size_t i = 0; i < BN_ARRAY_LEN(known); i++)
        if (known[i] != NULL && access(known[i], R_OK) == 0) return known[i];
    return NULL;
}

static bool set_options(struct bn_http_call *call)
{
    const struct bn_http_options *o = &call->http->options;
    CURL *easy = call->easy;
    CURLcode bad = CURLE_OK;
#define SET(option, value) bad |= curl_easy_setopt(easy, option, value)
    SET(CURLOPT_URL, call->request.url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    /* http is for this machine alone, and a proxy is another one: it would see the token and the bytes. */
    if (strncasecmp(call->request.url, "http:", 5) == 0) SET(CURLOPT_PROXY, "");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_CONNECTTIMEOUT, 15L);
    SET(CURLOPT_LOW_SPEED_LIMIT, (long)BN_HTTP_STALL_BYTES);
    SET(CURLOPT_LOW_SPEED_TIME, (long)(o->stall_s > 0 ? o->stall_s : 30));
    SET(CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    SET(CURLOPT_MAX_RECV_SPEED_LARGE, (curl_off_t)o->limit_rate);
    SET(CURLOPT_USERAGENT, "bn-download");
    SET(CURLOPT_ERRORBUFFER, call->words);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, call);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, call);
    SET(CURLOPT_PRIVATE, call);
    const char *authorities = certificates();
    if (authorities != NULL) SET(CURLOPT_CAINFO, authorities);
#undef SET
    return bad == CURLE_OK && set_fields(call);
}

bn_status bn_http_start(struct bn_http *http, const struct bn_http_request *request,
                        struct bn_http_call **out, bn_error *err)
{
    struct bn_http_call *call = bn_alloc(1, sizeof *call);
    *out = call;
    if (call == NULL) return bn_nomem(err);
    call->http = http;
    call->request = *request;
    call->easy = curl_easy_init();
    bool ok = call->easy != NULL && set_options(call);
    ok = ok && curl_multi_add_handle(http->multi, call->easy) == CURLM_OK;
    if (ok) return BN_OK;
    bn_http_call_close(call);
    *out = NULL;
    return bn_fail(err, BN_ERR_NOMEM, "out of memory for a request");
}

void bn_http_call_close(struct bn_http_call *call)
{
    if (call == NULL) return;
    if (call->easy != NULL) {
        curl_multi_remove_handle(call->http->multi, call->easy);
        curl_easy_cleanup(call->easy);
    }
    curl_slist_free_all(call->fields);
    bn_free(call);
}

const struct bn_http_result *bn_http_call_result(const struct bn_http_call *call, void **user)
{
    *user = call->request.user;
    return &call->result;
}

/* Errors that another attempt cannot fix: certificates, protocols. */
static bool is_final(CURLcode code)
{
    switch ((int)code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ENGINE_NOTFOUND:
    case CURLE_URL_MALFORMAT:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return true;
    default:
        return false;
    }
}

static void finish(struct bn_http_call *call, CURLcode code)
{
    struct bn_http_result *r = &call->result;
    /* An answer without a body has not been announced yet. */
    if (code == CURLE_OK) (void)announce(call);
    r->end = call->stopped      ? BN_HTTP_STOPPED
             : code == CURLE_OK ? BN_HTTP_DONE
             : is_final(code)   ? BN_HTTP_REFUSED
                                : BN_HTTP_BROKEN;
    const char *words = call->words[0] != '\0' ? call->words : curl_easy_strerror(code);
    if (code == CURLE_SSL_CACERT_BADFILE && certificates() == NULL)
        words = "no CA certificates on this system: install ca-certificates, or name a file in SSL_CERT_FILE";
    snprintf(r->message, sizeof r->message, "%.199s", words);
}

bn_status bn_http_poll(struct bn_http *http, unsigned wait_ms, struct bn_http_call **ended, bn_error *err)
{
    *ended = NULL;
    for (int pass = 0; pass < 2 && *ended == NULL; pass++) {
        int running, left;
        CURLMcode bad = CURLM_OK;
        if (pass == 1) bad = curl_multi_poll(http->multi, NULL, 0, (int)wait_ms, NULL);
        if (bad == CURLM_OK) bad = curl_multi_perform(http->multi, &running);
        if (bad != CURLM_OK) return bn_fail(err, BN_ERR_INTERNAL, "curl: %s", curl_multi_strerror(bad));
        const CURLMsg *message = curl_multi_info_read(http->multi, &left);
        if (message == NULL || message->msg != CURLMSG_DONE) continue;
        CURLcode code = message->data.result;
        char *user = NULL;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &user);
        *ended = (struct bn_http_call *)(void *)user;
        finish(*ended, code);
    }
    return BN_OK;
}

bn_status bn_http_get(struct bn_http *http, const struct bn_http_request *request, bool (*tick)(void *user),
                      void *user, struct bn_http_result *out, bn_error *err)
{
    struct bn_http_call *call, *ended = NULL;
    BN_TRY(bn_http_start(http, request, &call, err));
    bn_status status = BN_OK;
    while (status == BN_OK && ended == NULL) {
        status = bn_http_poll(http, TICK_MS, &ended, err);
        if (status == BN_OK && ended == NULL && tick != NULL && !tick(user))
            status = bn_fail(err, BN_ERR_CANCELLED, "stopped");
    }
    if (status == BN_OK) *out = call->result;
    bn_http_call_close(call);
    return status;
}

/* ---- the client ---- */

bn_status bn_http_open(struct bn_http **out, const struct bn_http_options *options, bn_error *err)
{
    struct bn_http *http = bn_alloc(1, sizeof *http);
    *out = NULL;
    if (http == NULL) return bn_nomem(err);
    if (options != NULL) http->options = *options;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) http->multi = curl_multi_init();
    if (http->multi != NULL) {
        *out = http;
        return BN_OK;
    }
    bn_free(http);
    return bn_fail(err, BN_ERR_NOMEM, "cannot initialise libcurl");
}

void bn_http_close(struct bn_http *http)
{
    if (http == NULL) return;
    curl_multi_cleanup(http->multi);
    curl_global_cleanup();
    bn_free(http);
}

/* ---- addresses ---- */

/* "https://example.org:443", in lower case. */
static CURLUcode origin_of(char out[ORIGIN_BYTES], const char *text)
{
    char *scheme = NULL, *host = NULL, *port = NULL;
    CURLU *url = curl_url();
    CURLUcode code = url == NULL ? CURLUE_OUT_OF_MEMORY : curl_url_set(url, CURLUPART_URL, text, 0);
    if (code == CURLUE_OK) code = curl_url_get(url, CURLUPART_SCHEME, &scheme, 0);
    if (code == CURLUE_OK) code = curl_url_get(url, CURLUPART_HOST, &host, 0);
    if (code == CURLUE_OK) code = curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
    if (code == CURLUE_OK &&
        snprintf(out, ORIGIN_BYTES, "%s://%s:%s", scheme, host, port) >= (int)ORIGIN_BYTES)
        code = CURLUE_MALFORMED_INPUT;
    for (char *c = out; code == CURLUE_OK && *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(url);
    return code;
}

/* Whether what `base` sends may lead to `target`. */
static bn_status check_hop(const char *base, const char *target, bn_error *err)
{
    char from[ORIGIN_BYTES], to[ORIGIN_BYTES];
    CURLUcode code = origin_of(from, base);
    if (code == CURLUE_OK) code = origin_of(to, target);
    if (code == CURLUE_OUT_OF_MEMORY) return bn_nomem(err);
    if (code != CURLUE_OK) return bn_fail(err, BN_ERR_FORMAT, "the redirect target is not a valid URL");
    bool https = strncmp(to, "https:", 6) == 0;
    if (!https && (strncmp(to, "http://", 7) != 0 || !bn_hub_is_loopback(to + 7)))
        return bn_fail(err, BN_ERR_FORMAT, "refused a redirect to %.80s: only https is safe", to);
    if (!https && strncmp(from, "https:", 6) == 0)
        return bn_fail(err, BN_ERR_FORMAT, "refused a redirect from https to http");
    return BN_OK;
}

bn_status bn_http_join(char out[BN_HTTP_URL_MAX], const char *base, const char *location, bn_error *err)
{
    char *text = NULL;
    CURLU *url = curl_url();
    CURLUcode code = url == NULL ? CURLUE_OUT_OF_MEMORY : curl_url_set(url, CURLUPART_URL, base, 0);
    if (code == CURLUE_OK) code = curl_url_set(url, CURLUPART_URL, location, 0);
    if (code == CURLUE_OK) code = curl_url_get(url, CURLUPART_URL, &text, 0);
    bn_status status =
        code == CURLUE_OUT_OF_MEMORY ? bn_nomem(err) : check_hop(base, code == CURLUE_OK ? text : "", err);
    if (status == BN_OK && strlen(text) >= BN_HTTP_URL_MAX)
        status = bn_fail(err, BN_ERR_LIMIT, "the redirect target is longer than %u bytes", BN_HTTP_URL_MAX);
    if (status == BN_OK) memcpy(out, text, strlen(text) + 1);
    curl_free(text);
    curl_url_cleanup(url);
    return status;
}

bool bn_http_same_origin(const char *a, const char *b)
{
    char x[ORIGIN_BYTES], y[ORIGIN_BYTES];
    return origin_of(x, a) == CURLUE_OK && origin_of(y, b) == CURLUE_OK && strcmp(x, y) == 0;
}

void bn_http_show(char *out, size_t room, const char *url)
{
    const char *scheme = strstr(url, "://"), *host = scheme != NULL ? scheme + 3 : url, *at;
    size_t n = strcspn(host, "/?#");
    while ((at = memchr(host, '@', n)) != NULL) {
        n -= (size_t)(at + 1 - host);
        host = at + 1;
    }
    snprintf(out, room, "%.*s%.*s", scheme != NULL ? (int)(scheme + 3 - url) : 0, url,
             (int)strcspn(host, "?#"), host);
}

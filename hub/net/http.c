/* SPDX-License-Identifier: MIT
 *
 * HTTP requests by libcurl. Its multi interface makes all calls in the caller's thread. Headers are parsed
 * here as they come, because a body must not be accepted before they are known.
 */
#include "hub/net/http.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/error.h"
#include "hub/names/reference.h"

#define BUFFER_BYTES (512L << 10)
#define MAX_HEADER_BYTES (64u << 10)
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

/* ---- reading a header ---- */

static bool is_field(const char *line, const char *name, const char **value)
{
    size_t n = strlen(name);
    if (strncasecmp(line, name, n) != 0 || line[n] != ':') return false;
    *value = line + n + 1 + strspn(line + n + 1, " \t");
    return true;
}

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
    a->total = 0;
    bool ok = strcmp(total, "*") == 0 || (read_u64(total, &a->total) && a->to < a->total);
    a->has_range = ok && a->from <= a->to;
}

/* Seconds, or a date; what lies in the past is now. */
static int64_t read_retry_after(const char *value)
{
    uint64_t seconds;
    if (read_u64(value, &seconds)) return seconds > 86400 ? 86400 : (int64_t)seconds;
    time_t at = curl_getdate(value, NULL), now = time(NULL);
    if (at < 0) return -1;
    return at > now ? (int64_t)(at - now) : 0;
}

static void read_field(struct bn_http_answer *a, const char *line)
{
    const struct {
        const char *name;
        char *out;
        size_t room;
    } TEXTS[] = {{"ETag", a->etag, sizeof a->etag},
                 {"Last-Modified", a->last_modified, sizeof a->last_modified},
                 {"Content-Type", a->content_type, sizeof a->content_type},
                 {"Content-Encoding", a->content_encoding, sizeof a->content_encoding},
                 {"Location", a->location, sizeof a->location},
                 {"X-Repo-Commit", a->commit, sizeof a->commit},
                 {"X-Linked-Etag", a->linked_etag, sizeof a->linked_etag},
                 {"X-Error-Code", a->error_code, sizeof a->error_code}};
    const char *value;
    for (size_t i = 0; i < BN_ARRAY_LEN(TEXTS); i++) {
        if (!is_field(line, TEXTS[i].name, &value)) continue;
        /* A value that does not fit is none: half an address or half a digest is worse. */
        if (strlen(value) < TEXTS[i].room) memcpy(TEXTS[i].out, value, strlen(value) + 1);
        return;
    }
    if (is_field(line, "Content-Length", &value))
        a->has_length = read_u64(value, &a->length);
    else if (is_field(line, "Content-Range", &value))
        read_range(a, value);
    else if (is_field(line, "Retry-After", &value))
        a->retry_after_s = read_retry_after(value);
    else if (is_field(line, "X-Linked-Size", &value))
        (void)read_u64(value, &a->linked_size);
}

/* A status line begins a header; one of 1xx, and that of a proxy, is followed by another. */
static bool read_status(struct bn_http_answer *a, const char *line)
{
    long status = 0;
    if (strncmp(line, "HTTP/", 5) != 0) return false;
    const char *space = strchr(line, ' ');
    if (space != NULL) status = strtol(space + 1, NULL, 10);
    *a = (struct bn_http_answer){.status = status, .retry_after_s = -1};
    return true;
}

void bn_http_read_line(struct bn_http_answer *answer, const char *line)
{
    if (!read_status(answer, line)) read_field(answer, line);
}

static size_t on_header(char *bytes, size_t size, size_t n, void *user)
{
    struct bn_http_call *call = user;
    char line[BN_HTTP_URL_MAX + 64];
    size_t length = size * n, kept = length;
    call->header_bytes += length;
    if (call->header_bytes > MAX_HEADER_BYTES) {
        snprintf(call->words, sizeof call->words, "the header is over %u bytes", MAX_HEADER_BYTES);
        return 0;
    }
    while (kept > 0 && strchr("\r\n \t", bytes[kept - 1]) != NULL)
        kept--;
    if (kept >= sizeof line || memchr(bytes, '\0', kept) != NULL) return length;
    memcpy(line, bytes, kept);
    line[kept] = '\0';
    bn_http_read_line(&call->result.answer, line);
    return length;
}

/* ---- the body ---- */

static bool announce(struct bn_http_call *call)
{
    if (call->announced) return true;
    call->announced = true;
    const struct bn_http_request *r = &call->request;
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

static bool add_field(struct bn_http_call *call, const char *name, const char *value)
{
    char line[BN_HTTP_URL_MAX];
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
    bool ok = add_field(call, "Accept-Encoding", "identity");
    if (r->token != NULL) {
        int n = snprintf(bearer, sizeof bearer, "Bearer %s", r->token);
        ok = ok && n > 0 && (size_t)n < sizeof bearer && add_field(call, "Authorization", bearer);
    }
    if (r->ranged && r->to == UINT64_MAX)
        snprintf(range, sizeof range, "%llu-", (unsigned long long)r->from);
    else
        snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)r->from, (unsigned long long)r->to);
    if (r->ranged) ok = ok && curl_easy_setopt(call->easy, CURLOPT_RANGE, range) == CURLE_OK;
    if (r->if_range != NULL) ok = ok && add_field(call, "If-Range", r->if_range);
    if (r->if_none_match != NULL) ok = ok && add_field(call, "If-None-Match", r->if_none_match);
    if (r->if_modified_since != NULL) ok = ok && add_field(call, "If-Modified-Since", r->if_modified_since);
    return ok && curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->fields) == CURLE_OK;
}

static const char *ca_file(void)
{
    static const char *const VARIABLES[] = {"CURL_CA_BUNDLE", "SSL_CERT_FILE"};
    for (size_t i = 0; i < BN_ARRAY_LEN(VARIABLES); i++) {
        const char *path = getenv(VARIABLES[i]);
        if (path != NULL && path[0] != '\0') return path;
    }
    return NULL;
}

/* curl reads up to a hundred buffers of a connection at once: with a limit, those hold what a tenth of a
 * second may bring. */
static long buffer_bytes(const struct bn_http_options *o)
{
    uint64_t bytes = o->limit_rate / 1000;
    if (o->limit_rate == 0 || bytes > (uint64_t)BUFFER_BYTES) return BUFFER_BYTES;
    return bytes < 1024 ? 1024 : (long)bytes;
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
    SET(CURLOPT_BUFFERSIZE, buffer_bytes(o));
    SET(CURLOPT_USERAGENT, "bn-download");
    SET(CURLOPT_ERRORBUFFER, call->words);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, call);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, call);
    SET(CURLOPT_PRIVATE, call);
    if (ca_file() != NULL) SET(CURLOPT_CAINFO, ca_file());
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
    call->result.answer.retry_after_s = -1;
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

const struct bn_http_result *bn_http_call_result(const struct bn_http_call *call)
{
    return &call->result;
}

void *bn_http_call_user(const struct bn_http_call *call)
{
    return call->request.user;
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

struct origin {
    char *scheme, *host, *port;
};

static bool read_origin(struct origin *o, CURLU *url)
{
    *o = (struct origin){0};
    return curl_url_get(url, CURLUPART_SCHEME, &o->scheme, 0) == CURLUE_OK &&
           curl_url_get(url, CURLUPART_HOST, &o->host, 0) == CURLUE_OK &&
           curl_url_get(url, CURLUPART_PORT, &o->port, CURLU_DEFAULT_PORT) == CURLUE_OK;
}

static void release_origin(struct origin *o)
{
    curl_free(o->scheme);
    curl_free(o->host);
    curl_free(o->port);
}

static bn_status check_hop(CURLU *from, CURLU *to, bn_error *err)
{
    struct origin a, b;
    bool known = read_origin(&a, from), ok = read_origin(&b, to) && known;
    bn_status status = BN_OK;
    if (!ok)
        status = bn_fail(err, BN_ERR_FORMAT, "the redirect target is not a valid URL");
    else if (strcmp(b.scheme, "https") != 0 && (strcmp(b.scheme, "http") != 0 || !bn_hub_is_loopback(b.host)))
        status = bn_fail(err, BN_ERR_FORMAT, "refused a redirect to %s on %.60s: only https is safe",
                         b.scheme, b.host);
    else if (strcmp(a.scheme, "https") == 0 && strcmp(b.scheme, "https") != 0)
        status = bn_fail(err, BN_ERR_FORMAT, "refused a redirect from https to http");
    release_origin(&a);
    release_origin(&b);
    return status;
}

bn_status bn_http_join(char out[BN_HTTP_URL_MAX], const char *base, const char *location, bn_error *err)
{
    CURLU *from = curl_url(), *to = curl_url();
    char *text = NULL;
    bn_status status = BN_OK;
    if (from == NULL || to == NULL) status = bn_nomem(err);
    if (status == BN_OK && (curl_url_set(from, CURLUPART_URL, base, 0) != CURLUE_OK ||
                            curl_url_set(to, CURLUPART_URL, base, 0) != CURLUE_OK ||
                            curl_url_set(to, CURLUPART_URL, location, 0) != CURLUE_OK))
        status = bn_fail(err, BN_ERR_FORMAT, "the redirect target is not a valid URL");
    if (status == BN_OK) status = check_hop(from, to, err);
    if (status == BN_OK &&
        (curl_url_get(to, CURLUPART_URL, &text, 0) != CURLUE_OK || strlen(text) >= BN_HTTP_URL_MAX))
        status = bn_fail(err, BN_ERR_LIMIT, "the redirect target is longer than %u bytes", BN_HTTP_URL_MAX);
    if (status == BN_OK) memcpy(out, text, strlen(text) + 1);
    curl_free(text);
    curl_url_cleanup(from);
    curl_url_cleanup(to);
    return status;
}

bool bn_http_same_origin(const char *a, const char *b)
{
    CURLU *u = curl_url(), *v = curl_url();
    struct origin p = {0}, q = {0};
    bool same = u != NULL && v != NULL && curl_url_set(u, CURLUPART_URL, a, 0) == CURLUE_OK &&
                curl_url_set(v, CURLUPART_URL, b, 0) == CURLUE_OK && read_origin(&p, u) &&
                read_origin(&q, v) && strcmp(p.scheme, q.scheme) == 0 && strcasecmp(p.host, q.host) == 0 &&
                strcmp(p.port, q.port) == 0;
    release_origin(&p);
    release_origin(&q);
    curl_url_cleanup(u);
    curl_url_cleanup(v);
    return same;
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

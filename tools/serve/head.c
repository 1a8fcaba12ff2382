/* SPDX-License-Identifier: MIT
 *
 * The head of a request: what is refused before the body is read. libmicrohttpd 0.9.75 accepts much that two programs can
 * read differently: two lengths of a body, two Hosts, names of headers with blanks, lines that go on in the next one, NUL.
 * Here each of them is status 400.
 *
 * libmicrohttpd splits the head where it received it: names and values are texts in there. A NUL ends a value early, and a
 * header that goes on in the next line is copied: then a header does not begin where the one before it ends.
 *
 * A page of another site can make a browser send requests here. It is kept out by the header Origin, and, when it uses the
 * name of its own site for this address (DNS rebinding), by the header Host.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "tools/serve/job.h"

#define MAX_HEAD_BYTES (32u << 10)
#define MAX_TARGET_BYTES (8u << 10)
#define CRLF 2u /* bytes of the end of a line */

/* ---- the target ---- */

void bn_head_target(struct bn_head *head, const char *target)
{
    head->n_target = strlen(target);
    head->bad_target = target[0] != '/' || strcasestr(target, "%00") != NULL;
    for (const char *at = target; *at != '\0'; at++)
        head->bad_target |= (unsigned char)*at <= ' ' || (unsigned char)*at >= 0x7f;
}

/* ---- headers ---- */

/* Those that may be given once. */
static const struct known {
    const char *name;
    size_t at; /* in struct bn_head */
} KNOWN[] = {
    {"Host", offsetof(struct bn_head, host)},
    {"Origin", offsetof(struct bn_head, origin)},
    {"Content-Length", offsetof(struct bn_head, length)},
    {"Transfer-Encoding", offsetof(struct bn_head, coding)},
    {"Authorization", offsetof(struct bn_head, authorization)},
    {"Expect", offsetof(struct bn_head, expect)},
    {"X-Api-Key", offsetof(struct bn_head, key)},
    {"Access-Control-Request-Method", offsetof(struct bn_head, asked_method)},
};

static bool is_token(const char *name)
{
    size_t n = strspn(name, "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
    return n > 0 && name[n] == '\0';
}

void bn_head_begin(struct bn_head *head, const char *version)
{
    head->is_old = strcmp(version, "HTTP/1.0") == 0;
    head->at = version + strlen(version) + CRLF;
}

void bn_head_end(struct bn_head *head, const char *method, size_t n_bytes)
{
    head->n_bytes = n_bytes;
    head->bad_bytes |= head->at + CRLF != method + n_bytes;
}

void bn_head_take(struct bn_head *head, const char *name, const char *value)
{
    size_t n = value != NULL ? strlen(value) : 0;
    head->bad_name = head->bad_name || !is_token(name);
    for (size_t i = 0; i < n; i++)
        head->bad_bytes |= ((unsigned char)value[i] < ' ' && value[i] != '\t') || value[i] == 0x7f;
    if (head->at != NULL && value != NULL) {
        head->bad_bytes |= name != head->at;
        head->at = value + n + CRLF;
    }
    for (size_t i = 0; i < BN_ARRAY_LEN(KNOWN); i++) {
        if (strcasecmp(name, KNOWN[i].name) != 0) continue;
        const char **field = (const char **)(void *)((char *)head + KNOWN[i].at);
        if (*field != NULL) head->twice = KNOWN[i].name;
        *field = value != NULL ? value : "";
    }
    if (strcasecmp(name, "Content-Type") == 0) {
        if (head->type != NULL) value = "several";
        head->type = value != NULL ? value : "";
    }
}

/* ---- checks ---- */

/* An address, localhost, or a name that the command line gives; with or without a port. */
static bool knows_host(const struct bn_serve_options *o, const char *host)
{
    char name[128];
    unsigned char address[16];
    const char *end = host[0] == '[' ? strchr(host, ']') : strchr(host, ':');
    size_t from = host[0] == '[', n = end != NULL ? (size_t)(end - host) : strlen(host);
    const char *port = end != NULL && host[0] == '[' ? end + 1 : end;
    if (n <= from || n - from >= sizeof name || (from == 1 && end == NULL)) return false;
    if (port != NULL && *port != '\0' && (*port != ':' || strspn(port + 1, "0123456789") != strlen(port + 1)))
        return false;
    memcpy(name, host + from, n - from);
    name[n - from] = '\0';
    if (from == 1) return inet_pton(AF_INET6, name, address) == 1;
    if (strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, address) == 1) return true;
    for (size_t i = 0; i < o->allow_hosts.n; i++)
        if (strcasecmp(name, o->allow_hosts.list[i]) == 0) return true;
    return false;
}

static bool is_same_origin(const struct bn_head *head)
{
    const char *name = strncmp(head->origin, "http://", 7) == 0    ? head->origin + 7
                       : strncmp(head->origin, "https://", 8) == 0 ? head->origin + 8
                                                                   : "";
    return strcasecmp(name, head->host) == 0;
}

/* The origin as --cors names it; NULL: it is not permitted. */
static const char *permitted_origin(const struct bn_serve_options *o, const char *origin)
{
    size_t i = bn_find_text(o->cors.list, o->cors.n, sizeof *o->cors.list, origin);
    return i < o->cors.n ? o->cors.list[i] : NULL;
}

bool bn_head_is_origin(const char *text)
{
    const char *host = strstr(text, "://");
    if (host == NULL || host == text ||
        strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+-.") != (size_t)(host - text))
        return false;
    host += 3;
    return *host != '\0' && strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]") == strlen(host);
}

static bool is_json(const char *type)
{
    static const char JSON[] = "application/json";
    size_t n = sizeof JSON - 1;
    return type != NULL && strncasecmp(type, JSON, n) == 0 &&
           (type[n] == '\0' || strchr("; \t", type[n]) != NULL);
}

static void check_form(const struct bn_head *head, struct bn_reply *reply)
{
    if (head->n_target > MAX_TARGET_BYTES)
        bn_reply_error(reply, 414, NULL, NULL, "the address has more than %u bytes", MAX_TARGET_BYTES);
    else if (head->bad_target)
        bn_reply_error(reply, 400, NULL, NULL,
                       "the address is not a path: it begins with / and has visible ASCII characters only");
    else if (head->n_bytes > MAX_HEAD_BYTES)
        bn_reply_error(reply, 431, NULL, NULL, "the headers have more than %u bytes", MAX_HEAD_BYTES);
    else if (head->bad_name)
        bn_reply_error(reply, 400, NULL, NULL, "the name of a header has characters that no name has");
    else if (head->bad_bytes)
        bn_reply_error(
            reply, 400, NULL, NULL,
            "a line of the head has a control character, or does not end with CR LF, or goes on in the "
            "next line");
    else if (head->twice != NULL)
        bn_reply_error(reply, 400, NULL, NULL, "the header %s is given twice", head->twice);
}

/* The length of the body is stated once, in a way that every program understands. */
static void check_framing(const struct bn_serve_options *o, struct bn_head *head, struct bn_reply *reply)
{
    size_t n_digits = head->length != NULL ? strspn(head->length, "0123456789") : 0;
    head->has_body = head->coding != NULL || (head->length != NULL && strcmp(head->length, "0") != 0);
    if (head->length != NULL && head->coding != NULL)
        bn_reply_error(reply, 400, NULL, NULL, "the request states the length of its body twice");
    else if (head->coding != NULL && head->is_old)
        bn_reply_error(reply, 400, NULL, NULL, "Transfer-Encoding is not a header of HTTP/1.0");
    else if (head->coding != NULL && strcasecmp(head->coding, "chunked") != 0)
        bn_reply_error(reply, 501, NULL, NULL, "Transfer-Encoding is not chunked");
    else if (head->length != NULL && (n_digits == 0 || head->length[n_digits] != '\0'))
        bn_reply_error(reply, 400, NULL, NULL, "Content-Length is not a number");
    if (reply->status != 0 || head->length == NULL) return;
    head->n_body = n_digits > 18 ? UINT64_MAX : strtoull(head->length, NULL, 10);
    if (head->n_body > o->max_body_bytes) bn_reply_too_large(reply, o->max_body_bytes);
}

/* The number of a key, counted from 1; 0: it is none of them. The time does not depend on its bytes. */
static uint32_t find_key(const struct bn_server *s, const char *key)
{
    char digest[BN_SHA256_HEX];
    uint32_t found = 0;
    bn_sha256_hex(key, strlen(key), digest);
    for (uint32_t i = 0; i < s->n_keys; i++) {
        unsigned differ = 0;
        for (size_t k = 0; k < BN_SHA256_HEX; k++)
            differ |= (unsigned)(digest[k] ^ s->keys[i][k]);
        uint32_t same = (differ - 1u) >> 31; /* 1 when differ is 0 */
        found |= same * (i + 1);
    }
    return found <= s->n_keys ? found : 0;
}

static void check_key(const struct bn_server *s, struct bn_head *head, struct bn_reply *reply)
{
    const char *key = head->key;
    if (head->authorization != NULL && strncasecmp(head->authorization, "Bearer ", 7) == 0)
        key = head->authorization + 7 + strspn(head->authorization + 7, " ");
    if (key == NULL)
        bn_reply_error(reply, 401, NULL, "invalid_api_key",
                       "no key: send the header Authorization: Bearer KEY");
    else if ((head->tenant = find_key(s, key)) == 0)
        bn_reply_error(reply, 401, NULL, "invalid_api_key", "wrong key");
}

void bn_head_check(const struct bn_server *s, struct bn_head *head, const char *method, const char *path,
                   struct bn_reply *reply)
{
    bool needs_key = true;
    check_form(head, reply);
    if (reply->status == 0) check_framing(s->o, head, reply);
    if (reply->status != 0) return;
    if (head->host == NULL || !knows_host(s->o, head->host)) {
        bn_reply_error(reply, 403, NULL, NULL,
                       "the header Host does not name this server; --allow-host NAME permits a name");
        return;
    }
    if (head->origin != NULL) head->permitted = permitted_origin(s->o, head->origin);
    if (head->origin != NULL && head->permitted == NULL && !is_same_origin(head)) {
        bn_reply_error(reply, 403, NULL, NULL,
                       "requests of pages from other origins are not accepted; --cors ORIGIN permits one");
        return;
    }
    head->is_preflight =
        head->permitted != NULL && head->asked_method != NULL && strcmp(method, "OPTIONS") == 0;
    if (head->is_preflight)
        reply->status = 204;
    else if (bn_route_check(reply, method, path, &needs_key) && s->n_keys > 0 && needs_key)
        check_key(s, head, reply);
    if (reply->status == 0 && strcmp(method, "POST") == 0 && !is_json(head->type))
        bn_reply_error(reply, 415, NULL, NULL,
                       "Content-Type is not application/json: send the header Content-Type: application/json "
                       "(curl: -H 'Content-Type: application/json')");
}

/* ---- keys of clients: all digests are compared each time, so the time of a refusal says nothing about a key ---- */

#define LEAST_KEY_BYTES 16u
#define MAX_KEYS_BYTES (64u << 10)

static bn_status take_key(struct bn_server *s, const char *line, size_t n, bn_error *err)
{
    while (n > 0 && (line[n - 1] == '\r' || line[n - 1] == ' ' || line[n - 1] == '\t'))
        n--;
    if (n == 0 || line[0] == '#') return BN_OK;
    if (n < LEAST_KEY_BYTES)
        return bn_hint(bn_fail(err, BN_ERR_FORMAT, "key %zu has fewer than %u characters", s->n_keys + 1,
                               LEAST_KEY_BYTES),
                       err, "openssl rand -hex 24 prints a good one");
    if (s->n_keys == BN_SERVE_MAX_KEYS)
        return bn_fail(err, BN_ERR_LIMIT, "more than %u keys", BN_SERVE_MAX_KEYS);
    bn_sha256_hex(line, n, s->keys[s->n_keys++]);
    return BN_OK;
}

bn_status bn_keys_read(struct bn_server *s, const char *path, bn_error *err)
{
    struct bn_buf text = {.max = MAX_KEYS_BYTES};
    BN_TRY(BN_NEW(s->keys, BN_SERVE_MAX_KEYS, err));
    bn_status status = bn_file_check_private(path, err);
    if (status == BN_OK) status = bn_file_read_regular(path, &text, err);
    for (size_t at = 0; status == BN_OK && at < text.len;) {
        const char *line = text.data + at, *end = memchr(line, '\n', text.len - at);
        size_t n = end != NULL ? (size_t)(end - line) : text.len - at;
        status = take_key(s, line, n, err);
        at += n + 1;
    }
    if (status == BN_OK && s->n_keys == 0) status = bn_fail(err, BN_ERR_FORMAT, "the file has no keys");
    if (status != BN_OK) bn_error_name(err, path);
    if (text.data != NULL) explicit_bzero(text.data, text.len);
    bn_buf_release(&text);
    return status;
}

uint64_t bn_keys_owner(const struct bn_server *s, uint32_t tenant)
{
    char digits[17] = "0";
    if (tenant != 0) memcpy(digits, s->keys[tenant - 1], 16);
    return strtoull(digits, NULL, 16);
}

/* ---- addresses ---- */

const void *bn_address_bytes(const struct sockaddr *address)
{
    return address->sa_family == AF_INET6
               ? (const void *)&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr
               : (const void *)&((const struct sockaddr_in *)(const void *)address)->sin_addr;
}

uint64_t bn_address_number(const struct sockaddr *address)
{
    uint64_t hash = 14695981039346656037u;
    const unsigned char *at = address != NULL ? bn_address_bytes(address) : NULL;
    size_t n = address == NULL ? 0 : address->sa_family == AF_INET6 ? 8 : 4;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ at[i]) * 1099511628211u;
    return hash;
}

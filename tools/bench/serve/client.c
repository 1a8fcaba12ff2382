/* SPDX-License-Identifier: MIT
 *
 * The HTTP of bn-bench serve: one request, its response in chunks or until the end of the connection, and the events in
 * it. The only file of bn-bench that opens connections.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "tools/bench/serve/load.h"

#define MAX_LINE (16u << 20)
#define LOOK_US 100000 /* how often a client that waits looks whether it has to stop */

/* ---- URLs ---- */

static bool read_address(struct bn_target *t, const char *name, const char *port)
{
    const struct addrinfo numeric = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    if (strcmp(name, "localhost") == 0) name = "127.0.0.1";
    if (getaddrinfo(name, port, &numeric, &found) != 0) return false;
    t->n_address = found->ai_addrlen;
    memcpy(&t->address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return true;
}

bn_status bn_target_parse(struct bn_target *t, const char *url, bn_error *err)
{
    static const char SCHEME[] = "http://";
    char name[64] = "", port[8] = "80";
    bool good = strncmp(url, SCHEME, sizeof SCHEME - 1) == 0;
    const char *host = good ? url + sizeof SCHEME - 1 : url, *path = host + strcspn(host, "/");
    int n = 0;
    if (sscanf(host, host[0] == '[' ? "[%63[^]/]]:%7[0-9]%n" : "%63[^:/]:%7[0-9]%n", name, port, &n) < 2)
        n = (int)strlen(name) + 2 * (host[0] == '[');
    unsigned long number = strtoul(port, NULL, 10);
    good = good && host + n == path && number > 0 && number < 65536 && read_address(t, name, port);
    if (!good)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "'%.100s' is not http:// with an address and a port", url),
                       err, "for example http://127.0.0.1:8080");
    snprintf(t->host, sizeof t->host, "%.*s", (int)(path - host), host);
    snprintf(t->prefix, sizeof t->prefix, "%s", path);
    while (t->prefix[0] != '\0' && t->prefix[strlen(t->prefix) - 1] == '/')
        t->prefix[strlen(t->prefix) - 1] = '\0';
    if (t->prefix[0] == '\0') snprintf(t->prefix, sizeof t->prefix, "/v1");
    return BN_OK;
}

/* ---- the connection ---- */

struct stream {
    struct bn_client_run *run;
    const atomic_bool *stop;
    int fd;
    unsigned char bytes[16384]; /* what was received, from `at` */
    size_t at, n;
    bool chunked;
    uint64_t n_chunk; /* bytes of the chunk that are still to come */
    struct bn_buf line;
    struct bn_sha256 text;
    bool done; /* "[DONE]" came */
};

/* The first reason stays. */
static void fail(struct stream *s, const char *reason)
{
    if (s->run->reason[0] == '\0') snprintf(s->run->reason, sizeof s->run->reason, "%s", reason);
}

/* After a call that failed: whether to call again. */
static bool goes_on(struct stream *s)
{
    bool waits = errno == EAGAIN || errno == EINTR || errno == EINPROGRESS;
    if (waits && !atomic_load(s->stop)) return true;
    fail(s, waits ? "no answer within --timeout" : strerror(errno));
    return false;
}

static void send_all(struct stream *s, const struct bn_buf *text)
{
    for (size_t sent = 0; sent < text->len && s->run->reason[0] == '\0';) {
        ssize_t n = send(s->fd, text->data + sent, text->len - sent, MSG_NOSIGNAL);
        if (n > 0) sent += (size_t)n;
        if (n < 0 && !goes_on(s)) return;
    }
}

/* The next byte; -1 at the end and after a failure. */
static int next_byte(struct stream *s)
{
    while (s->at == s->n) {
        ssize_t n = recv(s->fd, s->bytes, sizeof s->bytes, 0);
        if (n == 0 || (n < 0 && !goes_on(s))) return -1;
        s->at = 0;
        s->n = n > 0 ? (size_t)n : 0;
    }
    return s->bytes[s->at++];
}

static int body_byte(struct stream *s);

/* The next line, of the body or of what frames it, without its end; false when there is none. */
static bool read_line(struct stream *s, int (*next)(struct stream *s))
{
    int c;
    s->line.len = 0;
    while ((c = next(s)) >= 0 && c != '\n')
        if (c != '\r') bn_buf_putc(&s->line, (char)c);
    if (s->line.failed) fail(s, "the answer is too long");
    return c >= 0 && !s->line.failed;
}

static int body_byte(struct stream *s)
{
    char length[32] = "";
    while (s->chunked &&
           s->n_chunk == 0) { /* the end of the last chunk, then a line with the length of the next */
        size_t n = 0;
        for (int c; (c = next_byte(s)) != '\n';) {
            if (c < 0) return -1;
            if (n + 1 < sizeof length && c != '\r') length[n++] = (char)c;
        }
        length[n] = '\0';
        s->n_chunk = strtoull(length, NULL, 16);
        if (n > 0 && s->n_chunk == 0) return -1;
    }
    s->n_chunk -= s->chunked;
    return next_byte(s);
}

/* ---- events ---- */

static void note_text(struct stream *s, const char *text)
{
    struct bn_client_run *run = s->run;
    if (text[0] == '\0') return;
    bn_sha256_update(&s->text, text, strlen(text));
    if (bn_array_grow(&run->at_ns, &run->room, run->n_at + 1, sizeof *run->at_ns, NULL) != BN_OK) {
        fail(s, "out of memory");
        return;
    }
    run->at_ns[run->n_at] = bn_clock_ns();
    run->n_at++;
}

static void take_event(struct stream *s, const char *text, size_t n)
{
    bn_json *event = NULL;
    struct bn_client_run *run = s->run;
    s->done = strcmp(text, "[DONE]") == 0;
    if (s->done) return;
    if (bn_json_parse(&event, text, n, NULL) != BN_OK) {
        fail(s, "an event is not JSON");
        return;
    }
    const bn_json *choice = bn_json_first(bn_json_get(event, "choices")),
                  *usage = bn_json_get(event, "usage");
    if (bn_json_get(event, "error") != NULL) fail(s, bn_json_text_of(event, "error.message"));
    if (choice != NULL) {
        note_text(s, bn_json_text_of(choice, "text"));
        const char *chain = bn_json_text_of(choice, "bn.chain");
        if (chain[0] != '\0') snprintf(run->chain, sizeof run->chain, "%s", chain);
    }
    if (usage != NULL && bn_json_kind(usage) == BN_JSON_OBJECT) {
        run->n_prompt = bn_json_count_of(usage, "prompt_tokens");
        run->n_tokens = bn_json_count_of(usage, "completion_tokens");
        run->n_cached = bn_json_count_of(usage, "prompt_tokens_details.cached_tokens");
    }
    bn_json_free(event);
}

/* ---- a request ---- */

static void read_head(struct stream *s)
{
    char reason[64];
    if (!read_line(s, next_byte)) return;
    const char *first = bn_buf_text(&s->line);
    s->run->status = strncmp(first, "HTTP/1.", 7) == 0 ? (unsigned)strtoul(first + 8, NULL, 10) : 0;
    snprintf(reason, sizeof reason, "status %u", s->run->status);
    while (read_line(s, next_byte) && s->line.len > 0)
        s->chunked |= strcasecmp(bn_buf_text(&s->line), "Transfer-Encoding: chunked") == 0;
    if (s->run->status != 200) fail(s, reason);
}

static void read_answer(struct stream *s)
{
    read_head(s);
    while (!s->done && s->run->reason[0] == '\0' && read_line(s, body_byte))
        if (s->line.len > 6 && memcmp(s->line.data, "data: ", 6) == 0)
            take_event(s, bn_buf_text(&s->line) + 6, s->line.len - 6);
    if (!s->done) fail(s, "the connection ended before the answer");
    if (s->run->chain[0] == '\0') bn_sha256_take_hex(&s->text, s->run->chain);
}

/* A socket whose calls return after some time, so that a client can be stopped. */
static bool open_connection(struct stream *s, const struct bn_target *t)
{
    const int on = 1;
    const struct timeval look = {.tv_usec = LOOK_US};
    s->fd = socket(t->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s->fd >= 0) {
        (void)setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &look, sizeof look);
        (void)setsockopt(s->fd, SOL_SOCKET, SO_SNDTIMEO, &look, sizeof look);
        (void)setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        while (connect(s->fd, (const struct sockaddr *)&t->address, t->n_address) != 0 && errno != EISCONN)
            if (!goes_on(s)) return false;
        return true;
    }
    fail(s, strerror(errno));
    return false;
}

static void ask(struct stream *s, const struct bn_target *t, const struct bn_buf *body)
{
    struct bn_buf head = {.max = 1u << 13};
    bn_buf_printf(
        &head,
        "POST %s/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nConnection: close\r\n"
        "%s%s%sContent-Length: %zu\r\n\r\n",
        t->prefix, t->host, t->key != NULL ? "Authorization: Bearer " : "", t->key != NULL ? t->key : "",
        t->key != NULL ? "\r\n" : "", body->len);
    if (head.failed || body->failed) {
        fail(s, "out of memory");
    } else if (open_connection(s, t)) {
        send_all(s, &head);
        send_all(s, body);
        read_answer(s);
    }
    bn_buf_release(&head);
}

void bn_client_ask(struct bn_client_run *run, const struct bn_target *target, const struct bn_buf *body,
                   const atomic_bool *stop)
{
    struct stream s = {.run = run, .stop = stop, .fd = -1, .line.max = MAX_LINE};
    bn_sha256_begin(&s.text);
    run->start_ns = bn_clock_ns();
    atomic_store(&run->state, BN_CLIENT_RUNS);
    ask(&s, target, body);
    run->end_ns = bn_clock_ns();
    if (s.fd >= 0) close(s.fd);
    bn_buf_release(&s.line);
    atomic_store(&run->state, BN_CLIENT_ENDED);
}

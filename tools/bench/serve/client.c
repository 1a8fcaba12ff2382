/* SPDX-License-Identifier: MIT
 *
 * The HTTP of bn-bench serve: one request, its response in chunks or until the end of the connection, and the events in
 * it. The only file of bn-bench that opens connections.
 */
#define _GNU_SOURCE
#include "tools/bench/serve/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"

#define MAX_BYTES (16u << 20)

/* ---- URLs ---- */

static bool read_address(struct bn_target *t, const char *name, unsigned port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    if (strcmp(name, "localhost") == 0) name = "127.0.0.1";
    if (inet_pton(AF_INET, name, &v4.sin_addr) == 1) {
        memcpy(&t->address, &v4, sizeof v4);
        t->n_address = sizeof v4;
        return true;
    }
    if (inet_pton(AF_INET6, name, &v6.sin6_addr) != 1) return false;
    memcpy(&t->address, &v6, sizeof v6);
    t->n_address = sizeof v6;
    return true;
}

bn_status bn_target_parse(struct bn_target *t, const char *url, bn_error *err)
{
    static const char SCHEME[] = "http://";
    char name[64] = "";
    const char *key = t->key;
    *t = (struct bn_target){.key = key};
    bool good = strncmp(url, SCHEME, sizeof SCHEME - 1) == 0;
    const char *host = good ? url + sizeof SCHEME - 1 : url, *path = host + strcspn(host, "/");
    const char *end = host[0] == '[' ? strchr(host, ']') : memchr(host, ':', (size_t)(path - host));
    const char *port = end != NULL && host[0] == '[' ? end + 1 : end;
    size_t from = host[0] == '[', n = (size_t)((end != NULL ? end : path) - host);
    unsigned long number = port != NULL && *port == ':' ? strtoul(port + 1, NULL, 10) : 80;
    good = good && n > from && n - from < sizeof name && number > 0 && number < 65536;
    if (good) memcpy(name, host + from, n - from);
    if (!good || !read_address(t, name, (unsigned)number))
        return bn_hint(bn_fail(err, BN_ERR_ARG, "'%.100s' is not http:// with an address and a port", url),
                       err, "for example http://127.0.0.1:8080");
    snprintf(t->host, sizeof t->host, "%.*s", (int)(path - host), host);
    snprintf(t->prefix, sizeof t->prefix, "%s", path);
    while (t->prefix[0] != '\0' && t->prefix[strlen(t->prefix) - 1] == '/')
        t->prefix[strlen(t->prefix) - 1] = '\0';
    if (t->prefix[0] == '\0') snprintf(t->prefix, sizeof t->prefix, "/v1");
    return BN_OK;
}

/* ---- beginning and end ---- */

void bn_client_end(struct bn_client_run *run, const char *reason)
{
    if (run->state == BN_CLIENT_ENDED) return;
    if (run->reason[0] == '\0') snprintf(run->reason, sizeof run->reason, "%s", reason);
    run->state = BN_CLIENT_ENDED;
    run->end_ns = bn_clock_ns();
}

void bn_client_open(struct bn_client_run *run, const struct bn_target *t, const char *body, size_t n)
{
    int on = 1;
    *run = (struct bn_client_run){.fd = -1, .start_ns = bn_clock_ns()};
    run->out.max = run->head.max = run->line.max = MAX_BYTES;
    bn_buf_printf(
        &run->out,
        "POST %s/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nConnection: close\r\n"
        "%s%s%sContent-Length: %zu\r\n\r\n",
        t->prefix, t->host, t->key != NULL ? "Authorization: Bearer " : "", t->key != NULL ? t->key : "",
        t->key != NULL ? "\r\n" : "", n);
    bn_buf_append(&run->out, body, n);
    bn_sha256_begin(&run->text);
    if (run->out.failed) {
        bn_client_end(run, "out of memory");
        return;
    }
    run->fd = socket(t->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (run->fd < 0 ||
        (connect(run->fd, (const struct sockaddr *)&t->address, t->n_address) != 0 && errno != EINPROGRESS)) {
        bn_client_end(run, strerror(errno));
        return;
    }
    (void)setsockopt(run->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void bn_client_close(struct bn_client_run *run)
{
    if (run->fd >= 0) close(run->fd);
    bn_buf_release(&run->out);
    bn_buf_release(&run->head);
    bn_buf_release(&run->line);
    bn_free(run->at_ns);
    run->at_ns = NULL;
    run->fd = -1;
}

/* ---- events ---- */

static void note_text(struct bn_client_run *run, const char *text)
{
    if (text[0] == '\0') return;
    bn_sha256_update(&run->text, text, strlen(text));
    if (bn_array_grow(&run->at_ns, &run->room, run->n_at + 1, sizeof *run->at_ns, NULL) != BN_OK) {
        bn_client_end(run, "out of memory");
        return;
    }
    run->at_ns[run->n_at++] = bn_clock_ns();
}

static void note_end(struct bn_client_run *run)
{
    run->done = true;
    if (run->chain[0] == '\0') bn_sha256_take_hex(&run->text, run->chain);
}

static void take_event(struct bn_client_run *run, const char *text, size_t n)
{
    bn_json *event = NULL;
    if (n == 6 && memcmp(text, "[DONE]", 6) == 0) {
        note_end(run);
        return;
    }
    if (bn_json_parse(&event, text, n, NULL) != BN_OK) {
        bn_client_end(run, "an event is not JSON");
        return;
    }
    const bn_json *choice = bn_json_first(bn_json_get(event, "choices")),
                  *usage = bn_json_get(event, "usage");
    if (bn_json_get(event, "error") != NULL) bn_client_end(run, bn_json_text_of(event, "error.message"));
    if (choice != NULL) {
        note_text(run, bn_json_text_of(choice, "text"));
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

static void take_body(struct bn_client_run *run, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && run->state == BN_CLIENT_READS; i++) {
        if (bytes[i] != '\n') {
            bn_buf_putc(&run->line, bytes[i]);
            continue;
        }
        if (run->line.len > 6 && memcmp(run->line.data, "data: ", 6) == 0)
            take_event(run, run->line.data + 6,
                       run->line.len - 6 - (run->line.data[run->line.len - 1] == '\r'));
        run->line.len = 0;
    }
}

/* ---- HTTP ---- */

/* The length of a chunk came, or its bytes. */
static void take_chunks(struct bn_client_run *run, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && run->state == BN_CLIENT_READS;) {
        if (run->in_chunk) {
            size_t part = bn_min_size(n - i, (size_t)run->n_chunk);
            take_body(run, bytes + i, part);
            i += part;
            run->n_chunk -= part;
            run->in_chunk = run->n_chunk > 0;
            continue;
        }
        if (bytes[i] == '\n' && run->head.len > 0) {
            run->n_chunk = strtoull(bn_buf_text(&run->head), NULL, 16);
            run->in_chunk = run->n_chunk > 0;
            run->head.len = 0;
        } else if (bytes[i] != '\r' && bytes[i] != '\n') {
            bn_buf_putc(&run->head, bytes[i]);
        }
        i++;
    }
}

/* Reads the status and the coding; what follows the head stays in `head`, which it becomes. */
static void take_head(struct bn_client_run *run, const char *bytes, size_t n)
{
    bn_buf_append(&run->head, bytes, n);
    const char *text = bn_buf_text(&run->head), *end = strstr(text, "\r\n\r\n");
    if (end == NULL) return;
    size_t n_head = (size_t)(end - text) + 4, rest = run->head.len - n_head;
    run->status = strncmp(text, "HTTP/1.", 7) == 0 ? (unsigned)strtoul(text + 9, NULL, 10) : 0;
    const char *coding = strcasestr(text, "\r\nTransfer-Encoding: chunked");
    run->has_head = true;
    run->chunked = coding != NULL && coding < end;
    if (run->status != 200) {
        char reason[64];
        snprintf(reason, sizeof reason, "status %u", run->status);
        bn_client_end(run, reason);
        return;
    }
    char *copy = bn_strndup(text + n_head, rest);
    if (copy == NULL) {
        bn_client_end(run, "out of memory");
        return;
    }
    run->head.len = 0;
    if (run->chunked)
        take_chunks(run, copy, rest);
    else
        take_body(run, copy, rest);
    bn_free(copy);
}

static void read_some(struct bn_client_run *run)
{
    char bytes[16384];
    ssize_t n = recv(run->fd, bytes, sizeof bytes, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n < 0) {
        bn_client_end(run, strerror(errno));
    } else if (n == 0) {
        bn_client_end(run, run->done ? "" : "the connection ended before the answer");
    } else if (!run->has_head) {
        take_head(run, bytes, (size_t)n);
    } else if (run->chunked) {
        take_chunks(run, bytes, (size_t)n);
    } else {
        take_body(run, bytes, (size_t)n);
    }
    if (run->done && run->state == BN_CLIENT_READS) bn_client_end(run, "");
    if (run->head.failed || run->line.failed) bn_client_end(run, "the answer is too long");
}

static void send_some(struct bn_client_run *run)
{
    ssize_t n = send(run->fd, run->out.data + run->n_sent, run->out.len - run->n_sent, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN)) return;
    if (n < 0) {
        bn_client_end(run, strerror(errno));
        return;
    }
    run->n_sent += (size_t)n;
    if (run->n_sent == run->out.len) run->state = BN_CLIENT_READS;
}

void bn_client_advance(struct bn_client_run *run)
{
    if (run->state == BN_CLIENT_SENDS)
        send_some(run);
    else if (run->state == BN_CLIENT_READS)
        read_some(run);
}

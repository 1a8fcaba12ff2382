/* SPDX-License-Identifier: MIT
 *
 * HTTP by libmicrohttpd 0.9.75, one thread. The only file that includes it. What that version does not check is checked
 * here: one Host header with a name that is known, no foreign origin, no second length of the body, the time until a
 * request is complete. A connection that waits for the engine is suspended; libmicrohttpd does not see then that the
 * client leaves, which the engine looks for (engine.c).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/serve/serve.h"

#define CONNECTION_BYTES (32u << 10) /* of headers; more get status 431 */
#define READ_BYTES (32u << 10)       /* of a stream at a time */

/* A connection, from its beginning to its end. */
struct link {
    struct link *next, *prev;
    int fd;
    uint64_t since_ns; /* when it began to wait for a request; 0 while one is answered */
};

struct bn_listener {
    struct bn_server *server;
    struct MHD_Daemon *daemon;
    struct link links; /* a ring, under the server's lock */
    int closed;        /* the socket, after bn_listener_quiesce; -1 before */
};

/* A request that is being read or answered. */
struct exchange {
    struct bn_listener *http;
    struct bn_buf body;
    struct bn_job *job; /* NULL: not one to generate */
    struct bn_reply refusal;
    uint32_t tenant;
};

struct headers {
    const char *host, *origin, *type, *length, *key;
    unsigned n_host, n_length, n_coding;
};

/* ---- sending ---- */

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    (void)MHD_add_response_header(response, name, value);
}

static void add_names(struct MHD_Response *response, const struct bn_job *job)
{
    char names[BN_SERVE_MAX_CHOICES * (BN_SERVE_ID + 8)] = "";
    size_t used = 0;
    for (size_t i = 0; i < job->n_choices; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                 job->choices[i].receipt);
    add_header(response, "X-Request-Id", job->id);
    if (names[0] != '\0') add_header(response, "X-BN-Receipt", names);
}

static enum MHD_Result send_reply(struct exchange *x, struct MHD_Connection *c, const struct bn_reply *reply,
                                  const struct bn_job *job)
{
    char seconds[16];
    const struct bn_buf *body = &reply->body;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body->failed ? 0 : body->len, body->data,
                                        body->len > 0 ? MHD_RESPMEM_MUST_COPY : MHD_RESPMEM_PERSISTENT);
    if (response == NULL) return MHD_NO;
    add_header(response, "Content-Type", reply->type != NULL ? reply->type : "application/json");
    add_header(response, "Cache-Control", reply->cache != NULL ? reply->cache : "no-store");
    add_header(response, "X-Content-Type-Options", "nosniff");
    if (reply->policy != NULL) add_header(response, "Content-Security-Policy", reply->policy);
    if (reply->allow != NULL) add_header(response, "Allow", reply->allow);
    if (reply->status == 500) add_header(response, "X-Should-Retry", "false");
    if (reply->status == 401) add_header(response, "WWW-Authenticate", "Bearer");
    if (reply->retry_after_s > 0) {
        snprintf(seconds, sizeof seconds, "%u", reply->retry_after_s);
        add_header(response, "Retry-After", seconds);
    }
    if (job != NULL) add_names(response, job);
    enum MHD_Result result = MHD_queue_response(c, body->failed ? 500 : reply->status, response);
    MHD_destroy_response(response);
    pthread_mutex_lock(&x->http->server->lock);
    x->http->server->metrics.responses[reply->status / 100 % 6]++;
    pthread_mutex_unlock(&x->http->server->lock);
    return result;
}

/* libmicrohttpd asks for bytes of a stream. */
static ssize_t read_stream(void *cls, uint64_t position, char *out, size_t room)
{
    struct exchange *x = cls;
    struct bn_job *job = x->job;
    pthread_mutex_t *lock = &x->http->server->lock;
    (void)position;
    pthread_mutex_lock(lock);
    struct bn_buf *body = &job->reply.body;
    size_t n = bn_min_size(body->len - job->n_sent, room);
    ssize_t result = (ssize_t)n;
    if (n > 0) {
        memcpy(out, body->data + job->n_sent, n);
        job->n_sent += n;
        if (job->n_sent == body->len) body->len = job->n_sent = 0;
    } else if (job->gone) {
        result = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (job->done) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        job->suspended = true;
        MHD_suspend_connection(job->connection);
    }
    pthread_mutex_unlock(lock);
    return result;
}

static enum MHD_Result send_stream(struct exchange *x, struct MHD_Connection *c)
{
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, READ_BYTES, read_stream, x, NULL);
    if (response == NULL) return MHD_NO;
    add_header(response, "Content-Type", "text/event-stream; charset=utf-8");
    add_header(response, "Cache-Control", "no-cache");
    add_header(response, "X-Accel-Buffering", "no");
    add_header(response, "X-Content-Type-Options", "nosniff");
    add_names(response, x->job);
    enum MHD_Result result = MHD_queue_response(c, 200, response);
    MHD_destroy_response(response);
    pthread_mutex_lock(&x->http->server->lock);
    x->http->server->metrics.responses[2]++;
    pthread_mutex_unlock(&x->http->server->lock);
    return result;
}

/* A job that is not streamed: waits until it is done. */
static enum MHD_Result send_job(struct exchange *x, struct MHD_Connection *c)
{
    struct bn_job *job = x->job;
    pthread_mutex_t *lock = &x->http->server->lock;
    pthread_mutex_lock(lock);
    bool wait = !job->done && !job->gone, gone = job->gone;
    if (wait) {
        job->suspended = true;
        MHD_suspend_connection(c);
    }
    pthread_mutex_unlock(lock);
    if (wait) return MHD_YES;
    return gone ? MHD_NO : send_reply(x, c, &job->reply, job);
}

void bn_listener_resume(struct bn_job *job)
{
    if (!job->suspended || job->connection == NULL) return;
    job->suspended = false;
    MHD_resume_connection(job->connection);
}

/* ---- checking ---- */

static enum MHD_Result take_header(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct headers *h = cls;
    (void)kind;
    if (value == NULL) value = "";
    if (strcasecmp(name, "Host") == 0) {
        h->host = value;
        h->n_host++;
    } else if (strcasecmp(name, "Content-Length") == 0) {
        h->length = value;
        h->n_length++;
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        h->n_coding++;
    } else if (strcasecmp(name, "Origin") == 0) {
        h->origin = value;
    } else if (strcasecmp(name, "Content-Type") == 0) {
        h->type = value;
    } else if (strcasecmp(name, "X-Api-Key") == 0) {
        h->key = value;
    } else if (strcasecmp(name, "Authorization") == 0 && strncasecmp(value, "Bearer ", 7) == 0) {
        h->key = value + 7 + strspn(value + 7, " ");
    }
    return MHD_YES;
}

/* A page of another site can make a browser send requests here under the name of that site (DNS rebinding). So the name
 * is an address, localhost, or one that the command line gives. */
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

static bool same_origin(const struct headers *h)
{
    const char *name = strncmp(h->origin, "http://", 7) == 0    ? h->origin + 7
                       : strncmp(h->origin, "https://", 8) == 0 ? h->origin + 8
                                                                : "";
    return strcasecmp(name, h->host) == 0;
}

static bool is_json(const char *type)
{
    static const char JSON[] = "application/json";
    size_t n = sizeof JSON - 1;
    return type != NULL && strncasecmp(type, JSON, n) == 0 &&
           (type[n] == '\0' || strchr("; \t", type[n]) != NULL);
}

static void check_framing(const struct bn_serve_options *o, const struct headers *h, struct bn_reply *reply)
{
    size_t n_digits = h->length != NULL ? strspn(h->length, "0123456789") : 0;
    if (h->n_length > 1 || h->n_coding > 1 || (h->n_length > 0 && h->n_coding > 0))
        bn_reply_error(reply, 400, NULL, NULL, "the request states the length of its body twice");
    else if (h->length != NULL && (n_digits == 0 || h->length[n_digits] != '\0'))
        bn_reply_error(reply, 400, NULL, NULL, "Content-Length is not a number");
    else if (h->length != NULL && (n_digits > 18 || strtoull(h->length, NULL, 10) > o->max_body_bytes))
        bn_reply_error(reply, 413, NULL, NULL, "the body has more than %llu bytes",
                       (unsigned long long)o->max_body_bytes);
}

/* What can be refused before the body is read. */
static void check_headers(struct exchange *x, const struct headers *h, const char *method, const char *path)
{
    const struct bn_server *s = x->http->server;
    struct bn_reply *reply = &x->refusal;
    bool needs_key = true;
    check_framing(s->o, h, reply);
    if (reply->status != 0) return;
    if (h->n_host != 1 || !knows_host(s->o, h->host))
        bn_reply_error(reply, h->n_host > 1 ? 400 : 403, NULL, NULL,
                       "the header Host does not name this server; --allow-host NAME permits a name");
    else if (h->origin != NULL && !same_origin(h))
        bn_reply_error(reply, 403, NULL, NULL, "requests of pages from other origins are not accepted");
    else if (!bn_route_check(reply, method, path, &needs_key))
        return;
    else if (s->n_keys > 0 && needs_key && (h->key == NULL || (x->tenant = bn_keys_find(s, h->key)) == 0))
        bn_reply_error(reply, 401, NULL, "invalid_api_key", "%s",
                       h->key == NULL ? "no key: send the header Authorization: Bearer KEY" : "wrong key");
    else if (strcmp(method, "POST") == 0 && !is_json(h->type))
        bn_reply_error(reply, 415, NULL, NULL, "Content-Type is not application/json");
}

/* ---- requests ---- */

static struct link *link_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

static int fd_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info != NULL ? info->connect_fd : -1;
}

static uint64_t address_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    uint64_t hash = 14695981039346656037u;
    if (info == NULL || info->client_addr == NULL) return hash;
    const struct sockaddr *address = info->client_addr;
    bool v6 = address->sa_family == AF_INET6;
    const void *bytes = v6 ? (const void *)&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr
                           : (const void *)&((const struct sockaddr_in *)(const void *)address)->sin_addr;
    const unsigned char *at = bytes;
    for (size_t i = 0; i < (v6 ? 16u : 4u); i++)
        hash = (hash ^ at[i]) * 1099511628211u;
    return hash;
}

static void set_waiting(struct bn_listener *http, struct MHD_Connection *c, bool waits)
{
    struct link *link = link_of(c);
    pthread_mutex_lock(&http->server->lock);
    if (link != NULL) link->since_ns = waits ? bn_clock_ns() : 0;
    pthread_mutex_unlock(&http->server->lock);
}

static enum MHD_Result begin(struct bn_listener *http, struct MHD_Connection *c, const char *method,
                             const char *path, void **state)
{
    struct headers h = {0};
    struct exchange *x = bn_alloc(1, sizeof *x);
    if (x == NULL) return MHD_NO;
    *x = (struct exchange){.http = http, .body.max = http->server->o->max_body_bytes};
    *state = x;
    pthread_mutex_lock(&http->server->lock);
    http->server->n_exchanges++;
    pthread_mutex_unlock(&http->server->lock);
    (void)MHD_get_connection_values(c, MHD_HEADER_KIND, take_header, &h);
    check_headers(x, &h, method, path);
    /* A short body is read before it is refused: then the client reads the reply. */
    bool has_body = (h.length != NULL && strcmp(h.length, "0") != 0) || h.n_coding > 0;
    if (x->refusal.status == 0 || (has_body && x->refusal.status != 413 && x->refusal.status != 400))
        return MHD_YES;
    set_waiting(http, c, false);
    return send_reply(x, c, &x->refusal, NULL);
}

static enum MHD_Result answer(struct exchange *x, struct MHD_Connection *c, const char *method,
                              const char *path)
{
    struct bn_server *s = x->http->server;
    struct bn_reply reply = {0};
    struct bn_job *job = NULL;
    struct bn_request request = {method, path, bn_buf_text(&x->body), x->body.len, x->tenant, 0};
    request.client = x->tenant != 0 ? x->tenant : address_of(c);
    set_waiting(x->http, c, false);
    if (x->refusal.status != 0) return send_reply(x, c, &x->refusal, NULL);
    bn_route(s, &request, &reply, &job);
    enum MHD_Result result;
    if (job != NULL) {
        job->connection = c;
        job->fd = fd_of(c);
        x->job = job;
        if (!bn_engine_submit(s, job, &reply)) {
            x->job = NULL;
            pthread_mutex_lock(&s->lock);
            bn_job_release(job);
            pthread_mutex_unlock(&s->lock);
        }
    }
    if (x->job == NULL)
        result = send_reply(x, c, &reply, NULL);
    else
        result = job->stream ? send_stream(x, c) : send_job(x, c);
    bn_buf_release(&reply.body);
    return result;
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *c, const char *path, const char *method,
                              const char *version, const char *data, size_t *n, void **state)
{
    struct exchange *x = *state;
    (void)version;
    if (x == NULL) return begin(cls, c, method, path, state);
    if (*n > 0) {
        bn_buf_append(&x->body, data, *n);
        *n = 0;
        return x->body.failed ? MHD_NO : MHD_YES; /* a body of chunks that is too long ends the connection */
    }
    return x->job != NULL ? send_job(x, c) : answer(x, c, method, path);
}

static void completed(void *cls, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode code)
{
    struct bn_listener *http = cls;
    struct bn_server *s = http->server;
    struct exchange *x = *state;
    (void)code;
    if (x == NULL) return;
    set_waiting(http, c, true);
    pthread_mutex_lock(&s->lock);
    if (x->job != NULL) {
        x->job->gone = x->job->gone || !x->job->done;
        x->job->connection = NULL;
        x->job->fd = -1;
        bn_job_release(x->job);
    }
    s->n_exchanges--;
    pthread_mutex_unlock(&s->lock);
    uint64_t one = 1;
    ssize_t written = write(s->wake, &one, sizeof one);
    (void)written;
    bn_buf_release(&x->body);
    bn_buf_release(&x->refusal.body);
    bn_free(x);
    *state = NULL;
}

/* ---- connections ---- */

static void connection_changed(void *cls, struct MHD_Connection *c, void **state,
                               enum MHD_ConnectionNotificationCode code)
{
    struct bn_listener *http = cls;
    struct link *link = *state;
    if (code == MHD_CONNECTION_NOTIFY_STARTED && (link = bn_alloc(1, sizeof *link)) != NULL) {
        pthread_mutex_lock(&http->server->lock);
        *link = (struct link){http->links.next, &http->links, fd_of(c), bn_clock_ns()};
        link->next->prev = link->prev->next = link;
        pthread_mutex_unlock(&http->server->lock);
        *state = link;
    } else if (code == MHD_CONNECTION_NOTIFY_CLOSED && link != NULL) {
        pthread_mutex_lock(&http->server->lock);
        link->next->prev = link->prev;
        link->prev->next = link->next;
        pthread_mutex_unlock(&http->server->lock);
        bn_free(link);
        *state = NULL;
    }
}

void bn_listener_drop_slow(struct bn_listener *http)
{
    uint64_t now = bn_clock_ns(), most = http->server->o->timeout_s * 1000000000u;
    pthread_mutex_lock(&http->server->lock);
    for (struct link *link = http->links.next; link != &http->links; link = link->next)
        if (link->since_ns != 0 && now - link->since_ns > most) shutdown(link->fd, SHUT_RDWR);
    pthread_mutex_unlock(&http->server->lock);
}

static struct MHD_Daemon *start_daemon(struct bn_listener *http, const struct sockaddr *address,
                                       unsigned flags)
{
    const struct bn_serve_options *o = http->server->o;
    return MHD_start_daemon(flags, 0, NULL, NULL, handle, http, MHD_OPTION_SOCK_ADDR, address,
                            MHD_OPTION_NOTIFY_COMPLETED, completed, http, MHD_OPTION_NOTIFY_CONNECTION,
                            connection_changed, http, MHD_OPTION_CONNECTION_LIMIT, o->max_connections,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
                            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)o->timeout_s,
                            MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
}

bn_status bn_listener_start(struct bn_server *s, bn_error *err)
{
    const struct bn_serve_options *o = s->o;
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)o->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)o->port)};
    struct bn_listener *http = bn_alloc(1, sizeof *http);
    sigset_t signals, before;
    if (http == NULL) return bn_nomem(err);
    *http = (struct bn_listener){.server = s, .closed = -1};
    http->links.next = http->links.prev = &http->links;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    bool is_v4 = inet_pton(AF_INET, o->host, &v4.sin_addr) == 1;
    if (!is_v4 && inet_pton(AF_INET6, o->host, &v6.sin6_addr) == 1) flags |= MHD_USE_IPv6;
    /* Signals are for the main thread. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    errno = 0;
    http->daemon = is_v4 ? start_daemon(http, (const struct sockaddr *)&v4, flags)
                         : start_daemon(http, (const struct sockaddr *)&v6, flags);
    int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (http->daemon == NULL) {
        bn_free(http);
        bn_fail(err, BN_ERR_IO, "cannot listen on %s port %u: %s", o->host, o->port,
                why != 0 ? strerror(why) : "unknown reason");
        bn_error_hint(err, "--port 0 takes any free port");
        return BN_ERR_IO;
    }
    s->http = http;
    return BN_OK;
}

uint16_t bn_listener_port(const struct bn_listener *http)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info != NULL ? info->port : 0;
}

void bn_listener_quiesce(struct bn_listener *http)
{
    if (http->closed < 0) http->closed = MHD_quiesce_daemon(http->daemon);
}

/* Replies are sent before connections are closed, for some seconds at most. */
void bn_listener_stop(struct bn_listener *http)
{
    if (http == NULL) return;
    struct bn_server *s = http->server;
    bn_listener_quiesce(http);
    for (unsigned i = 0; i < 200; i++) {
        pthread_mutex_lock(&s->lock);
        size_t n = s->n_exchanges;
        pthread_mutex_unlock(&s->lock);
        if (n == 0) break;
        poll(NULL, 0, 10);
    }
    MHD_stop_daemon(http->daemon);
    if (http->closed >= 0) close(http->closed);
    bn_free(http);
}

/* SPDX-License-Identifier: MIT
 *
 * HTTP by libmicrohttpd 0.9.75, one thread. The only file that includes it. What that version does not check is checked in
 * head.c, and here: the time until a request is complete and until its answer is read, the bytes that wait for clients
 * that do not read, the number of connections of one address. A connection that waits for the engine is suspended;
 * libmicrohttpd does not see then that the client leaves, which the engine looks for (engine.c).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/serve/job.h"

#define CONNECTION_BYTES (64u << 10) /* of headers; head.c takes half of it, libmicrohttpd refuses more */
#define READ_BYTES (32u << 10)       /* of a stream at a time */
#define LEAST_RATE (64u << 10)       /* bytes per second that a client reads at least, after the timeout */
#define SEND_BYTES (128 << 10)       /* that the system keeps for a client; it doubles them */
#define MAX_UNREAD_BYTES (64u << 20) /* of all streams */
#define DISCARDED 4u                 /* bodies up to this many times the limit are read, then refused */
#define PER_ADDRESS 64u
#define CLOSING 16u /* connections above the limit, while others close to make way */

/* A connection, from its beginning to its end. */
struct link {
    struct link *next, *prev;
    int fd;
    uint64_t address;
    uint64_t deadline_ns; /* of the request, then of reading its answer; 0: not known yet */
    struct exchange *exchange;
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
    bool begun;
    bool closes; /* the connection: what follows may be no request */
    struct bn_head head;
    struct bn_buf body;
    uint64_t n_received;
    struct bn_reply reply; /* a refusal, or what needs no engine */
    struct bn_job *job;    /* NULL: not one to generate */
    struct bn_waiter waiter;
    struct bn_log_entry log;
};

/* ---- sending ---- */

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    (void)MHD_add_response_header(response, name, value);
}

/* What scripts of other origins may do. The list of headers is what OpenAI's client for browsers sends. */
static void add_cors(const struct exchange *x, struct MHD_Response *response)
{
    if (x->head.permitted == NULL) return;
    add_header(response, "Access-Control-Allow-Origin", x->head.permitted);
    add_header(response, "Access-Control-Expose-Headers",
               "X-BN-Receipt, X-Request-Id, Request-Id, Retry-After, X-Should-Retry");
    if (!x->head.is_preflight) return;
    add_header(response, "Access-Control-Allow-Methods", "GET, POST, DELETE");
    add_header(
        response, "Access-Control-Allow-Headers",
        "Authorization, Content-Type, X-Api-Key, OpenAI-Beta, OpenAI-Organization, OpenAI-Project, "
        "Idempotency-Key, Anthropic-Version, Anthropic-Beta, "
        "Anthropic-Dangerous-Direct-Browser-Access, X-Stainless-Arch, X-Stainless-Async, X-Stainless-Custom-Poll-Interval, "
        "X-Stainless-Helper-Method, X-Stainless-Lang, X-Stainless-OS, X-Stainless-Package-Version, "
        "X-Stainless-Poll-Helper, X-Stainless-Raw-Response, X-Stainless-Read-Timeout, "
        "X-Stainless-Retry-Count, X-Stainless-Runtime, X-Stainless-Runtime-Version, "
        "X-Stainless-Timeout");
    add_header(response, "Access-Control-Max-Age", "600");
}

/* The headers of all answers, and the names of the receipts. */
static void add_common(const struct exchange *x, struct MHD_Response *response)
{
    const struct bn_job *job = x->job;
    char names[BN_SERVE_MAX_CHOICES * (BN_SERVE_RECEIPT + 2)] = "";
    size_t used = 0;
    add_header(response, "X-Content-Type-Options", "nosniff");
    add_header(response, "X-Request-Id", x->log.id);
    add_header(response, "Request-Id", x->log.id); /* Anthropic's name of it */
    if (x->http->server->o->cors.n > 0) add_header(response, "Vary", "Origin");
    add_cors(x, response);
    for (size_t i = 0; job != NULL && i < job->n_choices; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                 job->choices[i].receipt);
    if (names[0] != '\0') add_header(response, "X-BN-Receipt", names);
    if (x->closes) add_header(response, "Connection", "close");
}

/* OpenAI's clients try again when they are told to; only these statuses can change. */
static void add_retry(const struct bn_reply *reply, struct MHD_Response *response)
{
    bool again = reply->status == 429 || reply->status == 503;
    char seconds[16];
    if (reply->status < 400) return;
    add_header(response, "X-Should-Retry", again ? "true" : "false");
    if (!again) return;
    snprintf(seconds, sizeof seconds, "%u", reply->retry_after_s > 0 ? reply->retry_after_s : 1);
    add_header(response, "Retry-After", seconds);
}

static struct link *link_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

/* Sends and counts an answer. From now on the client has to read it; of a stream, when its end is known. */
static enum MHD_Result queue(struct exchange *x, struct MHD_Connection *c, unsigned status,
                             struct MHD_Response *response, size_t n_bytes, bool is_stream)
{
    struct bn_server *s = x->http->server;
    struct link *link = link_of(c);
    add_common(x, response);
    x->log.n_bytes = n_bytes;
    pthread_mutex_lock(&s->lock);
    x->log.status = status; /* under the lock: bn_listener_drop_slow reads it */
    s->metrics.responses[status / 100 % 6]++;
    if (link != NULL)
        link->deadline_ns =
            is_stream ? 0 : bn_clock_ns() + (s->o->timeout_s + n_bytes / LEAST_RATE) * (uint64_t)SECOND;
    pthread_mutex_unlock(&s->lock);
    enum MHD_Result result = MHD_queue_response(c, status, response);
    MHD_destroy_response(response);
    return result;
}

/* The reply stays until the request is completed. */
static enum MHD_Result send_reply(struct exchange *x, struct MHD_Connection *c, struct bn_reply *reply)
{
    struct bn_buf *body = &reply->body;
    if (body->failed) {
        reply->status = 500;
        body->len = 0;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body->len, body->data, MHD_RESPMEM_PERSISTENT);
    if (response == NULL) return MHD_NO;
    if (!x->head.is_preflight)
        add_header(response, "Content-Type", reply->type != NULL ? reply->type : "application/json");
    add_header(response, "Cache-Control", reply->cache != NULL ? reply->cache : "no-store");
    if (reply->cache != NULL) add_header(response, "Vary", "Authorization, X-Api-Key");
    if (reply->policy != NULL) add_header(response, "Content-Security-Policy", reply->policy);
    if (reply->allow != NULL) add_header(response, "Allow", reply->allow);
    if (reply->status == 401) add_header(response, "WWW-Authenticate", "Bearer");
    add_retry(reply, response);
    return queue(x, c, reply->status, response, body->len, false);
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
        x->log.n_bytes += n;
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
    add_header(response, "Content-Type",
               x->job->protocol->is_lines ? "application/x-ndjson" : "text/event-stream; charset=utf-8");
    add_header(response, "Cache-Control", "no-cache");
    add_header(response, "X-Accel-Buffering", "no");
    return queue(x, c, 200, response, 0, true);
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
    return gone ? MHD_NO : send_reply(x, c, &job->reply);
}

void bn_listener_resume(struct bn_job *job)
{
    if (!job->suspended || job->connection == NULL) return;
    job->suspended = false;
    MHD_resume_connection(job->connection);
}

void bn_listener_retry(struct bn_waiter *waiter)
{
    MHD_resume_connection(waiter->connection);
}

/* ---- requests ---- */

static int fd_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info != NULL ? info->connect_fd : -1;
}

static const struct sockaddr *address_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    return info != NULL ? info->client_addr : NULL;
}

/* The request has come, and its deadline with it: what follows is up to the engine. */
static void stop_clock(struct exchange *x, struct MHD_Connection *c)
{
    struct link *link = link_of(c);
    pthread_mutex_lock(&x->http->server->lock);
    if (link != NULL) link->deadline_ns = 0;
    pthread_mutex_unlock(&x->http->server->lock);
}

/* libmicrohttpd has the first line of a request; what is returned is *state of handle. */
static void *begin_line(void *cls, const char *target, struct MHD_Connection *c)
{
    struct bn_listener *http = cls;
    struct exchange *x = bn_alloc(1, sizeof *x);
    (void)c;
    if (x == NULL) return NULL;
    *x = (struct exchange){.http = http, .body.max = http->server->o->max_body_bytes};
    bn_head_target(&x->head, target != NULL ? target : "");
    return x;
}

static enum MHD_Result take_header(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    bn_head_take(cls, name, value);
    return MHD_YES;
}

/* The headers have come. A short body is read before it is refused: then the client reads the reply. */
static enum MHD_Result begin(struct exchange *x, struct MHD_Connection *c, const char *path,
                             const char *method, const char *version)
{
    struct bn_server *s = x->http->server;
    struct bn_head *head = &x->head;
    struct link *link = link_of(c);
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (link == NULL || !bn_serve_make_id(x->log.id)) return MHD_NO;
    x->begun = true;
    x->log.since_ns = bn_clock_ns();
    bn_log_set(&x->log, method, path);
    pthread_mutex_lock(&s->lock);
    s->n_exchanges++;
    link->exchange = x;
    pthread_mutex_unlock(&s->lock);
    x->reply.protocol = bn_route_protocol(path);
    bn_head_begin(head, version);
    (void)MHD_get_connection_values(c, MHD_HEADER_KIND, take_header, head);
    bn_head_end(head, method, size != NULL ? size->header_size : 0);
    bn_head_check(s, head, method, path, &x->reply);
    unsigned status = x->reply.status;
    bool unclear = status == 400 || status == 414 || status == 431 || status == 501;
    bool large = head->n_body > DISCARDED * s->o->max_body_bytes;
    x->closes = unclear || head->coding != NULL;
    if (status == 0 || (head->has_body && !unclear && !large && head->expect == NULL)) return MHD_YES;
    return send_reply(x, c, &x->reply);
}

static enum MHD_Result take_body(struct exchange *x, const char *data, size_t n)
{
    uint64_t most = x->http->server->o->max_body_bytes;
    x->n_received += n;
    if (x->reply.status == 0) bn_buf_append(&x->body, data, n);
    if (x->body.full)
        bn_reply_too_large(&x->reply, most);
    else if (x->body.failed)
        bn_reply_error(&x->reply, 503, NULL, NULL, "out of memory");
    return x->n_received > DISCARDED * most ? MHD_NO : MHD_YES;
}

/* Its model is not open: then the request is read again. False: the reply says why it cannot wait. */
static bool wait_for_model(struct exchange *x, struct MHD_Connection *c, uint64_t client)
{
    struct bn_server *s = x->http->server;
    x->waiter.connection = c;
    x->waiter.fd = fd_of(c);
    pthread_mutex_lock(&s->lock);
    bool waits = bn_models_wait(s, &x->waiter, &x->reply, client);
    if (waits) MHD_suspend_connection(c);
    pthread_mutex_unlock(&s->lock);
    return waits;
}

/* The whole request has come, or it has waited for its model. */
static enum MHD_Result answer(struct exchange *x, struct MHD_Connection *c, const char *method,
                              const char *path)
{
    struct bn_server *s = x->http->server;
    struct bn_job *job = NULL;
    struct bn_request request = {method, path, bn_buf_text(&x->body), x->body.len, x->head.tenant, 0};
    request.client = x->head.tenant != 0 ? x->head.tenant : bn_address_number(address_of(c));
    stop_clock(x, c);
    if (x->waiter.gone) return MHD_NO;
    if (x->reply.status == 0) bn_route(s, &request, &x->reply, &job);
    bn_models_done(s, &x->waiter);
    bool waits = job == NULL && x->reply.status == 0 && x->reply.engine != NULL;
    if (waits && wait_for_model(x, c, request.client)) return MHD_YES;
    bn_buf_release(&x->body);
    if (job != NULL && x->waiter.since_ns != 0) {
        job->waited_ns = job->since_ns - x->waiter.since_ns;
        job->since_ns = x->waiter.since_ns;
    }
    if (job == NULL) return send_reply(x, c, &x->reply);
    job->connection = c;
    job->fd = fd_of(c);
    if (!bn_engine_submit(s, job, &x->reply)) {
        bn_job_drop(job);
        return send_reply(x, c, &x->reply);
    }
    pthread_mutex_lock(&s->lock);
    x->job = job;
    pthread_mutex_unlock(&s->lock);
    memcpy(x->log.id, job->id, sizeof x->log.id);
    return job->stream ? send_stream(x, c) : send_job(x, c);
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *c, const char *path, const char *method,
                              const char *version, const char *data, size_t *n, void **state)
{
    struct exchange *x = *state;
    (void)cls;
    if (x == NULL) return MHD_NO;
    if (!x->begun) return begin(x, c, path, method, version);
    if (*n > 0) {
        size_t n_bytes = *n;
        *n = 0;
        return take_body(x, data, n_bytes);
    }
    return x->job != NULL ? send_job(x, c) : answer(x, c, method, path);
}

static void write_log(const struct exchange *x, struct MHD_Connection *c, bool ok)
{
    struct bn_log_entry entry = x->log;
    const struct sockaddr *address = address_of(c);
    if (address == NULL ||
        inet_ntop(address->sa_family, bn_address_bytes(address), entry.from, sizeof entry.from) == NULL)
        snprintf(entry.from, sizeof entry.from, "-");
    entry.tenant = x->head.tenant;
    entry.left = !ok;
    bn_log_write(&entry, x->job);
}

static void completed(void *cls, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode code)
{
    struct bn_listener *http = cls;
    struct bn_server *s = http->server;
    struct exchange *x = *state;
    struct link *link = link_of(c);
    *state = NULL;
    if (x == NULL) return;
    bn_models_done(s, &x->waiter);
    if (x->begun && s->o->log) write_log(x, c, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    pthread_mutex_lock(&s->lock);
    if (x->job != NULL) {
        x->job->gone = x->job->gone || !x->job->done;
        x->job->connection = NULL;
        x->job->fd = -1;
        bn_job_release(x->job);
    }
    s->n_exchanges -= x->begun;
    if (link != NULL) {
        link->deadline_ns = bn_clock_ns() + s->o->timeout_s * SECOND;
        link->exchange = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    uint64_t one = 1;
    (void)!write(s->wake, &one, sizeof one);
    bn_buf_release(&x->body);
    bn_buf_release(&x->reply.body);
    bn_free(x);
}

/* ---- connections ---- */

static void connection_changed(void *cls, struct MHD_Connection *c, void **state,
                               enum MHD_ConnectionNotificationCode code)
{
    struct bn_listener *http = cls;
    struct bn_server *s = http->server;
    struct link *link = *state;
    if (code == MHD_CONNECTION_NOTIFY_STARTED && (link = bn_alloc(1, sizeof *link)) != NULL) {
        const int room = SEND_BYTES;
        (void)setsockopt(fd_of(c), SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
        pthread_mutex_lock(&s->lock);
        *link = (struct link){http->links.next,
                              &http->links,
                              fd_of(c),
                              bn_address_number(address_of(c)),
                              bn_clock_ns() + s->o->timeout_s * SECOND,
                              NULL};
        link->next->prev = link->prev->next = link;
        s->metrics.n_connections++;
        pthread_mutex_unlock(&s->lock);
        *state = link;
    } else if (code == MHD_CONNECTION_NOTIFY_CLOSED && link != NULL) {
        pthread_mutex_lock(&s->lock);
        link->next->prev = link->prev;
        link->prev->next = link->next;
        s->metrics.n_connections--;
        pthread_mutex_unlock(&s->lock);
        bn_free(link);
        *state = NULL;
    }
}

/* Its deadline is that of a request, which is being read or has not begun. */
static bool is_incomplete(const struct link *link)
{
    return link->deadline_ns != 0 && (link->exchange == NULL || link->exchange->log.status == 0);
}

/* When there are as many connections as permitted, the one that has waited longest without a complete request gives way to
 * the next one: slow requests keep nobody out. Under the lock. */
static void make_way(struct bn_listener *http)
{
    struct link *oldest = NULL;
    if (http->server->metrics.n_connections < http->server->o->max_connections) return;
    for (struct link *link = http->links.next; link != &http->links; link = link->next)
        if (is_incomplete(link) && (oldest == NULL || link->deadline_ns < oldest->deadline_ns)) oldest = link;
    if (oldest == NULL) return;
    oldest->deadline_ns = 0; /* it is closing */
    shutdown(oldest->fd, SHUT_RDWR);
}

/* Whether an address gets one more connection. Without --max-per-address, this machine has no limit: a proxy on it brings
 * all clients from one address. */
static enum MHD_Result accept_address(void *cls, const struct sockaddr *address, socklen_t n)
{
    struct bn_listener *http = cls;
    struct bn_server *s = http->server;
    static const unsigned char loopback6[16] = {[15] = 1};
    const unsigned char *at = bn_address_bytes(address);
    bool local = address->sa_family == AF_INET6 ? memcmp(at, loopback6, 16) == 0 : at[0] == 127;
    uint64_t number = bn_address_number(address);
    uint32_t n_open = 0, most = s->o->max_per_address;
    (void)n;
    if (most == 0) most = local ? UINT32_MAX : PER_ADDRESS;
    pthread_mutex_lock(&s->lock);
    for (const struct link *link = http->links.next; link != &http->links; link = link->next)
        n_open += link->address == number;
    s->metrics.n_refused += n_open >= most;
    if (n_open < most) make_way(http);
    pthread_mutex_unlock(&s->lock);
    return n_open < most ? MHD_YES : MHD_NO;
}

/* What a client of a stream has not read. */
static size_t unread(const struct link *link)
{
    const struct bn_job *job = link->exchange != NULL ? link->exchange->job : NULL;
    return job != NULL && job->stream ? job->reply.body.len - job->n_sent : 0;
}

void bn_listener_drop_slow(struct bn_listener *http)
{
    uint64_t now = bn_clock_ns(), timeout_s = http->server->o->timeout_s, sum = 0;
    struct link *most = NULL;
    pthread_mutex_lock(&http->server->lock);
    for (struct link *link = http->links.next; link != &http->links; link = link->next) {
        size_t n = unread(link);
        sum += n;
        if (n > 0 && (most == NULL || n > unread(most))) most = link;
        if (n > 0 && link->deadline_ns == 0 && link->exchange->job->done)
            link->deadline_ns = now + (timeout_s + n / LEAST_RATE) * SECOND;
        bool has_left = is_incomplete(link) && bn_listener_has_left(link->fd);
        if (link->deadline_ns != 0 && (has_left || now > link->deadline_ns)) shutdown(link->fd, SHUT_RDWR);
    }
    if (sum > MAX_UNREAD_BYTES) {
        most->exchange->job->gone = true;
        shutdown(most->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&http->server->lock);
}

static struct MHD_Daemon *start_daemon(struct bn_listener *http, const struct sockaddr *address,
                                       unsigned flags)
{
    const struct bn_serve_options *o = http->server->o;
    return MHD_start_daemon(flags, 0, accept_address, http, handle, http, MHD_OPTION_SOCK_ADDR, address,
                            MHD_OPTION_URI_LOG_CALLBACK, begin_line, http, MHD_OPTION_NOTIFY_COMPLETED,
                            completed, http, MHD_OPTION_NOTIFY_CONNECTION, connection_changed, http,
                            MHD_OPTION_CONNECTION_LIMIT, o->max_connections + CLOSING,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
                            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)o->timeout_s, MHD_OPTION_END);
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
        return bn_hint(bn_fail(err, BN_ERR_IO, "cannot listen on %s port %u: %s", o->host, o->port,
                               why != 0 ? strerror(why) : "unknown reason"),
                       err, "--port 0 takes any free port");
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

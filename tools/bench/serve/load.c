/* SPDX-License-Identifier: MIT
 *
 * Runs a load: a thread for each client, and the HTTP of a request: its response in chunks or until the end of the connection,
 * and the events in it. The only file of bn-bench that opens connections.
 */
#define _GNU_SOURCE
#include "tools/bench/serve/load.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/random.h"

#define MAX_LINE (16u << 20)
#define LOOK_US 100000 /* how often a client that waits looks whether it has to stop */
#define LOOK_NS 1000000u
#define LEAST_RUNNING 16u /* tokens of each answer before the interrupting prompt comes */

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

static void exchange(struct stream *s, const struct bn_target *t, const struct bn_buf *body)
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

/* Sends a request over a connection of its own and reads the answer, until *stop. A failure is one of the run. */
static void ask_over_http(struct bn_client_run *run, const struct bn_target *target,
                          const struct bn_buf *body, const atomic_bool *stop)
{
    struct stream s = {.run = run, .stop = stop, .fd = -1, .line.max = MAX_LINE};
    bn_sha256_begin(&s.text);
    run->start_ns = bn_clock_ns();
    atomic_store(&run->state, BN_CLIENT_RUNS);
    exchange(&s, target, body);
    run->end_ns = bn_clock_ns();
    if (s.fd >= 0) close(s.fd);
    bn_buf_release(&s.line);
    atomic_store(&run->state, BN_CLIENT_ENDED);
}

/* ---- requests ---- */

static void put_words(struct bn_buf *out, uint64_t state, size_t n)
{
    static const char *const WORDS[] = {
        "the",  "of",   "and",  "to",   "in",    "is",   "you",  "that",  "it",   "he",   "was",
        "for",  "on",   "are",  "as",   "with",  "his",  "they", "at",    "be",   "this", "have",
        "from", "or",   "one",  "had",  "by",    "but",  "not",  "what",  "all",  "were", "we",
        "when", "your", "can",  "said", "there", "use",  "an",   "how",   "if",   "will", "up",
        "out",  "then", "them", "so",   "her",   "make", "like", "him",   "into", "time", "has",
        "look", "two",  "more", "go",   "see",   "no",   "way",  "could", "my"};
    for (size_t i = 0; i < n; i++) {
        if (out->len > 0 && out->data[out->len - 1] != '"') bn_buf_putc(out, ' ');
        bn_buf_puts(out, WORDS[bn_splitmix64_below(&state, BN_ARRAY_LEN(WORDS))]);
    }
}

static void put_request(struct bn_buf *body, const struct bn_bench_options *o, size_t index)
{
    bool interrupts = index == o->n_requests;
    size_t n_words = interrupts ? o->n_interrupt : o->n_prompt, n_shared = o->n_shared;
    if (interrupts || n_shared > n_words) n_shared = interrupts ? 0 : n_words;
    bn_buf_puts(body, "{\"model\":");
    bn_json_write_string(body, o->name);
    bn_buf_puts(body, ",\"prompt\":\"");
    put_words(body, o->seed, n_shared);
    put_words(body, o->seed + (index + 1) * UINT64_C(0x9E3779B9), n_words - n_shared);
    bn_buf_printf(body,
                  "\",\"max_tokens\":%u,\"temperature\":%g,\"seed\":%llu,\"stream\":true,"
                  "\"stream_options\":{\"include_usage\":true},\"ignore_eos\":true}",
                  interrupts ? 1 : o->n_predict, o->temperature,
                  (unsigned long long)((o->seed + index) & 0xFFFFFFFFu));
}

/* ---- the loop ---- */

struct loop {
    struct bn_serve_load *load;
    const struct bn_target *target;
    const struct bn_bench_options *o;
    atomic_size_t n_started; /* requests */
    atomic_size_t n_working; /* threads */
    atomic_bool stop;
};

static void ask(struct loop *l, size_t index)
{
    struct bn_buf body = {.max = 16u << 20};
    put_request(&body, l->o, index);
    ask_over_http(&l->load->runs[index], l->target, &body, &l->stop);
    bn_buf_release(&body);
}

static void *run_client(void *arg)
{
    struct loop *l = arg;
    for (size_t i; (i = l->n_started++) < l->o->n_requests && !l->stop;)
        ask(l, i);
    l->n_working--;
    return NULL;
}

/* Whether all answers are running, so that a long prompt interrupts them. */
static bool all_run(struct loop *l)
{
    size_t n_open = 0;
    for (size_t i = 0; i < l->o->n_requests; i++) {
        if (l->load->runs[i].state != BN_CLIENT_RUNS) continue;
        if (l->load->runs[i].n_at < LEAST_RUNNING) return false;
        n_open++;
    }
    return n_open > 0 && n_open >= l->load->n_clients;
}

/* Waits until all answers run, or until a client has ended, after which they never will. */
static void *run_interrupt(void *arg)
{
    struct loop *l = arg;
    while (!l->stop && !all_run(l) && l->n_started <= l->o->n_requests)
        (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    ask(l, l->o->n_requests);
    l->n_working--;
    return NULL;
}

static bool start(struct loop *l, pthread_t *thread, void *(*run)(void *))
{
    l->n_working++;
    bool started = pthread_create(thread, NULL, run, l) == 0;
    if (!started) l->n_working--;
    return started;
}

/* Until all threads have ended. */
static void watch(struct loop *l, uint64_t begin_ns)
{
    while (l->n_working > 0) {
        (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        if (bn_cli_interrupted() != 0 || bn_clock_ns() - begin_ns > (uint64_t)(l->o->timeout * 1e9))
            l->stop = true;
    }
}

static bn_status run_all(struct loop *l, pthread_t *threads, size_t n, bn_error *err)
{
    size_t n_started = 0, n_threads = n + (l->o->n_interrupt > 0);
    uint64_t begin_ns = bn_clock_ns();
    while (n_started < n_threads && start(l, &threads[n_started], n_started < n ? run_client : run_interrupt))
        n_started++;
    l->stop = n_started < n_threads;
    watch(l, begin_ns);
    for (size_t i = 0; i < n_started; i++)
        (void)pthread_join(threads[i], NULL);
    l->load->seconds = (double)(bn_clock_ns() - begin_ns) / 1e9;
    if (bn_cli_interrupted() != 0) return bn_fail(err, BN_ERR_CANCELLED, "interrupted");
    if (n_started < n_threads)
        return bn_fail(err, BN_ERR_UNSUPPORTED, "%zu of %zu threads started", n_started, n_threads);
    return BN_OK;
}

/* ---- figures ---- */

const char *const bn_load_metrics[BN_LOAD_TIMES] = {
    [BN_LOAD_FIRST] = "ns_to_first_token",
    [BN_LOAD_GAPS] = "ns_between_tokens",
    [BN_LOAD_MEANWHILE] = "interrupted_ns_between_tokens",
    [BN_LOAD_EACH] = "ns_per_token",
};

static bool make_room(struct bn_serve_load *load)
{
    size_t most = load->n_runs;
    bool ok = true;
    for (size_t i = 0; i < load->n_runs; i++)
        most += load->runs[i].n_at;
    for (size_t k = 0; k < BN_LOAD_TIMES; k++)
        ok = (load->ns[k] = bn_alloc(most, sizeof(double))) != NULL && ok;
    return ok;
}

static void add_time(struct bn_serve_load *load, enum bn_load_times kind, uint64_t from, uint64_t to,
                     size_t n)
{
    load->ns[kind][load->n[kind]++] = (double)(to - from) / (double)n;
}

static void add_run(struct bn_serve_load *load, const struct bn_client_run *run,
                    const struct bn_client_run *extra)
{
    const uint64_t *at = run->at_ns;
    size_t n = run->n_at;
    bool failed = run->state != BN_CLIENT_ENDED || run->reason[0] != '\0' || n == 0;
    load->n_failed += failed;
    if (failed) return;
    load->n_prompt += run->n_prompt;
    load->n_cached += run->n_cached;
    load->n_tokens += run->n_tokens > 0 ? run->n_tokens : n;
    add_time(load, BN_LOAD_FIRST, run->start_ns, at[0], 1);
    if (n > 1) add_time(load, BN_LOAD_EACH, at[0], at[n - 1], n - 1);
    for (size_t i = 1; i < n; i++) {
        bool meanwhile =
            extra->state == BN_CLIENT_ENDED && at[i] > extra->start_ns && at[i - 1] < extra->end_ns;
        add_time(load, meanwhile ? BN_LOAD_MEANWHILE : BN_LOAD_GAPS, at[i - 1], at[i], 1);
    }
}

bn_status bn_load_run(struct bn_serve_load *load, const struct bn_target *target,
                      const struct bn_bench_options *o, bn_error *err)
{
    struct loop l = {.load = load, .target = target, .o = o};
    size_t n = load->n_clients;
    pthread_t *threads = bn_alloc(n + 1, sizeof *threads);
    load->n_runs = (size_t)o->n_requests + 1;
    load->runs = bn_alloc(load->n_runs, sizeof *load->runs);
    bn_status status = threads != NULL && load->runs != NULL ? BN_OK : bn_nomem(err);
    if (status == BN_OK) status = run_all(&l, threads, n, err);
    bn_free(threads);
    if (status == BN_OK && !make_room(load)) status = bn_nomem(err);
    for (size_t i = 0; status == BN_OK && i < o->n_requests; i++)
        add_run(load, &load->runs[i], &load->runs[o->n_requests]);
    return status;
}

void bn_load_release(struct bn_serve_load *load)
{
    for (size_t i = 0; load->runs != NULL && i < load->n_runs; i++)
        bn_free(load->runs[i].at_ns);
    bn_free(load->runs);
    for (size_t k = 0; k < BN_LOAD_TIMES; k++)
        bn_free(load->ns[k]);
    *load = (struct bn_serve_load){0};
}

size_t bn_load_compare(const struct bn_serve_load *a, const struct bn_serve_load *b, size_t *n_same)
{
    size_t n = 0;
    *n_same = 0;
    for (size_t i = 0; i + 1 < a->n_runs && i + 1 < b->n_runs; i++) {
        const char *x = a->runs[i].chain, *y = b->runs[i].chain;
        if (x[0] == '\0' || y[0] == '\0') continue;
        n++;
        *n_same += strcmp(x, y) == 0;
    }
    return n;
}

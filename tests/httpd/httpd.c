/* SPDX-License-Identifier: MIT
 *
 * A web server for tests, that misbehaves as it is told.
 *
 *     httpd ROOT SCRIPT LOG [PORT]
 *
 * serves the files below ROOT on a port of 127.0.0.1, a free one unless it is given, which it prints. It
 * speaks HTTP/1.1 with single ranges, If-Range, If-None-Match, If-Modified-Since, HEAD and strong ETags made of
 * size and time. LOG gets a line for each request that has been answered:
 *
 *     number method path range if-range auth status sent
 *
 * ("-" for what was not there; auth is the Authorization header's value with blanks as "_"; sent are bytes of
 * the body). SCRIPT is read anew for each request; a line of it is a rule:
 *
 *     WHICH PATH ACTION...
 *
 * WHICH are numbers of the requests with this path since the start (1, 2-5, 3-, *), PATH is one, or * for
 * any. The first rule that fits is taken. Actions:
 *
 *     status=N          answer N, with an empty body unless there is a file
 *     header=NAME:VALUE added; a "_" in the value is a blank
 *     redirect=URL      302 to there; "%p" is this server's address
 *     file=PATH         serve another file
 *     cut=N rst=N       close, or reset, after N bytes of the body; cut=-1: before the header
 *     flip=N            one bit of byte N of the file is wrong
 *     drip=N            N bytes every 10 ms
 *     stall=N           nothing more after N bytes, until the client hangs up; stall=-1: not even a header
 *     gate=PATH         nothing after the first byte before there is a file PATH below ROOT
 *     whole             ignores Range: 200
 *     from=N total=N    says so in Content-Range
 *     norange           206 without Content-Range
 *     star              "*" for the total in Content-Range
 *     chunked close     the body without a length: in chunks, or until the connection ends
 *     length=N          says so in Content-Length
 *     more=N            sends N bytes beyond the end
 *     fat=N             N bytes of header fields that mean nothing
 *     etag=TEXT noetag  TEXT may be W/"x"
 *     nolastmod
 *
 * A request for /-/quiet is answered when every other connection has ended, so that LOG is complete.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_HEADER 65536u
#define MAX_PATHS 64u

static const char *root, *script, *log_path;
static unsigned port;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t closed = PTHREAD_COND_INITIALIZER;
static unsigned connections;
static struct {
    char path[1024];
    unsigned n;
} counts[MAX_PATHS];

struct request {
    char method[16], path[1024], range[128], if_range[256], auth[256];
    char if_none_match[256], if_modified_since[64];
    unsigned number; /* among those with this path */
    bool close;
};

struct plan {
    long long status, cut, rst, flip, drip, stall, from, total, length, more, fat;
    bool whole, norange, star, chunked, close, noetag, nolastmod, cuts, resets, stalls;
    char headers[4096], redirect[2048], file[1024], etag[256], gate[1024];
};

/* ---- the script ---- */

static bool number_fits(const char *which, unsigned n)
{
    unsigned from, to;
    if (strcmp(which, "*") == 0) return true;
    if (sscanf(which, "%u-%u", &from, &to) == 2) return n >= from && n <= to;
    if (sscanf(which, "%u-", &from) == 1 && which[strlen(which) - 1] == '-') return n >= from;
    return (unsigned)strtoul(which, NULL, 10) == n;
}

static void add_header(struct plan *plan, const char *text)
{
    size_t n = strlen(plan->headers);
    for (; *text != '\0' && n + 3 < sizeof plan->headers; text++)
        plan->headers[n++] = *text == '_' ? ' ' : *text;
    memcpy(plan->headers + n, "\r\n", 3);
}

static void act(struct plan *plan, const char *word)
{
    const struct {
        const char *name;
        long long *value;
    } NUMBERS[] = {{"status=", &plan->status}, {"cut=", &plan->cut},     {"rst=", &plan->rst},
                   {"flip=", &plan->flip},     {"drip=", &plan->drip},   {"stall=", &plan->stall},
                   {"from=", &plan->from},     {"total=", &plan->total}, {"length=", &plan->length},
                   {"more=", &plan->more},     {"fat=", &plan->fat}};
    const struct {
        const char *name;
        bool *value;
    } FLAGS[] = {{"whole", &plan->whole},        {"norange", &plan->norange}, {"star", &plan->star},
                 {"chunked", &plan->chunked},    {"close", &plan->close},     {"noetag", &plan->noetag},
                 {"nolastmod", &plan->nolastmod}};
    for (size_t i = 0; i < sizeof NUMBERS / sizeof NUMBERS[0]; i++) {
        size_t n = strlen(NUMBERS[i].name);
        if (strncmp(word, NUMBERS[i].name, n) != 0) continue;
        *NUMBERS[i].value = strtoll(word + n, NULL, 10);
        plan->cuts = plan->cuts || NUMBERS[i].value == &plan->cut;
        plan->resets = plan->resets || NUMBERS[i].value == &plan->rst;
        plan->stalls = plan->stalls || NUMBERS[i].value == &plan->stall;
        return;
    }
    for (size_t i = 0; i < sizeof FLAGS / sizeof FLAGS[0]; i++)
        if (strcmp(word, FLAGS[i].name) == 0) {
            *FLAGS[i].value = true;
            return;
        }
    if (strncmp(word, "header=", 7) == 0)
        add_header(plan, word + 7);
    else if (strncmp(word, "redirect=", 9) == 0)
        snprintf(plan->redirect, sizeof plan->redirect, "%s", word + 9);
    else if (strncmp(word, "file=", 5) == 0)
        snprintf(plan->file, sizeof plan->file, "%s", word + 5);
    else if (strncmp(word, "gate=", 5) == 0)
        snprintf(plan->gate, sizeof plan->gate, "%s", word + 5);
    else if (strncmp(word, "etag=", 5) == 0)
        snprintf(plan->etag, sizeof plan->etag, "%s", word + 5);
    else
        fprintf(stderr, "httpd: unknown action '%s'\n", word);
}

static void read_plan(struct plan *plan, const struct request *r)
{
    char line[8192];
    *plan = (struct plan){.status = 0, .flip = -1, .from = -1, .total = -1, .length = -1};
    FILE *f = fopen(script, "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        char *rest = NULL, *which = strtok_r(line, " \t\n", &rest), *path = strtok_r(NULL, " \t\n", &rest);
        if (which == NULL || which[0] == '#' || path == NULL) continue;
        if (!number_fits(which, r->number) || (strcmp(path, "*") != 0 && strcmp(path, r->path) != 0))
            continue;
        for (char *word; (word = strtok_r(NULL, " \t\n", &rest)) != NULL;)
            act(plan, word);
        break;
    }
    if (f != NULL) fclose(f);
}

/* ---- sockets ---- */

static bool send_all(int fd, const void *bytes, size_t n)
{
    const char *from = bytes;
    while (n > 0) {
        ssize_t sent = send(fd, from, n, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        from += sent;
        n -= (size_t)sent;
    }
    return true;
}

static void nap(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

/* Waits for the client to hang up, for some time or without end (-1): whether it did. */
static bool hung_up(int fd, int ms)
{
    struct pollfd peer = {.fd = fd, .events = POLLRDHUP};
    return poll(&peer, 1, ms) == 1;
}

/* Waits for a file below ROOT. */
static void wait_for_gate(int fd, const char *gate)
{
    char path[4096];
    snprintf(path, sizeof path, "%s%s", root, gate);
    while (access(path, F_OK) != 0 && !hung_up(fd, 10))
        ;
}

static void reset(int fd)
{
    struct linger now = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

static void keep(char *out, size_t room, const char *line, const char *name)
{
    size_t n = strlen(name);
    if (strncasecmp(line, name, n) != 0 || line[n] != ':') return;
    snprintf(out, room, "%s", line + n + 1 + strspn(line + n + 1, " "));
    for (char *c = out; *c != '\0'; c++)
        if (*c == ' ') *c = '_';
}

/* False when the connection has ended. */
static bool read_request(int fd, struct request *r)
{
    static _Thread_local char text[MAX_HEADER];
    size_t n = 0;
    *r = (struct request){
        .range = "-", .if_range = "-", .auth = "-", .if_none_match = "-", .if_modified_since = "-"};
    while (n < 4 || memcmp(text + n - 4, "\r\n\r\n", 4) != 0) {
        if (n + 1 >= sizeof text || recv(fd, text + n, 1, 0) != 1) return false;
        n++;
    }
    text[n] = '\0';
    char *rest = NULL, *line = strtok_r(text, "\r\n", &rest);
    if (line == NULL || sscanf(line, "%15s %1023[^ ?]", r->method, r->path) != 2) return false;
    while ((line = strtok_r(NULL, "\r\n", &rest)) != NULL) {
        keep(r->range, sizeof r->range, line, "Range");
        keep(r->if_range, sizeof r->if_range, line, "If-Range");
        keep(r->auth, sizeof r->auth, line, "Authorization");
        keep(r->if_none_match, sizeof r->if_none_match, line, "If-None-Match");
        keep(r->if_modified_since, sizeof r->if_modified_since, line, "If-Modified-Since");
    }
    pthread_mutex_lock(&lock);
    size_t i = 0;
    while (i + 1 < MAX_PATHS && counts[i].n > 0 && strcmp(counts[i].path, r->path) != 0)
        i++;
    snprintf(counts[i].path, sizeof counts[i].path, "%s", r->path);
    r->number = ++counts[i].n;
    pthread_mutex_unlock(&lock);
    return true;
}

static void note(const struct request *r, int status, long long sent)
{
    pthread_mutex_lock(&lock);
    FILE *f = fopen(log_path, "ae");
    if (f != NULL) {
        fprintf(f, "%u %s %s %s %s %s %d %lld\n", r->number, r->method, r->path, r->range, r->if_range,
                r->auth, status, sent);
        fclose(f);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- answering ---- */

struct body {
    int fd; /* the file */
    long long from, to, size;
};

/* One write of a body: the n bytes at `at`, with the bit that is wrong. */
static bool send_piece(int fd, const struct plan *plan, const struct body *body, long long at, long long n)
{
    char chunk[65536], size[32];
    memset(chunk, 'x', (size_t)n);
    if (at < body->size && pread(body->fd, chunk, (size_t)n, at) < 0) return false;
    if (plan->flip >= at && plan->flip < at + n) chunk[plan->flip - at] ^= 1;
    if (plan->chunked) {
        int k = snprintf(size, sizeof size, "%llx\r\n", (unsigned long long)n);
        return send_all(fd, size, (size_t)k) && send_all(fd, chunk, (size_t)n) && send_all(fd, "\r\n", 2);
    }
    return send_all(fd, chunk, (size_t)n);
}

/* Returns the bytes sent; *alive is false when the connection is to end. */
static long long send_body(int fd, const struct plan *plan, const struct body *body, bool *alive)
{
    long long sent = 0, end = body->to + 1 + plan->more;
    for (long long at = body->from; at < end;) {
        long long n = end - at < 65536 ? end - at : 65536;
        if (plan->gate[0] != '\0' && sent == 0) n = 1;
        if (plan->gate[0] != '\0' && sent == 1) wait_for_gate(fd, plan->gate);
        if (plan->drip > 0 && n > plan->drip) n = plan->drip;
        if (plan->cuts && n > plan->cut - sent) n = plan->cut - sent;
        if (plan->resets && n > plan->rst - sent) n = plan->rst - sent;
        if (plan->stalls && n > plan->stall - sent) n = plan->stall - sent;
        if (n <= 0) {
            if (plan->resets) reset(fd);
            if (plan->stalls) (void)hung_up(fd, -1);
            *alive = false;
            return sent;
        }
        if (!send_piece(fd, plan, body, at, n)) {
            *alive = false;
            return sent;
        }
        at += n;
        sent += n;
        if (plan->drip > 0) nap(10);
    }
    if (plan->chunked) *alive = send_all(fd, "0\r\n\r\n", 5);
    if (plan->close) *alive = false;
    return sent;
}

static const char *etag_of(const struct plan *plan, const struct stat *st, char out[64])
{
    if (plan->etag[0] != '\0') return plan->etag;
    snprintf(out, 64, "\"%llx-%llx\"", (unsigned long long)st->st_size, (unsigned long long)st->st_mtime);
    return out;
}

/* Does the client have this version? Of the two conditions an ETag counts more; weak ones are compared too. */
static bool is_known(const struct request *r, const struct plan *plan, const char *etag, const char *modified)
{
    const char *theirs = r->if_none_match;
    char wanted[64];
    if (strcmp(theirs, "-") != 0 && !plan->noetag)
        return strcmp(theirs + (strncmp(theirs, "W/", 2) == 0 ? 2 : 0),
                      etag + (strncmp(etag, "W/", 2) == 0 ? 2 : 0)) == 0;
    snprintf(wanted, sizeof wanted, "%s", modified);
    for (char *c = wanted; *c != '\0'; c++)
        if (*c == ' ') *c = '_';
    return !plan->nolastmod && strcmp(r->if_modified_since, wanted) == 0;
}

/* The part that is asked for, when it is to be had and If-Range agrees. */
static bool part_of(const struct request *r, const struct plan *plan, struct body *body, const char *etag,
                    const char *modified, bool *beyond)
{
    long long from, to = body->size - 1;
    char wanted[300];
    snprintf(wanted, sizeof wanted, "%s", modified);
    for (char *c = wanted; *c != '\0'; c++)
        if (*c == ' ') *c = '_';
    int n = sscanf(r->range, "bytes=%lld-%lld", &from, &to);
    if (n < 1 || plan->whole) return false;
    if (strcmp(r->if_range, "-") != 0 && strcmp(r->if_range, etag) != 0 && strcmp(r->if_range, wanted) != 0)
        return false;
    *beyond = from >= body->size;
    if (to >= body->size) to = body->size - 1;
    body->from = from;
    body->to = to;
    return true;
}

static int head(char *out, size_t room, const struct plan *plan, const struct body *body, int status,
                bool part, const char *etag, const char *modified)
{
    char range[128] = "", length[64] = "", tag[300] = "", last[128] = "";
    long long n = body->to - body->from + 1;
    if (part && !plan->norange) {
        char total[32];
        snprintf(total, sizeof total, "%lld", plan->total >= 0 ? plan->total : body->size);
        snprintf(range, sizeof range, "Content-Range: bytes %lld-%lld/%s\r\n",
                 plan->from >= 0 ? plan->from : body->from, plan->from >= 0 ? plan->from + n - 1 : body->to,
                 plan->star ? "*" : total);
    }
    if (status == 416) snprintf(range, sizeof range, "Content-Range: bytes */%lld\r\n", body->size);
    if (plan->chunked)
        snprintf(length, sizeof length, "Transfer-Encoding: chunked\r\n");
    else if (!plan->close)
        snprintf(length, sizeof length, "Content-Length: %lld\r\n", plan->length >= 0 ? plan->length : n);
    if (!plan->noetag) snprintf(tag, sizeof tag, "ETag: %s\r\n", etag);
    if (!plan->nolastmod) snprintf(last, sizeof last, "Last-Modified: %s\r\n", modified);
    return snprintf(out, room, "HTTP/1.1 %d X\r\nAccept-Ranges: bytes\r\n%s%s%s%s%s%s\r\n", status, length,
                    range, tag, last, plan->headers, plan->close ? "Connection: close\r\n" : "");
}

#define TEN "xxxxxxxxxx"
#define FAT "X-Fat: " TEN TEN TEN TEN TEN TEN TEN TEN TEN "xx\r\n"

static bool answer_file(int fd, const struct request *r, const struct plan *plan)
{
    char path[4096], text[8192], tag[64], modified[64] = "";
    struct stat st = {0};
    bool beyond = false, part = false, alive = true;
    snprintf(path, sizeof path, "%s%s", root, plan->file[0] != '\0' ? plan->file : r->path);
    int file = strstr(path, "..") == NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    bool found = file >= 0 && fstat(file, &st) == 0 && S_ISREG(st.st_mode);
    struct body body = {file, 0, found ? (long long)st.st_size - 1 : -1, found ? (long long)st.st_size : 0};
    struct tm tm;
    strftime(modified, sizeof modified, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&st.st_mtime, &tm));
    const char *etag = etag_of(plan, &st, tag);
    int status = plan->status > 0 ? (int)plan->status : found ? 200 : 404;
    if (status == 200 && is_known(r, plan, etag, modified)) status = 304;
    if (status == 200) part = part_of(r, plan, &body, etag, modified, &beyond);
    if (part) status = beyond ? 416 : 206;
    if (!found || beyond || status >= 300) body.from = 0, body.to = -1;
    int n = head(text, sizeof text, plan, &body, status, part && !beyond, etag, modified);
    long long sent = 0;
    alive = send_all(fd, text, (size_t)n - 2);
    for (long long fat = 0; fat < plan->fat; fat += 101)
        alive = alive && send_all(fd, FAT, sizeof FAT - 1);
    alive = alive && send_all(fd, "\r\n", 2);
    if (alive && strcmp(r->method, "HEAD") != 0) sent = send_body(fd, plan, &body, &alive);
    if (file >= 0) close(file);
    note(r, status, sent);
    return alive;
}

static bool answer_quiet(int fd)
{
    static const char TEXT[] = "HTTP/1.1 200 quiet\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    pthread_mutex_lock(&lock);
    while (connections > 1)
        pthread_cond_wait(&closed, &lock);
    pthread_mutex_unlock(&lock);
    (void)send_all(fd, TEXT, sizeof TEXT - 1);
    return false;
}

static bool answer(int fd, const struct request *r)
{
    struct plan plan;
    char text[8192], here[64];
    if (strcmp(r->path, "/-/quiet") == 0) return answer_quiet(fd);
    read_plan(&plan, r);
    if (plan.cuts && plan.cut < 0) {
        note(r, 0, 0);
        return false;
    }
    if (plan.stalls && plan.stall < 0) {
        note(r, 0, 0);
        (void)hung_up(fd, -1);
        return false;
    }
    if (plan.redirect[0] == '\0') return answer_file(fd, r, &plan);
    const char *mark = strstr(plan.redirect, "%p");
    snprintf(here, sizeof here, "http://127.0.0.1:%u", port);
    int before = mark != NULL ? (int)(mark - plan.redirect) : (int)strlen(plan.redirect);
    int n = snprintf(text, sizeof text, "HTTP/1.1 %d X\r\nContent-Length: 0\r\nLocation: %.*s%s%s\r\n%s\r\n",
                     plan.status > 0 ? (int)plan.status : 302, before, plan.redirect,
                     mark != NULL ? here : "", mark != NULL ? mark + 2 : "", plan.headers);
    note(r, plan.status > 0 ? (int)plan.status : 302, 0);
    return send_all(fd, text, (size_t)n);
}

static void *serve(void *arg)
{
    int fd = (int)(long)arg;
    struct request r;
    while (read_request(fd, &r) && answer(fd, &r))
        ;
    close(fd);
    pthread_mutex_lock(&lock);
    connections--;
    pthread_cond_broadcast(&closed);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* A port that was ours a moment ago may be somebody's end of a connection now: that passes. */
static int bind_patiently(int listener, const struct sockaddr_in *address)
{
    for (int i = 0; i < 6000; i++) {
        if (bind(listener, (const struct sockaddr *)address, sizeof *address) == 0) return 0;
        if (errno != EADDRINUSE) return -1;
        nap(10);
    }
    return -1;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof address;
    if (argc < 4) {
        fprintf(stderr, "usage: httpd ROOT SCRIPT LOG [PORT]\n");
        return 2;
    }
    root = argv[1];
    script = argv[2];
    log_path = argv[3];
    signal(SIGPIPE, SIG_IGN);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (argc > 4) address.sin_port = htons((uint16_t)strtoul(argv[4], NULL, 10));
    if (listener < 0 || bind_patiently(listener, &address) != 0 || listen(listener, 64) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &n) != 0) {
        perror("httpd");
        return 1;
    }
    port = ntohs(address.sin_port);
    printf("%u\n", port);
    fflush(stdout);
    for (;;) {
        pthread_t thread;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) continue;
        pthread_mutex_lock(&lock);
        connections++;
        pthread_mutex_unlock(&lock);
        if (pthread_create(&thread, NULL, serve, (void *)(long)fd) != 0) {
            perror("httpd");
            return 1;
        }
        pthread_detach(thread);
    }
}

/* SPDX-License-Identifier: MIT
 *
 * Downloads a file over several connections, the streams. Each stream downloads a run of neighbouring pieces
 * near the first missing one, so that little is lost when the process dies. A single stream downloads all
 * missing pieces in one run.
 */
#include "hub/net/transfer.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/error.h"
#include "hub/net/http.h"

#define MAX_STREAMS 16u
#define RUN_PIECES 4u /* of one request, with several streams: at most */
#define TICK_MS 100u
#define EVENT_NS 100000000u
#define MAX_VERSIONS 3u /* after this many changes of the file on the server the transfer fails */

/* What one stream found and all of them must obey. */
enum verdict { FINE, OTHER_VERSION, NO_RANGES, ASK_AGAIN, FATAL };

struct job;

struct stream {
    struct job *job;
    struct bn_http_call *call; /* NULL: idle */
    uint64_t at, end;          /* next byte, and the end of the run; UINT64_MAX: of the file */
    uint64_t started;          /* at, when the request was made */
    unsigned attempt;          /* without progress */
    uint64_t not_before_ns;
    bool assigned;
};

struct job {
    struct bn_transfer *t;
    struct bn_http *http;
    struct bn_pieces *pieces;
    struct bn_http_source source;
    struct bn_pieces_origin origin;
    char sha256[BN_SHA256_HEX]; /* wanted, lower case; "" */
    size_t url;                 /* which of t->urls */
    unsigned n_streams, n_versions;
    struct stream streams[MAX_STREAMS];
    enum verdict verdict;
    bn_error why;   /* of FATAL */
    bool no_ranges; /* the server was seen to ignore them */
    uint64_t have;  /* bytes of pieces that are complete */
    uint64_t last_event_ns;
};

/* ---- events ---- */

static bool tell(struct job *job, enum bn_transfer_phase phase, uint64_t wait_ms, unsigned attempt,
                 const char *message)
{
    char url[512];
    uint64_t have = job->have;
    if (job->t->fn == NULL) return true;
    for (unsigned i = 0; i < job->n_streams; i++) /* pieces that are begun */
        if (job->streams[i].assigned && job->streams[i].at < job->streams[i].end)
            have += job->streams[i].at % BN_PIECE_BYTES;
    bn_http_show(url, sizeof url, job->source.url);
    struct bn_transfer_event event = {phase,           url,     have,    job->origin.size,
                                      job->t->fetched, wait_ms, attempt, message};
    job->last_event_ns = bn_clock_ns();
    return job->t->fn(job->t->user, &event);
}

static bn_status stopped(bn_error *err)
{
    return bn_fail(err, BN_ERR_CANCELLED, "stopped; the downloaded part is kept and a later run resumes it");
}

static bool tick(void *user)
{
    struct job *job = user;
    return bn_clock_ns() - job->last_event_ns < EVENT_NS || tell(job, BN_TRANSFER_PROGRESS, 0, 0, NULL);
}

/* ---- asking ---- */

/* Can it be known whether two answers are of one version of the file? */
static bool is_named(const struct job *job)
{
    return job->source.validator[0] != '\0' || job->sha256[0] != '\0';
}

static void set_origin(struct job *job)
{
    uint64_t size = job->source.size > 0 ? job->source.size : job->t->size;
    job->origin = (struct bn_pieces_origin){job->t->identity, job->source.validator, job->sha256, size,
                                            job->t->size > 0};
    memcpy(job->t->etag, job->source.last.etag, sizeof job->t->etag);
    memcpy(job->t->last_modified, job->source.last.last_modified, sizeof job->t->last_modified);
    /* Without ranges, a size, or a name of the version, there is one stream from the beginning. */
    bool divided = job->source.ranges && size > 0 && !job->no_ranges && is_named(job);
    job->n_streams = divided ? job->t->parallel : 1;
    if (job->n_streams < 1) job->n_streams = 1;
    if (job->n_streams > MAX_STREAMS) job->n_streams = MAX_STREAMS;
}

static bool on_retry(void *user, uint64_t wait_ms, unsigned attempt, const char *why)
{
    struct job *job = user;
    job->t->n_requests++;
    return tell(job, BN_TRANSFER_RETRY, wait_ms, attempt, why);
}

/* The current URL, with retries; then the next ones. */
static bn_status ask(struct job *job, bn_error *err)
{
    const struct bn_http_patience patience = {
        .retries = job->t->retries, .tick = tick, .retry = on_retry, .user = job};
    for (;; job->url++) {
        bn_error why = {0};
        const char *url = job->t->urls[job->url];
        struct bn_http_request wanted = {.url = url};
        if (bn_http_same_origin(job->t->urls[0], url)) wanted.token = job->t->token;
        snprintf(job->source.url, sizeof job->source.url, "%s", url);
        if (!tell(job, BN_TRANSFER_ASK, 0, 0, NULL)) return stopped(err);
        job->t->n_requests++;
        bn_status status = bn_http_ask(&job->source, job->http, &wanted, &patience, &why);
        if (status == BN_OK) status = bn_transfer_check_source(job->t, &job->source, job->sha256, &why);
        if (status == BN_OK) {
            set_origin(job);
            return BN_OK;
        }
        if (status == BN_ERR_CANCELLED) return stopped(err);
        if (job->url + 1 < job->t->n_urls && status != BN_ERR_NOMEM) continue;
        if (err != NULL && err->code == BN_OK) *err = why;
        return status;
    }
}

/* ---- streams ---- */

/* False, for the callbacks that end a call by it. */
static bool decide(struct job *job, enum verdict verdict)
{
    if (verdict > job->verdict) job->verdict = verdict;
    return false;
}

static bool fatal(struct job *job, bn_status code, const char *message)
{
    bn_fail(&job->why, code, "%s", message);
    return decide(job, FATAL);
}

/* The next URL is asked; false when there is none. */
static bool try_next(struct job *job)
{
    if (job->url + 1 >= job->t->n_urls) return false;
    job->url++;
    (void)decide(job, ASK_AGAIN);
    return true;
}

static bool same_version(const struct job *job, const struct bn_http_answer *a)
{
    const char *validator = job->source.validator;
    if (validator[0] == '"' && a->etag[0] == '"') return strcmp(validator, a->etag) == 0;
    if (validator[0] != '\0' && validator[0] != '"' && a->last_modified[0] != '\0')
        return strcmp(validator, a->last_modified) == 0;
    return true; /* nothing says otherwise; the digest will */
}

static bool accept_part(struct stream *s, const struct bn_http_answer *a)
{
    struct job *job = s->job;
    if (!a->has_range || a->from != s->at || (s->end != UINT64_MAX && a->to >= s->end))
        return decide(job, NO_RANGES); /* it says 206 and sends something else */
    if (!same_version(job, a) || (a->total > 0 && job->origin.size > 0 && a->total != job->origin.size))
        return decide(job, OTHER_VERSION);
    return true;
}

/* A 200 with the complete file. A stream at the beginning can use it; for another one it means that the
 * version changed, or that the server ignores ranges. */
static bool accept_whole(struct stream *s, const struct bn_http_answer *a)
{
    struct job *job = s->job;
    if (!same_version(job, a) || (a->has_length && job->origin.size > 0 && a->length != job->origin.size))
        return decide(job, OTHER_VERSION);
    if (s->at != 0 || job->n_streams > 1) return decide(job, NO_RANGES);
    s->end = job->origin.size > 0 ? job->origin.size : UINT64_MAX;
    return true;
}

static bool on_answer(void *user, const struct bn_http_answer *a)
{
    struct stream *s = user;
    if (a->content_encoding[0] != '\0' && strcasecmp(a->content_encoding, "identity") != 0)
        return fatal(s->job, BN_ERR_NETWORK, "the server sent compressed data, although it was asked not to");
    if (a->status == 206) return accept_part(s, a);
    if (a->status == 200) return accept_whole(s, a);
    if (a->status == 416) return decide(s->job, OTHER_VERSION);
    return false; /* the status is looked at when the call has ended */
}

/* The beginning of the file: what is not the file at all is found out here, and not after the last byte. */
static bool accept_start(struct stream *s, const void *bytes, size_t n)
{
    struct job *job = s->job;
    bn_error why = {0};
    if (bn_hub_check_start(job->t->format, s->at, bytes, n, &why) == BN_OK) return true;
    if (try_next(job)) return false;
    job->why = why;
    return decide(job, FATAL);
}

/* Skips bytes of pieces that are complete, which a server without ranges sends again. */
static bool on_body(void *user, const void *bytes, size_t n)
{
    struct stream *s = user;
    struct job *job = s->job;
    const char *from = bytes;
    job->t->fetched += n;
    if (!accept_start(s, bytes, n)) return false;
    if (n > s->end - s->at) return fatal(job, BN_ERR_NETWORK, "the server sent more bytes than it announced");
    while (n > 0) {
        size_t piece = (size_t)(s->at / BN_PIECE_BYTES);
        uint64_t border = ((uint64_t)piece + 1) * BN_PIECE_BYTES;
        if (border > s->end) border = s->end;
        size_t now = border - s->at < n ? (size_t)(border - s->at) : n;
        bool there = bn_pieces_has(job->pieces, piece);
        if (!there && bn_pieces_write(job->pieces, s->at, from, now, &job->why) != BN_OK)
            return decide(job, FATAL);
        s->at += now;
        from += now;
        n -= now;
        if (s->at != border || there) continue;
        job->have += border - (uint64_t)piece * BN_PIECE_BYTES;
        if (bn_pieces_done(job->pieces, piece, &job->why) != BN_OK) return decide(job, FATAL);
    }
    return true;
}

/* Does a stream download piece i? */
static bool is_taken(const struct job *job, size_t i)
{
    for (unsigned k = 0; k < job->n_streams; k++) {
        const struct stream *s = &job->streams[k];
        if (s->assigned && s->at < ((uint64_t)i + 1) * BN_PIECE_BYTES &&
            s->end > (uint64_t)i * BN_PIECE_BYTES)
            return true;
    }
    return false;
}

static bool is_missing(const struct job *job, size_t i)
{
    return i < bn_pieces_count(job->pieces) && !bn_pieces_has(job->pieces, i) && !is_taken(job, i);
}

/* The next run of missing pieces; false when there is none. */
static bool assign(struct job *job, struct stream *s)
{
    size_t n = bn_pieces_count(job->pieces), i = 0, to;
    if (s->assigned) return true;
    if (!job->source.ranges || job->no_ranges || n == 0) {
        bool missing = n == 0;
        for (; i < n && !missing; i++)
            missing = is_missing(job, i);
        s->at = 0;
        s->end = job->origin.size > 0 ? job->origin.size : UINT64_MAX;
        s->assigned = missing;
        return missing;
    }
    while (i < n && !is_missing(job, i))
        i++;
    if (i == n) return false;
    size_t most = job->n_streams > 1 ? bn_min_size(RUN_PIECES, (n - i) / job->n_streams + 1) : n;
    for (to = i + 1; to - i < most && is_missing(job, to);)
        to++;
    s->at = (uint64_t)i * BN_PIECE_BYTES;
    s->end = bn_min_size((size_t)((uint64_t)to * BN_PIECE_BYTES), (size_t)job->origin.size);
    s->assigned = true;
    return true;
}

static bn_status start(struct job *job, struct stream *s, bn_error *err)
{
    struct bn_http_request request = {.url = job->source.url, .on_answer = on_answer, .on_body = on_body};
    request.user = s;
    request.ranged = job->source.ranges && !job->no_ranges;
    request.from = s->at;
    request.to = s->end == UINT64_MAX ? UINT64_MAX : s->end - 1;
    if (!request.ranged) s->at = 0;
    if (request.ranged && job->source.validator[0] != '\0') request.if_range = job->source.validator;
    if (bn_http_same_origin(job->t->urls[0], job->source.url)) request.token = job->t->token;
    s->started = s->at;
    job->t->n_requests++;
    return bn_http_start(job->http, &request, &s->call, err);
}

/* Starts the streams that may. *active counts those that run or wait. */
static bn_status start_streams(struct job *job, unsigned *active, bn_error *err)
{
    uint64_t now = bn_clock_ns();
    *active = 0;
    for (unsigned i = 0; i < job->n_streams; i++) {
        struct stream *s = &job->streams[i];
        if (s->call == NULL && !assign(job, s)) continue;
        ++*active;
        if (s->call == NULL && now >= s->not_before_ns) BN_TRY(start(job, s, err));
    }
    return BN_OK;
}

static void end_streams(struct job *job)
{
    for (unsigned i = 0; i < MAX_STREAMS; i++) {
        bn_http_call_close(job->streams[i].call);
        job->streams[i] = (struct stream){.job = job};
    }
}

/* ---- when a call has ended ---- */

/* The end of a file whose size was not known. */
static bn_status end_of_unknown(struct job *job, struct stream *s, bn_error *err)
{
    size_t piece = (size_t)(s->at / BN_PIECE_BYTES);
    uint64_t rest = s->at % BN_PIECE_BYTES;
    if (s->at == 0) return bn_fail(err, BN_ERR_INTEGRITY, "the server sent an empty file");
    BN_TRY(bn_pieces_set_size(job->pieces, s->at, err));
    job->origin.size = s->end = s->at;
    if (rest == 0 || bn_pieces_has(job->pieces, piece)) return BN_OK;
    job->have += rest;
    return bn_pieces_done(job->pieces, piece, err);
}

/* Tries again from the next byte; after too many attempts without progress, the next URL, or an error. An
 * attempt without progress brought less than the lowest speed allows: dripped bytes do not count. Where the
 * next answer may be of another version, each attempt is from the first byte and is without progress. */
static bn_status retry(struct job *job, struct stream *s, uint64_t retry_after_s, const char *why,
                       bn_error *err)
{
    uint64_t enough = (uint64_t)BN_HTTP_STALL_BYTES * (job->t->stall_s > 0 ? job->t->stall_s : 30);
    s->attempt = s->at - s->started >= enough && is_named(job) ? 1 : s->attempt + 1;
    if (s->attempt > job->t->retries) {
        char url[200];
        bn_http_show(url, sizeof url, job->source.url);
        return try_next(job) ? BN_OK
                             : bn_fail_in(err, BN_ERR_NETWORK, url, "%s; %u attempts", why, s->attempt);
    }
    if (!is_named(job)) {
        s->assigned = false;
        job->have = 0;
        BN_TRY(bn_pieces_restart(job->pieces, &job->origin, err));
    }
    uint64_t ms = bn_http_wait_ms(s->attempt - 1, retry_after_s);
    s->not_before_ns = bn_clock_ns() + ms * 1000000u;
    return tell(job, BN_TRANSFER_RETRY, ms, s->attempt, why) ? BN_OK : stopped(err);
}

static bn_status ended_by_status(struct job *job, struct stream *s, const struct bn_http_result *r,
                                 bn_error *err)
{
    bn_error why = {0};
    bool again;
    long status = r->answer.status;
    bool elsewhere = strcmp(job->source.url, job->t->urls[job->url]) != 0;
    /* An address that was given for a while may have run out; so may one that redirects now. */
    if ((status >= 300 && status < 400) || ((status == 401 || status == 403 || status == 404) && elsewhere)) {
        if (++job->n_versions > MAX_VERSIONS) return bn_http_fail(&r->answer, job->source.url, &again, err);
        (void)decide(job, ASK_AGAIN);
        return BN_OK;
    }
    bn_status failed = bn_http_fail(&r->answer, job->source.url, &again, &why);
    if (again) return retry(job, s, r->answer.retry_after_s, why.msg, err);
    if (err != NULL && err->code == BN_OK) *err = why;
    return failed;
}

static bn_status ended(struct job *job, struct bn_http_call *call, bn_error *err)
{
    void *user;
    struct bn_http_result r = *bn_http_call_result(call, &user);
    struct stream *s = user;
    long status = r.answer.status;
    bn_http_call_close(call);
    s->call = NULL;
    if (job->verdict == FATAL || (r.end == BN_HTTP_STOPPED && job->verdict != FINE)) return BN_OK;
    if (r.end == BN_HTTP_REFUSED) return bn_fail(err, BN_ERR_NETWORK, "%s", r.message);
    if (r.end == BN_HTTP_BROKEN) return retry(job, s, 0, r.message, err);
    if (status != 200 && status != 206) return ended_by_status(job, s, &r, err);
    if (s->end == UINT64_MAX && r.end == BN_HTTP_DONE) BN_TRY(end_of_unknown(job, s, err));
    if (s->at < s->end) return retry(job, s, 0, "the server sent fewer bytes than requested", err);
    s->assigned = false;
    s->attempt = 0;
    return BN_OK;
}

/* ---- the transfer ---- */

/* The bytes are not the file at all, and useless. */
static bool is_other(bn_status code)
{
    return code == BN_ERR_FORMAT || code == BN_ERR_LIMIT;
}

/* Asks the server again, as the streams found necessary. */
static bn_status act_on_verdict(struct job *job, bn_error *err)
{
    enum verdict verdict = job->verdict;
    char validator[256];
    end_streams(job);
    job->verdict = FINE;
    if (verdict == FATAL) {
        if (is_other(job->why.code)) bn_pieces_drop(job->pieces);
        if (err != NULL && err->code == BN_OK) *err = job->why;
        return job->why.code;
    }
    if (verdict == NO_RANGES) job->no_ranges = true;
    if (verdict != ASK_AGAIN && ++job->n_versions > MAX_VERSIONS)
        return bn_fail(err, BN_ERR_NETWORK,
                       "the file changes on the server during the download, or its ranges are inconsistent");
    uint64_t size = job->origin.size;
    snprintf(validator, sizeof validator, "%s", job->source.validator);
    BN_TRY(ask(job, err));
    bool other = verdict == OTHER_VERSION || strcmp(validator, job->source.validator) != 0 || !is_named(job);
    bool fits = job->origin.size == 0 || job->origin.size == size;
    if (fits && (!other || job->sha256[0] != '\0')) { /* of one digest, all pieces fit */
        if (job->origin.size == 0) job->origin.size = size;
        return BN_OK;
    }
    job->have = 0;
    if (!tell(job, BN_TRANSFER_RESTART, 0, 0, "the file changed on the server")) return stopped(err);
    return bn_pieces_restart(job->pieces, &job->origin, err);
}

static bn_status fetch(struct job *job, bn_error *err)
{
    for (;;) {
        unsigned active;
        struct bn_http_call *call = NULL;
        BN_TRY(start_streams(job, &active, err));
        if (active == 0) return BN_OK;
        BN_TRY(bn_http_poll(job->http, TICK_MS, &call, err));
        if (call != NULL) BN_TRY(ended(job, call, err));
        if (job->verdict != FINE) BN_TRY(act_on_verdict(job, err));
        if (!tick(job)) return stopped(err);
    }
}

static bool verified(void *user, uint64_t bytes)
{
    struct job *job = user;
    job->have += bytes;
    return tick(job);
}

static bn_status open_pieces(struct job *job, bn_error *err)
{
    struct bn_pieces_found found = {.progress = verified, .user = job};
    BN_TRY(bn_pieces_open(&job->pieces, job->t->path, &job->origin, &found, err));
    job->have = job->t->resumed = found.kept;
    if (found.other && !tell(job, BN_TRANSFER_RESTART, 0, 0, "the unfinished download is of another version"))
        return stopped(err);
    if (found.lost > 0 && !tell(job, BN_TRANSFER_REPAIR, 0, 0, "some downloaded pieces are damaged"))
        return stopped(err);
    if (job->have > 0 && !tell(job, BN_TRANSFER_RESUME, 0, 0, NULL)) return stopped(err);
    return BN_OK;
}

static bn_status fetch_all(struct job *job, bn_error *err)
{
    bn_status status = fetch(job, err);
    end_streams(job);
    BN_TRY(status);
    return bn_pieces_digest(job->pieces, job->t->digest, err);
}

/* Downloads everything once more when the digest is wrong: bytes may have been damaged on the way. */
static bn_status fetch_right(struct job *job, bn_error *err)
{
    BN_TRY(open_pieces(job, err));
    BN_TRY(fetch_all(job, err));
    if (job->sha256[0] == '\0' || strcmp(job->sha256, job->t->digest) == 0) return BN_OK;
    if (!tell(job, BN_TRANSFER_REPAIR, 0, 0, "checksum mismatch")) return stopped(err);
    job->have = 0;
    BN_TRY(bn_pieces_restart(job->pieces, &job->origin, err));
    if (job->url + 1 < job->t->n_urls) {
        job->url++;
        BN_TRY(ask(job, err));
    }
    BN_TRY(fetch_all(job, err));
    if (strcmp(job->sha256, job->t->digest) == 0) return BN_OK;
    struct bn_pieces *pieces = job->pieces;
    job->pieces = NULL;
    BN_TRY(bn_pieces_finish(pieces, ".bad", err));
    return bn_hint(bn_fail_in(err, BN_ERR_INTEGRITY, job->t->path, "sha256 is %.16s..., expected %.16s...",
                              job->t->digest, job->sha256),
                   err, "the bytes are kept as .bad; check that the digest is of this version of the file");
}

static bn_status run(struct job *job, bn_error *err)
{
    BN_TRY(ask(job, err));
    BN_TRY(fetch_right(job, err));
    bn_status status = bn_transfer_check_part(job->t, job->origin.size, err);
    if (is_other(status)) bn_pieces_drop(job->pieces);
    BN_TRY(status);
    struct bn_pieces *pieces = job->pieces;
    job->t->final_size = job->origin.size;
    job->pieces = NULL;
    BN_TRY(bn_pieces_finish(pieces, "", err));
    (void)tell(job, BN_TRANSFER_DONE, 0, 0, NULL);
    return BN_OK;
}

bn_status bn_transfer_run(struct bn_transfer *transfer, bn_error *err)
{
    transfer->fetched = transfer->resumed = transfer->final_size = transfer->n_requests = 0;
    if (transfer->offline) return bn_transfer_here(transfer, err);
    if (!transfer->force && bn_transfer_here(transfer, NULL) == BN_OK) return BN_OK;
    struct bn_http_options options = {0};
    struct job *job = bn_alloc(1, sizeof *job);
    if (job == NULL) return bn_nomem(err);
    job->t = transfer;
    for (size_t i = 0; transfer->sha256 != NULL && i < 64 && transfer->sha256[i] != '\0'; i++)
        job->sha256[i] = (char)tolower((unsigned char)transfer->sha256[i]);
    for (unsigned i = 0; i < MAX_STREAMS; i++)
        job->streams[i].job = job;
    unsigned parallel = transfer->parallel > 0 ? transfer->parallel : 1;
    options.stall_s = transfer->stall_s;
    options.limit_rate = (transfer->limit_rate + parallel - 1) / parallel;
    bn_status status = bn_http_open(&job->http, &options, err);
    if (status == BN_OK) status = run(job, err);
    end_streams(job);
    bn_pieces_close(job->pieces);
    bn_http_close(job->http);
    bn_free(job);
    return status;
}

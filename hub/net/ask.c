/* SPDX-License-Identifier: MIT
 *
 * Finds where the bytes of a URL are and which version they have. Redirects are followed here and not by libcurl, so
 * that a token is sent only to the origin that it is for, and each answer is seen.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/random.h"
#include "hub/net/http.h"

#define MAX_HOPS 5u
#define TICK_NS 100000000L
#define FIRST_WAIT_MS 200u
#define MAX_WAIT_MS 10000u
#define MAX_RETRY_AFTER_S 300u

/* Only the header is needed. */
static bool stop_at_header(void *user, const struct bn_http_answer *answer)
{
    (void)user;
    (void)answer;
    return false;
}

static bool is_redirect(long status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* ---- errors ---- */

static bn_status fail_auth(const struct bn_http_answer *a, const char *url, bn_error *err)
{
    if (strcmp(a->error_code, "GatedRepo") == 0)
        return bn_hint(
            bn_fail_in(err, BN_ERR_AUTH, url, "access needs the approval of the repository's owners"), err,
            "request access on the repository's page, then set HF_TOKEN");
    /* The hub does not tell strangers whether a private repository exists. */
    if (strcmp(a->error_code, "RepoNotFound") == 0)
        return bn_hint(bn_fail_in(err, BN_ERR_NOT_FOUND, url, "no such repository, or it is private"), err,
                       "check the name; for a private repository set HF_TOKEN");
    return bn_hint(bn_fail_in(err, BN_ERR_AUTH, url, "access denied (HTTP %ld)", a->status), err,
                   "set HF_TOKEN to a token with read access");
}

static bn_status fail_not_found(const struct bn_http_answer *a, const char *url, bn_error *err)
{
    const char *what = strcmp(a->error_code, "RepoNotFound") == 0       ? "no such repository"
                       : strcmp(a->error_code, "RevisionNotFound") == 0 ? "no such revision in the repository"
                       : strcmp(a->error_code, "EntryNotFound") == 0    ? "no such file in the repository"
                                                                        : "not found";
    return bn_fail_in(err, BN_ERR_NOT_FOUND, url, "%s (HTTP %ld)", what, a->status);
}

bn_status bn_http_fail(const struct bn_http_answer *a, const char *url, bool *again, bn_error *err)
{
    char shown[200];
    bn_http_show(shown, sizeof shown, url);
    *again = a->status == 408 || a->status == 425 || a->status == 429 || a->status >= 500;
    if (a->status == 401 || a->status == 403) return fail_auth(a, shown, err);
    if (a->status == 404 || a->status == 410) return fail_not_found(a, shown, err);
    if (a->status == 429) return bn_fail_in(err, BN_ERR_NETWORK, shown, "too many requests (HTTP 429)");
    return bn_fail_in(err, BN_ERR_NETWORK, shown, "the server answered HTTP %ld", a->status);
}

/* ---- one attempt ---- */

struct asking {
    struct bn_http_source *out;
    struct bn_http *http;
    const struct bn_http_request *wanted;
    const struct bn_http_patience *patience;
};

/* One hop. A range that is refused, as of an empty file, is asked for without. */
static bn_status hop(struct bn_http_result *out, const struct asking *a, bn_error *err)
{
    struct bn_http_request request = *a->wanted;
    request.url = a->out->url;
    request.ranged = request.on_body == NULL;
    if (request.ranged) request.on_answer = stop_at_header;
    if (!bn_http_same_origin(a->wanted->url, request.url)) request.token = NULL;
    BN_TRY(bn_http_get(a->http, &request, a->patience->tick, a->patience->user, out, err));
    if (out->answer.status != 416) return BN_OK;
    request.ranged = false;
    return bn_http_get(a->http, &request, a->patience->tick, a->patience->user, out, err);
}

static void understand(struct bn_http_source *out)
{
    const struct bn_http_answer *a = &out->last;
    const char *digest = out->first.linked_etag;
    out->ranges = a->status == 206 && a->has_range;
    out->size = out->ranges ? a->total : a->status == 200 && a->has_length ? a->length : 0;
    if (out->size == 0) out->size = out->first.linked_size;
    snprintf(out->sha256, sizeof out->sha256, "%s", digest + (digest[0] == '"'));
    bool sha256 = bn_is_sha256(out->sha256) && strlen(digest) == (digest[0] == '"' ? 66 : 64);
    if (!sha256) out->sha256[0] = '\0';
    snprintf(out->validator, sizeof out->validator, "%s", a->etag[0] == '"' ? a->etag : a->last_modified);
}

static bn_status ask(const struct asking *a, bool *again, bn_error *err)
{
    struct bn_http_source *out = a->out;
    const char *url = a->wanted->url;
    bool conditional = a->wanted->if_none_match != NULL || a->wanted->if_modified_since != NULL;
    struct bn_http_result r;
    char next[BN_HTTP_URL_MAX], shown[200];
    *out = (struct bn_http_source){0};
    if (strlen(url) >= sizeof out->url) return bn_fail(err, BN_ERR_LIMIT, "the URL is too long");
    memcpy(out->url, url, strlen(url) + 1);
    for (unsigned n = 0; n <= MAX_HOPS; n++) {
        BN_TRY(hop(&r, a, err));
        bn_http_show(shown, sizeof shown, out->url);
        *again = r.end == BN_HTTP_BROKEN;
        if (r.end != BN_HTTP_DONE && r.end != BN_HTTP_STOPPED)
            return bn_fail_in(err, BN_ERR_NETWORK, shown, "%s", r.message);
        out->last = r.answer;
        /* A repository that was renamed redirects to its new name, and that answer names the commit. */
        bool speaks = out->first.commit[0] == '\0' && r.answer.commit[0] != '\0';
        if (n == 0 || (speaks && bn_http_same_origin(url, out->url))) out->first = r.answer;
        long status = r.answer.status;
        if (status == 200 || status == 206) understand(out);
        if (status == 200 || status == 206 || (status == 304 && conditional)) return BN_OK;
        if (!is_redirect(status)) return bn_http_fail(&r.answer, out->url, again, err);
        BN_TRY(bn_http_join(next, out->url, r.answer.location, err));
        memcpy(out->url, next, sizeof next);
    }
    return bn_fail(err, BN_ERR_NETWORK, "more than %u redirects", MAX_HOPS);
}

/* ---- asking again ---- */

uint64_t bn_http_wait_ms(unsigned attempt, uint64_t retry_after_s)
{
    uint64_t random = bn_clock_ns(), most = (uint64_t)FIRST_WAIT_MS << (attempt < 6 ? attempt : 6);
    uint64_t ms = FIRST_WAIT_MS / 2 + bn_splitmix64(&random) % (most < MAX_WAIT_MS ? most : MAX_WAIT_MS);
    if (retry_after_s > MAX_RETRY_AFTER_S) retry_after_s = MAX_RETRY_AFTER_S;
    return retry_after_s * 1000 > ms ? retry_after_s * 1000 : ms;
}

bn_status bn_http_ask(struct bn_http_source *out, struct bn_http *http, const struct bn_http_request *wanted,
                      const struct bn_http_patience *p, bn_error *err)
{
    const struct timespec pause = {0, TICK_NS};
    const struct asking asking = {out, http, wanted, p};
    for (unsigned attempt = 0;; attempt++) {
        bn_error why = {0};
        bool again = false;
        bn_status status = ask(&asking, &again, &why);
        if (status == BN_OK || !again || attempt >= p->retries) {
            if (status != BN_OK && err != NULL && err->code == BN_OK) *err = why;
            return status;
        }
        uint64_t ms = bn_http_wait_ms(attempt, out->last.retry_after_s);
        bool go_on = p->retry == NULL || p->retry(p->user, ms, attempt + 1, why.msg);
        for (uint64_t until = bn_clock_ns() + ms * 1000000u; go_on && bn_clock_ns() < until;) {
            (void)nanosleep(&pause, NULL);
            go_on = p->tick == NULL || p->tick(p->user);
        }
        if (!go_on) return bn_fail(err, BN_ERR_CANCELLED, "stopped");
    }
}

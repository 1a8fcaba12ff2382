/* SPDX-License-Identifier: MIT
 *
 * Finds where the bytes of a URL are and which version they have, by a HEAD request and its redirects.
 */
#include "hub/net/ask.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"

#define MAX_HOPS 5u

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
    if (strcmp(a->error_code, "GatedRepo") == 0) {
        bn_fail_in(err, BN_ERR_AUTH, url, "access needs the approval of the repository's owners");
        bn_error_hint(err, "request access on the repository's page, then set HF_TOKEN");
    } else if (strcmp(a->error_code, "RepoNotFound") == 0) {
        /* The hub does not tell strangers whether a private repository exists. */
        return bn_hint(bn_fail_in(err, BN_ERR_NOT_FOUND, url, "no such repository, or it is private"), err,
                       "check the name; for a private repository set HF_TOKEN");
    } else {
        bn_fail_in(err, BN_ERR_AUTH, url, "access denied (HTTP %ld)", a->status);
        bn_error_hint(err, "set HF_TOKEN to a token with read access");
    }
    return BN_ERR_AUTH;
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

/* ---- asking ---- */

struct asking {
    struct bn_http *http;
    const struct bn_http_request *wanted;
    bool (*tick)(void *user);
    void *user;
};

/* One hop. A range that is refused, as of an empty file, is asked for without. */
static bn_status hop(struct bn_http_result *out, const struct asking *a, const char *url, bn_error *err)
{
    struct bn_http_request request = {.url = url,
                                      .ranged = true,
                                      .if_none_match = a->wanted->if_none_match,
                                      .if_modified_since = a->wanted->if_modified_since,
                                      .on_answer = stop_at_header};
    if (bn_http_same_origin(a->wanted->url, url)) request.token = a->wanted->token;
    BN_TRY(bn_http_get(a->http, &request, a->tick, a->user, out, err));
    if (out->answer.status != 416) return BN_OK;
    request.ranged = false;
    return bn_http_get(a->http, &request, a->tick, a->user, out, err);
}

/* The digest that the hub gives for the file: its etag, without quotes. */
static void linked_sha256(char out[BN_SHA256_HEX], const struct bn_http_answer *a)
{
    const char *etag = a->linked_etag;
    size_t n = strlen(etag);
    out[0] = '\0';
    if (n == 66 && etag[0] == '"') snprintf(out, BN_SHA256_HEX, "%.64s", etag + 1);
    if (n == 64) snprintf(out, BN_SHA256_HEX, "%s", etag);
    if (!bn_is_sha256(out)) out[0] = '\0';
}

static void understand(struct bn_http_source *out)
{
    const struct bn_http_answer *a = &out->last;
    out->ranges = a->status == 206 && a->has_range;
    out->size = out->ranges ? a->total : a->status == 200 && a->has_length ? a->length : 0;
    if (out->size == 0) out->size = out->first.linked_size;
    linked_sha256(out->sha256, &out->first);
    out->validator[0] = '\0';
    if (a->etag[0] == '"')
        memcpy(out->validator, a->etag, strlen(a->etag) + 1);
    else
        memcpy(out->validator, a->last_modified, strlen(a->last_modified) + 1);
}

static bn_status fail_connection(const struct bn_http_result *r, const char *url, bool *again, bn_error *err)
{
    char shown[200];
    bn_http_show(shown, sizeof shown, url);
    *again = r->end == BN_HTTP_BROKEN;
    return bn_fail_in(err, BN_ERR_NETWORK, shown, "%s", r->message);
}

bn_status bn_http_ask(struct bn_http_source *out, struct bn_http *http, const struct bn_http_request *wanted,
                      bool (*tick)(void *user), void *user, bool *again, bn_error *err)
{
    const char *url = wanted->url;
    bool conditional = wanted->if_none_match != NULL || wanted->if_modified_since != NULL;
    struct asking a = {http, wanted, tick, user};
    struct bn_http_result r;
    char next[BN_HTTP_URL_MAX];
    *out = (struct bn_http_source){.last.retry_after_s = -1};
    *again = false;
    if (strlen(url) >= sizeof out->url) return bn_fail(err, BN_ERR_LIMIT, "the URL is too long");
    memcpy(out->url, url, strlen(url) + 1);
    for (unsigned n = 0; n <= MAX_HOPS; n++) {
        BN_TRY(hop(&r, &a, out->url, err));
        if (r.end != BN_HTTP_DONE && r.end != BN_HTTP_STOPPED)
            return fail_connection(&r, out->url, again, err);
        out->last = r.answer;
        /* A repository that was renamed redirects to its new name, and that answer names the commit. */
        bool speaks = out->first.commit[0] == '\0' && r.answer.commit[0] != '\0';
        if (n == 0 || (speaks && bn_http_same_origin(url, out->url))) out->first = r.answer;
        if (r.answer.status == 200 || r.answer.status == 206) understand(out);
        if (r.answer.status == 200 || r.answer.status == 206 || (r.answer.status == 304 && conditional))
            return BN_OK;
        if (!is_redirect(r.answer.status)) return bn_http_fail(&r.answer, out->url, again, err);
        BN_TRY(bn_http_join(next, out->url, r.answer.location, err));
        memcpy(out->url, next, sizeof next);
    }
    return bn_fail(err, BN_ERR_NETWORK, "more than %u redirects", MAX_HOPS);
}

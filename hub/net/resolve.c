/* SPDX-License-Identifier: MIT
 *
 * Finds where the bytes of a URL are and which version they have. Redirects are followed here and not by libcurl, so
 * that a token is sent only to the origin that it is for, and each answer is seen.
 *
 * Asks the hub for the commit, size and digest of a file, and for the files of a repository.
 */
#define _POSIX_C_SOURCE 200809L
#include "hub/net/resolve.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "hub/names/names.h"
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
        bool redirects = (status >= 301 && status <= 303) || status == 307 || status == 308;
        if (!redirects) return bn_http_fail(&r.answer, out->url, again, err);
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

#define MAX_LISTING_BYTES (4u << 20)

/* ---- where, and who asks ---- */

static const char *setting(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* A token is one printable word; anything else would break out of its header. */
static bn_status keep_token(struct bn_hub_server *server, const char *text, const char *from, bn_error *err)
{
    size_t n = strcspn(text, " \t\r\n");
    bool good = n < sizeof server->token && text[n + strspn(text + n, " \t\r\n")] == '\0';
    for (size_t i = 0; i < n; i++)
        good = good && (unsigned char)text[i] >= 0x21 && (unsigned char)text[i] <= 0x7E;
    if (!good) return bn_fail(err, BN_ERR_ARG, "%s is not a token (one printable word)", from);
    memcpy(server->token, text, n);
    server->token[n] = '\0';
    return BN_OK;
}

bool bn_hub_token_path(char out[BN_HUB_PATH_MAX])
{
    const char *named = setting("HF_TOKEN_PATH"), *home = setting("HF_HOME"), *user = setting("HOME");
    if (named != NULL)
        snprintf(out, BN_HUB_PATH_MAX, "%s", named);
    else if (home != NULL)
        snprintf(out, BN_HUB_PATH_MAX, "%s/token", home);
    else if (user != NULL)
        snprintf(out, BN_HUB_PATH_MAX, "%s/.cache/huggingface/token", user);
    return named != NULL || home != NULL || user != NULL;
}

static bn_status read_token_file(struct bn_hub_server *server, bn_error *err)
{
    char path[BN_HUB_PATH_MAX];
    const char *named = setting("HF_TOKEN_PATH");
    struct bn_buf text = {.max = 4096};
    if (!bn_hub_token_path(path)) return BN_OK;
    bn_status status = bn_file_read(path, &text, named != NULL ? err : NULL);
    if (status == BN_OK && text.data != NULL) status = keep_token(server, text.data, path, err);
    bn_buf_release(&text);
    return named != NULL || status == BN_ERR_ARG ? status : BN_OK; /* the usual place may be empty */
}

bn_status bn_hub_server_read(struct bn_hub_server *server, bn_error *err)
{
    const char *endpoint = setting("HF_ENDPOINT"), *token = setting("HF_TOKEN"), *offline;
    struct bn_hub_reference checked;
    *server = (struct bn_hub_server){0};
    if (endpoint == NULL) endpoint = "https://huggingface.co";
    if (bn_hub_reference_parse(&checked, endpoint, err) != BN_OK || checked.kind != BN_HUB_URL ||
        strlen(endpoint) >= sizeof server->endpoint) {
        return bn_hint(bn_fail(err, BN_ERR_ARG, "HF_ENDPOINT: '%s' is not a valid URL", endpoint), err,
                       "HF_ENDPOINT=https://huggingface.co is the default");
    }
    memcpy(server->endpoint, endpoint, strlen(endpoint) + 1);
    for (size_t n = strlen(server->endpoint); n > 0 && server->endpoint[n - 1] == '/'; n--)
        server->endpoint[n - 1] = '\0';
    offline = setting("HF_HUB_OFFLINE");
    server->offline = offline != NULL && strcmp(offline, "0") != 0;
    return token != NULL ? keep_token(server, token, "HF_TOKEN", err) : read_token_file(server, err);
}

/* ---- URLs ---- */

/* Appends text percent-encoded, but for the characters of `plain`: a revision is one part of the path, without slashes. */
static void put_encoded(struct bn_buf *out, const char *text, const char *plain)
{
    for (const char *c = text; *c != '\0'; c++)
        if (isalnum((unsigned char)*c) || strchr(plain, *c) != NULL)
            bn_buf_putc(out, *c);
        else
            bn_buf_printf(out, "%%%02X", (unsigned char)*c);
}

bn_status bn_hub_url(char out[2049], const struct bn_hub_server *server, const char *repo, const char *file,
                     const char *revision, bn_error *err)
{
    struct bn_buf url = {.max = 2048};
    bool safe = bn_hub_safe_path(repo) && bn_hub_safe_path(revision);
    if (!safe || (file != NULL && !bn_hub_safe_path(file)))
        return bn_fail(err, BN_ERR_ARG, "not a valid path in a repository");
    bn_buf_printf(&url, "%s/", server->endpoint);
    if (file == NULL) bn_buf_puts(&url, "api/models/");
    put_encoded(&url, repo, "-._~/");
    bn_buf_puts(&url, file == NULL ? "/revision/" : "/resolve/");
    put_encoded(&url, revision, "-._~");
    bn_buf_puts(&url, file == NULL ? "?blobs=true" : "/");
    put_encoded(&url, file != NULL ? file : "", "-._~/");
    bn_status status = bn_buf_check(&url, err);
    if (status == BN_OK) memcpy(out, url.data, url.len + 1);
    bn_buf_release(&url);
    return status;
}

static bn_status refuse_offline(const struct bn_hub_server *server, const char *what, bn_error *err)
{
    if (!server->offline) return BN_OK;
    return bn_hint(bn_fail_in(err, BN_ERR_NOT_FOUND, what, "not in the cache, and the network is off"), err,
                   "run without --offline and HF_HUB_OFFLINE to download it");
}

/* ---- one file ---- */

/* "abc", W/"abc": the text within. Only digits of a digest are a blob's name. */
static void strip_etag(char out[129], const char *etag)
{
    if (strncmp(etag, "W/", 2) == 0) etag += 2;
    if (*etag == '"') etag++;
    size_t n = strspn(etag, "0123456789abcdef");
    bool ok = (etag[n] == '\0' || strcmp(etag + n, "\"") == 0) && n >= 32 && n <= 64;
    snprintf(out, 129, "%.*s", ok ? (int)n : 0, etag);
}

bn_status bn_hub_ask(struct bn_http_source *out, const struct bn_hub_server *server,
                     const struct bn_http_request *request, bn_error *err)
{
    struct bn_http *http;
    struct bn_http_request asked = *request;
    const struct bn_http_options options = {.stall_s = server->patience.stall_s};
    BN_TRY(refuse_offline(server, request->url, err));
    if (server->token[0] != '\0' && bn_http_same_origin(request->url, server->endpoint))
        asked.token = server->token;
    BN_TRY(bn_http_open(&http, &options, err));
    bn_status status = bn_http_ask(out, http, &asked, &server->patience, err);
    bn_http_close(http);
    if (status == BN_ERR_NETWORK) bn_error_hint(err, "bn-download doctor checks the network");
    return status;
}

bn_status bn_hub_resolve(struct bn_hub_metadata *out, const struct bn_hub_server *server, const char *repo,
                         const char *file, const char *revision, bn_error *err)
{
    struct bn_http_source source;
    *out = (struct bn_hub_metadata){0};
    BN_TRY(bn_hub_url(out->url, server, repo, file, revision, err));
    const struct bn_http_request request = {.url = out->url};
    BN_TRY(bn_hub_ask(&source, server, &request, err));
    const struct bn_http_answer *first = &source.first;
    snprintf(out->commit, sizeof out->commit, "%s", bn_hub_is_commit(first->commit) ? first->commit : "");
    strip_etag(out->etag, first->linked_etag[0] != '\0' ? first->linked_etag : first->etag);
    if (strlen(out->etag) == 64) memcpy(out->sha256, out->etag, 65);
    out->size = first->linked_size > 0 ? first->linked_size : source.size;
    if (out->etag[0] == '\0' || out->commit[0] == '\0')
        return bn_hint(bn_fail(err, BN_ERR_FORMAT,
                               "the server is not a Hugging Face hub: its answer has no valid %s",
                               out->commit[0] == '\0' ? "X-Repo-Commit" : "ETag"),
                       err, "check HF_ENDPOINT");
    return BN_OK;
}

/* ---- a repository ---- */

static bool begin(void *user, const struct bn_http_answer *answer)
{
    struct bn_buf *text = user;
    (void)answer;
    text->len = 0;
    return true;
}

static bool keep(void *user, const void *bytes, size_t n)
{
    struct bn_buf *text = user;
    bn_buf_append(text, bytes, n);
    return !text->failed;
}

bn_status bn_hub_listing_parse(cJSON **out, const char *text, size_t n, bn_error *err)
{
    BN_TRY(bn_hub_document_parse(out, text, n, NULL, err));
    const cJSON *files = bn_hub_member(*out, "siblings"), *o;
    bn_status status = BN_OK;
    if (!cJSON_IsArray(files))
        status = bn_fail(err, BN_ERR_FORMAT, "the server's answer is not a list of files");
    cJSON_ArrayForEach(o, files) if (!bn_hub_safe_path(bn_hub_text_of(o, "rfilename"))) status =
        bn_fail(err, BN_ERR_FORMAT, "the server lists a file with an unsafe name");
    if (status == BN_OK) return BN_OK;
    cJSON_Delete(*out);
    *out = NULL;
    return status;
}

bn_status bn_hub_list(cJSON **out, const struct bn_hub_server *server, const char *repo, const char *revision,
                      bn_error *err)
{
    char url[2049];
    struct bn_buf text = {.max = MAX_LISTING_BYTES};
    const struct bn_http_request request = {.url = url, .on_answer = begin, .on_body = keep, .user = &text};
    struct bn_http_source source;
    *out = NULL;
    BN_TRY(refuse_offline(server, repo, err));
    BN_TRY(bn_hub_url(url, server, repo, NULL, revision, err));
    bn_status status = bn_hub_ask(&source, server, &request, err);
    if (status == BN_OK && text.failed)
        status = bn_fail_in(err, BN_ERR_NETWORK, repo, "the list of files is too long");
    if (status == BN_OK) status = bn_hub_listing_parse(out, bn_buf_text(&text), text.len, err);
    bn_buf_release(&text);
    return status;
}

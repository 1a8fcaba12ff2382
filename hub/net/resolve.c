/* SPDX-License-Identifier: MIT
 *
 * Asks the hub for the commit, size and digest of a file, and for the files of a repository.
 */
#include "hub/net/resolve.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "hub/names/names.h"

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
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x21 || (unsigned char)text[i] > 0x7E)
            return bn_fail(err, BN_ERR_ARG, "%s is not a token (one printable word)", from);
    if (n >= sizeof server->token || text[n + strspn(text + n, " \t\r\n")] != '\0')
        return bn_fail(err, BN_ERR_ARG, "%s is not a token (one printable word)", from);
    memcpy(server->token, text, n);
    server->token[n] = '\0';
    return BN_OK;
}

static bn_status read_token_file(struct bn_hub_server *server, bn_error *err)
{
    char path[4096];
    const char *named = setting("HF_TOKEN_PATH"), *home = setting("HF_HOME"), *user = setting("HOME");
    struct bn_buf text = {.max = 4096};
    if (named != NULL)
        snprintf(path, sizeof path, "%s", named);
    else if (home != NULL)
        snprintf(path, sizeof path, "%s/token", home);
    else if (user != NULL)
        snprintf(path, sizeof path, "%s/.cache/huggingface/token", user);
    else
        return BN_OK;
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

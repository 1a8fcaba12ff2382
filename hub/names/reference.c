/* SPDX-License-Identifier: MIT
 *
 * Parses what a user writes for a model: a name, hf:OWNER/REPO or a URL.
 */
#include "hub/names/names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

#define MAX_PART_BYTES 255u

/* ---- safe texts ---- */

static bool is_safe_part(const char *part, size_t n)
{
    if (n == 0 || n > MAX_PART_BYTES || part[0] == '-') return false;
    if (n <= 2 && strncmp("..", part, n) == 0) return false; /* "." and ".." */
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)part[i];
        if (c < 0x20 || c == 0x7F || c == '\\') return false;
        if (c == 0xC2 && i + 1 < n && (unsigned char)part[i + 1] < 0xA0) return false; /* U+0080 to U+009F */
    }
    return true;
}

bool bn_hub_safe_path(const char *path)
{
    for (;;) {
        size_t n = strcspn(path, "/");
        if (!is_safe_part(path, n)) return false;
        if (path[n] == '\0') return true;
        path += n + 1;
    }
}

bool bn_hub_is_commit(const char *revision)
{
    size_t n = strspn(revision, "0123456789abcdef");
    return n >= 40 && n <= 64 && revision[n] == '\0';
}

/* Letters, digits, dot, underscore, hyphen: owners, repositories, names. */
static bool is_word(const char *text, size_t n)
{
    if (!is_safe_part(text, n) || n > 96 || text[0] == '.') return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && strchr("._-", text[i]) == NULL) return false;
    return true;
}

static bool is_safe_url_text(const char *url)
{
    for (const char *c = url; *c != '\0'; c++)
        if ((unsigned char)*c <= 0x20 || (unsigned char)*c >= 0x7F || strchr("\"<>\\^`{|}", *c) != NULL)
            return false;
    return true;
}

bool bn_hub_is_loopback(const char *host)
{
    static const char *const HOSTS[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < BN_ARRAY_LEN(HOSTS); i++) {
        size_t n = strlen(HOSTS[i]);
        if (strncasecmp(host, HOSTS[i], n) == 0 && (host[n] == '\0' || strchr(":/?#", host[n]) != NULL))
            return true;
    }
    return false;
}

/* ---- forms ---- */

static bool is_url(const char *text)
{
    return strncmp(text + strcspn(text, ":"), "://", 3) == 0;
}

static bool is_name(const char *text)
{
    size_t n = strcspn(text, ":");
    return is_word(text, n) && n < sizeof((struct bn_hub_reference *)0)->name;
}

/* "owner/repo", what people copy from the hub; more may follow, as after "hf:". */
static bool is_repo(const char *text)
{
    size_t n = strcspn(text, ":@");
    const char *slash = memchr(text, '/', n);
    return slash != NULL && is_word(text, (size_t)(slash - text)) &&
           is_word(slash + 1, n - (size_t)(slash - text) - 1);
}

bool bn_hub_is_reference(const char *text)
{
    if (is_url(text) || strncmp(text, "hf:", 3) == 0) return true;
    size_t n = strcspn(text, ":@"); /* names have dots too: "bitnet-b1.58-2b-4t" */
    if (n > 5 && strncasecmp(text + n - 5, ".gguf", 5) == 0) return false;
    return is_name(text) || is_repo(text);
}

static bn_status copy(char *out, size_t room, const char *text, size_t n, const char *what, bn_error *err)
{
    if (n >= room) return bn_fail(err, BN_ERR_ARG, "the %s is longer than %zu bytes", what, room - 1);
    memcpy(out, text, n);
    out[n] = '\0';
    return BN_OK;
}

static bn_status parse_url(struct bn_hub_reference *out, const char *text, bn_error *err)
{
    out->kind = BN_HUB_URL;
    BN_TRY(copy(out->url, sizeof out->url, text, strlen(text), "URL", err));
    const char *host = strstr(text, "://") + 3;
    size_t n = strcspn(host, "/?#");
    bool https = strncasecmp(text, "https://", 8) == 0;
    if (!https && strncasecmp(text, "http://", 7) != 0)
        return bn_hint(bn_fail_in(err, BN_ERR_ARG, text, "not a URL of https or http"), err,
                       "a file on this machine is used by its path, without download: bn-run -m FILE");
    if (!is_safe_url_text(text) || n == 0) return bn_fail_in(err, BN_ERR_ARG, text, "not a valid URL");
    if (memchr(host, '@', n) != NULL)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "a URL must not contain a user name or a password"), err,
                       "set HF_TOKEN instead");
    if (!https && !bn_hub_is_loopback(host))
        return bn_hint(
            bn_fail_in(err, BN_ERR_ARG, text,
                       "http is allowed for this machine only: others could change the bytes on the way"),
            err, "use https");
    return BN_OK;
}

/* owner/repo[:file][@revision]; a revision may have slashes, a file may have '@' only before the last one.
 */
static bn_status parse_repo(struct bn_hub_reference *out, const char *text, bn_error *err)
{
    out->kind = BN_HUB_REPO;
    size_t n_all = strlen(text), n_repo = strcspn(text, ":@");
    if (!is_repo(text))
        return bn_hint(bn_fail_in(err, BN_ERR_ARG, text, "not a repository"), err,
                       "write OWNER/REPO, OWNER/REPO:FILE or OWNER/REPO:FILE@REVISION");
    BN_TRY(copy(out->repo, sizeof out->repo, text, n_repo, "repository", err));
    const char *at = strrchr(text + n_repo, '@');
    size_t end = at != NULL ? (size_t)(at - text) : n_all;
    BN_TRY(copy(out->revision, sizeof out->revision, at != NULL ? at + 1 : "main",
                at != NULL ? strlen(at + 1) : 4, "revision", err));
    if (text[n_repo] == ':')
        BN_TRY(copy(out->file, sizeof out->file, text + n_repo + 1, end - n_repo - 1, "file name", err));
    if (text[n_repo] == ':' && !bn_hub_safe_path(out->file))
        return bn_fail_in(err, BN_ERR_ARG, out->file, "not a valid path in a repository");
    if (!bn_hub_safe_path(out->revision) || strpbrk(out->revision, " ?#%") != NULL)
        return bn_fail_in(err, BN_ERR_ARG, out->revision, "not a valid revision (branch, tag or commit)");
    return BN_OK;
}

bn_status bn_hub_reference_parse(struct bn_hub_reference *out, const char *text, bn_error *err)
{
    *out = (struct bn_hub_reference){0};
    if (is_url(text)) return parse_url(out, text, err);
    if (strncmp(text, "hf:", 3) == 0) return parse_repo(out, text + 3, err);
    if (is_repo(text)) return parse_repo(out, text, err);
    if (!is_name(text))
        return bn_hint(bn_fail_in(err, BN_ERR_ARG, text, "not a model name, OWNER/REPO or URL"), err,
                       "'bn-download list' shows the names");
    size_t n = strcspn(text, ":");
    for (size_t i = 0; i < n; i++)
        out->name[i] = (char)tolower((unsigned char)text[i]);
    if (text[n] == ':')
        return copy(out->variant, sizeof out->variant, text + n + 1, strlen(text + n + 1), "variant", err);
    return BN_OK;
}

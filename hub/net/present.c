/* SPDX-License-Identifier: MIT
 *
 * Checks bytes for transfer.h: whether a file that exists is the right one, and whether a server sends the
 * right file.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "hub/net/ask.h"
#include "hub/net/transfer.h"

static bool begins_with(const char *bytes, size_t n, const char *text)
{
    size_t length = strlen(text);
    return n >= length && memcmp(bytes, text, length) == 0;
}

bn_status bn_transfer_check_start(bool gguf, uint64_t at, const void *bytes, size_t n, bn_error *err)
{
    static const char MAGIC[] = "GGUF";
    const char *text = bytes;
    size_t blank = begins_with(text, n, "\xEF\xBB\xBF") ? 3 : 0;
    if (at >= sizeof MAGIC - 1) return BN_OK;
    if (at == 0 && begins_with(text, n, "version https://git-lfs.github.com/"))
        return bn_hint(bn_fail(err, BN_ERR_FORMAT, "the server sent a git-lfs pointer, not the file itself"),
                       err, "on the hub, use the address with /resolve/, not /raw/");
    size_t rest = bn_min_size(n, sizeof MAGIC - 1 - (size_t)at);
    if (!gguf || memcmp(text, MAGIC + at, rest) == 0) return BN_OK;
    while (blank < n && strchr(" \t\r\n", text[blank]) != NULL && text[blank] != '\0')
        blank++;
    if (at == 0 && blank < n && text[blank] == '<')
        return bn_hint(bn_fail(err, BN_ERR_FORMAT, "the server sent a web page (HTML), not a GGUF file"), err,
                       "open the address in a browser: it may be a login page, or a page of a proxy");
    char shown[64];
    return bn_fail(err, BN_ERR_FORMAT,
                   "not a GGUF file: the server sent '%s', not 'GGUF', as its first bytes",
                   bn_escape(shown, sizeof shown, text, n < 8 ? n : 8));
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

bn_status bn_transfer_check_source(const struct bn_transfer *t, const struct bn_http_source *s,
                                   char sha256[BN_SHA256_HEX], bn_error *err)
{
    const struct bn_http_answer *a = &s->last;
    char linked[BN_SHA256_HEX];
    linked_sha256(linked, &s->first);
    if (sha256[0] == '\0') memcpy(sha256, linked, sizeof linked);
    if (linked[0] != '\0' && strcmp(linked, sha256) != 0)
        return bn_fail(err, BN_ERR_INTEGRITY,
                       "the server has another file: sha256 %.16s..., expected %.16s...", linked, sha256);
    if (t->size > 0 && s->size > 0 && s->size != t->size)
        return bn_fail(err, BN_ERR_INTEGRITY, "the server's file has %llu bytes, expected %llu",
                       (unsigned long long)s->size, (unsigned long long)t->size);
    if (a->content_encoding[0] != '\0' && strcasecmp(a->content_encoding, "identity") != 0)
        return bn_fail(err, BN_ERR_NETWORK,
                       "the server sent compressed data (Content-Encoding: %s), although it was asked not to",
                       a->content_encoding);
    if (strncasecmp(a->content_type, "text/html", 9) == 0 && strstr(t->path, ".htm") == NULL)
        return bn_transfer_check_start(true, 0, "<", 1, err);
    return BN_OK;
}

/* hex is the file's digest, "" when none was wanted. */
static bn_status verify(const char *path, uint64_t size, const char *sha256, char hex[BN_SHA256_HEX],
                        bn_error *err)
{
    struct stat st;
    hex[0] = '\0';
    if (stat(path, &st) != 0) return bn_fail_errno(err, errno, path, "cannot open");
    if (size > 0 && (uint64_t)st.st_size != size)
        return bn_fail_in(err, BN_ERR_INTEGRITY, path, "size is %llu bytes, expected %llu",
                          (unsigned long long)st.st_size, (unsigned long long)size);
    if (sha256 == NULL) return BN_OK;
    BN_TRY(bn_sha256_file(path, hex, err));
    if (strcasecmp(hex, sha256) == 0) return BN_OK;
    return bn_fail_in(err, BN_ERR_INTEGRITY, path, "sha256 is %s, expected %s", hex, sha256);
}

bn_status bn_transfer_verify(const char *path, uint64_t size, const char *sha256, bn_error *err)
{
    char hex[BN_SHA256_HEX];
    return verify(path, size, sha256, hex, err);
}

static bn_status check_magic(const char *path, bn_error *err)
{
    char start[4];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 ? read(fd, start, sizeof start) : -1;
    if (fd >= 0) close(fd);
    if (n == (ssize_t)sizeof start && memcmp(start, "GGUF", sizeof start) == 0) return BN_OK;
    return bn_fail_in(err, BN_ERR_FORMAT, path, "not a GGUF file");
}

bn_status bn_transfer_here(struct bn_transfer *t, bn_error *err)
{
    struct stat st;
    BN_TRY(verify(t->path, t->size, t->sha256, t->digest, err));
    if (t->sha256 == NULL && t->gguf) BN_TRY(check_magic(t->path, err));
    if (t->digest[0] == '\0') BN_TRY(bn_sha256_file(t->path, t->digest, err));
    if (stat(t->path, &st) != 0) return bn_fail_errno(err, errno, t->path, "cannot open");
    t->final_size = (uint64_t)st.st_size;
    return BN_OK;
}

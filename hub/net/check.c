/* SPDX-License-Identifier: MIT
 *
 * Checks bytes for transfer.h: whether a server sends the right file, whether its first bytes are those of a GGUF or
 * safetensors file, whether a complete file has a valid header, and whether one that is here is the right one. The
 * headers are read by the readers that conversions use.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "gguf/gguf.h"
#include "hub/files/safetensors.h"
#include "hub/net/http.h"
#include "hub/net/transfer.h"

#define GGUF_HEAD_BYTES 24u
#define SAFETENSORS_MAX_HEADER 100000000u

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n > k && strcasecmp(name + n - k, end) == 0;
}

enum bn_hub_format bn_hub_format_of(const char *name)
{
    if (ends_with(name, ".gguf")) return BN_HUB_GGUF;
    return ends_with(name, ".safetensors") ? BN_HUB_SAFETENSORS : BN_HUB_ANY_FORMAT;
}

static bool begins_with(const char *bytes, size_t n, const char *text)
{
    size_t length = strlen(text);
    return n >= length && memcmp(bytes, text, length) == 0;
}

static uint64_t little_endian(const unsigned char *bytes, unsigned n)
{
    uint64_t value = 0;
    while (n-- > 0)
        value = value << 8 | bytes[n];
    return value;
}

/* ---- the first bytes ---- */

static bool is_markup(const char *text, size_t n)
{
    size_t blank = begins_with(text, n, "\xEF\xBB\xBF") ? 3 : 0;
    while (blank < n && strchr(" \t\r\n", text[blank]) != NULL && text[blank] != '\0')
        blank++;
    return blank < n && text[blank] == '<';
}

static bool fits_gguf(const char *bytes, uint64_t at, size_t n)
{
    static const char MAGIC[] = "GGUF";
    return at >= 4 || memcmp(bytes, MAGIC + at, bn_min_size(n, 4 - (size_t)at)) == 0;
}

static bool fits_safetensors(const unsigned char *bytes, uint64_t at, size_t n)
{
    if (at > 0 || n < 9) return true; /* the complete file is checked */
    uint64_t header = little_endian(bytes, 8);
    return header >= 2 && header <= SAFETENSORS_MAX_HEADER && bytes[8] == '{';
}

/* The version and the two counts, before gigabytes follow. */
static bn_status check_gguf_head(const unsigned char *bytes, bn_error *err)
{
    uint64_t version = little_endian(bytes + 4, 4);
    uint64_t n_tensors = little_endian(bytes + 8, 8), n_keys = little_endian(bytes + 16, 8);
    if (version != 2 && version != 3)
        return bn_fail(err, BN_ERR_FORMAT, "not a valid GGUF file: its version is %llu, expected 2 or 3",
                       (unsigned long long)version);
    if (n_tensors > BN_GGUF_MAX_TENSORS || n_keys > BN_GGUF_MAX_KV)
        return bn_fail(err, BN_ERR_LIMIT,
                       "not a usable GGUF file: it names %llu tensors (limit %u) and %llu keys (limit %u)",
                       (unsigned long long)n_tensors, BN_GGUF_MAX_TENSORS, (unsigned long long)n_keys,
                       BN_GGUF_MAX_KV);
    return BN_OK;
}

bn_status bn_hub_check_start(enum bn_hub_format format, uint64_t at, const void *bytes, size_t n,
                             bn_error *err)
{
    char shown[64];
    if (at == 0 && begins_with(bytes, n, "version https://git-lfs.github.com/"))
        return bn_hint(bn_fail(err, BN_ERR_FORMAT, "the server sent a git-lfs pointer, not the file itself"),
                       err, "on the hub, use the address with /resolve/, not /raw/");
    if (format == BN_HUB_ANY_FORMAT) return BN_OK;
    bool fits = format == BN_HUB_GGUF ? fits_gguf(bytes, at, n) : fits_safetensors(bytes, at, n);
    if (fits && format == BN_HUB_GGUF && at == 0 && n >= GGUF_HEAD_BYTES) return check_gguf_head(bytes, err);
    if (fits) return BN_OK;
    if (at == 0 && is_markup(bytes, n))
        return bn_hint(bn_fail(err, BN_ERR_FORMAT, "the server sent a web page (HTML), not a %s file",
                               format == BN_HUB_GGUF ? "GGUF" : "safetensors"),
                       err, "open the address in a browser: it may be a login page, or a page of a proxy");
    bn_escape(shown, sizeof shown, bytes, n < 8 ? n : 8);
    if (format == BN_HUB_GGUF)
        return bn_fail(err, BN_ERR_FORMAT,
                       "not a GGUF file: the server sent '%s', not 'GGUF', as its first bytes", shown);
    return bn_fail(err, BN_ERR_FORMAT,
                   "not a safetensors file: the server sent '%s', not the length of a header, as its first "
                   "bytes",
                   shown);
}

/* ---- a complete file ---- */

static bn_status check_gguf(const unsigned char *data, size_t n, bn_error *err)
{
    struct bn_gguf gguf;
    bn_error why = {0};
    if (n >= GGUF_HEAD_BYTES && fits_gguf((const char *)data, 0, n)) BN_TRY(check_gguf_head(data, err));
    bn_status status = bn_gguf_open(&gguf, data, n, &why);
    if (status == BN_OK) bn_gguf_close(&gguf);
    /* Types of tensors that this engine does not run; they are another program's model. */
    if (status == BN_ERR_UNSUPPORTED) status = BN_OK;
    if (status != BN_OK && err != NULL && err->code == BN_OK) *err = why;
    return status;
}

static bn_status check_safetensors(const unsigned char *data, size_t n, bn_error *err)
{
    struct bn_safetensors st;
    bn_error why = {0};
    if (n >= 9) BN_TRY(bn_hub_check_start(BN_HUB_SAFETENSORS, 0, data, n, err));
    bn_status status = bn_safetensors_open(&st, data, n, &why);
    if (status == BN_OK) bn_safetensors_close(&st);
    if (status == BN_OK || status == BN_ERR_UNSUPPORTED) return BN_OK; /* types that bn does not know */
    return bn_fail(err, status, "damaged or truncated: %s%s%s", why.where, why.where[0] != '\0' ? ": " : "",
                   why.msg);
}

bn_status bn_hub_check_file(enum bn_hub_format format, const char *path, bn_error *err)
{
    struct bn_file_map map;
    if (format == BN_HUB_ANY_FORMAT) return BN_OK;
    BN_TRY(bn_file_map_open(&map, path, false, err));
    bn_status status = format == BN_HUB_GGUF ? check_gguf(map.data, map.n_bytes, err)
                                             : check_safetensors(map.data, map.n_bytes, err);
    bn_file_map_close(&map);
    return status;
}

/* ---- of a transfer ---- */

bn_status bn_transfer_check_source(const struct bn_transfer *t, const struct bn_http_source *s,
                                   char sha256[BN_SHA256_HEX], bn_error *err)
{
    const struct bn_http_answer *a = &s->last;
    if (sha256[0] == '\0') memcpy(sha256, s->sha256, sizeof s->sha256);
    if (s->sha256[0] != '\0' && strcmp(s->sha256, sha256) != 0)
        return bn_fail(err, BN_ERR_INTEGRITY,
                       "the server has another file: sha256 %.16s..., expected %.16s...", s->sha256, sha256);
    if (t->size > 0 && s->size > 0 && s->size != t->size)
        return bn_fail(err, BN_ERR_INTEGRITY, "the server's file has %llu bytes, expected %llu",
                       (unsigned long long)s->size, (unsigned long long)t->size);
    if (a->content_encoding[0] != '\0' && strcasecmp(a->content_encoding, "identity") != 0)
        return bn_fail(err, BN_ERR_NETWORK,
                       "the server sent compressed data (Content-Encoding: %s), although it was asked not to",
                       a->content_encoding);
    if (strncasecmp(a->content_type, "text/html", 9) == 0 && strstr(t->path, ".htm") == NULL)
        return bn_hub_check_start(t->format == BN_HUB_SAFETENSORS ? t->format : BN_HUB_GGUF, 0, "<!doctype",
                                  9, err);
    return BN_OK;
}

bn_status bn_transfer_check_part(const struct bn_transfer *t, uint64_t size, bn_error *err)
{
    char part[4200];
    if (t->format == BN_HUB_GGUF && size < 4)
        return bn_fail(err, BN_ERR_FORMAT, "not a GGUF file: the server sent only %u bytes", (unsigned)size);
    snprintf(part, sizeof part, "%s.part", t->path);
    bn_status status = bn_hub_check_file(t->format, part, err);
    if (status != BN_OK) bn_error_name(err, t->path);
    return status;
}

bn_status bn_transfer_here(struct bn_transfer *t, bn_error *err)
{
    struct stat st;
    t->digest[0] = '\0';
    if (stat(t->path, &st) != 0) return bn_fail_errno(err, errno, t->path, "cannot open");
    t->final_size = (uint64_t)st.st_size;
    if (t->size > 0 && t->final_size != t->size)
        return bn_fail_in(err, BN_ERR_INTEGRITY, t->path, "size is %llu bytes, expected %llu",
                          (unsigned long long)t->final_size, (unsigned long long)t->size);
    if (t->sha256 == NULL) BN_TRY(bn_hub_check_file(t->format, t->path, err));
    BN_TRY(bn_sha256_file(t->path, t->digest, err));
    if (t->sha256 == NULL || strcasecmp(t->digest, t->sha256) == 0) return BN_OK;
    return bn_fail_in(err, BN_ERR_INTEGRITY, t->path, "sha256 is %s, expected %s", t->digest, t->sha256);
}

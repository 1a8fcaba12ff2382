/* SPDX-License-Identifier: MIT
 *
 * Checks bytes for transfer.h: whether a file that exists is the right one, and whether a server sends the
 * right file.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/error.h"
#include "hub/net/ask.h"
#include "hub/net/transfer.h"

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

bn_status bn_transfer_here(struct bn_transfer *t, bn_error *err)
{
    struct stat st;
    BN_TRY(verify(t->path, t->size, t->sha256, t->digest, err));
    if (t->sha256 == NULL) BN_TRY(bn_hub_check_file(t->format, t->path, err));
    if (t->digest[0] == '\0') BN_TRY(bn_sha256_file(t->path, t->digest, err));
    if (stat(t->path, &st) != 0) return bn_fail_errno(err, errno, t->path, "cannot open");
    t->final_size = (uint64_t)st.st_size;
    return BN_OK;
}

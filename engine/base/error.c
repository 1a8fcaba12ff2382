/* SPDX-License-Identifier: MIT
 *
 * Sets errors and escapes untrusted text in them. The tables of status names and exit codes are here, so that
 * they are the same in all programs.
 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static const struct {
    const char *name;
    bn_exit exit;
} STATUS[BN_STATUS_COUNT] = {
    [BN_OK] = {"ok", BN_EXIT_OK},
    [BN_ERR_ARG] = {"argument", BN_EXIT_USAGE},
    [BN_ERR_NOT_FOUND] = {"not found", BN_EXIT_NOT_FOUND},
    [BN_ERR_FORMAT] = {"format", BN_EXIT_FORMAT},
    [BN_ERR_LIMIT] = {"limit", BN_EXIT_FORMAT},
    [BN_ERR_UNSUPPORTED] = {"unsupported", BN_EXIT_UNSUPPORTED},
    [BN_ERR_MISMATCH] = {"mismatch", BN_EXIT_NEGATIVE},
    [BN_ERR_INTEGRITY] = {"integrity", BN_EXIT_INTEGRITY},
    [BN_ERR_NETWORK] = {"network", BN_EXIT_NETWORK},
    [BN_ERR_AUTH] = {"not authorised", BN_EXIT_AUTH},
    [BN_ERR_IO] = {"input/output", BN_EXIT_IO},
    [BN_ERR_NOMEM] = {"out of memory", BN_EXIT_INTERNAL},
    [BN_ERR_CANCELLED] = {"cancelled", BN_EXIT_NEGATIVE},
    [BN_ERR_INTERNAL] = {"internal", BN_EXIT_INTERNAL},
};

const char *bn_status_name(bn_status status)
{
    return (unsigned)status < BN_STATUS_COUNT ? STATUS[status].name : "unknown";
}

bn_exit bn_status_exit(bn_status status)
{
    return (unsigned)status < BN_STATUS_COUNT ? STATUS[status].exit : BN_EXIT_INTERNAL;
}

#define TEXT(x) #x
#define VERSION(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

const char *bn_version(void)
{
    return VERSION(BN_VERSION_MAJOR, BN_VERSION_MINOR, BN_VERSION_PATCH);
}

bn_status bn_take_options(void *out, size_t n_bytes, const void *options, bn_error *err)
{
    size_t size;
    if (options == NULL) return BN_OK;
    memcpy(&size, options, sizeof size);
    if (size > n_bytes)
        return bn_fail(err, BN_ERR_ARG, "options of %zu bytes: the header is newer than the library %s", size,
                       bn_version());
    memcpy(out, options, size != 0 ? size : n_bytes); /* 0.1 is the first version */
    return BN_OK;
}

static bool is_printable(const char *text, size_t length, enum bn_escape how)
{
    if (length == 0) return false;
    if (how == BN_ESCAPE_NAME && text[0] == '\\') return false;
    uint32_t point = bn_utf8_point(text, length);
    if (how != BN_ESCAPE_TEXT) return !bn_utf8_is_unsafe(point);
    return point == '\n' || point == '\t' || (point >= 0x20 && (point < 0x7F || point >= 0xA0));
}

size_t bn_escape_char(char out[5], const char *text, size_t n, enum bn_escape how)
{
    size_t length = bn_utf8_length(text, n);
    if (is_printable(text, length, how)) {
        memcpy(out, text, length);
        out[length] = '\0';
        return length;
    }
    snprintf(out, 5, "\\x%02X", (unsigned)(unsigned char)text[0]);
    return 1;
}

void bn_escape_as(char *out, size_t room, const char *text, size_t n, enum bn_escape how)
{
    char one[5];
    size_t used = 0;
    for (size_t i = 0; i < n;) {
        i += bn_escape_char(one, text + i, n - i, how);
        size_t need = strlen(one);
        if (used + need + 1 > room) break;
        memcpy(out + used, one, need);
        used += need;
    }
    if (room > 0) out[used] = '\0';
}

char *bn_escape(char *out, size_t room, const char *text, size_t n)
{
    bn_escape_as(out, room, text, n, BN_ESCAPE_NAME);
    return out;
}

/* A message may have been given a name as it is. */
static void format(char *out, size_t room, const char *fmt, va_list args) BN_PRINTF(3, 0);
static void format(char *out, size_t room, const char *fmt, va_list args)
{
    char raw[sizeof((bn_error *)0)->msg];
    vsnprintf(raw, sizeof raw, fmt, args);
    bn_escape_as(out, room, raw, strlen(raw), BN_ESCAPE_MESSAGE);
}

/* Of an errno. */
static bn_status status_of(int sys_errno)
{
    if (sys_errno == ENOENT || sys_errno == ENOTDIR || sys_errno == EACCES || sys_errno == ELOOP ||
        sys_errno == ENAMETOOLONG)
        return BN_ERR_NOT_FOUND;
    return sys_errno == ENOMEM ? BN_ERR_NOMEM : BN_ERR_IO;
}

bn_status bn_error_set(bn_error *err, bn_status code, int sys_errno, uint64_t offset, const char *where,
                       const char *fmt, ...)
{
    va_list args;
    if (sys_errno != 0) code = status_of(sys_errno);
    if (err == NULL || err->code != BN_OK) return code;
    err->code = code;
    err->sys_errno = sys_errno;
    err->offset = offset;
    err->where[0] = '\0';
    err->hint[0] = '\0';
    if (where != NULL) bn_escape(err->where, sizeof err->where, where, strlen(where));
    va_start(args, fmt);
    format(err->msg, sizeof err->msg, fmt, args);
    va_end(args);
    if (sys_errno != 0) {
        size_t n = strlen(err->msg);
        snprintf(err->msg + n, sizeof err->msg - n, ": %s", strerror(sys_errno));
    }
    return code;
}

bn_status bn_nomem(bn_error *err)
{
    return bn_fail(err, BN_ERR_NOMEM, "out of memory");
}

bn_status bn_hint(bn_status failed, bn_error *err, const char *fmt, ...)
{
    va_list args;
    if (err == NULL || err->hint[0] != '\0') return failed;
    va_start(args, fmt);
    format(err->hint, sizeof err->hint, fmt, args);
    va_end(args);
    return failed;
}

void bn_error_name(bn_error *err, const char *where)
{
    if (err == NULL || err->code == BN_OK || strncmp(err->where, where, strlen(where)) == 0) return;
    char inner[sizeof err->where];
    const char *slash = strrchr(where, '/'), *base = slash != NULL && slash[1] != '\0' ? slash + 1 : where;
    bool alone = err->where[0] == '\0';
    memcpy(inner, err->where, sizeof inner);
    if (alone) base = where;
    bn_escape(err->where, sizeof err->where, base, strlen(base));
    size_t n = strlen(err->where);
    if (!alone) snprintf(err->where + n, sizeof err->where - n, ": %s", inner);
}

/* SPDX-License-Identifier: MIT
 *
 * Errors as values: setting them (the first one wins), passing them on, quoting untrusted text in them.
 */
#ifndef BN_BASE_ERROR_H
#define BN_BASE_ERROR_H

#include "bn.h"

/* Sets err (unless it holds an error already) and returns code. */
bn_status bn_fail(bn_error *err, bn_status code, const char *fmt, ...) BN_PRINTF(3, 4);
/* The same with a byte offset and the object's name, which is escaped; where may be NULL. */
bn_status bn_fail_at(bn_error *err, bn_status code, uint64_t offset, const char *where, const char *fmt, ...)
    BN_PRINTF(5, 6);
/* The same for a system call that failed: appends strerror, and maps ENOENT, EACCES and so on to a status. */
bn_status bn_fail_errno(bn_error *err, int sys_errno, const char *where, const char *fmt, ...)
    BN_PRINTF(4, 5);
/* Adds a hint to an error that has none; err may be NULL. */
void bn_error_hint(bn_error *err, const char *fmt, ...) BN_PRINTF(2, 3);
/* Says which file an error is about, e.g. when a parser was given its bytes: alone, or, by its base name, in
 * front of the object that the error names already. */
void bn_error_name(bn_error *err, const char *where);

/* Writes n bytes of untrusted text with control characters, backslashes and bytes that are not UTF-8 as \xNN,
 * cut to fit; always terminated. Returns out. */
char *bn_escape(char *out, size_t room, const char *text, size_t n);

#define BN_TRY(expr)                                      \
    do {                                                  \
        bn_status bn_try_status = (expr);                 \
        if (bn_try_status != BN_OK) return bn_try_status; \
    } while (0)

#endif

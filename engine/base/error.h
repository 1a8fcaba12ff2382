/* SPDX-License-Identifier: MIT
 *
 * Errors as values: setting them (the first one wins), passing them on, quoting untrusted text in them.
 */
#ifndef BN_BASE_ERROR_H
#define BN_BASE_ERROR_H

#include "bn.h"

/* Sets err, unless it holds an error already or is NULL, and returns code. */
#define bn_fail(err, code, ...) bn_error_set(err, code, 0, BN_NO_OFFSET, NULL, __VA_ARGS__)
/* The same with a byte offset and the object's name, which is escaped; where may be NULL. */
#define bn_fail_at(err, code, offset, where, ...) bn_error_set(err, code, 0, offset, where, __VA_ARGS__)
/* The same with the object's name alone. */
#define bn_fail_in(err, code, where, ...) bn_error_set(err, code, 0, BN_NO_OFFSET, where, __VA_ARGS__)
/* The same for a system call that failed: appends strerror, and maps ENOENT, EACCES and so on to a status. */
#define bn_fail_errno(err, sys_errno, where, ...) \
    bn_error_set(err, BN_ERR_IO, sys_errno, BN_NO_OFFSET, where, __VA_ARGS__)
bn_status bn_error_set(bn_error *err, bn_status code, int sys_errno, uint64_t offset, const char *where,
                       const char *fmt, ...) BN_PRINTF(6, 7);
/* Sets BN_ERR_NOMEM, "out of memory", and returns it. */
bn_status bn_nomem(bn_error *err);
/* Adds a hint to an error that has none; err may be NULL. */
#define bn_error_hint(...) ((void)bn_hint(BN_OK, __VA_ARGS__))
/* The same for an error that has just been set, whose code it returns:
 * return bn_hint(bn_fail(err, BN_ERR_ARG, "no file is given"), err, "--output FILE"); */
bn_status bn_hint(bn_status failed, bn_error *err, const char *fmt, ...) BN_PRINTF(3, 4);
/* Says which file an error is about, e.g. when a parser was given its bytes: alone, or, by its base name, in
 * front of the object that the error names already. */
void bn_error_name(bn_error *err, const char *where);

/* How untrusted text is made safe to print. What is not is written byte by byte as \xNN. */
enum bn_escape {
    BN_ESCAPE_NAME,    /* bn_utf8_is_unsafe, what is not UTF-8, and backslashes: no two names look alike */
    BN_ESCAPE_MESSAGE, /* the same but backslashes: names in a message are escaped already */
    BN_ESCAPE_TEXT     /* what a terminal obeys: control characters other than newline and tab */
};
/* The character at the start of n > 0 bytes, safe to print, in out; or, when it is not, its first byte as
 * \xNN. Returns how many bytes of the text that covers. */
size_t bn_escape_char(char out[5], const char *text, size_t n, enum bn_escape how);
/* Writes n bytes of an untrusted text, cut to fit; always terminated. */
void bn_escape_as(char *out, size_t room, const char *text, size_t n, enum bn_escape how);
/* The same of a name (BN_ESCAPE_NAME). Returns out. */
char *bn_escape(char *out, size_t room, const char *text, size_t n);

#define BN_TRY(expr)                                      \
    do {                                                  \
        bn_status bn_try_status = (expr);                 \
        if (bn_try_status != BN_OK) return bn_try_status; \
    } while (0)
/* Sets a pointer to n new elements (base/mem.h): BN_TRY(BN_NEW(list, n, err)). */
#define BN_NEW(pointer, n, err) \
    (((pointer) = bn_alloc((n), sizeof *(pointer))) != NULL ? BN_OK : bn_nomem(err))

#endif

/* SPDX-License-Identifier: MIT
 *
 * A growing byte buffer with a mandatory maximum, and a view of bytes that it does not own.
 */
#ifndef BN_BASE_BUF_H
#define BN_BASE_BUF_H

#include <string.h>

#include "base/mem.h"

/* Borrowed bytes, not NUL-terminated. */
struct bn_str {
    const char *ptr;
    size_t len;
};

static inline bool bn_str_equal(struct bn_str a, const char *b)
{
    size_t n = strlen(b);
    return a.len == n && (n == 0 || memcmp(a.ptr, b, n) == 0);
}

/* By bytes, then by length: as strcmp. */
static inline int bn_str_compare(struct bn_str a, struct bn_str b)
{
    size_t n = bn_min_size(a.len, b.len);
    int order = n > 0 ? memcmp(a.ptr, b.ptr, n) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* The index of the row whose first member is this text, a const char * that may be NULL; n when there is none. */
size_t bn_find_text(const void *rows, size_t n, size_t each, const char *text);
/* The same in an array, and whether there is one. */
#define BN_FIND(array, text) bn_find_text(array, BN_ARRAY_LEN(array), sizeof *(array), text)
#define BN_HAS(array, text) (BN_FIND(array, text) < BN_ARRAY_LEN(array))

/* data is NUL-terminated whenever it is not NULL. Zeroed except max, it is ready for use. After a failure
 * (failed is set) every append does nothing, so that one check at the end is enough. */
struct bn_buf {
    char *data;
    size_t len, room;
    size_t max; /* most bytes that it may hold */
    bool failed;
    bool full; /* it failed because of max, not for lack of memory */
};

/* The text, "" when nothing was appended. */
static inline const char *bn_buf_text(const struct bn_buf *buf)
{
    return buf->data != NULL ? buf->data : "";
}

void bn_buf_append(struct bn_buf *buf, const void *bytes, size_t n);
void bn_buf_puts(struct bn_buf *buf, const char *text);
void bn_buf_putc(struct bn_buf *buf, char c);
/* A word of a shell's command line, in single quotes where it needs them. */
void bn_buf_put_word(struct bn_buf *buf, const char *word);
void bn_buf_printf(struct bn_buf *buf, const char *fmt, ...) BN_PRINTF(2, 3);
void bn_buf_release(struct bn_buf *buf);
/* BN_ERR_NOMEM or BN_ERR_LIMIT when an append failed. */
BN_MUST_CHECK bn_status bn_buf_check(const struct bn_buf *buf, bn_error *err);

#endif

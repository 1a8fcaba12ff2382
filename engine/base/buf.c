/* SPDX-License-Identifier: MIT
 *
 * The growing buffer: appending, formatting, the check at the end.
 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"

void bn_buf_append(struct bn_buf *buf, const void *bytes, size_t n)
{
    if (buf->failed) return;
    if (n > buf->max || buf->len > buf->max - n) {
        buf->failed = buf->full = true;
        return;
    }
    if (buf->len + n + 1 > buf->room) {
        size_t room = buf->room < 128 ? 256 : buf->room * 2;
        if (room < buf->len + n + 1) room = buf->len + n + 1;
        char *grown = bn_realloc(buf->data, room, 1);
        if (grown == NULL) {
            buf->failed = true;
            return;
        }
        buf->data = grown;
        buf->room = room;
    }
    if (n > 0) memcpy(buf->data + buf->len, bytes, n);
    buf->len += n;
    buf->data[buf->len] = '\0';
}

void bn_buf_puts(struct bn_buf *buf, const char *text)
{
    bn_buf_append(buf, text, strlen(text));
}

void bn_buf_putc(struct bn_buf *buf, char c)
{
    bn_buf_append(buf, &c, 1);
}

void bn_buf_put_word(struct bn_buf *buf, const char *word)
{
    static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+/:=,@%";
    bool plain = word[0] != '\0' && strspn(word, PLAIN) == strlen(word);
    if (!plain) bn_buf_putc(buf, '\'');
    for (; *word != '\0'; word++)
        bn_buf_puts(buf, *word == '\'' ? "'\\''" : (const char[]){*word, '\0'});
    if (!plain) bn_buf_putc(buf, '\'');
}

void bn_buf_printf(struct bn_buf *buf, const char *fmt, ...)
{
    char small[256];
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, fmt, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof small) {
        bn_buf_append(buf, small, (size_t)n);
    } else if (n >= 0) {
        char *large = bn_alloc((size_t)n + 1, 1);
        if (large == NULL) {
            buf->failed = true;
        } else {
            vsnprintf(large, (size_t)n + 1, fmt, again);
            bn_buf_append(buf, large, (size_t)n);
        }
        bn_free(large);
    } else {
        buf->failed = true;
    }
    va_end(again);
}

void bn_buf_release(struct bn_buf *buf)
{
    bn_free(buf->data);
    *buf = (struct bn_buf){.max = buf->max};
}

bn_status bn_buf_check(const struct bn_buf *buf, bn_error *err)
{
    if (!buf->failed) return BN_OK;
    if (buf->full) return bn_fail(err, BN_ERR_LIMIT, "more than %zu bytes", buf->max);
    return bn_nomem(err);
}

size_t bn_find_text(const void *rows, size_t n, size_t each, const char *text)
{
    const char *name, *row = rows;
    for (size_t i = 0; i < n; i++, row += each) {
        memcpy(&name, row, sizeof name);
        if (name != NULL && strcmp(name, text) == 0) return i;
    }
    return n;
}

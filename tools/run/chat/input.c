/* SPDX-License-Identifier: MIT
 *
 * Messages of several lines: a block between two """, the second one at the end of a line, or lines that end with
 * a backslash and the next one. A block may follow the word of a command: /system """.
 */
#include "tools/run/chat/chat.h"

#define MARK "\"\"\""
#define PROMPT "> "
#define PROMPT_MORE "... "

/* Where a block begins, after blanks and after the word of a command; NULL when none does. */
static char *block_start(const struct bn_buf *message)
{
    char *at = message->data;
    if (at == NULL) return NULL;
    if (at[0] == '/') at += strcspn(at, " \n");
    at += strspn(at, " \t");
    return strncmp(at, MARK, strlen(MARK)) == 0 ? at : NULL;
}

/* Where the mark is that ends a block: at the end of the text, not counting blanks. */
static char *block_end(const struct bn_buf *message, char *start)
{
    char *from = start + strlen(MARK), *end = message->data + message->len;
    while (end > from && strchr(" \t\r\n", end[-1]) != NULL)
        end--;
    end -= strlen(MARK);
    return end >= from && strncmp(end, MARK, strlen(MARK)) == 0 ? end : NULL;
}

/* Removes the marks, the blanks before the first one, and the line feeds next to the marks. What the end of the
 * input leaves open ends there. */
static void unwrap(struct bn_buf *message)
{
    char *start = block_start(message), *end = block_end(message, start), *from = start + strlen(MARK);
    if (end == NULL) end = message->data + message->len;
    if (from < end && *from == '\n') from++;
    if (from < end && end[-1] == '\n') end--;
    size_t n = (size_t)(end - from);
    if (message->data[0] != '/') start = message->data;
    /* What looks like a command in a block is a message: two slashes say one. */
    if (start == message->data && from < end && *from == '/') *start++ = '/';
    memmove(start, from, n);
    start[n] = '\0';
    message->len = (size_t)(start - message->data) + n;
}

static enum bn_input continue_block(struct bn_lines *lines, struct bn_buf *message)
{
    enum bn_input got = BN_INPUT_TEXT;
    while (got == BN_INPUT_TEXT && !message->failed && block_end(message, block_start(message)) == NULL) {
        bn_buf_putc(message, '\n');
        got = bn_lines_next(lines, PROMPT_MORE, message);
    }
    return got;
}

static enum bn_input continue_lines(struct bn_lines *lines, struct bn_buf *message)
{
    enum bn_input got = BN_INPUT_TEXT;
    while (got == BN_INPUT_TEXT && !message->failed && message->len > 0 &&
           message->data[message->len - 1] == '\\') {
        message->data[message->len - 1] = '\n';
        got = bn_lines_next(lines, PROMPT_MORE, message);
    }
    return got;
}

/* The history has a block as it was typed, so that it is a block again when it is recalled. */
enum bn_input bn_chat_input(struct bn_lines *lines, bool one_line, struct bn_buf *message)
{
    bn_buf_release(message);
    enum bn_input got = bn_lines_next(lines, PROMPT, message);
    if (got != BN_INPUT_TEXT || one_line) return got;
    bool block = block_start(message) != NULL;
    got = block ? continue_block(lines, message) : continue_lines(lines, message);
    if (got == BN_INPUT_INTERRUPTED) return got;
    if (message->len == 0 || message->failed) return BN_INPUT_TEXT;
    bn_lines_remember(lines, message->data);
    if (block) unwrap(message);
    return BN_INPUT_TEXT;
}

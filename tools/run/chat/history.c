/* SPDX-License-Identifier: MIT
 *
 * The history of bn-run chat: a JSON string for each line in $XDG_STATE_HOME/bn/chat-history, which only its owner
 * can read. Each message is appended when it is sent, so that several conversations can share the file. When it
 * has become long, its beginning is removed.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "tools/cli/report.h"
#include "tools/run/chat/chat.h"

#define MOST_ENTRIES 1000u
#define MOST_BYTES (4u << 20)

static bool path_of(char path[4096])
{
    return bn_file_user_path(path, 4096, "XDG_STATE_HOME", ".local/state", "bn/chat-history");
}

/* Keeps the last entries of a text that has too many. */
static bn_status shorten(const char *path, const struct bn_buf *text, bn_error *err)
{
    size_t n_lines = 0, from = text->len;
    while (from > 0 && n_lines <= MOST_ENTRIES && text->len - from <= MOST_BYTES / 2) {
        from--;
        n_lines += from > 0 && text->data[from - 1] == '\n';
    }
    while (from < text->len && text->data[from++] != '\n')
        ;
    return bn_file_write_atomic(path, text->data + from, text->len - from, err);
}

void bn_history_read(void (*add)(void *user, const char *text), void *user)
{
    char path[4096];
    size_t n_entries = 0;
    bn_error err = {0};
    struct bn_buf text = {.max = 2 * MOST_BYTES};
    if (!path_of(path) || bn_file_read_regular(path, &text, NULL) != BN_OK) text.len = 0;
    for (size_t at = 0; at < text.len;) {
        const char *line = text.data + at, *end = memchr(line, '\n', text.len - at), *entry;
        size_t n = end != NULL ? (size_t)(end - line) : text.len - at;
        bn_json *value = NULL;
        at += n + 1;
        n_entries++;
        if (bn_json_parse(&value, line, n, NULL) == BN_OK && bn_json_string(value, &entry)) add(user, entry);
        bn_json_free(value);
    }
    bool too_long = n_entries > 2 * MOST_ENTRIES || text.len > MOST_BYTES;
    if (too_long && shorten(path, &text, &err) != BN_OK) bn_report_warning("%s: %s", err.where, err.msg);
    bn_buf_release(&text);
}

static bn_status append(const char *path, const struct bn_buf *line, bn_error *err)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return bn_fail_errno(err, errno, path, "cannot write the history");
    (void)fchmod(fd, 0600);
    ssize_t done = write(fd, line->data, line->len);
    int why = errno;
    (void)close(fd);
    return done == (ssize_t)line->len ? BN_OK : bn_fail_errno(err, why, path, "cannot write the history");
}

void bn_history_append(const char *text)
{
    static bool failed;
    char path[4096];
    bn_error err = {0};
    struct bn_buf line = {.max = 8 * BN_CHAT_MAX_INPUT};
    if (failed || !path_of(path)) return;
    bn_json_write_string(&line, text);
    bn_buf_putc(&line, '\n');
    bn_status status = bn_buf_check(&line, &err);
    if (status == BN_OK) status = bn_file_make_folders(path, &err);
    if (status == BN_OK) status = append(path, &line, &err);
    if (status != BN_OK) bn_report_warning("%s: %s; --no-history turns the history off", err.where, err.msg);
    failed = status != BN_OK;
    bn_buf_release(&line);
}

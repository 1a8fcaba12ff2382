/* SPDX-License-Identifier: MIT
 *
 * Finds receipts: files that are named, and files *.json and *.dsse in folders and their folders, in the order of their
 * paths; the lines of files *.jsonl; or the lines of a list, each a path or a receipt. Nothing is read before it is asked for. What may be a receipt and
 * is passed over is counted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/verify-receipt/verify_receipt.h"

struct bn_verify_source {
    FTS *folder; /* of all that are named; NULL: a list */
    FILE *lines; /* NULL: none is open */
    char *file;  /* its path */
    uint64_t line;
    uint64_t n_skipped;
    char skipped[160]; /* the first of them */
};

void bn_verify_item_release(struct bn_verify_item *item)
{
    bn_free(item->file);
    bn_buf_release(&item->text);
    *item = (struct bn_verify_item){0};
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bn_status open_lines(struct bn_verify_source *s, const char *path, bn_error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    s->file = bn_strndup(path, strlen(path));
    if (s->file == NULL) return bn_nomem(err);
    s->lines = is_stdin ? stdin : fopen(path, "re");
    s->line = 0;
    return s->lines != NULL ? BN_OK : bn_fail_errno(err, errno, path, "cannot open");
}

static void close_lines(struct bn_verify_source *s)
{
    if (s->lines != NULL && s->lines != stdin) fclose(s->lines);
    s->lines = NULL;
    bn_free(s->file);
    s->file = NULL;
}

bn_status bn_verify_source_open(struct bn_verify_source **out, const char *const *paths, size_t n,
                                bn_error *err)
{
    struct stat st;
    struct bn_verify_source *s = *out = bn_alloc(1, sizeof *s);
    if (s == NULL) return bn_nomem(err);
    bool is_stdin = n == 1 && strcmp(paths[0], "-") == 0;
    if (n == 1 && !is_stdin && stat(paths[0], &st) != 0)
        return bn_fail_errno(err, errno, paths[0], "cannot open");
    if (n == 1 && (is_stdin || !S_ISDIR(st.st_mode))) return open_lines(s, paths[0], err);
    char **list = bn_alloc(n + 1, sizeof *list);
    if (list == NULL) return bn_nomem(err);
    memcpy(list, paths, n * sizeof *list);
    s->folder = fts_open(list, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
    int why = errno;
    bn_free(list);
    return s->folder != NULL ? BN_OK : bn_fail_errno(err, why, paths[0], "cannot read the folder");
}

void bn_verify_source_close(struct bn_verify_source *s)
{
    if (s == NULL) return;
    if (s->folder != NULL) fts_close(s->folder);
    close_lines(s);
    bn_free(s);
}

/* ---- lines ---- */

/* Appends a line without its line feed; what exceeds the limit is read and dropped. False at the end of the file. */
static bool read_line(FILE *from, struct bn_buf *line, bool *too_long)
{
    int c = getc_unlocked(from);
    if (c == EOF) return false;
    for (; c != EOF && c != '\n'; c = getc_unlocked(from))
        if (line->len < line->max)
            bn_buf_putc(line, (char)c);
        else
            *too_long = true;
    return true;
}

/* A line that begins like JSON is a receipt, another one is a path. */
static bn_status make_item(struct bn_verify_source *s, struct bn_verify_item *item, bn_error *err)
{
    struct bn_buf *text = &item->text;
    BN_TRY(bn_buf_check(text, err));
    bool is_path = text->data[0] != '{';
    if (s->line == 1 && text->len == 1 && !is_path)
        return bn_hint(bn_fail_in(err, BN_ERR_ARG, s->file, "is one receipt, not a list"), err,
                       "bn-verify-receipt FILE");
    if (is_path && strlen(text->data) != text->len)
        return bn_fail_in(err, BN_ERR_FORMAT, s->file, "line %llu has a NUL byte",
                          (unsigned long long)s->line);
    const char *path = strcmp(text->data, "-") == 0 ? "./-" : text->data; /* not standard input */
    if (!is_path) path = s->file;
    item->file = bn_strndup(path, strlen(path));
    item->line = is_path ? 0 : s->line;
    if (is_path) bn_buf_release(text);
    return item->file != NULL ? BN_OK : bn_nomem(err);
}

/* The next line that is not empty; *more is false at the end. */
static bn_status next_line(struct bn_verify_source *s, struct bn_verify_item *item, bool *more, bn_error *err)
{
    item->text.max = BN_JSON_MAX_BYTES;
    *more = false;
    while (read_line(s->lines, &item->text, &item->too_long)) {
        struct bn_buf *text = &item->text;
        s->line++;
        if (text->len > 0 && text->data[text->len - 1] == '\r') text->data[--text->len] = '\0';
        if (text->len == 0) continue;
        *more = true;
        return make_item(s, item, err);
    }
    bool failed = ferror(s->lines) != 0;
    bn_buf_release(&item->text);
    bn_status status = failed ? bn_fail_errno(err, errno, s->file, "cannot read") : BN_OK;
    close_lines(s);
    return status;
}

/* ---- folders ---- */

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcasecmp(name + n - m, end) == 0;
}

/* Links to folders are not followed, and names such as r.json.gz are not read. */
static void note_skipped(struct bn_verify_source *s, const FTSENT *entry)
{
    struct stat st;
    bool is_link = entry->fts_info == FTS_SL && stat(entry->fts_accpath, &st) == 0 && S_ISDIR(st.st_mode);
    if (!is_link && strcasestr(entry->fts_name, ".json") == NULL &&
        strcasestr(entry->fts_name, ".dsse") == NULL)
        return;
    if (s->n_skipped++ == 0) bn_escape(s->skipped, sizeof s->skipped, entry->fts_path, entry->fts_pathlen);
}

uint64_t bn_verify_source_skipped(const struct bn_verify_source *s, const char **first)
{
    *first = s->skipped;
    return s->n_skipped;
}

/* The next file that is named or in a folder; NULL at the end. */
static const FTSENT *next_file(struct bn_verify_source *s, bn_error *err, bn_status *status)
{
    FTSENT *entry;
    while ((entry = fts_read(s->folder)) != NULL) {
        bool hidden = entry->fts_level > 0 && entry->fts_name[0] == '.';
        if (hidden && entry->fts_info == FTS_D) (void)fts_set(s->folder, entry, FTS_SKIP);
        if (entry->fts_info == FTS_DNR) {
            *status = bn_fail_errno(err, entry->fts_errno, entry->fts_path, "cannot read the folder");
            return NULL;
        }
        bool is_file = entry->fts_info != FTS_D && entry->fts_info != FTS_DP && entry->fts_info != FTS_DC;
        if (!is_file || hidden) continue;
        if (entry->fts_level == 0 || ends_with(entry->fts_name, ".json") ||
            ends_with(entry->fts_name, ".jsonl") || ends_with(entry->fts_name, ".dsse"))
            return entry;
        note_skipped(s, entry);
    }
    return NULL;
}

bn_status bn_verify_source_next(struct bn_verify_source *s, struct bn_verify_item *item, bool *more,
                                bn_error *err)
{
    *item = (struct bn_verify_item){0};
    *more = false;
    for (;;) {
        bn_status status = BN_OK;
        if (s->lines != NULL) BN_TRY(next_line(s, item, more, err));
        if (*more || s->folder == NULL) return BN_OK;
        const FTSENT *file = next_file(s, err, &status);
        if (file == NULL) return status;
        struct stat st;
        bool is_named =
            file->fts_level == 0; /* that one may be a pipe; in a folder nothing else than files is read */
        if (ends_with(file->fts_name, ".jsonl") &&
            (is_named || (stat(file->fts_path, &st) == 0 && S_ISREG(st.st_mode)))) {
            BN_TRY(open_lines(s, file->fts_path, err));
            continue;
        }
        item->file = bn_strndup(file->fts_path, strlen(file->fts_path));
        *more = true;
        return item->file != NULL ? BN_OK : bn_nomem(err);
    }
}

/* SPDX-License-Identifier: MIT
 *
 * See files.h.
 */
#include "tools/flamegraph/files.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "tools/cli/report.h"

#define ROOM_FOR_SUFFIX 16u

struct bn_buf *bn_flamegraph_files_add(struct bn_flamegraph_files *files, const char *folder,
                                       const char *name, const char *extension)
{
    files->lost.failed = true;
    if (files->n == BN_FLAMEGRAPH_FILES) {
        files->n++; /* remembered, for writing */
    }
    if (files->n > BN_FLAMEGRAPH_FILES) return &files->lost;
    struct bn_flamegraph_file *file = bn_alloc(1, sizeof *file);
    files->list[files->n++] = file;
    if (file == NULL) return &files->lost;
    file->bytes.max = SIZE_MAX;
    int n = snprintf(file->path, sizeof file->path, "%s/%s%s", folder, name, extension);
    if (n < 0 || (size_t)n >= sizeof file->path - ROOM_FOR_SUFFIX) file->bytes.failed = true;
    return &file->bytes;
}

void bn_flamegraph_files_copy(struct bn_flamegraph_files *files, const char *folder, const char *name,
                              const char *extension, const struct bn_buf *bytes)
{
    struct bn_buf *copy = bn_flamegraph_files_add(files, folder, name, extension);
    bn_buf_append(copy, bytes->data, bytes->len);
}

static void name_new(char *out, size_t room, const struct bn_flamegraph_file *file)
{
    snprintf(out, room, "%s.new", file->path);
}

bn_status bn_flamegraph_files_write(const struct bn_flamegraph_files *files, bn_error *err)
{
    char path[4096 + ROOM_FOR_SUFFIX];
    bn_status status = BN_OK;
    size_t written = 0;
    struct stat at;
    if (files->n > BN_FLAMEGRAPH_FILES)
        return bn_fail(err, BN_ERR_INTERNAL, "more files than there is room for");
    for (; written < files->n && status == BN_OK; written++) {
        const struct bn_flamegraph_file *file = files->list[written];
        if (file == NULL) {
            status = bn_nomem(err);
            break;
        }
        name_new(path, sizeof path, file);
        status = bn_buf_check(&file->bytes, err);
        if (status == BN_OK) status = bn_file_make_folders(path, err);
        if (status == BN_OK) status = bn_file_write_atomic(path, file->bytes.data, file->bytes.len, err);
    }
    /* What cannot be replaced is found before anything is. */
    for (size_t i = 0; i < written && status == BN_OK; i++)
        if (stat(files->list[i]->path, &at) == 0 && S_ISDIR(at.st_mode))
            status = bn_fail_errno(err, EISDIR, files->list[i]->path, "cannot be replaced");
    for (size_t i = 0; i < written; i++) {
        const struct bn_flamegraph_file *file = files->list[i];
        name_new(path, sizeof path, file);
        bool replaces = access(file->path, F_OK) == 0;
        if (status != BN_OK)
            (void)unlink(path);
        else if (rename(path, file->path) != 0)
            status = bn_fail_errno(err, errno, file->path, "cannot be replaced");
        else if (replaces)
            bn_report_note(0, "replaced %s", file->path);
    }
    return status;
}

void bn_flamegraph_files_release(struct bn_flamegraph_files *files)
{
    for (size_t i = 0; i < files->n && i < BN_FLAMEGRAPH_FILES; i++) {
        if (files->list[i] != NULL) bn_buf_release(&files->list[i]->bytes);
        bn_free(files->list[i]);
    }
    files->n = 0;
}

/* SPDX-License-Identifier: MIT
 *
 * --dashboard: the files of a folder, such as the pages of bn-bench report. They are found by listing it, two folders deep; no
 * name comes from a client.
 */
#define _DEFAULT_SOURCE /* scandir, alphasort, realpath */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "tools/serve/serve.h"

#define MAX_DEPTH 2u

static const char *type_of(const char *path)
{
    static const char *const TYPES[][2] = {{".html", "text/html; charset=utf-8"},
                                           {".svg", "image/svg+xml"},
                                           {".json", "application/json"},
                                           {".md", "text/plain; charset=utf-8"},
                                           {".txt", "text/plain; charset=utf-8"}};
    size_t n = strlen(path);
    for (size_t i = 0; i < BN_ARRAY_LEN(TYPES); i++) {
        size_t n_ending = strlen(TYPES[i][0]);
        if (n > n_ending && strcmp(path + n - n_ending, TYPES[i][0]) == 0) return TYPES[i][1];
    }
    return NULL;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Appends the files of a folder and of those in it. Symbolic links are not followed. */
static void add_folder(struct bn_benchmarks *b, bn_json *list, const char *path, unsigned depth)
{
    struct dirent **entries = NULL;
    struct stat st;
    int n = scandir(path, &entries, is_visible, alphasort);
    for (int i = 0; i < n; i++) {
        char inside[4096];
        int length = snprintf(inside, sizeof inside, "%s/%s", path, entries[i]->d_name);
        free(entries[i]);
        if (length >= (int)sizeof inside || lstat(inside, &st) != 0) continue;
        if (S_ISDIR(st.st_mode) && depth < MAX_DEPTH) add_folder(b, list, inside, depth + 1);
        if (!S_ISREG(st.st_mode) || type_of(inside) == NULL || b->n_files == BN_BENCHMARK_FILES) continue;
        if ((b->files[b->n_files] = bn_strndup(inside, strlen(inside))) == NULL) continue;
        bn_json *o = bn_json_add_object(list);
        bn_json_put_string(o, "name", inside + strlen(b->folder) + 1);
        bn_json_put_u64(o, "number", b->n_files++);
        bn_json_put_u64(o, "bytes", (uint64_t)st.st_size);
    }
    free(entries);
}

bn_status bn_benchmarks_open(struct bn_benchmarks *b, const char *folder, bn_error *err)
{
    struct stat st;
    char *path = realpath(folder, NULL);
    bool good = path != NULL && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (good) b->folder = bn_strndup(path, strlen(path));
    free(path);
    if (!good) return bn_fail_in(err, BN_ERR_NOT_FOUND, folder, "not a folder");
    return b->folder != NULL ? BN_OK : bn_nomem(err);
}

static void forget_files(struct bn_benchmarks *b)
{
    while (b->n_files > 0)
        bn_free(b->files[--b->n_files]);
}

void bn_benchmarks_close(struct bn_benchmarks *b)
{
    forget_files(b);
    bn_free(b->folder);
}

bn_json *bn_benchmarks_document(struct bn_benchmarks *b)
{
    bn_json *document = bn_json_new_object();
    bn_json_put_string(document, "object", "bn.benchmarks");
    forget_files(b);
    add_folder(b, bn_json_put_array(document, "reports"), b->folder, 0);
    return document;
}

bool bn_benchmarks_report(const struct bn_benchmarks *b, size_t number, struct bn_buf *out, const char **type)
{
    if (number >= b->n_files) return false;
    *type = type_of(b->files[number]);
    return bn_file_read_regular(b->files[number], out, NULL) == BN_OK;
}

/* SPDX-License-Identifier: MIT
 *
 * Finds and reads the archive of recordings, and compares two of them.
 */
#define _DEFAULT_SOURCE
#include "tools/flamegraph/archive.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "lab/formats/document.h"
#include "lab/stacks/hotspots.h"

#define MIN_SHARE 0.001 /* of functions that are compared */

/* ---- names ---- */

/* The number of a workload, and what follows its name; -1 for another name. */
static int read_name(const char *name, const char **rest)
{
    static const char *const FIRST[] = {BN_ARCHIVE_FIRST};
    for (size_t i = 0; i < BN_ARRAY_LEN(FIRST); i++) {
        *rest = name + strlen(FIRST[i]);
        if (strncmp(name, FIRST[i], strlen(FIRST[i])) == 0 && (**rest == '\0' || **rest == '-'))
            return (int)i;
    }
    return -1;
}

static int by_configuration(const void *a, const void *b)
{
    const char *x, *y;
    int first = read_name(a, &x), second = read_name(b, &y), c = strcmp(x, y);
    return c != 0 ? c : first - second;
}

bn_status bn_archive_add_name(struct bn_archive_names *names, const char *name, bn_error *err)
{
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->list[i], name) == 0) return BN_OK;
    void *list = bn_realloc(names->list, names->n + 1, sizeof *names->list);
    if (list == NULL) return bn_nomem(err);
    names->list = list;
    snprintf(names->list[names->n++], sizeof *names->list, "%s", name);
    qsort(names->list, names->n, sizeof *names->list, by_configuration);
    return BN_OK;
}

/* "phase2_1tok-t2.json"; the names are written into pages. */
static int is_recording(const struct dirent *entry)
{
    const char *rest, *end = strrchr(entry->d_name, '.');
    size_t n = strlen(entry->d_name);
    if (end == NULL || strcmp(end, ".json") != 0 || n >= BN_ARCHIVE_NAME) return 0;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)entry->d_name[i]) && strchr("._-", entry->d_name[i]) == NULL) return 0;
    char name[BN_ARCHIVE_NAME];
    snprintf(name, sizeof name, "%.*s", (int)(end - entry->d_name), entry->d_name);
    return read_name(name, &rest) >= 0;
}

bn_status bn_archive_find_names(struct bn_archive_names *names, const char *dir, bn_error *err)
{
    struct dirent **found = NULL;
    int n = scandir(dir, &found, is_recording, alphasort);
    if (n < 0 && (errno == ENOENT || errno == ENOTDIR)) return BN_OK;
    if (n < 0) return bn_fail_errno(err, errno, dir, "cannot read");
    bn_status status = BN_OK;
    for (int i = 0; i < n; i++) {
        *strrchr(found[i]->d_name, '.') = '\0';
        if (status == BN_OK) status = bn_archive_add_name(names, found[i]->d_name, err);
        free(found[i]);
    }
    free(found);
    return status;
}

/* ---- folders ---- */

/* Names that baseline gives; others are not of the archive. */
static int is_name(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    if (n >= sizeof((struct bn_archived *)0)->folder || !isalnum((unsigned char)entry->d_name[0])) return 0;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)entry->d_name[i]) && strchr("._-", entry->d_name[i]) == NULL) return 0;
    return 1;
}

static int by_time(const void *a, const void *b)
{
    const struct bn_archived *x = a, *y = b;
    int c =
        strcmp(bn_json_text_of(x->stacks->about, "created"), bn_json_text_of(y->stacks->about, "created"));
    return c != 0 ? c : strcmp(x->folder, y->folder);
}

/* Calls a function for each folder of DIR/archives. */
static bn_status each_folder(const char *dir, bn_status (*call)(void *to, const char *folder, bn_error *err),
                             void *to, bn_error *err)
{
    char path[4096];
    struct dirent **names = NULL;
    if ((size_t)snprintf(path, sizeof path, "%s/archives", dir) >= sizeof path)
        return bn_fail(err, BN_ERR_ARG, "the name of the folder is too long");
    int n = scandir(path, &names, is_name, alphasort);
    if (n < 0 && errno == ENOENT) return BN_OK;
    if (n < 0) return bn_fail_errno(err, errno, path, "cannot read");
    bn_status status = BN_OK;
    for (int i = 0; i < n; i++) {
        if (status == BN_OK) status = call(to, names[i]->d_name, err);
        free(names[i]);
    }
    free(names);
    return status;
}

struct search {
    const char *dir, *name;
    struct bn_archive *archive;
    struct bn_archive_names *names;
};

static bn_status find_in_folder(void *to, const char *folder, bn_error *err)
{
    const struct search *search = to;
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/archives/%s", search->dir, folder) >= sizeof path)
        return bn_fail(err, BN_ERR_ARG, "the name of a folder is too long");
    return bn_archive_find_names(search->names, path, err);
}

bn_status bn_archive_find_all_names(struct bn_archive_names *names, const char *dir, bn_error *err)
{
    struct search search = {.dir = dir, .names = names};
    return each_folder(dir, find_in_folder, &search, err);
}

static bn_status read_folder(void *to, const char *folder, bn_error *err)
{
    const struct search *search = to;
    struct bn_archive *out = search->archive;
    char path[4096];
    bn_stacks *stacks = NULL;
    bn_error why = {0};
    int length = snprintf(path, sizeof path, "%s/archives/%s/%s.json", search->dir, folder, search->name);
    if ((size_t)length >= sizeof path) return bn_fail(err, BN_ERR_ARG, "the name of a folder is too long");
    bn_status status = bn_stacks_read(&stacks, path, &why);
    if (status == BN_ERR_NOT_FOUND) return BN_OK;
    if (status != BN_OK) {
        if (err != NULL && err->code == BN_OK) *err = why;
        return status;
    }
    struct bn_archived *list = bn_realloc(out->list, out->n + 1, sizeof *list);
    if (list == NULL) {
        bn_stacks_close(stacks);
        return bn_nomem(err);
    }
    out->list = list;
    out->list[out->n] = (struct bn_archived){.stacks = stacks};
    snprintf(out->list[out->n++].folder, sizeof list->folder, "%.127s", folder);
    return BN_OK;
}

bn_status bn_archive_read(struct bn_archive *out, const char *dir, const char *name, bn_error *err)
{
    struct search search = {.dir = dir, .name = name, .archive = out};
    *out = (struct bn_archive){0};
    bn_status status = each_folder(dir, read_folder, &search, err);
    if (status == BN_OK && out->n > 0) qsort(out->list, out->n, sizeof *out->list, by_time);
    if (status != BN_OK) bn_archive_release(out);
    return status;
}

void bn_archive_release(struct bn_archive *archive)
{
    for (size_t i = 0; i < archive->n; i++)
        bn_stacks_close(archive->list[i].stacks);
    bn_free(archive->list);
    *archive = (struct bn_archive){0};
}

void bn_archive_folder(char out[128], const bn_json *about, unsigned n)
{
    const char *created = bn_json_text_of(about, "created");
    const char *commit = bn_json_text_of(bn_json_get(about, "program"), "commit");
    bool dirty = bn_json_flag_of(bn_json_get(about, "program"), "dirty");
    char number[16] = "";
    if (n > 1) snprintf(number, sizeof number, "-%u", n);
    if (strspn(created, "0123456789-") < 10) created = "nodate";
    if (commit[0] == '\0' || strspn(commit, "0123456789abcdef") != strlen(commit)) commit = "nocommit";
    snprintf(out, 128, "%.10s-%.12s%s%s", created, commit, dirty ? "-dirty" : "", number);
}

/* ---- comparing ---- */

bn_status bn_archive_compare(struct bn_stacks_diff *out, const bn_stacks *before, const bn_stacks *after,
                             bn_error *err)
{
    const struct bn_stacks_view view = BN_HOTSPOTS_VIEW;
    const struct bn_stacks_diff_options options = {.min_share = MIN_SHARE};
    bn_stacks *a = NULL, *b = NULL;
    bn_status status = bn_stacks_copy(&a, before, &view, err);
    if (status == BN_OK) status = bn_stacks_copy(&b, after, &view, err);
    if (status == BN_OK) status = bn_stacks_diff(out, a, b, &options, err);
    bn_stacks_close(a);
    bn_stacks_close(b);
    return status;
}

/* SPDX-License-Identifier: MIT
 *
 * Reads the archive of recordings and compares two of them.
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
#include "lab/report/html.h"
#include "lab/stacks/hotspots.h"

#define MIN_SHARE 0.001 /* of functions that are compared */

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

static bn_status read_folder(struct bn_archive *out, const char *dir, const char *folder, const char *name,
                             bn_error *err)
{
    char path[4096];
    struct bn_archived *entry = &out->list[out->n];
    bn_error why = {0};
    int length = snprintf(path, sizeof path, "%s/archives/%s/%s.json", dir, folder, name);
    if ((size_t)length >= sizeof path) return bn_fail(err, BN_ERR_ARG, "the name of a folder is too long");
    bn_status status = bn_stacks_read(&entry->stacks, path, &why);
    if (status == BN_ERR_NOT_FOUND) return BN_OK;
    if (status != BN_OK) {
        if (err != NULL && err->code == BN_OK) *err = why;
        return status;
    }
    snprintf(entry->folder, sizeof entry->folder, "%.127s", folder);
    out->n++;
    return BN_OK;
}

bn_status bn_archive_read(struct bn_archive *out, const char *dir, const char *name, bn_error *err)
{
    char path[4096];
    struct dirent **names = NULL;
    *out = (struct bn_archive){0};
    if ((size_t)snprintf(path, sizeof path, "%s/archives", dir) >= sizeof path)
        return bn_fail(err, BN_ERR_ARG, "the name of the folder is too long");
    int n = scandir(path, &names, is_name, alphasort);
    if (n < 0 && errno == ENOENT) return BN_OK;
    if (n < 0) return bn_fail_errno(err, errno, path, "cannot read");
    out->list = bn_alloc((size_t)n + 1, sizeof *out->list);
    bn_status status = out->list != NULL ? BN_OK : bn_nomem(err);
    for (int i = 0; i < n; i++) {
        if (status == BN_OK) status = read_folder(out, dir, names[i]->d_name, name, err);
        free(names[i]);
    }
    free(names);
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

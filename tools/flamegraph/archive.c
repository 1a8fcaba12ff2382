/* SPDX-License-Identifier: MIT
 *
 * See archive.h.
 */
#include "tools/flamegraph/archive.h"

#include <ctype.h>
#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "lab/formats/document.h"
#include "lab/report/html.h"
#include "tools/flamegraph/page.h"

#define SCHEMA "bn.flamearchive/1"
#define MAX_ENTRIES 10000u

/* One part of a path that leads nowhere else. */
static bool is_name(const char *text)
{
    size_t n = strlen(text);
    if (n == 0 || n > 100 || !isalnum((unsigned char)text[0])) return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && strchr("._-", text[i]) == NULL) return false;
    return true;
}

static bn_status check_entry(const bn_json *entry, size_t i, bn_error *err)
{
    const bn_json *recordings = bn_json_get(entry, "recordings");
    bool good = is_name(bn_json_text_of(entry, "folder")) && bn_json_kind(recordings) == BN_JSON_ARRAY &&
                recordings != NULL;
    for (const bn_json *r = good ? bn_json_first(recordings) : NULL; r != NULL && good; r = bn_json_next(r))
        good = is_name(bn_json_text_of(r, "name")) && bn_is_sha256(bn_json_text_of(r, "sha256"));
    return good ? BN_OK : bn_fail(err, BN_ERR_FORMAT, "entry %zu is not one", i);
}

static bn_status check_index(const bn_json *index, bn_error *err)
{
    const bn_json *entries = bn_json_get(index, "entries");
    if (!bn_json_text_is(index, "schema", SCHEMA))
        return bn_fail(err, BN_ERR_FORMAT, "its schema is not " SCHEMA);
    if (entries == NULL || bn_json_kind(entries) != BN_JSON_ARRAY || bn_json_size(entries) > MAX_ENTRIES)
        return bn_fail(err, BN_ERR_FORMAT, "it has no list of at most %u entries", MAX_ENTRIES);
    size_t i = 0;
    for (const bn_json *e = bn_json_first(entries); e != NULL; e = bn_json_next(e))
        BN_TRY(check_entry(e, i++, err));
    return BN_OK;
}

bn_status bn_flamegraph_archive_read(bn_json **index, const char *dir, bn_error *err)
{
    char path[4096];
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    bn_error why = {0};
    snprintf(path, sizeof path, "%s/archives/index.json", dir);
    *index = NULL;
    bn_status status = bn_file_read(path, &text, &why);
    if (status == BN_ERR_NOT_FOUND) {
        *index = bn_json_new_object();
        bn_json_put_string(*index, "schema", SCHEMA);
        bn_json_put_array(*index, "entries");
        return BN_OK;
    }
    if (status != BN_OK && err != NULL && err->code == BN_OK) *err = why;
    if (status == BN_OK) status = bn_json_parse(index, text.data, text.len, err);
    if (status == BN_OK) status = check_index(*index, err);
    if (status != BN_OK) {
        bn_error_name(err, path);
        bn_json_free(*index);
        *index = NULL;
    }
    bn_buf_release(&text);
    return status;
}

bn_status bn_flamegraph_archive_digest(char hex[BN_SHA256_HEX], bn_stacks *stacks, bn_error *err)
{
    struct bn_buf bytes = {.max = SIZE_MAX};
    bn_json_remove(stacks->about, "page");
    bn_status status = bn_stacks_write(stacks, BN_STACKS_DOCUMENT, &bytes, err);
    if (status == BN_OK) status = bn_sha256_hex(bytes.data, bytes.len, hex, err);
    bn_buf_release(&bytes);
    return status;
}

const char *bn_flamegraph_archive_has(const bn_json *entry, const char *name)
{
    const bn_json *found = bn_json_find(bn_json_get(entry, "recordings"), "name", name);
    return found != NULL ? bn_json_text_of(found, "sha256") : NULL;
}

const char *bn_flamegraph_archive_find(const bn_json *index, char (*digests)[BN_SHA256_HEX], size_t n)
{
    const bn_json *entries = bn_json_get(index, "entries");
    for (const bn_json *e = bn_json_first(entries); e != NULL; e = bn_json_next(e)) {
        const bn_json *recordings = bn_json_get(e, "recordings");
        bool same = bn_json_size(recordings) == n;
        for (size_t i = 0; i < n && same; i++)
            same = bn_json_find(recordings, "sha256", digests[i]) != NULL;
        if (same) return bn_json_text_of(e, "folder");
    }
    return NULL;
}

void bn_flamegraph_archive_name(char *out, size_t room, const bn_json *index, const bn_json *about)
{
    char commit[13] = "nocommit", date[11] = "nodate", base[64];
    const char *created = bn_json_text_of(about, "created"), *text = NULL;
    bool dirty = false;
    if (bn_json_string(bn_flamegraph_member(about, bn_flamegraph_commit), &text) && is_name(text))
        snprintf(commit, sizeof commit, "%.12s", text);
    if (strlen(created) >= 10 && strspn(created, "0123456789-") >= 10)
        snprintf(date, sizeof date, "%.10s", created);
    (void)bn_json_bool(bn_json_path(about, "program.dirty"), &dirty);
    snprintf(base, sizeof base, "%s-%s%s", date, commit, dirty ? "-dirty" : "");
    snprintf(out, room, "%s", base);
    for (unsigned i = 2; bn_json_find(bn_json_get(index, "entries"), "folder", out) != NULL; i++)
        snprintf(out, room, "%s-%u", base, i);
}

void bn_flamegraph_archive_add(bn_json *index, const char *folder, const bn_json *about,
                               const char *const *names, char (*digests)[BN_SHA256_HEX], size_t n)
{
    bn_json *holder = bn_json_new_object();
    bn_json_put_copy(holder, "entries", bn_json_get(index, "entries"));
    bn_json *entries = bn_json_put_array(index, "entries");
    const bn_json *old = bn_json_get(holder, "entries");
    for (const bn_json *e = bn_json_first(old); e != NULL; e = bn_json_next(e))
        bn_json_add_copy(entries, e);
    bn_json_free(holder);
    bn_json *entry = bn_json_add_object(entries);
    bn_json_put_string(entry, "folder", folder);
    bn_json_put_copy(entry, "created", bn_json_get(about, "created"));
    bn_json_put_copy(entry, "commit", bn_flamegraph_member(about, bn_flamegraph_commit));
    bn_json_put_copy(entry, "dirty", bn_json_path(about, "program.dirty"));
    bn_json *recordings = bn_json_put_array(entry, "recordings");
    for (size_t i = 0; i < n; i++) {
        bn_json *recording = bn_json_add_object(recordings);
        bn_json_put_string(recording, "name", names[i]);
        bn_json_put_string(recording, "sha256", digests[i]);
    }
}

bn_status bn_flamegraph_archive_open(bn_stacks **out, const char *dir, const bn_json *entry, const char *name,
                                     bn_error *err)
{
    char path[4096 + 256];
    snprintf(path, sizeof path, "%s/archives/%s/%s.json", dir, bn_json_text_of(entry, "folder"), name);
    return bn_stacks_read(out, path, err);
}

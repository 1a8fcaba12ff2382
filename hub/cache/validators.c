/* SPDX-License-Identifier: MIT
 *
 * Remembers ETag and Last-Modified of downloaded URLs, as JSON documents of the schema bn.download/1.
 */
#include "hub/cache/validators.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "hub/cache/cache.h"

#define SCHEMA "bn.download/1"

static bool find_place(char path[BN_HUB_PATH_MAX], const char *url, bn_status *status, bn_error *err)
{
    char hex[BN_SHA256_HEX], name[96];
    *status = bn_sha256_hex(url, strlen(url), hex, err);
    if (*status != BN_OK) return false;
    snprintf(name, sizeof name, "urls/%s.json", hex);
    return bn_hub_state_path(path, name);
}

/* A header's value as it may be sent back: printable, and not longer than its place. */
static void keep(char *out, size_t room, const char *text)
{
    size_t n = strlen(text);
    bool plain = n < room;
    for (size_t i = 0; i < n && plain; i++)
        plain = (unsigned char)text[i] >= 0x20 && text[i] != 0x7F;
    snprintf(out, room, "%s", plain ? text : "");
}

bn_status bn_hub_validators_find(struct bn_hub_validators *out, const char *url, bn_error *err)
{
    char path[BN_HUB_PATH_MAX];
    bn_json *doc = NULL;
    bn_status status;
    bn_error why = {0};
    *out = (struct bn_hub_validators){0};
    if (!find_place(path, url, &status, err)) return status;
    struct bn_buf text = {.max = 4096};
    status = bn_file_read_regular(path, &text, &why);
    if (status == BN_OK) status = bn_json_parse(&doc, bn_buf_text(&text), text.len, &why);
    bn_buf_release(&text);
    if (status == BN_ERR_NOMEM) return bn_nomem(err);
    if (status == BN_OK && bn_json_text_is(doc, "schema", SCHEMA) &&
        bn_is_sha256(bn_json_text_of(doc, "sha256"))) {
        keep(out->sha256, sizeof out->sha256, bn_json_text_of(doc, "sha256"));
        keep(out->etag, sizeof out->etag, bn_json_text_of(doc, "etag"));
        keep(out->last_modified, sizeof out->last_modified, bn_json_text_of(doc, "last_modified"));
    }
    bn_json_free(doc);
    return BN_OK;
}

void bn_hub_validators_record(const struct bn_hub_validators *v, const char *url)
{
    char path[BN_HUB_PATH_MAX];
    bn_status status;
    if (!find_place(path, url, &status, NULL) || bn_file_make_folders(path, NULL) != BN_OK) return;
    bn_json *doc = bn_json_new_object();
    bn_json_put_string(doc, "schema", SCHEMA);
    bn_json_put_string(doc, "sha256", v->sha256);
    bn_json_put_text(doc, "etag", v->etag);
    bn_json_put_text(doc, "last_modified", v->last_modified);
    status = bn_json_write_file(doc, path, NULL);
    bn_json_free(doc);
}

/* SPDX-License-Identifier: MIT
 *
 * Remembers the digests of first downloads.
 */
#include "hub/cache/pins.h"

#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "hub/cache/cache.h"
#include "hub/cache/lock.h"

#define SCHEMA "bn.registry/1"

/* A file that is not there gives an empty document. */
static bn_status load(bn_json **out, const char *path, bn_error *err)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    bn_status status = bn_file_read_regular(path, &text, NULL);
    *out = NULL;
    if (status == BN_ERR_NOT_FOUND) {
        bn_json *doc = bn_json_new_object();
        bn_json_put_string(doc, "schema", SCHEMA);
        bn_json_put_object(doc, "pins");
        *out = doc;
        return doc != NULL ? BN_OK : bn_nomem(err);
    }
    if (status != BN_OK) return bn_fail_in(err, status, path, "cannot read");
    status = bn_json_parse(out, bn_buf_text(&text), text.len, err);
    bn_buf_release(&text);
    if (status == BN_OK && (!bn_json_text_is(*out, "schema", SCHEMA) ||
                            bn_json_kind(bn_json_get(*out, "pins")) != BN_JSON_OBJECT))
        status = bn_fail(err, BN_ERR_FORMAT, "not a list of digests (schema %s expected)", SCHEMA);
    if (status == BN_OK) return BN_OK;
    bn_json_free(*out);
    *out = NULL;
    bn_error_name(err, path);
    bn_error_hint(
        err,
        "it records the digests of first downloads; move it away to start over, or set its schema to " SCHEMA);
    return status;
}

bn_status bn_hub_pin_find(char sha256[BN_SHA256_HEX], const char *key, bn_error *err)
{
    char path[BN_HUB_PATH_MAX];
    bn_json *doc = NULL;
    const char *text;
    sha256[0] = '\0';
    if (!bn_hub_state_path(path, "pins.json")) return BN_OK;
    BN_TRY(load(&doc, path, err));
    if (bn_json_string(bn_json_get(bn_json_get(doc, "pins"), key), &text) && strlen(text) == 64)
        memcpy(sha256, text, 65);
    bn_json_free(doc);
    return BN_OK;
}

static bn_status add(const char *path, const char *key, const char *sha256, bn_error *err)
{
    bn_json *doc = NULL;
    BN_TRY(load(&doc, path, err));
    bn_json *pins = (bn_json *)(uintptr_t)bn_json_get(doc, "pins");
    bn_status status = BN_OK;
    if (bn_json_get(pins, key) == NULL) {
        bn_json_put_string(pins, key, sha256);
        status = bn_json_write_file(doc, path, err);
    }
    bn_json_free(doc);
    return status;
}

bn_status bn_hub_pin_record(const char *key, const char *sha256, bn_error *err)
{
    char path[BN_HUB_PATH_MAX], lock_path[BN_HUB_PATH_MAX + 8];
    struct bn_hub_lock *lock = NULL;
    if (!bn_hub_state_path(path, "pins.json")) return BN_OK;
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    BN_TRY(bn_hub_lock_take(&lock, lock_path, BN_HUB_LOCK_WAIT | BN_HUB_LOCK_REMOVE, NULL, NULL, err));
    bn_status status = add(path, key, sha256, err);
    bn_hub_lock_release(lock);
    return status;
}

/* SPDX-License-Identifier: MIT
 *
 * What bn remembers of downloads in XDG_STATE_HOME/bn, else ~/.local/state/bn: digests of files that were read, digests
 * of first use, and versions of URLs.
 */
#ifndef BN_HUB_RECORDS_H
#define BN_HUB_RECORDS_H

#include "base/digest.h"

/* ---- digests ----
 *
 * The SHA-256 of files that are opened again and again. It is computed once and remembered with the file's
 * device, inode, size and times in XDG_STATE_HOME/bn/digests, else ~/.local/state/bn/digests; a file that
 * was changed or replaced since then is read again. Not for decisions of trust: another process may write to
 * the file while it is used.
 */

BN_MUST_CHECK bn_status bn_hub_digest(char sha256[BN_SHA256_HEX], const char *path, bn_error *err);
/* Remembers a digest that was just computed. Where nothing can be written, nothing is remembered. */
void bn_hub_digest_record(const char *path, const char *sha256);

/* ---- pins.json: first use ----
 *
 * Digests of first use: the digest of the first download of a model whose digest was not known. A later
 * download of something else under the same name is then an error. One JSON file,
 * XDG_STATE_HOME/bn/pins.json, else ~/.local/state/bn/pins.json.
 */

/* The digest recorded for a key ("hf:owner/repo:file"); "" when there is none. BN_ERR_FORMAT for a file that
 * is damaged: it must not silently count as empty. */
BN_MUST_CHECK bn_status bn_hub_pin_find(char sha256[BN_SHA256_HEX], const char *key, bn_error *err);
/* Records a digest, unless the key has one. */
BN_MUST_CHECK bn_status bn_hub_pin_record(const char *key, const char *sha256, bn_error *err);

/* ---- urls: versions ----
 *
 * What a server said of the last download of a URL: its ETag and Last-Modified, with the digest of the bytes
 * that came. A file with that digest needs no download while the server's file has not changed. One file for
 * each URL, XDG_STATE_HOME/bn/urls/SHA256.json, else ~/.local/state/bn/urls/SHA256.json: the digest is that
 * of the URL, because a URL may contain secrets.
 */

struct bn_hub_validators {
    char sha256[BN_SHA256_HEX]; /* of the file; "" when nothing is recorded */
    char etag[256], last_modified[64];
};

/* A record that is missing or damaged gives empty texts: the server is then asked without conditions. */
BN_MUST_CHECK bn_status bn_hub_validators_find(struct bn_hub_validators *out, const char *url, bn_error *err);
/* Replaces what is recorded. Where nothing can be written, nothing is recorded. */
void bn_hub_validators_record(const struct bn_hub_validators *v, const char *url);

#endif

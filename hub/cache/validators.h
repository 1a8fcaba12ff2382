/* SPDX-License-Identifier: MIT
 *
 * What a server said of the last download of a URL: its ETag and Last-Modified, with the digest of the bytes
 * that came. A file with that digest needs no download while the server's file has not changed. One file for
 * each URL, XDG_STATE_HOME/bn/urls/SHA256.json, else ~/.local/state/bn/urls/SHA256.json: the digest is that
 * of the URL, because a URL may contain secrets.
 */
#ifndef BN_HUB_VALIDATORS_H
#define BN_HUB_VALIDATORS_H

#include "base/digest.h"

struct bn_hub_validators {
    char sha256[BN_SHA256_HEX]; /* of the file; "" when nothing is recorded */
    char etag[256], last_modified[64];
};

/* A record that is missing or damaged gives empty texts: the server is then asked without conditions. */
BN_MUST_CHECK bn_status bn_hub_validators_find(struct bn_hub_validators *out, const char *url, bn_error *err);
/* Replaces what is recorded. Where nothing can be written, nothing is recorded. */
void bn_hub_validators_record(const struct bn_hub_validators *v, const char *url);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Digests of first use: the digest of the first download of a model whose digest was not known. A later
 * download of something else under the same name is then an error. One JSON file,
 * XDG_STATE_HOME/bn/pins.json, else ~/.local/state/bn/pins.json.
 */
#ifndef BN_HUB_PINS_H
#define BN_HUB_PINS_H

#include "base/digest.h"

/* The digest recorded for a key ("hf:owner/repo:file"); "" when there is none. BN_ERR_FORMAT for a file that
 * is damaged: it must not silently count as empty. */
BN_MUST_CHECK bn_status bn_hub_pin_find(char sha256[BN_SHA256_HEX], const char *key, bn_error *err);
/* Records a digest, unless the key has one. */
BN_MUST_CHECK bn_status bn_hub_pin_record(const char *key, const char *sha256, bn_error *err);

#endif

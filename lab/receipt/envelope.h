/* SPDX-License-Identifier: MIT
 *
 * DSSE envelopes, version 1.0.2: {"payload": base64, "payloadType": type, "signatures": [{"keyid", "sig"}]}.
 * What is signed is "DSSEv1 SP len(type) SP type SP len(payload) SP payload", so the signed bytes are
 * the bytes that are read, without a canonical form.
 */
#ifndef BN_RECEIPT_ENVELOPE_H
#define BN_RECEIPT_ENVELOPE_H

#include "base/json.h"
#include "lab/receipt/keys.h"

#define BN_ENVELOPE_MAX_SIGNATURES 16u
#define BN_ENVELOPE_MAX_KEYS 16u

/* The bytes that a signature covers. */
void bn_envelope_pae(struct bn_buf *out, const char *type, const void *payload, size_t n);

/* Signs payload and appends the envelope, as indented JSON with a line end. */
BN_MUST_CHECK bn_status bn_envelope_sign(struct bn_buf *out, const struct bn_key *key, const char *type,
                                         const void *payload, size_t n, bn_error *err);

/* The result of opening an envelope. */
struct bn_envelope {
    struct bn_buf payload;
    size_t n_signatures;
    size_t n_good;   /* different keys that verified a signature */
    char key_id[17]; /* of the first of them */
};

/* Whether the object is an envelope: it has a member "payload" or "signatures". */
bool bn_envelope_is(const bn_json *object);
/* Checks the form of an envelope, decodes the payload, and counts the keys that verify it. The keyid in the
 * envelope is a hint that is not used. BN_ERR_FORMAT or BN_ERR_LIMIT for a bad form. The caller decides
 * whether enough keys verify; before that, payload is untrusted bytes.
 */
BN_MUST_CHECK bn_status bn_envelope_open(struct bn_envelope *envelope, const bn_json *object,
                                         const struct bn_key *const *keys, size_t n_keys, bn_error *err);
void bn_envelope_release(struct bn_envelope *envelope);

#endif

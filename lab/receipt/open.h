/* SPDX-License-Identifier: MIT
 *
 * Reading a receipt: a DSSE envelope around a statement, a statement, or a bare predicate (schema 1.0.0 as
 * plain JSON, which other tools write). The order is fixed: limits, JSON, envelope, signature, and only then
 * the payload.
 */
#ifndef BN_RECEIPT_OPEN_H
#define BN_RECEIPT_OPEN_H

#include "base/buf.h"
#include "base/json.h"

enum bn_receipt_form {
    BN_RECEIPT_BARE,
    BN_RECEIPT_STATEMENT,
    BN_RECEIPT_ENVELOPE,
    BN_RECEIPT_TRAINING /* the record of a training run, training.json of bn-train; not bound by anything */
};
#define BN_TRAINING_SCHEMA "bn.training/1"

struct bn_receipt {
    enum bn_receipt_form form;
    bn_json *root; /* owned: the statement or the bare predicate; NULL when the payload was not read */
    const bn_json *statement;    /* NULL when bare */
    const bn_json *predicate;    /* an object; NULL when root is */
    size_t n_signatures, n_good; /* of an envelope: signatures, and keys that verified one */
    char key_id[17];
    size_t n_keys;           /* that were tried */
    bool payload_unverified; /* it was read although too few keys verified it */
};

struct bn_receipt_keys {
    const struct bn_key *const *keys;
    size_t n;
    size_t threshold; /* keys that must verify an envelope; 0 counts as 1 */
    bool unverified;  /* read the payload of an envelope without them */
    bool release;     /* the provenance of a release is accepted too */
};

/* BN_ERR_FORMAT or BN_ERR_LIMIT for what is not a receipt. An envelope that too few keys verify is BN_OK with
 * root NULL: the rule "signature" then says what is wrong. *receipt is released in any case. keys may be
 * NULL. */
BN_MUST_CHECK bn_status bn_receipt_open(struct bn_receipt *receipt, const char *text, size_t n,
                                        const struct bn_receipt_keys *keys, bn_error *err);
void bn_receipt_release(struct bn_receipt *receipt);

/* ---- envelopes ----
 *
 * DSSE 1.0.2: {"payload": base64, "payloadType": type, "signatures": [{"keyid", "sig"}]}. What is signed is
 * "DSSEv1 SP len(type) SP type SP len(payload) SP payload", so the signed bytes are the bytes that are read, without
 * a canonical form. */

#define BN_ENVELOPE_MAX_SIGNATURES 16u
#define BN_ENVELOPE_MAX_KEYS 16u

/* The bytes that a signature covers. */
void bn_envelope_pae(struct bn_buf *out, const char *type, const void *payload, size_t n);
/* Signs payload and appends the envelope, as indented JSON with a line end. */
BN_MUST_CHECK bn_status bn_envelope_sign(struct bn_buf *out, const struct bn_key *key, const char *type,
                                         const void *payload, size_t n, bn_error *err);

/* ---- keys and signatures (keys.c). libcrypto allocates there, and reports a signature that it had no memory to check as a
 * wrong one: programs give it a reserve of memory when they start (tools/cli/program/reserve.c). ---- */

/* Ed25519 (RFC 8032). Keys are PEM: PKCS#8 for the private one, SubjectPublicKeyInfo for the public one. */
struct bn_key;
BN_MUST_CHECK bn_status bn_key_generate(struct bn_key **out, bn_error *err);
BN_MUST_CHECK bn_status bn_key_read(struct bn_key **out, bool private, const char *pem, size_t n,
                                    bn_error *err);
BN_MUST_CHECK bn_status bn_key_write(const struct bn_key *key, bool private, struct bn_buf *pem,
                                     bn_error *err);
/* The first 16 hex digits of sha256(raw public key), and a NUL. */
BN_MUST_CHECK bn_status bn_key_id(const struct bn_key *key, char id[17], bn_error *err);
BN_MUST_CHECK bn_status bn_sign(const struct bn_key *key, const void *bytes, size_t n,
                                unsigned char signature[64], bn_error *err);
/* BN_ERR_INTEGRITY when it does not verify. */
BN_MUST_CHECK bn_status bn_verify(const struct bn_key *key, const void *bytes, size_t n,
                                  const unsigned char *signature, size_t n_signature, bn_error *err);
void bn_key_close(struct bn_key *key);

#endif
